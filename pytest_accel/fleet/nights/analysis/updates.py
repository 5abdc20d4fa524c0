"""What an update of driver or firmware changed, on the devices that have figures from before and after it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pytest_accel.fleet.nights.analysis.groups import FigureKind
from pytest_accel.judging.calibration import deviation_of
from pytest_accel.judging.gaps import FOUND_AT, LEAST, OF_MEDIAN
from pytest_accel.judging.like_devices import ENOUGH, part_of

AROUND: Final = 5
"""Nights before and after an update whose medians are compared on each device."""


@dataclass(frozen=True)
class Update:
    """A metric before and after an update: the median over the devices of each one's change, as a share of its value.

    `mad` is the median absolute deviation of these changes. `what` is "driver" or "vbios".
    """

    kind: FigureKind
    what: str
    old: str
    new: str
    devices: int
    nodes: int
    before: float
    after: float
    change: float
    mad: float

    @property
    def spread(self) -> float:
        """The deviation of the change from device to device."""
        return deviation_of(self.mad, self.devices)

    @property
    def in_spreads(self) -> float:
        """The change in units of this deviation; infinite if all devices changed alike."""
        return abs(self.change) / self.spread if self.spread else math.inf

    @property
    def slower(self) -> bool:
        """True if the devices lost speed."""
        return (self.change < 0) == self.kind.more_is_better

    @property
    def found(self) -> bool:
        """True for a change that is certain, and large enough to be a finding."""
        error = self.spread * math.sqrt(OF_MEDIAN / self.devices)
        certain = self.devices >= ENOUGH and abs(self.change) > FOUND_AT * error
        return certain and abs(self.change) > LEAST[part_of(self.kind.metric)]


def findings(updates: Iterable[Update]) -> list[Update]:
    """Return the changes that are findings, losses first, the largest first."""
    return sorted((each for each in updates if each.found), key=lambda one: (not one.slower, -abs(one.change)))
