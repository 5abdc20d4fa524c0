"""The devices that lose speed from night to night, other than the fleet does. Pure.

A series is one metric of one device by one method, with one driver and one firmware: an update begins a new one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import fmean, median
from typing import Final

from pytest_accel.core.stats import student_above, student_tail
from pytest_accel.fleet.nights.analysis.groups import FigureKind
from pytest_accel.fleet.nights.analysis.outliers import Subject
from pytest_accel.judging.gaps import FAILS_AT, LEAST, OF_MEDIAN
from pytest_accel.judging.history import deviation_of_runs
from pytest_accel.judging.like_devices import part_of

ENOUGH_NIGHTS: Final = 10
"""Nights from which on a slope is told."""
ENDS: Final = 5
"""Nights at either end whose medians are compared."""
CHANCE: Final = student_tail(FAILS_AT, math.inf)
"""The chance that a series without a trend has a slope as steep: that of `FAILS_AT` standard deviations."""


@dataclass(frozen=True)
class Series:
    """The values of one metric of one device, oldest first, by one method on one driver and firmware."""

    subject: Subject
    kind: FigureKind
    driver: str
    vbios: str
    nights: Sequence[date]
    values: Sequence[float]


@dataclass(frozen=True)
class SpeedTrend:
    """A device that loses speed: `slope` is the share a night, `loss` that of the last nights against the first."""

    subject: Subject
    kind: FigureKind
    slope: float
    loss: float
    first: float
    last: float
    nights: int
    since: date
    driver: str
    vbios: str


@dataclass(frozen=True)
class Drift:
    """The trend that the devices of a kind share: the median of their slopes, as a share of the value a night."""

    kind: FigureKind
    devices: int
    slope: float
    nights: int

    @property
    def loss(self) -> float:
        """The speed that they lost over the nights, as a share; negative for a gain."""
        change = self.slope * (self.nights - 1)
        return -change if self.kind.more_is_better else change

    @property
    def found(self) -> bool:
        """True if it is a finding."""
        return self.loss > LEAST[part_of(self.kind.metric)]


def decide(series: Series, shared: float = 0.0) -> SpeedTrend | None:
    """Return the trend of a series, None if it has none; `shared` is the slope of the fleet, a share a night.

    The slope has to be certain, and the last nights have to lie below the first by what is a finding and by what the
    deviation from night to night does not explain.
    """
    nights, values = _one_a_night(series, shared)
    if len(nights) < ENOUGH_NIGHTS or min(values) <= 0:
        return None
    slope, error = _slope(nights, values)
    sign = -1.0 if series.kind.more_is_better else 1.0
    if sign * slope <= student_above(CHANCE, len(nights) - 2) * error:
        return None
    first, last = median(values[:ENDS]), median(values[-ENDS:])
    loss = 1 - last / first if series.kind.more_is_better else 1 - first / last
    noise = deviation_of_runs([values]) or 0.0
    least = max(LEAST[part_of(series.kind.metric)], FAILS_AT * noise * math.sqrt(2 * OF_MEDIAN / ENDS))
    if loss < least:
        return None
    share = slope / fmean(values)
    kept = (len(nights), series.nights[0], series.driver, series.vbios)
    return SpeedTrend(series.subject, series.kind, share, loss, first, last, *kept)


def _one_a_night(series: Series, shared: float) -> tuple[list[int], list[float]]:
    """Return the day and the median of every night, without the slope of the fleet."""
    start = series.nights[0]
    by_day: dict[int, list[float]] = {}
    for night, value in zip(series.nights, series.values, strict=True):
        by_day.setdefault((night - start).days, []).append(value)
    days = sorted(by_day)
    return days, [median(by_day[day]) / max(1e-9, 1 + shared * day) for day in days]


def _slope(days: Sequence[int], values: Sequence[float]) -> tuple[float, float]:
    """Return the slope of values and its standard error, by least squares."""
    x, y = fmean(days), fmean(values)
    across = math.fsum((day - x) ** 2 for day in days)
    if not across:
        return 0.0, math.inf
    slope = math.fsum((day - x) * (value - y) for day, value in zip(days, values, strict=True)) / across
    rest = math.fsum((value - y - slope * (day - x)) ** 2 for day, value in zip(days, values, strict=True))
    return slope, math.sqrt(rest / (len(days) - 2) / across)


def worst_first(found: Sequence[SpeedTrend]) -> list[SpeedTrend]:
    """Return the trends, the largest loss first."""
    return sorted(found, key=lambda each: (-each.loss, each.subject.shown, each.kind))


def shared_slopes(drifts: Sequence[Drift]) -> Mapping[FigureKind, float]:
    """Return the slope that the devices of each kind share; 0 where they are too few for one."""
    return {each.kind: each.slope for each in drifts}
