"""What a rule sees of a threshold file, and what it says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.core.yaml_lines import Located

SEVERITIES = ("error", "warning", "note")
"""Worst first. A note is for the reader alone: it never makes a file bad."""


@dataclass(frozen=True)
class Finding:
    """One value that is not plausible: where it is, what it is, and what was expected instead."""

    file: str
    line: int
    severity: str
    key: str
    value: str
    expected: str
    rule: str = ""
    explained: str = ""
    """The reason that the file gives for it, if it does."""


@dataclass(frozen=True)
class Subject:
    """A threshold file under examination, on top of those below it."""

    sku: Sku
    root: Located
    others: Mapping[str, Subject] = field(default_factory=dict)
    """The shipped SKUs by name, this one not among them."""
    today: str = ""
    """As in 2026-11-21."""

    def get(self, key: str) -> Located | None:
        """The value at a dotted key such as "datasheet.tflops.bf16", None where the file has none."""
        at, left = _walk(self.root, key)
        return None if left else at

    def plain(self, key: str) -> Any:
        """The value at a dotted key without its places, None where the file has none."""
        at = self.get(key)
        return at and at.plain()

    def limits(self) -> Iterator[tuple[str, Limit, Platform]]:
        """Every limit with its key. One of the SKU itself comes with the usual platform."""
        platforms = self.sku.platforms
        for metric, limit in self.sku.limits.items():
            yield f"limits.{metric}", limit, next(iter(platforms.values()))
        for platform in platforms.values():
            for metric, limit in platform.limits.items():
                yield f"platforms.{platform.name}.limits.{metric}", limit, platform

    def error(self, key: str, value: object, expected: str) -> Finding:
        """A finding that makes the file unfit for use."""
        return self._finding("error", key, value, expected)

    def warning(self, key: str, value: object, expected: str) -> Finding:
        """A finding that has to be corrected or explained as well, but may be right."""
        return self._finding("warning", key, value, expected)

    def note(self, key: str, value: object, expected: str) -> Finding:
        """Something to know."""
        return self._finding("note", key, value, expected)

    def _finding(self, severity: str, key: str, value: object, expected: str) -> Finding:
        at, _ = _walk(self.root, key)
        shown = f"{value:g}" if isinstance(value, float) else str(value)
        return Finding(at.file, at.line, severity, key, shown, expected)


def _walk(at: Located, key: str) -> tuple[Located, str]:
    """The value at a key, or the deepest one above it and what is left of the key. Metrics have dots of their own."""
    names = at.data if isinstance(at.data, dict) else {}
    for name in sorted(names, key=len, reverse=True):
        if key == name:
            return names[name], ""
        if key.startswith(f"{name}."):
            return _walk(names[name], key[len(name) + 1 :])
    return at, key


Check = Callable[[Subject], Iterable[Finding]]
RULES: dict[str, Check] = {}


def rule(check: Check) -> Check:
    """Register a rule under the name of its function; the first line of its docstring explains it."""
    RULES[getattr(check, "__name__", "").replace("_", "-")] = check
    return check
