"""The limits that decided in a delivery, with the spread of their figures over its nodes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from pytest_accel.core.groups import grouped


class Figure(NamedTuple):
    """A figure of a device, or of the node, that a rejecting limit judged."""

    metric: str
    unit: str
    value: float
    limit: str
    """The bound of the limit, in words."""
    rejects: bool


@dataclass(frozen=True)
class DecidingLimit:
    """A metric whose limit rejects, with its figures of all devices, or of all nodes."""

    metric: str
    unit: str
    limit: str
    """The commonest one in words."""
    limits: int
    """The number of different ones."""
    figures: int
    least: float
    median: float
    most: float
    rejected: int
    """The number of figures that reject."""


def deciding(figures: Iterable[Figure]) -> list[DecidingLimit]:
    """Return a line for every metric: first those that reject something, each in the order of the figures."""
    by_metric = grouped(figures, lambda each: (each.metric, each.unit))
    return sorted((_of_metric(*metric, some) for metric, some in by_metric.items()), key=lambda each: not each.rejected)


def _of_metric(metric: str, unit: str, figures: Sequence[Figure]) -> DecidingLimit:
    limits = Counter(each.limit for each in figures)
    values = [each.value for each in figures]
    return DecidingLimit(
        metric,
        unit,
        limit=limits.most_common(1)[0][0],
        limits=len(limits),
        figures=len(figures),
        least=min(values),
        median=median(values),
        most=max(values),
        rejected=sum(each.rejects for each in figures),
    )
