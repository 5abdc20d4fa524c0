"""Runs the rules over threshold files, and applies the explanations that the files give for messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from pytest_accel.core.untrusted import BadFile, ErrorAt
from pytest_accel.core.yaml_nodes import Located, nearest
from pytest_accel.skus import loader
from pytest_accel.skus.lint.linted_file import RULES, SEVERITIES, LintedFile, LintMessage, moved, same

OWN_RULES = {
    "schema": "Report what every run refuses: unknown keys, wrong units, figures without a source, infinite bounds.",
    "explained": "Require that an explanation names a known rule and explains a message.",
}
"""The rules that are not a function of a single readable file."""


@dataclass(frozen=True)
class LintReport:
    """The messages in the requested files, and those in the files that they extend (`below`)."""

    files: int
    limits: int
    messages: Sequence[LintMessage]
    below: Sequence[LintMessage]

    @property
    def open(self) -> list[LintMessage]:
        """The messages that no explanation covers."""
        return [each for each in self.messages if not each.explained]

    def count(self, severity: str) -> int:
        """Return the number of unexplained messages of one severity."""
        return Counter(each.severity for each in self.open)[severity]

    @property
    def clean(self) -> bool:
        """True if there is no unexplained error and no unexplained warning."""
        return not self.count("error") and not self.count("warning")


def explanations() -> dict[str, str]:
    """Return the description of each rule by name."""
    return {name: (check.__doc__ or "").splitlines()[0] for name, check in RULES.items()} | OWN_RULES


def lint(names: Sequence[str], today: str) -> LintReport:
    """Check the named SKUs and files, or all shipped ones without a name. `today` is a date such as 2026-11-21.

    Raises BadFile for a SKU or path that does not exist.
    """
    paths = [loader.find(name) for name in names]
    own = [path for path in paths if loader.SHIPPED.resolve() not in path.resolve().parents]
    shipped = [] if own and own == paths else loader.names()  # one may be the base of others, or of a vendor's SKUs
    opened = [_open(path, today) for path in (*map(loader.find, shipped), *own)]
    wanted = {loader.shown(path) for path in paths} or {file for each in opened for file in each.files}
    chosen = [each for each in opened if wanted & each.files]
    subjects = [each.subject for each in chosen if each.subject is not None]
    found = {message for each in chosen for message in each.refused}.union(_examined(subjects))
    ordered = sorted(found, key=lambda each: (each.file, each.line, each.rule, each.key, each.value))
    return _report(subjects, sorted(ordered, key=lambda each: SEVERITIES.index(each.severity)), wanted)


@dataclass(frozen=True)
class _Opened:
    """A threshold file: its subject, or the messages if it cannot be read.

    `files` are the files that its values, or these messages, come from.
    """

    subject: LintedFile | None
    refused: list[LintMessage]
    files: set[str]


def _open(path: Path, today: str) -> _Opened:
    shown = loader.shown(path)
    try:
        subject = _subject(path, today)
    except BadFile as bad:
        refused = [_refusal(each, shown) for each in bad.errors]
        return _Opened(None, refused, {shown, *(each.file for each in refused)})
    return _Opened(subject, [], set(subject.sku.files))


def _subject(path: Path, today: str) -> LintedFile:
    """Return a file and the files that it extends as subjects of the check. Raises BadFile."""
    sku, root = loader.read(str(path))
    base = loader.extended(path, root)
    return LintedFile(sku, root, _subject(base, today) if base else None, today)


def _report(subjects: Iterable[LintedFile], messages: Sequence[LintMessage], wanted: set[str]) -> LintReport:
    limits = {limit.origin for each in subjects for _, limit, _ in each.limits()}
    return LintReport(
        files=len(wanted),
        limits=sum(origin.rpartition(":")[0] in wanted for origin in limits),
        messages=[each for each in messages if each.file in wanted or each.rule == "schema"],
        below=[each for each in messages if each.file not in wanted and each.rule != "schema"],
    )


def _refusal(error: str | ErrorAt, name: str) -> LintMessage:
    """Return an error of a file as a message; one without a place is of the first line."""
    file, line, text = (name, 1, error) if isinstance(error, str) else error
    return LintMessage(file, line, "error", "", text, "", "schema")


def _examined(subjects: Iterable[LintedFile]) -> Iterator[LintMessage]:
    """Yield the messages of all subjects, each with its explanation if it has one, and the stale explanations."""
    used: set[tuple[str, int]] = set()
    explaining: dict[tuple[str, int], Located] = {}
    for subject in subjects:
        explaining |= {(at.file, at.line): at for at in _entries(subject)}
        yield from (each for _, each in _explained(subject, used))
    for place, at in explaining.items():
        if place not in used:
            yield _stale(at)


def _explained(subject: LintedFile, used: set[tuple[str, int]]) -> Iterator[tuple[LintMessage, LintMessage]]:
    """Yield each message of a subject as its rule states it, and as it is reported: at the file that it belongs to.

    The explanations that hold are added to `used`. An explanation holds for what its own file finds; a value that
    another file puts there is not explained by it.
    """
    base, own = subject.base, subject.sku.own_file
    below = {same(raw): each for raw, each in _explained(base, set())} if base else {}
    vendors = [name for name in subject.sku.files if own and name.startswith(f"{loader.VENDOR_FILES}/")]
    files, entries = base.sku.files if base else vendors, _entries(subject)
    for message in _findings(subject):
        of_rule = (at for at in entries if at.data["rule"].data == message.rule)
        entry = next((at for at in of_rule if fnmatchcase(message.key, at.data["key"].data)), None)
        known = below.get(same(message))
        if entry is not None:
            used.add((entry.file, entry.line))
            yield message, replace(message, explained=str(entry.plain()["reason"]))
        elif known is not None:
            yield message, known if message.file in files else replace(message, explained=known.explained)
        else:
            yield message, moved(message, subject, files)


def _findings(subject: LintedFile) -> Iterator[LintMessage]:
    for name, check in RULES.items():
        for message in check(subject):
            yield replace(message, rule=name)


def _entries(subject: LintedFile) -> list[Located]:
    """Return the explanations that a file gives, without those of the files that it extends."""
    inherited = subject.base.sku.files if subject.base else ()
    stated = subject.root.data.get("explained")
    return [at for at in (stated.data if stated else ()) if at.file not in inherited]


def _stale(at: Located) -> LintMessage:
    entry = at.plain()
    known = explanations()
    if entry["rule"] not in known:
        why = f"expected a rule; {nearest(entry['rule'], known)}"
        return LintMessage(at.file, at.line, "error", "explained", f"rule {entry['rule']}", why, "explained")
    what = f"{entry['rule']} at {entry['key']}"
    return LintMessage(
        at.file, at.line, "warning", "explained", what, "expected a message: delete the entry", "explained"
    )
