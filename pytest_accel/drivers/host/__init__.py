"""Facts of the host: settings and states that affect the accelerators' performance, read from files.

Every fact is a function of a root folder ("/", or a folder with the files of a test), declared by `fact`. Facts are
read in the sensor process, because a file in /sys may block for as long as its driver does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_accel.core.details import HostDetails, Value


class HiddenFact(Exception):
    """The fact exists but cannot be read by this user on this machine. The text names file and reason."""


class Absent(Exception):
    """The machine does not have the fact, for instance because it has no InfiniBand."""


@dataclass(frozen=True)
class HostAnswer:
    """The value of a fact, the worst of several parts that it covers, and further details."""

    value: Value
    worst: str = ""
    details: HostDetails = field(default_factory=HostDetails)


Reader = Callable[[Path], "Value | HostAnswer"]


@dataclass(frozen=True)
class HostReader:
    """The reader of one fact of core/host_facts.

    `user`, `container` and `machine` say what is hidden from a user other than root, in a container and in a virtual
    machine; empty if nothing is. A fact of several parts has the counts of each in the detail `counts`.
    """

    name: str
    read: Reader
    user: str = ""
    container: str = ""
    machine: str = ""


DECLARED: dict[str, HostReader] = {}
"""The readers by name that the modules imported so far have declared; `reading.HOST_READERS` has all of them."""


def fact(*, name: str = "", user: str = "", container: str = "", machine: str = "") -> Callable[[Reader], Reader]:
    """Declare the reader of a fact: the one that its function is named after, if no `name` is given.

    A reader takes the root folder, returns the value, raises HiddenFact or Absent, and changes nothing.
    """

    def declare(reader: Reader) -> Reader:
        called = name or reader.__name__.rstrip("_")
        DECLARED[called] = HostReader(called, reader, user, container, machine)
        return reader

    return declare


def text(path: Path) -> str:
    """Return the stripped text of a file. Raises Absent if there is none, HiddenFact if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \t\r\n")
    except (FileNotFoundError, NotADirectoryError):
        raise Absent(f"there is no {unroot(path)}") from None
    except OSError as error:
        raise HiddenFact(f"{unroot(path)}: {error.strerror}") from None


def number(path: Path) -> int:
    """Return the whole number in a file. Raises Absent if there is no file, HiddenFact without a number."""
    content = text(path)
    try:
        return int(content.split()[0], 0)
    except (IndexError, ValueError):
        raise HiddenFact(f"{unroot(path)}: {content[:40]!r} is not a number") from None


def matched(path: Path, pattern: str, lacks: str) -> re.Match[str]:
    """Return the first match of an expression in a file. Raises HiddenFact, which says what it `lacks`, and Absent.

    A pair of braces in `lacks` stands for the beginning of the file.
    """
    content = text(path)
    if match := re.search(pattern, content, re.MULTILINE):
        return match
    raise HiddenFact(unroot(path) + lacks.format(content[:40]))


def maybe(path: Path) -> str:
    """Return the text of a file, empty if there is none. Raises HiddenFact for a file that is hidden."""
    try:
        return text(path)
    except Absent:
        return ""


def peek(path: Path) -> str:
    """Return the text of a file, empty if there is none or this user cannot read it."""
    try:
        return text(path)
    except (Absent, HiddenFact):
        return ""


def unroot(path: Path) -> str:
    """Return the path as it is on a machine, without the root folder that it was read under."""
    parts = path.parts
    starts = [parts.index(top) for top in ("proc", "sys", "dev", "run") if top in parts]
    return "/" + "/".join(parts[min(starts) :]) if starts else str(path)


def some(items: list[str], limit: int = 4) -> str:
    """Return a list as text for a sentence: the first `limit` items and the number of further ones."""
    return ", ".join(items[:limit]) + (f" and {len(items) - limit} more" if len(items) > limit else "")


def sum_of(counts: Mapping[str, int]) -> HostAnswer:
    """Return the sum of several counters, with the part that has the highest."""
    return _counts(counts, sum(counts.values()))


def top(counts: Mapping[str, int]) -> HostAnswer:
    """Return the highest of several counters, with the part that has it."""
    return _counts(counts, max(counts.values()))


def _counts(counts: Mapping[str, int], value: int) -> HostAnswer:
    highest = max(counts, key=lambda part: counts[part])
    return HostAnswer(value, highest if counts[highest] else "", {"counts": dict(counts)})


def cpus_of(ranges: str) -> set[int]:
    """Return the numbers in the kernel's list format, such as "0-3,8". Raises ValueError for another format."""
    cpus: set[int] = set()
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
