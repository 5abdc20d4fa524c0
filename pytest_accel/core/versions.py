"""Ranges of software and firmware versions: ">=2.18", ">=2.18,<3", "==96.00.A5.00.03". Pure."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass

_OPERATORS = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}
_DOTTED = r"\d+(?:\.(?:[0-9A-F]{2}\b|\d+))*"
"""Numbers with dots between; in a VBIOS ("96.00.A5.00.03") they are pairs of hexadecimal digits."""
_TERM = re.compile(rf"({'|'.join(_OPERATORS)})\s*({_DOTTED})")
_NUMBERS = re.compile(_DOTTED)
PATTERN = rf"^\s*{_TERM.pattern}\s*(,\s*{_TERM.pattern}\s*)*$"
"""The regular expression of a range, for a JSON Schema."""

Part = tuple[int, str]
"""The number of digits and the digits, without leading zeros: in order for decimal and for hexadecimal numbers."""
Version = tuple[Part, ...]


class BadRange(ValueError):
    """A text that is no range of versions; the message says what one looks like."""


@dataclass(frozen=True)
class Range:
    """Comparisons that must all hold; `text` is how it was written."""

    text: str
    terms: tuple[tuple[str, Version], ...]

    def holds(self, version: str) -> bool | None:
        """True if `version` lies within, None if it does not begin with a number.

        What follows the dotted numbers ("2.13.0+cpu", "2.7.0a0") is left out of account, missing ones are zeros.
        """
        found = _NUMBERS.match(version.strip())
        if not found:
            return None
        return all(_OPERATORS[sign](*_padded(_version(found[0]), bound)) for sign, bound in self.terms)


def parse(text: str) -> Range:
    """A range from its text: comparisons with commas between. Raises BadRange."""
    terms = []
    for part in text.split(","):
        found = _TERM.fullmatch(part.strip())
        if not found:
            signs = ", ".join(_OPERATORS)
            raise BadRange(f"{part.strip()!r} is no comparison with a version such as >=2.18 (known: {signs})")
        terms.append((found[1], _version(found[2])))
    return Range(text, tuple(terms))


def _version(dotted: str) -> Version:
    digits = [part.lstrip("0") for part in dotted.split(".")]
    return tuple((len(each), each) for each in digits)


def _padded(one: Version, other: Version) -> tuple[Version, Version]:
    """Both of the same length: 2.18 is 2.18.0."""
    length = max(len(one), len(other))
    zero = (0, "")
    return one + (zero,) * (length - len(one)), other + (zero,) * (length - len(other))
