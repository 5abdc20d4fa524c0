"""The past of one device: where it was, on which software, and every figure of every night."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import Final

from pytest_accel.core.groups import grouped
from pytest_accel.core.verdict import Status
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.nights.extract import WAIVED
from pytest_accel.fleet.nights.questions import Row
from pytest_accel.judging.closing.line import SIMULATED

TOLD: Final = (Status.FAIL.value, WAIVED, Status.MARGINAL.value)
"""The statuses that are shown for each night."""
COLUMNS: Final = 80
"""Columns of a terminal."""
Show = Callable[[float | None, str], str]


@dataclass(frozen=True)
class DeviceHistory:
    """A device with its figures, oldest first."""

    simulated: bool
    uuid: str
    serial: str
    model: str
    entries: Sequence[Row]
    """Its figures (`queries.FIGURE`)."""

    @property
    def doubled(self) -> dict[date, list[str]]:
        """The nodes of each night that has the device on several: which of them it was in is not known."""
        nodes: dict[date, set[str]] = {}
        for each in self.entries:
            nodes.setdefault(each["night"], set()).add(each["node"])
        return {night: sorted(some) for night, some in nodes.items() if len(some) > 1}


def text(found: DeviceHistory, show: Show) -> Iterator[str]:
    """Yield a past as lines: the device, its places, its failures, and each metric on each driver and firmware."""
    nights = sorted({each["night"] for each in found.entries})
    known = f"serial {found.serial}, " if found.serial else ""
    simulated = f"{SIMULATED} " if found.simulated else ""
    yield f"{simulated}{found.model or 'device'}, {known}UUID {found.uuid}: {counted(len(nights), 'night')}"
    doubled = found.doubled
    for night, nodes in doubled.items():
        yield f"  {night}  on {' and '.join(nodes)}: which one it is in is not known, so its figures are left out below"
    stays = groupby(found.entries, key=itemgetter("node", "name", "slot", "driver", "vbios"))
    for (node, name, slot, driver, vbios), some in stays:
        days = [each["night"] for each in some]
        told = ", ".join(filter(None, (slot, _named("driver", driver), _named("vbios", vbios))))
        yield f"  {days[0]} to {days[-1]}  {node} {name}  {told}"
    for (night, status), bad in grouped(found.entries, itemgetter("night", "status")).items():
        if status in TOLD:
            yield f"  {night}  {status}  {listed([each['metric'] for each in bad])}"
    figures = [
        each for each in found.entries if each["method"] and each["value"] is not None and each["night"] not in doubled
    ]
    series = grouped(figures, itemgetter("metric", "level", "unit", "method", "driver", "vbios"))
    for (metric, level, unit, _, driver, vbios), entries in series.items():
        software = filter(None, (level, _named("driver", driver), _named("vbios", vbios)))
        yield f"  {metric} in {unit} ({', '.join(software)})"
        yield from _by_year(entries, show)


def _by_year(entries: Sequence[Row], show: Show) -> Iterator[str]:
    """Yield the days of each year with their values, as many on a line as 80 columns hold."""
    for year, some in groupby(entries, key=lambda each: each["night"].year):
        values = [f"{each['night']:%m-%d} {show(each['value'], '')}" for each in some]
        width = max(map(len, values)) + 2
        count = max(1, (COLUMNS - len(f"    {year}")) // width)
        for at in range(0, len(values), count):
            yield f"    {year}  {''.join(f'{each:{width}}' for each in values[at : at + count])}".rstrip()


def _named(name: str, version: str) -> str:
    return f"{name} {version}" if version else ""
