"""Figures that can be compared: one SKU, platform, level, metric and method, and how far healthy ones lie apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pytest_accel.core.measurement import is_time
from pytest_accel.judging.calibration import deviation_of
from pytest_accel.judging.gaps import FAILS_AT, LEAST
from pytest_accel.judging.like_devices import ENOUGH, part_of

ENOUGH_DEVICES: Final = 20
"""Devices from which on their spread is known well enough: with 20, a spread from the median absolute deviation is off
by a fifth (a standard error of 1.17 / sqrt(2 n))."""
ENOUGH_NODES: Final = ENOUGH
"""Nodes from which on the median is that of healthy ones although one node is slow as a whole."""


@dataclass(frozen=True, order=True)
class FigureKind:
    """What figures share that are compared with each other."""

    sku: str
    platform: str
    level: str
    metric: str
    unit: str
    method: str

    @property
    def more_is_better(self) -> bool:
        """True for a rate, False for a time."""
        return not is_time(self.unit)


@dataclass(frozen=True)
class Group:
    """The figures of one kind in one night. `driver` is the version that all have, None for all versions together.

    `middle` is the median, `mad` the median absolute deviation, in the unit of the kind.
    """

    kind: FigureKind
    driver: str | None
    count: int
    """How many devices they are of; a night has one figure of each."""
    nodes: int
    middle: float
    mad: float

    @property
    def enough(self) -> bool:
        """True if an outlier can be told from them."""
        return self.count >= ENOUGH_DEVICES and self.nodes >= ENOUGH_NODES and self.middle > 0

    @property
    def spread(self) -> float:
        """The robust standard deviation as a fraction of the median."""
        return deviation_of(self.mad, self.count) / self.middle

    @property
    def far(self) -> float:
        """The share of speed behind the median from which on a device is an outlier.

        It is the distance at which a node's neighbours fail a device, and the smallest loss that is a finding.
        """
        return max(FAILS_AT * self.spread, LEAST[part_of(self.kind.metric)])

    @property
    def bound(self) -> float:
        """The value of an outlier: lower ones of a rate, higher ones of a time."""
        share = max(0.0, 1 - self.far)
        if self.kind.more_is_better:
            return self.middle * share
        return self.middle / share if share else float("inf")


def standards(groups: Iterable[Group]) -> Mapping[tuple[FigureKind, str | None], Group]:
    """Return the group that each kind of figures is compared with, by kind and driver.

    Devices of one driver are compared with each other if they are enough, and else with those of all drivers (None).
    """
    return {(each.kind, each.driver): each for each in groups if each.enough}


def behind(value: float, middle: float, kind: FigureKind) -> float:
    """Return the share of speed that a value lacks to a median; negative for a faster one."""
    if kind.more_is_better:
        return 1 - value / middle
    return 1 - middle / value if value else -float("inf")
