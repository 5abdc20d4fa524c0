"""The past of one device: where it was, on which software, and every figure of every night."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import date
from itertools import groupby
from typing import Final

from pytest_accel.core.groups import grouped
from pytest_accel.core.verdict import Status
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.nights.extract import WAIVED
from pytest_accel.fleet.nights.queries import StoredNights
from pytest_accel.judging.closing.line import SIMULATED

TOLD: Final = (Status.FAIL.value, WAIVED, Status.MARGINAL.value)
"""The statuses that are told of each night."""
COLUMNS: Final = 80
"""Columns of a terminal."""
Show = Callable[[float | None, str], str]


@dataclass(frozen=True)
class Entry:
    """A figure of the device on one night."""

    night: date
    node: str
    name: str
    slot: str
    level: str
    driver: str
    vbios: str
    metric: str
    unit: str
    value: float | None
    status: str
    floor: float | None
    ceiling: float | None
    code: str
    method: str

    @property
    def place(self) -> tuple[str, str, str]:
        """Node, name and slot."""
        return self.node, self.name, self.slot

    @property
    def software(self) -> tuple[str, str]:
        """Driver and firmware, an update of which begins a new series."""
        return self.driver, self.vbios


@dataclass(frozen=True)
class DeviceHistory:
    """A device with its figures, oldest first."""

    simulated: bool
    uuid: str
    serial: str
    model: str
    entries: Sequence[Entry]

    @property
    def doubled(self) -> dict[date, list[str]]:
        """The nodes of each night that has the device on several: which of them it was in is not known."""
        nodes: dict[date, set[str]] = {}
        for each in self.entries:
            nodes.setdefault(each.night, set()).add(each.node)
        return {night: sorted(some) for night, some in nodes.items() if len(some) > 1}


def history(nights: StoredNights, known: tuple[str, str, str], metric: str = "") -> DeviceHistory:
    """Return the past of a device, given UUID, serial number and model; of one metric if it is named."""
    columns = ", ".join(each.name for each in fields(Entry))
    entries = [Entry(*row) for row in nights.history(known[0], columns, metric)]
    return DeviceHistory(nights.simulated, *known, entries)


def text(found: DeviceHistory, show: Show) -> Iterator[str]:
    """Yield a past as lines: the device, its places, its failures, and each metric on each driver and firmware."""
    nights = sorted({each.night for each in found.entries})
    known = f"serial {found.serial}, " if found.serial else ""
    simulated = f"{SIMULATED} " if found.simulated else ""
    yield f"{simulated}{found.model or 'device'}, {known}UUID {found.uuid}: {counted(len(nights), 'night')}"
    doubled = found.doubled
    for night, nodes in doubled.items():
        yield f"  {night}  on {' and '.join(nodes)}: which one it is in is not known, so its figures are left out below"
    for (place, software), some in groupby(found.entries, key=lambda each: (each.place, each.software)):
        days = [each.night for each in some]
        node, name, slot = place
        told = ", ".join(filter(None, (slot, _named("driver", software[0]), _named("vbios", software[1]))))
        yield f"  {days[0]} to {days[-1]}  {node} {name}  {told}"
    for night, some in groupby(found.entries, key=lambda each: each.night):
        bad = [each for each in some if each.status in TOLD]
        for status in dict.fromkeys(each.status for each in bad):
            yield f"  {night}  {status}  {listed([each.metric for each in bad if each.status == status])}"
    figures = [each for each in found.entries if each.method and each.value is not None and each.night not in doubled]
    series = grouped(figures, lambda each: (each.metric, each.level, each.unit, each.method, *each.software))
    for key, entries in series.items():
        software = filter(None, (key[1], _named("driver", key[4]), _named("vbios", key[5])))
        yield f"  {key[0]} in {key[2]} ({', '.join(software)})"
        yield from _by_year(entries, show)


def _by_year(entries: Sequence[Entry], show: Show) -> Iterator[str]:
    """Yield the days of each year with their values, as many on a line as 80 columns hold."""
    for year, some in groupby(entries, key=lambda each: each.night.year):
        values = [f"{each.night:%m-%d} {show(each.value, '')}" for each in some]
        width = max(map(len, values)) + 2
        count = max(1, (COLUMNS - len(f"    {year}")) // width)
        for at in range(0, len(values), count):
            yield f"    {year}  {''.join(f'{each:{width}}' for each in values[at : at + count])}".rstrip()


def _named(name: str, version: str) -> str:
    return f"{name} {version}" if version else ""
