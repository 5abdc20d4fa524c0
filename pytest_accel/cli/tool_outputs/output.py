"""The figures, devices and notes that an output of another tool holds, and helpers that all readers share. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import NUMBER_CHARACTERS, parse_json

_Kind = TypeVar("_Kind")

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


def numbered(text: str) -> list[tuple[int, str]]:
    """Return the lines of an output with their numbers, without the space around them."""
    return [(place, line.strip()) for place, line in enumerate(text.splitlines(), 1)]


def json_from(text: str, start: int, shown: str) -> dict[str, Any]:
    """Return the JSON that begins at `start` and ends with the last bracket. Raises BadFile with the line."""
    lines = "\n" * text.count("\n", 0, start)
    found = parse_json(f"{lines}{text[start : text.rfind('}') + 1]}".encode(), shown)
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
