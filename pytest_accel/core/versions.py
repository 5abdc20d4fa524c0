"""Ranges of software and firmware versions: ">=2.18", ">=2.18,<3", "==96.00.A5.00.03". Pure."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass

_OPERATORS = {">=": operator.ge, "<=": operator.le, "==": operator.eq, ">": operator.gt, "<": operator.lt}
_DOTTED = r"\d+(?:\.(?:[0-9A-F]{2}\b|\d+))*"
"""Numbers separated by dots; those of a VBIOS ("96.00.A5.00.03") are pairs of hexadecimal digits."""
_TERM = re.compile(rf"({'|'.join(_OPERATORS)})\s*({_DOTTED})")
_NUMBERS = re.compile(_DOTTED)
PATTERN = rf"^\s*{_TERM.pattern}\s*(,\s*{_TERM.pattern}\s*)*$"
"""The regular expression of a range, for a JSON Schema."""

Version = tuple[tuple[int, str], ...]
"""The length and the digits of each part, without leading zeros: decimal and hexadecimal numbers sort alike."""


class BadRange(ValueError):
    """A text is not a range of versions. The message shows an example of one."""


@dataclass(frozen=True)
class Range:
    """Comparisons that must all hold, and the `text` that they were parsed from."""

    text: str
    terms: tuple[tuple[str, Version], ...]

    def holds(self, version: str) -> bool | None:
        """Return True if `version` lies in the range, None if it does not begin with a number.

        A suffix of the dotted numbers ("2.13.0+cpu", "2.7.0a0") is ignored; missing numbers count as zeros.
        """
        numbers = _NUMBERS.match(version.strip())
        if not numbers:
            return None
        return all(_OPERATORS[sign](*_padded(_version(numbers[0]), bound)) for sign, bound in self.terms)


def parse(text: str) -> Range:
    """Parse a range: comparisons separated by commas. Raises BadRange."""
    terms = []
    for part in text.split(","):
        term = _TERM.fullmatch(part.strip())
        if not term:
            hint = f"such as >=2.18 (known operators: {', '.join(_OPERATORS)})"
            raise BadRange(f"{part.strip()!r} is not a comparison with a version {hint}")
        terms.append((term[1], _version(term[2])))
    return Range(text, tuple(terms))


def spanning(versions: Iterable[str]) -> str | None:
    """Return the range of minor versions that holds all of these: ">=2.7,<2.9" for 2.7.0 and 2.8.1.

    None for a version that does not begin with a number.
    """
    matches = [re.match(r"(\d+)\.(\d+)", version.strip()) for version in versions]
    minors = sorted((int(match[1]), int(match[2])) for match in matches if match)
    if not minors or len(minors) < len(matches):
        return None
    (first, last) = minors[0], minors[-1]
    return f">={first[0]}.{first[1]},<{last[0]}.{last[1] + 1}"


def _version(dotted: str) -> Version:
    digits = [part.lstrip("0") for part in dotted.split(".")]
    return tuple((len(part), part) for part in digits)


def _padded(first: Version, second: Version) -> tuple[Version, Version]:
    """Return both versions padded with zeros to the same length: 2.18 is 2.18.0."""
    length = max(len(first), len(second))
    zero = (0, "")
    return first + (zero,) * (length - len(first)), second + (zero,) * (length - len(second))
