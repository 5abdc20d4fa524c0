"""The distance of a device behind its neighbours, measured in the spread of healthy devices. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from pytest_accel.core.measurement import Measurement, is_rate, is_time
from pytest_accel.core.reasons import BehindNeighbours
from pytest_accel.core.sku import Spread
from pytest_accel.core.verdict import Status
from pytest_accel.judging.like_devices import ENOUGH, of_device, part_of, usable, value_of
from pytest_accel.judging.telemetry import power_capped

FOUND_AT = 4.0
"""Standard deviations behind the other devices from which on a device is a finding. Of normally distributed healthy
devices 3 in 100,000 are, and a node has hundreds of figures; a finding counts only if the repeat shows it too."""
FAILS_AT = 6.0
"""Standard deviations from which on a finding fails, where the spread is small (`SMALL_SPREAD`)."""
SMALL_SPREAD = ("memory", "host", "link")
"""Parts whose rate is fixed by clock and width, so that healthy devices hardly differ: eight H200 lie within 0.2 % of
each other over the host link (stas00/ml-engineering, network/README.md). Products follow power and temperature."""
LEAST = {"memory": 0.01, "host": 0.01, "link": 0.01, "compute": 0.02}
"""The smallest gap that is a finding, by the part that a probe stresses: what is smaller costs nobody anything."""
LEAST_FAILING = 0.02
"""The smallest gap that fails."""
ELSEWHERE, LEAST_ELSEWHERE = 3.0, 0.05
"""How many times as wide a spread may be here that another tool or another product showed, before a gap fails by it;
and the smallest such gap."""
OF_MEDIAN = 1.57
"""The variance of the median of n normally distributed values is pi / 2 of that of their mean (H. A. David, Order
Statistics)."""


@dataclass(frozen=True)
class Gap:
    """The distance of a device behind its neighbours, measured in the spread of healthy devices.

    `behind` is the share that its speed lacks to the median of the others (`middle`, in the metric's unit); `deviation`
    is the standard deviation of that share for a healthy device, and `spread` the stated one between devices.
    """

    behind: float
    middle: float
    deviation: float
    spread: float
    least: float
    fails_from: float
    """The gap from which on the device fails; infinite where it never does."""
    at_clock: bool = False
    constant: float = 0.0
    """The part of `deviation` that is the same in every round of a run: the spread between devices."""

    @property
    def found_from(self) -> float:
        """The gap from which on the device is a finding."""
        return max(FOUND_AT * self.deviation, self.least)

    @property
    def status(self) -> Status:
        """FAIL, MARGINAL, or PASS if the gap is no finding."""
        if self.behind > self.fails_from:
            return Status.FAIL
        return Status.MARGINAL if self.behind > self.found_from else Status.PASS

    def reason(self, unit: str, *, at_first: bool = False) -> BehindNeighbours:
        """Return the gap as a reason; `at_first` if the repeat does not show it."""
        return BehindNeighbours(self.behind, self.middle, unit, self.spread, self.at_clock, at_first)


def gap(own: Measurement, near: Sequence[Measurement], spread: Spread) -> Gap | None:
    """Return the distance of a device behind the median of the others; None if it cannot be compared.

    For a matrix product under the power limit, whose devices run at different clocks, the rate at the clock is compared
    as well, and returned where the rate by itself is no finding.
    """
    others = [each for each in near if each.subject != own.subject and usable(each)]
    between = spread.between_devices or spread.at_clock
    if not between or not of_device(own) or not usable(own) or len(others) < ENOUGH - 1:
        return None
    raw = _gap(own, [1.0] * (len(others) + 1), others, spread, spread.between_devices)
    clocks = _clocks([own, *others])
    at_clock = spread.at_clock or spread.between_devices
    held = replace(each, at_clock=True) if clocks and (each := _gap(own, clocks, others, spread, at_clock)) else None
    if raw is None or held is None:
        return raw or held
    return held if raw.status is Status.PASS else raw


def _gap(
    own: Measurement, by: Sequence[float], others: Sequence[Measurement], spread: Spread, between: float | None
) -> Gap | None:
    """Return the gap between speeds, each divided by one of `by`: the own first, then those of the others."""
    speeds = [_speed(each) / one for each, one in zip([own, *others], by, strict=True)]
    middle, part = median(speeds[1:]), part_of(own.metric)
    if not between or middle <= 0 or (is_time(own.unit) and speeds[0] <= 0):
        return None
    one = math.sqrt(between**2 + (spread.between_runs or 0.0) ** 2 + own.noise**2)
    of_median, at_middle = math.sqrt(1 + OF_MEDIAN / len(others)), middle * by[0]
    deviation = one * of_median
    return Gap(
        behind=1 - speeds[0] / middle,
        middle=1 / at_middle if is_time(own.unit) else at_middle,
        deviation=deviation,
        spread=between,
        least=LEAST[part],
        fails_from=_fails_from(deviation, spread) if part in SMALL_SPREAD else math.inf,
        constant=between * of_median,
    )


def _fails_from(deviation: float, spread: Spread) -> float:
    times, least = (1.0, LEAST_FAILING) if spread.ours else (ELSEWHERE, LEAST_ELSEWHERE)
    return max(FAILS_AT * times * deviation, least)


def _speed(one: Measurement) -> float:
    value = value_of(one)
    return (1 / value if value > 0 else 0.0) if is_time(one.unit) else value


def _clocks(every: Sequence[Measurement]) -> list[float]:
    """Return the SM clock (MHz) of each if they are products that power limits, as it does most of them; else none."""
    summaries = [each.details.get("telemetry", {}) for each in every]
    clocks = [each.get("clock_mhz", {}).get("mean", 0.0) for each in summaries]
    capped = sum(map(power_capped, summaries))
    product = part_of(every[0].metric) == "compute" and is_rate(every[0].unit)
    return clocks if product and all(clocks) and 2 * capped > len(every) else []
