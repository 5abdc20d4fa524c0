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
        nights = grouped(self.entries, itemgetter("night")).items()
        nodes = {night: sorted({entry["node"] for entry in entries}) for night, entries in nights}
        return {night: names for night, names in nodes.items() if len(names) > 1}


def text(device: DeviceHistory, show: Show) -> Iterator[str]:
    """Yield a past as lines: the device, its locations, its failures, and each metric on each driver and firmware."""
    nights = sorted({entry["night"] for entry in device.entries})
    serial = f"serial {device.serial}, " if device.serial else ""
    simulated = f"{SIMULATED} " if device.simulated else ""
    yield f"{simulated}{device.model or 'device'}, {serial}UUID {device.uuid}: {counted(len(nights), 'night')}"
    doubled = device.doubled
    for night, nodes in doubled.items():
        yield f"  {night}  on {' and '.join(nodes)}: which one it is in is not known, so its figures are left out below"
    stays = groupby(device.entries, key=itemgetter("node", "name", "slot", "driver", "vbios"))
    for (node, name, slot, driver, vbios), group in stays:
        days = [entry["night"] for entry in group]
        details = ", ".join(filter(None, (slot, _named("driver", driver), _named("vbios", vbios))))
        yield f"  {days[0]} to {days[-1]}  {node} {name}  {details}"
    for (night, status), failures in grouped(device.entries, itemgetter("night", "status")).items():
        if status in TOLD:
            yield f"  {night}  {status}  {listed([entry['metric'] for entry in failures])}"
    measured = (entry for entry in device.entries if entry["method"] and entry["value"] is not None)
    figures = [entry for entry in measured if entry["night"] not in doubled]
    series = grouped(figures, itemgetter("metric", "level", "unit", "method", "driver", "vbios"))
    for (metric, level, unit, _, driver, vbios), entries in series.items():
        software = filter(None, (level, _named("driver", driver), _named("vbios", vbios)))
        yield f"  {metric} in {unit} ({', '.join(software)})"
        yield from _by_year(entries, show)


def _by_year(entries: Sequence[Row], show: Show) -> Iterator[str]:
    """Yield the days of each year with their values, as many on a line as 80 columns hold."""
    for year, group in groupby(entries, key=lambda entry: entry["night"].year):
        values = [f"{entry['night']:%m-%d} {show(entry['value'], '')}" for entry in group]
        width = max(map(len, values)) + 2
        count = max(1, (COLUMNS - len(f"    {year}")) // width)
        for start in range(0, len(values), count):
            yield f"    {year}  {''.join(f'{value:{width}}' for value in values[start : start + count])}".rstrip()


def _named(name: str, version: str) -> str:
    return f"{name} {version}" if version else ""
