"""The devices that fail again and again, and those that are MARGINAL in the same metric night after night. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from pytest_accel.core.verdict import Status
from pytest_accel.fleet.nights.analysis.outliers import Subject

FAILED_RUNS: Final = 2
"""Runs that reject a device from which on it is a repeat offender."""
MARGINAL_OF: Final = (2, 3)
"""A metric that is MARGINAL in two of the last three nights of a device is listed: one night alone is chance."""


@dataclass(frozen=True)
class Event:
    """A verdict on a device that is FAIL or MARGINAL."""

    subject: Subject
    sku: str
    metric: str
    status: str
    night: date
    run: tuple[date, int]
    code: str = ""


@dataclass(frozen=True)
class Offender:
    """A device that failed in several runs: their number, the metrics that failed, and fault codes."""

    subject: Subject
    runs: int
    nights: tuple[date, ...]
    metrics: tuple[str, ...]
    codes: tuple[str, ...]


@dataclass(frozen=True)
class RepeatedMarginal:
    """A metric that is MARGINAL on a device in `nights`, of the last `of` nights on which the device was measured."""

    subject: Subject
    metric: str
    nights: tuple[date, ...]
    of: int


def offenders(events: Iterable[Event], doubtful: Container[tuple[str, str]] = ()) -> list[Offender]:
    """Return the devices that failed in several runs, those with the most first.

    A limit that fires on too many nodes, named in `doubtful` by SKU and metric, says nothing about a device.
    """
    by_device: dict[int, list[Event]] = defaultdict(list)
    for each in events:
        if each.status == Status.FAIL.value and (each.sku, each.metric) not in doubtful:
            by_device[each.subject.device].append(each)
    found = []
    for some in by_device.values():
        runs = {each.run for each in some}
        if len(runs) >= FAILED_RUNS:
            last = max(some, key=lambda each: each.night)
            found.append(
                Offender(
                    last.subject,
                    len(runs),
                    tuple(sorted({each.night for each in some})),
                    tuple(sorted({each.metric for each in some})),
                    tuple(sorted({each.code for each in some} - {""})),
                )
            )
    return sorted(found, key=lambda one: (-one.runs, one.subject.shown))


def repeated(events: Iterable[Event], last_nights: dict[int, list[date]]) -> list[RepeatedMarginal]:
    """Return the metrics that are MARGINAL again. `last_nights` are the last nights on which each device was measured.

    A metric that fails is not listed: the device is rejected for it.
    """
    least, of = MARGINAL_OF
    marginal: dict[tuple[int, str], list[Event]] = defaultdict(list)
    for each in events:
        if each.status == Status.MARGINAL.value and each.night in last_nights.get(each.subject.device, ())[-of:]:
            marginal[each.subject.device, each.metric].append(each)
    found = []
    for (device, metric), some in marginal.items():
        nights = tuple(sorted({each.night for each in some}))
        if len(nights) >= least:
            found.append(RepeatedMarginal(some[-1].subject, metric, nights, len(last_nights[device][-of:])))
    return sorted(found, key=lambda one: (-len(one.nights), one.subject.shown, one.metric))
