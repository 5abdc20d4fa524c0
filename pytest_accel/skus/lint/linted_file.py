"""LintedFile and Implausible: the threshold file that a rule checks, and what the rule reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from pytest_accel.core.sku import DeclaredBy, Limit, Platform, Sku
from pytest_accel.core.yaml_nodes import Located

SEVERITIES = ("error", "warning")


@dataclass(frozen=True)
class LintMessage:
    """An implausible value: its place, the value, and what was expected instead."""

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
        at, left = _walk(self.root, key)
        return None if left else at

    def plain(self, key: str) -> Any:
        """Return the value at a dotted key as plain data, None if the file has none."""
        at = self.get(key)
        return at and at.plain()

    def limits(self) -> Iterator[tuple[str, Limit, Platform]]:
        """Yield every limit of the file with its key and platform; one of the SKU itself with the usual platform.

        What others published for a metric without a limit has the key of a figure.
        """
        platforms = self.sku.platforms
        every = [
            (f"limits.{metric}", limit, next(iter(platforms.values()))) for metric, limit in self.sku.limits.items()
        ]
        for platform in platforms.values():
            every += [
                (f"platforms.{platform.name}.limits.{each.metric}", each, platform) for each in platform.limits.values()
            ]
        for key, limit, platform in every:
            own = self.sku.limits.get(limit.metric)
            if key.startswith("platforms.") and own and (own.origin, own.published) == (limit.origin, limit.published):
                continue  # the SKU's own, with the floor of its class
            if limit.bounded and limit.declared_by is not DeclaredBy.CLASS:
                yield key, limit, platform
            elif limit.published:
                yield "figures.".join(key.rsplit("limits.", 1)), limit.without_bounds(), platform

    def error(self, key: str, value: object, expected: str) -> LintMessage:
        """Return a message that makes the file unfit for use."""
        return self._finding("error", key, value, expected)

    def warning(self, key: str, value: object, expected: str) -> LintMessage:
        """Return a message on a value that may be right, and has to be corrected or explained."""
        return self._finding("warning", key, value, expected)

    def _finding(self, severity: str, key: str, value: object, expected: str) -> LintMessage:
        at, _ = _walk(self.root, key)
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        return LintMessage(at.file, at.line, severity, key, shown, expected)


def _walk(at: Located, key: str) -> tuple[Located, str]:
    """Return the value at a key, or the deepest value above it and the rest of the key.

    Names are matched longest first, because the names of metrics contain dots.
    """
    names = at.data if isinstance(at.data, dict) else {}
    for name in sorted(names, key=len, reverse=True):
        if key == name:
            return names[name], ""
        if key.startswith(f"{name}."):
            return _walk(names[name], key[len(name) + 1 :])
    return at, key


Check = Callable[[LintedFile], Iterable[LintMessage]]
RULES: dict[str, Check] = {}


def rule(check: Check) -> Check:
    """Register a rule under the name of its function; the first line of its docstring explains it."""
    RULES[getattr(check, "__name__", "").replace("_", "-")] = check
    return check


# -- messages of a file that extends another: those that the file causes are its own, wherever the value stands


NO_FIGURES = ("sku", "title", "vendor", "extends", "explained", "source", "sources")
"""Keys that cause no message on the value of another key."""


def same(message: LintMessage) -> tuple[str, str, str, str]:
    """Return what two messages have in common that say the same of the same value, wherever it stands."""
    return message.rule, message.key, message.value, message.expected


def moved(message: LintMessage, subject: LintedFile, below: Iterable[str]) -> LintMessage:
    """Return a message at the place of the value that caused it, if the value that it names stands in a file `below`.

    The text then names the place of that value, too.
    """
    files = set(below)
    if message.file not in files:
        return message
    at = cause(subject, message.key, files)
    where = f"{message.file}:{message.line}"
    return replace(message, file=at.file, line=at.line, expected=f"{message.expected} (the value is that of {where})")


def cause(subject: LintedFile, key: str, below: Iterable[str]) -> Located:
    """Return the value of the file on top that stands nearest to a key, numbers first; the root if there is none."""
    files, words = set(below), key.split(".")
    own = [(name, at) for name, at in _values(subject.root, ()) if at.file not in files]

    def near(each: tuple[tuple[str, ...], Located]) -> tuple[int, int, bool]:
        name, at = each
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(name, words, strict=False))
        return len([*alike]), len({*name} & {*words}), isinstance(at.data, int | float)

    return max(own, key=near)[1] if own else subject.root


def _values(at: Located, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Located]]:
    """Yield every figure of a file with its key as words; names with dots are several words."""
    if not isinstance(at.data, dict):
        yield key, at
        return
    for name, each in at.data.items():
        if name not in NO_FIGURES:
            yield from _values(each, (*key, *name.split(".")))
