"""LintedFile and LintMessage: the threshold file that a rule checks, and the report of the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from pytest_accel.core.sku_types import DeclaredBy, Limit, Platform, Sku
from pytest_accel.core.yaml_nodes import Located

SEVERITIES = ("error", "warning")


@dataclass(frozen=True)
class LintMessage:
    """An implausible value: its file and line, the value, and the expectation that it fails."""

    file: str
    line: int
    severity: str
    key: str
    value: str
    expected: str
    rule: str = ""
    explained: str = ""
    """The reason that the file gives for the value, empty if it gives none."""


@dataclass(frozen=True)
class LintedFile:
    """A threshold file that is checked, merged with the files that it extends."""

    sku: Sku
    root: Located
    base: LintedFile | None = None
    """The file that it extends."""
    today: str = ""
    """The date of the check, such as 2026-11-21."""

    def get(self, key: str) -> Located | None:
        """Return the value at a dotted key such as "datasheet.tflops.bf16", None if the file has none."""
        entry, remainder = _walk(self.root, key)
        return None if remainder else entry

    def plain(self, key: str) -> Any:
        """Return the value at a dotted key as plain data, None if the file has none."""
        entry = self.get(key)
        return entry and entry.plain()

    def limits(self) -> Iterator[tuple[str, Limit, Platform]]:
        """Yield every limit of the file with its key and platform; one of the SKU itself with the usual platform.

        A published figure of a metric without a limit has the key of a figure.
        """
        platforms = self.sku.platforms
        tables = [("", self.sku.limits, next(iter(platforms.values())))]
        tables += [(f"platforms.{platform.name}.", platform.limits, platform) for platform in platforms.values()]
        for key, limit, platform in (
            (f"{prefix}limits.{metric}", limit, platform)
            for prefix, limits, platform in tables
            for metric, limit in limits.items()
        ):
            base = self.sku.limits.get(limit.metric) if key.startswith("platforms.") else None
            if base and (base.origin, base.published) == (limit.origin, limit.published):
                continue  # the SKU's own, with the floor of its class
            if limit.bounded and limit.declared_by is not DeclaredBy.CLASS:
                yield key, limit, platform
            elif limit.published:
                yield "figures.".join(key.rsplit("limits.", 1)), limit.without_bounds(), platform

    def error(self, key: str, value: object, expected: str) -> LintMessage:
        """Return a message that makes the file unfit for use."""
        return self._message("error", key, value, expected)

    def warning(self, key: str, value: object, expected: str) -> LintMessage:
        """Return a message on a value that may be right, and has to be corrected or explained."""
        return self._message("warning", key, value, expected)

    def _message(self, severity: str, key: str, value: object, expected: str) -> LintMessage:
        entry, _ = _walk(self.root, key)
        text = f"{value:g}" if isinstance(value, float) else str(value)
        return LintMessage(entry.file, entry.line, severity, key, text, expected)


def _walk(entry: Located, key: str) -> tuple[Located, str]:
    """Return the value at a key, or the deepest value above it and the rest of the key."""
    names = entry.data if isinstance(entry.data, dict) else {}
    for name in sorted(names, key=len, reverse=True):  # longest first: the names of metrics contain dots
        if key == name:
            return names[name], ""
        if key.startswith(f"{name}."):
            return _walk(names[name], key[len(name) + 1 :])
    return entry, key


Check = Callable[[LintedFile], Iterable[LintMessage]]
RULES: dict[str, Check] = {}


def rule(check: Check) -> Check:
    """Register a rule under the name of its function; the first line of its docstring explains it."""
    RULES[getattr(check, "__name__", "").replace("_", "-")] = check
    return check


# -- messages of a file that extends another: those that the file causes are its own, in whichever file the value stands


NO_FIGURES = ("sku", "title", "vendor", "extends", "explained", "source", "sources")
"""Keys that cause no message on the value of another key."""


def same(message: LintMessage) -> tuple[str, str, str, str]:
    """Return the key that two messages share which say the same of the same value, in whichever file it stands."""
    return message.rule, message.key, message.value, message.expected


def moved(message: LintMessage, subject: LintedFile, base_files: Iterable[str]) -> LintMessage:
    """Return a message at the location of the value that caused it, if the value that it names is in `base_files`.

    The text then names the location of that value, too.
    """
    files = set(base_files)
    if message.file not in files:
        return message
    entry = cause(subject, message.key, files)
    expected = f"{message.expected} (the value is that of {message.file}:{message.line})"
    return replace(message, file=entry.file, line=entry.line, expected=expected)


def cause(subject: LintedFile, key: str, base_files: Iterable[str]) -> Located:
    """Return the value of the file on top that stands nearest to a key, numbers first; the root if there is none."""
    files, words = set(base_files), key.split(".")
    figures = [(name, entry) for name, entry in _values(subject.root, ()) if entry.file not in files]

    def likeness(figure: tuple[tuple[str, ...], Located]) -> tuple[int, int, bool]:
        name, entry = figure
        common = takewhile(lambda pair: pair[0] == pair[1], zip(name, words, strict=False))
        return len([*common]), len({*name} & {*words}), isinstance(entry.data, int | float)

    return max(figures, key=likeness)[1] if figures else subject.root


def _values(entry: Located, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Located]]:
    """Yield every figure of a file with its key as words; names with dots are several words."""
    if not isinstance(entry.data, dict):
        yield key, entry
        return
    for name, child in entry.data.items():
        if name not in NO_FIGURES:
            yield from _values(child, (*key, *name.split(".")))
