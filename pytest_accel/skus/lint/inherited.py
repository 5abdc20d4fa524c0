"""Findings of a file that extends another: those that the file causes are its own, wherever the value stands.

A finding that the extended file has alone, too, is that file's. Every other finding is due to the file on top, although
the value that it names may stand below: a memory of another type makes the inherited bandwidth implausible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import takewhile

from pytest_accel.core.yaml_nodes import Located
from pytest_accel.skus.lint.linted_file import LintedFile, LintFinding

NO_FIGURES = ("sku", "title", "vendor", "extends", "explained", "source", "sources")
"""Keys that cause no finding on the value of another key."""


def same(finding: LintFinding) -> tuple[str, str, str, str]:
    """Return what two findings have in common that say the same of the same value, wherever it stands."""
    return finding.rule, finding.key, finding.value, finding.expected


def moved(finding: LintFinding, subject: LintedFile, below: Iterable[str]) -> LintFinding:
    """Return a finding at the place of the value that caused it, if the value that it names stands in a file `below`.

    The text then names the place of that value, too.
    """
    files = set(below)
    if finding.file not in files:
        return finding
    at = cause(subject, finding.key, files)
    where = f"{finding.file}:{finding.line}"
    return replace(finding, file=at.file, line=at.line, expected=f"{finding.expected} (the value is that of {where})")


def cause(subject: LintedFile, key: str, below: Iterable[str]) -> Located:
    """Return the value of the file on top that stands nearest to a key, numbers first; the root if there is none."""
    files, words = set(below), key.split(".")
    nearest: tuple[tuple[int, int, bool], Located] | None = None
    for name, at in _values(subject.root, ()):
        if at.file in files:
            continue
        score = _common(name, words), len({*name} & {*words}), isinstance(at.data, int | float)
        if nearest is None or score > nearest[0]:
            nearest = score, at
    return nearest[1] if nearest else subject.root


def _values(at: Located, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Located]]:
    """Yield every figure of a file with its key as words; names with dots are several words."""
    if not isinstance(at.data, dict):
        yield key, at
        return
    for name, each in at.data.items():
        if name not in NO_FIGURES:
            yield from _values(each, (*key, *name.split(".")))


def _common(one: Iterable[str], other: Iterable[str]) -> int:
    """Return the number of words that two keys begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
