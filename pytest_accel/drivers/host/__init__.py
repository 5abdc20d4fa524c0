"""The host that the accelerators sit in: settings and states that move their numbers, read from files.

Every fact is a function of a root folder ("/" or a test's tree), declared by `fact`. They run in the sensor process:
a file of /sys may block as long as its driver does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_accel.core.details import HostDetails, Value


class Unreadable(Exception):
    """The fact exists and cannot be seen by this user on this machine; the text names file and reason."""


class Absent(Exception):
    """There is no such thing here: no InfiniBand, no accelerator on the PCI bus."""


@dataclass(frozen=True)
class HostAnswer:
    """A value, the one of several things that is the worst, and what else explains it."""

    value: Value
    worst: str = ""
    details: HostDetails = field(default_factory=HostDetails)


Reader = Callable[[Path], "Value | HostAnswer"]


@dataclass(frozen=True)
class HostReader:
    """How a fact of core/host_facts is read. `user`, `container`, `machine` say what each of them hides; empty for
    nothing.

    `user` is who is not root, `machine` is a virtual machine. A fact that counts the errors of several parts has the
    `counts` in its details.
    """

    name: str
    read: Reader
    user: str = ""
    container: str = ""
    machine: str = ""


DECLARED: dict[str, HostReader] = {}
"""Every reader by name, as the modules beside this one are imported; `reading.HOST_READERS` has all of them."""


def fact(*, user: str = "", container: str = "", machine: str = "") -> Callable[[Reader], Reader]:
    """Declare the reader of the fact that its function is named after.

    The function raises Unreadable or Absent, and changes nothing.
    """

    def declare(reader: Reader) -> Reader:
        name = reader.__name__.rstrip("_")
        DECLARED[name] = HostReader(name, reader, user, container, machine)
        return reader

    return declare


def text(path: Path) -> str:
    """The stripped text of a file. Raises Absent if there is none, Unreadable if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \t\r\n")
    except (FileNotFoundError, NotADirectoryError):
        raise Absent(f"there is no {shown(path)}") from None
    except OSError as error:
        raise Unreadable(f"{shown(path)}: {error.strerror}") from None


def number(path: Path) -> int:
    """The whole number in a file. Raises Absent, Unreadable."""
    found = text(path)
    try:
        return int(found.split()[0], 0)
    except (IndexError, ValueError):
        raise Unreadable(f"{shown(path)}: {found[:40]!r} is no number") from None


def maybe(path: Path) -> str:
    """The text of a file, empty if there is none. Raises Unreadable: what is hidden is not taken for missing."""
    try:
        return text(path)
    except Absent:
        return ""


def shown(path: Path) -> str:
    """The path as it is on the machine, whatever root it was read under."""
    parts = path.parts
    starts = [parts.index(top) for top in ("proc", "sys", "dev", "run") if top in parts]
    return "/" + "/".join(parts[min(starts) :]) if starts else str(path)


def some(found: list[str], limit: int = 4) -> str:
    """A list for a sentence."""
    return ", ".join(found[:limit]) + (f" and {len(found) - limit} more" if len(found) > limit else "")


def counted(counts: Mapping[str, int]) -> HostAnswer:
    """The sum of several counters, with the part that has the most."""
    return _counts(counts, sum(counts.values()))


def most(counts: Mapping[str, int]) -> HostAnswer:
    """The highest of several counters, with the part that has it."""
    return _counts(counts, max(counts.values()))


def _counts(counts: Mapping[str, int], value: int) -> HostAnswer:
    worst = max(counts, key=lambda part: counts[part])
    return HostAnswer(value, worst if counts[worst] else "", {"counts": dict(counts)})


def cpus_of(listed: str) -> set[int]:
    """The kernel's list format: "0-3,8". Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, listed.split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
