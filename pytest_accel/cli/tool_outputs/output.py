"""The figures, devices and notes that an output of another tool holds, and helpers that all readers share. Pure."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import NUMBER_CHARACTERS, BadFile, parse_json

_Kind = TypeVar("_Kind")
_COLOURS = re.compile(r"\x1b\[[0-9;]*[mK]")
_DAY = r"(?:(?:[A-Z][a-z]{2} +)?[A-Z][a-z]{2} +\d{1,2} |(?:[A-Z][a-z]{2} )?\d{4}-\d\d-\d\d[T ])"
_TIME = rf"{_DAY}?\d\d:\d\d:\d\d[\d.,:+Z-]{{0,20}}(?: [AP]M)?"
_PARTS = re.compile(rf"({_TIME}|\d+|\s+)")
_NUMBER = r"\d{1,20}"
MOST_BEFORE = 300
"""Characters before a line of a tool at most."""

NAMED = 5
"""Lines, or tests, that a note names one by one."""


@dataclass(frozen=True)
class ToolOutput:
    """The figures of another tool's output, devices of its first node, notes for the reader, and software versions."""

    tool: str
    figures: list[Measurement]
    devices: list[Device]
    notes: list[str]
    software: Mapping[str, str] = field(default_factory=dict)


def unwrapped(text: str, begins: re.Pattern[str]) -> tuple[str, list[str]]:
    """Return an output without what a launcher or a collector of logs put before its lines, and a note on that.

    `begins` fits the beginnings of a tool's lines. What stands before most of them, such as "[1,0]<stdout>:", a time or
    the name of a pod, is taken off every line; its times and numbers may differ.
    """
    lines = [_COLOURS.sub("", line).rstrip() for line in text.splitlines()]
    heads = [line[: match.start()].rstrip() for line in lines if (match := begins.search(line, 0, MOST_BEFORE))]
    heads = [head for head in heads if '"' not in head]  # a text inside JSON
    (form, _), *_ = Counter(map(_form, reversed(heads))).most_common(1) or [("", 0)]
    if not form:
        return "\n".join(lines), []
    shown = printable(next(head for head in heads if _form(head) == form).strip(), 60)
    kept = [re.sub(f"^{form}", "", line) for line in lines]
    taken = sum(own != line for own, line in zip(kept, lines, strict=True))
    return "\n".join(kept), [f"{shown!r} and the like is taken off {taken} of {len(lines)} lines"]


def _form(head: str) -> str:
    """Return the pattern of what may stand before another line in place of `head`, with the space behind it."""
    form = ""
    for part in filter(None, _PARTS.split(head)):
        alike = _NUMBER if part.isdecimal() else re.escape(part) if part.strip() else r"\s*"
        form += _TIME if re.fullmatch(_TIME, part) else alike
    return form.replace(rf"{_NUMBER}\s*{_NUMBER}", rf"{_NUMBER}\s+{_NUMBER}")


def numbered(text: str) -> list[tuple[int, str]]:
    """Return the lines of an output with their numbers, without the space around them."""
    return [(place, line.strip()) for place, line in enumerate(text.splitlines(), 1)]


def json_from(text: str, start: int, shown: str) -> dict[str, Any]:
    """Return the JSON that begins at `start`, whatever follows it. Raises BadFile with the line."""
    lines, end = "\n" * text.count("\n", 0, start), text.rfind("}") + 1
    with contextlib.suppress(ValueError, RecursionError):  # else the strict reader says what is wrong
        _, end = json.JSONDecoder().raw_decode(text, start)
    try:
        found = parse_json(f"{lines}{text[start:end]}".encode(), shown)
    except BadFile as bad:
        raise BadFile(f"{bad}; judge the whole output") from None
    return found if isinstance(found, dict) else {}


def entries(stated: Mapping[str, Any], key: str, kind: type[_Kind]) -> list[_Kind]:
    """Return the entries of a kind in the list under a key; none if there is no list."""
    found = stated.get(key)
    return [each for each in found if isinstance(each, kind)] if isinstance(found, list) else []


def number(cell: str) -> float | None:
    """Return a cell as a number; None if it is none that is finite and positive or zero."""
    return float(cell) if len(cell) <= NUMBER_CHARACTERS and re.fullmatch(r"[0-9]+(\.[0-9]+)?", cell) else None


def several(things: Sequence[object]) -> str:
    """Return things as a list, of which the first NAMED are named."""
    more = f" and {len(things) - NAMED} more" if len(things) > NAMED else ""
    return f"{', '.join(printable(str(each), 60) for each in things[:NAMED])}{more}"


def on_lines(what: str, places: Sequence[int]) -> list[str]:
    """Return a note on lines of the file, if there are any."""
    lines = list(dict.fromkeys(places))
    return [f"line{'s' * (len(lines) > 1)} {several(lines)}: {what}"] if lines else []
