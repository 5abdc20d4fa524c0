"""The distribution of a metric over a delivery. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import NamedTuple

from pytest_accel.judging.records.calibration import deviation

ENOUGH = 8
"""Figures from which on a delivery tells its own spread."""


class Bounds(NamedTuple):
    """What a figure was judged by, in the unit of the metric."""

    floor: float | None
    ceiling: float | None
    healthy: tuple[float, float] | None
    """The published healthy range."""
    advises: bool
    """True if the limit only advises."""


class Figure(NamedTuple):
    """The value of a metric of a device, or of the node, and what it was judged by (None without a limit)."""

    metric: str
    unit: str
    value: float
    bounds: Bounds | None


@dataclass(frozen=True)
class Distribution:
    """One metric over all devices, or all nodes, of a delivery. Values and bounds are in `unit`."""

    metric: str
    unit: str
    n: int
    least: float
    low: float
    """The value below which 5 % lie."""
    middle: float
    high: float
    most: float
    spread: float | None
    """The robust standard deviation as a fraction of the median; None for too few figures."""
    bounds: Bounds | None
    """The commonest ones."""
    limits: int
    """The number of different bounds that the nodes were judged by."""


def distribution(metric: str, unit: str, figures: Sequence[Figure]) -> Distribution:
    """Return the distribution of the figures of one metric."""
    every = sorted(each.value for each in figures)
    bounds = Counter(each.bounds for each in figures if each.bounds).most_common()
    centre = median(every)
    twentieths = quantiles(
        every * 2 if len(every) == 1 else every, n=20, method="inclusive"
    )  # which takes two at least
    return Distribution(
        metric=metric,
        unit=unit,
        n=len(every),
        least=every[0],
        low=twentieths[0],
        middle=centre,
        high=twentieths[-1],
        most=every[-1],
        spread=deviation(every, centre) / centre if len(every) >= ENOUGH and centre > 0 else None,
        bounds=bounds[0][0] if bounds else None,
        limits=len(bounds),
    )
