"""Compare the thresholds of two versions and write an entry of thresholds/CHANGELOG.md.

    scripts/threshold_changes.py [OLD [NEW]] [--reason TEXT] [--write]

OLD and NEW are git revisions, or folders that hold pytest_accel and thresholds. Without them, this working tree is
compared with the commit that last changed thresholds/VERSION. The entry is printed; --write puts it at the top of
thresholds/CHANGELOG.md and writes thresholds/VERSION. Compared are the limits in effect of every SKU on every platform.
Each tree is loaded by its own code, so that a rule that derives floors counts like a figure in a file.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pytest_accel.core.yaml_nodes import Located
from pytest_accel.skus import loader, releases, requirements, shipped

CHECKOUT = Path(__file__).parent.parent
THRESHOLDS = CHECKOUT / "thresholds"
CODE = ("pytest_accel/core/sku.py", "pytest_accel/probes", "pytest_accel/skus")
"""Where rules lie that make limits of figures."""
NOT_COMPARED = ("title", "limits", "source", "sources", "explained", "siblings")
"""Keys of a threshold file that decide no verdict, or that are compared as limits."""
UNCOMMITTED = "0" * 40
"""The commit of a changed line in the working tree, as git blame names it."""
HEAD = """# Changelog of the thresholds

What changed in the limits in effect, newest version first; docs/releases.md explains the versions. Each section is for
the SKUs in its heading. scripts/threshold_changes.py writes the entries.
"""

MOST_COMMITS = 3
"""Number of commits that are named as the reason of a change whose own lines did not change."""

Content = dict[str, Any]
"""Content of the threshold files by SKU.

`limits` by platform and metric, other `figures` by key, and the `places` (file and line) of both.
"""


# -- what is compared


def content() -> Content:
    """Return the limits in effect and the other figures of every shipped SKU, by the code that is imported."""
    return {name: _of_sku(name) for name in loader.names()}


def _of_sku(name: str) -> dict[str, Any]:
    sku, root = loader.read(name)
    on = {
        platform.name: requirements.limits(sku, platform, platform.devices or 1) for platform in sku.platforms.values()
    }
    return {
        "limits": {
            place: {metric: releases.facts_of(limit) for metric, limit in limits.items()}
            for place, limits in on.items()
        },
        "figures": {key: at.plain() for key, at in _flat(root)},
        "places": {
            **{place: {metric: limit.origin for metric, limit in limits.items()} for place, limits in on.items()},
            "": {key: at.where for key, at in _flat(root)},
        },
    }


def _flat(at: Located, key: str = "") -> Iterator[tuple[str, Located]]:
    """Yield every value of nested mappings that is compared, with its dotted key."""
    if not isinstance(at.data, dict):
        yield key, at
        return
    for name, each in at.data.items():
        if name not in NOT_COMPARED:
            yield from _flat(each, f"{key}.{name}" if key else name)


def digest(every: Content) -> str:
    """Return the SHA-256 of what decides verdicts, wherever it lies in a file."""
    kept = {name: {key: sku[key] for key in ("limits", "figures")} for name, sku in every.items()}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def content_of(tree: str) -> Content:
    """Return the content of a git revision or a folder, loaded by the code that lies there."""
    if Path(tree).is_dir():
        return _loaded(Path(tree))
    packed = git("archive", "--format=zip", tree, "pytest_accel", "thresholds")
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(io.BytesIO(packed)) as archive:
            archive.extractall(folder)
        return _loaded(Path(folder))


def _loaded(tree: Path) -> Content:
    """Return what this program prints as --content where the package of `tree` is imported."""
    line, environment = [sys.executable, __file__, "--content"], {**os.environ, "PYTHONPATH": str(tree.absolute())}
    done = subprocess.run(line, env=environment, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{tree}: its thresholds cannot be loaded by its own code:\n{done.stderr.decode()}")
    found: Content = json.loads(done.stdout)
    return found


# -- what changed


def changes(old: Content, new: Content) -> dict[str, dict[str, str]]:
    """Return by SKU and key what changed, without the reason."""
    found = {}
    for sku in sorted({*old, *new}):
        if sku not in old:
            found[sku] = {"": f"added: {_count(new[sku])}"}
        elif sku not in new:
            found[sku] = {"": f"removed: it had {_count(old[sku])}"}
        elif of_sku := {**_limits_changed(old[sku], new[sku]), **_figures_changed(old[sku], new[sku])}:
            found[sku] = of_sku
    return found


def _count(sku: Mapping[str, Any]) -> str:
    platforms = sku["limits"]
    return f"{len({metric for of in platforms.values() for metric in of})} limits on {', '.join(platforms)}"


def _limits_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    """Return what changed in the limits, by metric, with the platforms unless it is the same on all of them."""
    said: dict[str, dict[str, list[str]]] = {}
    every = dict.fromkeys([*old["limits"], *new["limits"]])
    for platform in every:
        before, after = old["limits"].get(platform, {}), new["limits"].get(platform, {})
        for metric in dict.fromkeys([*before, *after]):
            if text := _limit_changed(before.get(metric), after.get(metric)):
                said.setdefault(metric, {}).setdefault(text, []).append(platform)
    return {
        metric: "; ".join(
            text if len(platforms) == len(every) else f"on {', '.join(platforms)}: {text}"
            for text, platforms in of.items()
        )
        for metric, of in said.items()
    }


def _limit_changed(old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> str:
    if old == new:
        return ""
    if new is None:
        return f"removed; it was {releases.stated(old or {})}"
    source = f"; source: {of}" if (of := releases.source_of(new)) else ""
    if old is None:
        return f"added: {releases.stated(new)}{source}"
    said = releases.differences(old, new)
    return ", ".join(said) + ("" if old.get("source") != new.get("source") else source)


def _figures_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, str]:
    before, after = old["figures"], new["figures"]
    return {
        key: f"{before.get(key, 'none')} -> {after.get(key, 'none')}"
        for key in dict.fromkeys([*before, *after])
        if before.get(key) != after.get(key)
    }


# -- why


class History:
    """The commits between two revisions of this repository; `new` is None for the working tree."""

    def __init__(self, old: str, new: str | None) -> None:
        self.new, self.range = new, f"{old}..{new or 'HEAD'}"
        self.commits = {UNCOMMITTED, *git("rev-list", self.range).decode().split()}
        self._blamed: dict[str, dict[int, tuple[str, str]]] = {}
        self.uncommitted = False
        """True if a change that was asked for is in the working tree alone."""

    def why(self, sku: str, places: Collection[str]) -> str:
        """Return the subjects of the commits that changed a limit, or what it follows from.

        `places` are its files and lines. Where none of its lines changed (it is gone, or a rule made it), the commits
        are those that changed the file of the SKU, and else the code.
        """
        split = [(file, line) for file, _, line in (place.partition(":") for place in places) if line.isdigit()]
        found = list(dict.fromkeys(each for file, line in split for each in self._of_lines(file, int(line))))
        return "; ".join(found or self._of_files(f"thresholds/{sku}.yaml") or self._of_files(*CODE))

    def _of_lines(self, file: str, line: int) -> list[str]:
        """Return the subjects of the commits that changed the block that begins at `line`."""
        blamed = self._blame(f"thresholds/{file}")
        found = [blamed[each] for each in self._block(f"thresholds/{file}", line) if each in blamed]
        return self._subjects(found)

    def _block(self, path: str, line: int) -> Iterator[int]:
        """Yield the numbers of the lines of a key and of what is below it."""
        text = git("show", f"{self.new}:{path}").decode() if self.new else (CHECKOUT / path).read_text(encoding="utf-8")
        lines = text.splitlines()
        depth = _indent(lines[line - 1])
        yield line
        for number in range(line + 1, len(lines) + 1):
            if lines[number - 1].strip() and _indent(lines[number - 1]) <= depth:
                return
            yield number

    def _blame(self, path: str) -> dict[int, tuple[str, str]]:
        """Return commit and subject of every line."""
        if path not in self._blamed:
            revision = [self.new] if self.new else []
            text = git("blame", "--line-porcelain", *revision, "--", path).decode()
            heads = re.findall(r"^([0-9a-f]{40}) \d+ (\d+).*?^summary ([^\n]*)", text, re.MULTILINE | re.DOTALL)
            self._blamed[path] = {int(number): (commit, subject) for commit, number, subject in heads}
        return self._blamed[path]

    def _of_files(self, *paths: str) -> list[str]:
        """Return the subjects of the commits that changed files, none if they are more than `MOST_COMMITS`."""
        text = git("log", "--no-merges", "--format=%H %s", self.range, "--", *paths).decode()
        found = [(line[:40], line[41:]) for line in text.splitlines()]
        if len(found) > MOST_COMMITS:
            return []
        if self.new is None and git("status", "--porcelain", "--", *paths):
            found.append((UNCOMMITTED, ""))
        return self._subjects(found)

    def _subjects(self, found: Sequence[tuple[str, str]]) -> list[str]:
        inside = dict.fromkeys(each for each in found if each[0] in self.commits)
        self.uncommitted |= any(commit == UNCOMMITTED for commit, _ in inside)
        return [f"{subject} ({commit[:7]})" for commit, subject in inside if commit != UNCOMMITTED]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def git(*arguments: str) -> bytes:
    """Return what git prints for this repository; end with its message where it fails."""
    done = subprocess.run(["git", "-C", str(CHECKOUT), *arguments], capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.decode().strip()}")
    return done.stdout


def reasons(found: Mapping[str, Mapping[str, str]], new: Content, history: History) -> dict[tuple[str, str], str]:
    """Return by SKU and key why it changed."""
    why = {}
    for sku, keys in found.items():
        of_sku = new[sku]["places"].values() if sku in new else ()
        for key in keys:
            why[sku, key] = history.why(sku, {of[key] for of in of_sku if key in of})
    return why


# -- the entry


def entry(version: str, reason: str, found: Mapping[str, Mapping[str, str]], why: Mapping[tuple[str, str], str]) -> str:
    """Return the entry of a version: what changed, in sections by the SKUs for which it is the same."""
    skus_of: dict[str, list[str]] = {}
    for sku, keys in found.items():
        for key, text in keys.items():
            because = f".{releases.WHY}{why[sku, key]}" if why.get((sku, key)) else "."
            skus_of.setdefault(f"- {f'`{key}` ' if key else ''}{text}{because}", []).append(sku)
    sections: dict[str, list[str]] = {}
    for line, skus in skus_of.items():
        sections.setdefault(", ".join(skus), []).append(line)
    parts = [f"## {version}", *([reason] if reason else [])]
    parts += ["### " + skus + "\n\n" + "\n".join(lines) for skus, lines in sections.items()]
    return "\n\n".join(parts) + "\n"


def first_entry(version: str, reason: str, new: Content) -> str:
    """Return the entry of the first version: how many limits there are, and who stands behind them."""
    limits = [limit for sku in new.values() for of in sku["limits"].values() for limit in of.values()]
    kinds = Counter(limit.get("source", {}).get("kind", "the platform itself") for limit in limits)
    parts = [f"## {version}", *([reason] if reason else [])]
    platforms = sum(len(sku["limits"]) for sku in new.values())
    parts.append(
        f"The first version: {len(limits)} limits in effect on {platforms} platforms of {len(new)} SKUs. By the kind of"
        f" source: {', '.join(f'{kind} {count}' for kind, count in kinds.most_common())}."
    )
    return "\n\n".join(parts) + "\n"


def next_version(newest: str, day: datetime) -> str:
    """Return the version of a release on `day`: year, month and number within the month."""
    month = f"{day.year}.{day.month}"
    return f"{month}.{int(newest.rpartition('.')[2]) + 1 if newest.rpartition('.')[0] == month else 1}"


def write(text: str, version: str, new: Content) -> None:
    """Put an entry at the top of the changelog, and its version with the digest into VERSION."""
    log, mark, older = _changelog().partition("## ")
    (THRESHOLDS / releases.CHANGELOG).write_text(log + text + (f"\n{mark}{older}" if mark else ""), encoding="utf-8")
    (THRESHOLDS / shipped.VERSION).write_text(f"{version}\nsha256 {digest(new)}\n", encoding="utf-8")


def _changelog() -> str:
    path = THRESHOLDS / releases.CHANGELOG
    return path.read_text(encoding="utf-8") if path.exists() else f"{HEAD}\n"


def main() -> None:
    """Print or write the entry for what changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "old", metavar="OLD", nargs="?", help="default: the commit that last changed thresholds/VERSION"
    )
    parser.add_argument("new", metavar="NEW", nargs="?", help="default: this working tree")
    parser.add_argument("--reason", default="", help="a sentence at the top of the entry")
    parser.add_argument("--version", help="of the entry (default: by today's date)")
    parser.add_argument("--write", action="store_true", help="write thresholds/CHANGELOG.md and thresholds/VERSION")
    parser.add_argument("--content", action="store_true", help="print what is compared, as JSON")
    chosen = parser.parse_args()
    if chosen.content:
        print(json.dumps(content()))
        return
    if chosen.write and chosen.new:
        parser.error("--write: only this working tree can be written about, leave NEW out")
    print(_compare(chosen), end="")


def _compare(chosen: argparse.Namespace) -> str:
    new = content_of(chosen.new or str(CHECKOUT))
    newest = next((each.version for each in releases.entries(_changelog())), "")
    version = chosen.version or next_version(newest, datetime.now(timezone.utc))
    if not newest and not chosen.old:
        text = first_entry(version, chosen.reason, new)
    else:
        base = chosen.old or git("log", "-1", "--format=%H", "--", f"thresholds/{shipped.VERSION}").decode().strip()
        old = content_of(base)
        found = changes(old, new)
        if not found:
            return "no limit in effect changed\n"
        text = entry(version, chosen.reason, found, _reasons(chosen, base, found, new))
    if chosen.write:
        write(text, version, new)
    return text


def _reasons(
    chosen: argparse.Namespace, base: str, found: Mapping[str, Mapping[str, str]], new: Content
) -> dict[tuple[str, str], str]:
    """Return why everything changed; end where neither a commit nor --reason says so. Folders have no history."""
    if any(Path(tree).is_dir() for tree in (base, chosen.new) if tree):
        return {}
    history = History(base, chosen.new)
    why = reasons(found, new, history)
    if history.uncommitted and not chosen.reason:
        sys.exit("the thresholds have changes that are not committed, so no commit says why: give --reason")
    return why


if __name__ == "__main__":
    main()
