"""The contents of two records, and one difference between them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from typing import Any

from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.run import Run


class SubjectKind(Enum):
    """The subject of a difference. The members are in order, most important first."""

    DEVICE = "devices"
    VERDICT = "verdicts"
    FACT = "facts and settings"
    SOFTWARE = "software"
    LIMIT = "limits"
    FIGURE = "figures"


class Direction(Enum):
    """The effect of a difference. The members are in order, worst first."""

    WORSE = "worse"
    OTHER = "other"
    """Neither worse nor better, such as another version."""
    BETTER = "better"


@dataclass(frozen=True)
class Difference:
    """A difference between the first and the last of the compared records.

    `where` are the devices that it is about, or "node", or empty. `then` and `now` are values as text. `counts` is True
    if a figure or a state of the hardware is worse by more than two runs differ by, which the exit status tells.
    """

    kind: SubjectKind
    where: tuple[str, ...]
    what: str
    then: str
    now: str
    direction: Direction = Direction.OTHER
    counts: bool = False
    note: str = ""
    """What else is to be said of it."""
    lost: float | None = None
    """The share of speed that a figure lost, negative for a gain."""
    allowed: float | None = None
    """The share by which two runs may differ."""
    rank: int = 0
    """The order among differences of one kind and direction: smaller is more important."""
    broken: str = ""
    """The device that was lost, hung or crashed, if this is what followed; such differences are one line of a text."""


def ordered(differences: Iterable[Difference]) -> list[Difference]:
    """Return differences with the most important one first, and equal ones of several devices as one."""
    joined = []
    for _, group in groupby(sorted(differences, key=lambda each: (_order(each), each.note)), key=_same):
        several = list(group)
        where = tuple(dict.fromkeys(name for each in several for name in each.where))
        joined.append(replace(several[0], where=where))
    return joined


_KINDS, _DIRECTIONS = list(SubjectKind), list(Direction)


def _order(each: Difference) -> tuple[Any, ...]:
    beyond = abs(each.lost) / each.allowed if each.lost is not None and each.allowed else 0.0
    first = (_KINDS.index(each.kind), _DIRECTIONS.index(each.direction), not each.counts, each.rank, -beyond)
    return (*first, each.what, each.then, each.now)


def _same(each: Difference) -> tuple[Any, ...]:
    """Return what the differences of several devices share that are told as one."""
    return (*_order(each), each.note, each.lost, each.allowed, bool(each.where))


@dataclass(frozen=True)
class Pair:
    """A device that both records hold, as each states it."""

    then: Device
    now: Device

    @property
    def name(self) -> str:
        """The display name in the last record, and that in the first one if it was another."""
        return self.now.name if self.then.name == self.now.name else f"{self.now.name} (was {self.then.name})"


def pairs(first: Sequence[Device], last: Sequence[Device]) -> list[Pair]:
    """Return the devices that two records share, in the order of the last.

    They are the same by UUID unless their serials differ, or else by a serial that one device alone of each record has:
    the dies of a module may share theirs.
    """
    by_uuid = {device.uuid: device for device in first}
    found = {
        now.uuid: by_uuid[now.uuid] for now in last if now.uuid in by_uuid and not _swapped(by_uuid[now.uuid], now)
    }
    taken = {device.uuid for device in found.values()}
    serials = _by_serial(first)
    for serial, now in _by_serial(last).items():
        if serial in serials and serials[serial].uuid not in taken and now.uuid not in found:
            found[now.uuid] = serials[serial]
    return [Pair(found[now.uuid], now) for now in last if now.uuid in found]


def _swapped(then: Device, now: Device) -> bool:
    return bool(then.serial and now.serial) and then.serial != now.serial


def _by_serial(devices: Sequence[Device]) -> dict[str, Device]:
    """Return the devices by serial that have one of their own."""
    serials = [device.serial for device in devices]
    return {device.serial: device for device in devices if device.serial and serials.count(device.serial) == 1}


@dataclass(frozen=True)
class Subjects:
    """The subjects that both records hold: the devices by pair, and the node if its devices are the same."""

    pairs: Sequence[Pair]
    whole: bool
    """True if both records hold these devices and no other."""

    @property
    def names(self) -> dict[str, str]:
        """The display names, by subject of the last record."""
        return {NODE: NODE, **{pair.now.uuid: pair.name for pair in self.pairs}}

    def then_of(self) -> dict[str, str]:
        """Return the subject of the first record by that of the last one."""
        return {NODE: NODE, **{pair.now.uuid: pair.then.uuid for pair in self.pairs}}


def subjects(first: Run, last: Run) -> Subjects:
    """Return the subjects that two records share."""
    found = pairs(first.devices, last.devices)
    return Subjects(found, len(found) == len(first.devices) == len(last.devices))
