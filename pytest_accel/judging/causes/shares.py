"""A shortfall in factors, and the lost clock in shares by reasons, from the details of a measurement. Pure.

A rate is the clock times what the device does at that clock. A copy to the host follows the width and generation of its
link, and a stream the clock of the memory. What each of these should be is known from the like devices of the same run,
and where there are too few of them, or they are as slow, from the highest that the device states.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from pytest_accel.core.details import ClockLosses
from pytest_accel.core.measurement import Device, Measurement, is_rate, is_time, speed_share
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.stats import ENOUGH_ALIKE
from pytest_accel.core.units import PCIE_LANE
from pytest_accel.judging.causes.clock_losses import JOINT
from pytest_accel.judging.verdicts.like_devices import Attempts, seldom_read

FULL_CLOCK = 0.97
"""Fraction of the expected clock: above it the clock is not the cause."""
AS_FAST = 0.97
"""Fraction of the like devices' rate: above it they are as slow as this one, and explain nothing."""
USUAL = 0.95
"""Fraction of what the like devices do at their clock: above it a device is normal at the clock that it held."""
USUAL_SHARE = 0.75
"""Fraction of the peak at the clock that was held: below it neither clock nor power limit explains the rate. AMD's
published pairs of rate and clock give 0.83 to 0.94 (ROCm blog, "Understanding Peak and Max-Achievable FLOPS", part 2).
"""
DRAWN = 0.75
"""Fraction of the power limit: a device that draws less is not held at it, whatever it reports."""
LOWERED = 0.99
"""Fraction of the default power limit: a limit below it counts as lowered."""
NAMED_SHARE = 0.03
"""Share of the lost clock below which a reason is not named: shares are only known to some percent."""


POWER_CAP, LOCK, LOWERED_LIMIT, UNEXPLAINED = "sw_power_cap_s", "application_clocks", "lowered_limit", "unexplained"


@dataclass(frozen=True)
class Yardstick:
    """The rate or time and the clock in MHz that a device is compared with; None for what is not known."""

    value: float | None = None
    clock: float | None = None
    origin: str = ""
    """The origin of value and clock in words: "the median of 8 devices", or empty."""
    from_like_devices: bool = False
    """True if they are those of like devices under the same load."""


@dataclass(frozen=True)
class Shares:
    """A shortfall in factors, and the shares of the lost clock.

    `shortfall` is value / expected - 1 (of a time: expected / value - 1), `at_clock` what the device does at the clock
    that it held, as a fraction of the usual. Both are None if it is not known what to expect.
    """

    yardstick: Yardstick
    shortfall: float | None = None
    clock: float | None = None
    """The mean clock in MHz."""
    by_reason: Mapping[str, float] = field(default_factory=dict)
    """The share of the lost clock by reasons, largest first, with `UNEXPLAINED` for what none explains; they add up to
    1. Empty if the clock was not low. Names joined by "+" held together and cannot be separated."""
    at_clock: float | None = None
    link: float | None = None
    """The bandwidth that width and generation of the host link gave under load, as a fraction of the usual."""
    memory_clock: float | None = None
    """The mean clock of the memory, as a fraction of the usual."""

    @property
    def low_clock(self) -> bool:
        """True if the clock is below the expected one, so that it is a cause."""
        return bool(self.clock and self.yardstick.clock and self.clock < FULL_CLOCK * self.yardstick.clock)


def shares(measurement: Measurement, device: Device, limit: Limit | None, like_devices: Sequence[Attempts]) -> Shares:
    """Return the factors of a shortfall. `like_devices` has the attempts of the like devices, its own included."""
    clock = mean_clock(measurement)
    expected = expectation(measurement, clock, device, limit, like_devices)
    shortfall = _speed(measurement, expected.value)
    factors = Shares(expected, None if shortfall is None else shortfall - 1, clock)
    facts = device.facts
    last_attempts = _last_of_each(like_devices, measurement) if expected.from_like_devices else []
    widest = _bandwidth(facts.get("pcie_gen_max"), facts.get("pcie_width_max"))
    highest = facts.get("memory_clock_max_mhz")
    return replace(
        factors,
        by_reason=_by_reason(measurement, device, expected) if factors.low_clock else {},
        at_clock=_at_clock(measurement, shortfall, clock, expected),
        link=_of_usual(_link(measurement), map(_link, last_attempts), widest),
        memory_clock=_of_usual(_memory_clock(measurement), map(_memory_clock, last_attempts), highest),
    )


def expectation(
    measurement: Measurement, clock: float | None, device: Device, limit: Limit | None, like_devices: Sequence[Attempts]
) -> Yardstick:
    """Return the value and the clock that a measurement should have had.

    That is the median of its neighbours, if there are three that nothing disturbed and this one is slower than they
    are; else the figure that the limit is derived from, and the device's highest clock: the one that it states, or as
    a processor states none, the highest that was read.
    """
    others = [last for last in _last_of_each(like_devices, measurement) if last.subject != measurement.subject]
    clocks = [clock for clock in map(mean_clock, others) if clock]
    usual_clock = median(clocks) if len(clocks) >= ENOUGH_ALIKE - 1 else None
    if _timed(measurement) and len(others) >= ENOUGH_ALIKE - 1:
        middle = median([float(other.value or 0) for other in others])
        speed = _speed(measurement, middle)
        if speed is not None and speed < AS_FAST:
            return Yardstick(middle, usual_clock, f"the median of its {len(others)} neighbours", from_like_devices=True)
    elif not _timed(measurement) and clock and usual_clock and clock < FULL_CLOCK * usual_clock:
        return Yardstick(None, usual_clock, f"the median of its {len(clocks)} neighbours", from_like_devices=True)
    losses = measurement.details.get("clock_losses")
    highest = device.facts.get("clock_max_mhz") or (losses["from_mhz"] if losses else None)
    figure = limit and (limit.reference or (limit.healthy[0] if limit.healthy else None))
    if figure and _timed(measurement) and limit and not limit.relative:
        return Yardstick(figure, highest, "what is expected")
    return Yardstick(None, highest)


def _of_usual(value: float | None, like_values: Iterable[float | None], highest: float | None) -> float | None:
    """Return a reading as a fraction of that of the like devices, or without them of the highest that is stated."""
    readings = [reading for reading in like_values if reading]
    expected = median(readings) if readings else highest
    return value / expected if value and expected else None


def _link(measurement: Measurement) -> float | None:
    """Return the bandwidth of the host link under load in GB/s, as its width and generation give it."""
    summary = measurement.details.get("telemetry", {})
    return _bandwidth(summary.get("pcie_gen"), summary.get("pcie_width"))


def _bandwidth(generation: float | None, width: float | None) -> float | None:
    lane = PCIE_LANE.get(int(generation or 0))
    return lane * width if lane and width else None


def _memory_clock(measurement: Measurement) -> float | None:
    gauge = measurement.details.get("telemetry", {}).get("memory_clock_mhz")
    return gauge["mean"] if gauge else None


def mean_clock(measurement: Measurement) -> float | None:
    """Return the mean clock in MHz while the samples were taken."""
    losses, gauge = measurement.details.get("clock_losses"), measurement.details.get("telemetry", {}).get("clock_mhz")
    return losses["mhz"] if losses else gauge["mean"] if gauge else None


def _last_of_each(devices: Sequence[Attempts], measurement: Measurement) -> list[Measurement]:
    """Return the last attempt of each device whose figure can be compared with a measurement."""
    comparable = ([attempt for attempt in attempts if _comparable(attempt, measurement)] for attempts in devices)
    return [attempts[-1] for attempts in comparable if attempts]


def _comparable(attempt: Measurement, measurement: Measurement) -> bool:
    """Return True for an undisturbed attempt in the same company and unit as a measurement."""
    same = (attempt.how, attempt.unit) == (measurement.how, measurement.unit)
    return same and isinstance(attempt.value, int | float) and not attempt.trouble and not attempt.note("disturbed")


def _timed(measurement: Measurement) -> bool:
    """Return True for a rate or a time, of which a fraction can be said to be lost."""
    return is_rate(measurement.unit) or (is_time(measurement.unit) and bool(measurement.samples))


def _speed(measurement: Measurement, expected: float | None) -> float | None:
    """Return the speed as a fraction of the expected value's; None if either is not known."""
    value = measurement.value
    if not expected or not isinstance(value, int | float) or not value or not math.isfinite(value):
        return None
    return speed_share(value, expected, measurement.unit)


def _at_clock(measurement: Measurement, speed: float | None, clock: float | None, expected: Yardstick) -> float | None:
    """Return the speed of a device at the clock that it held, as a fraction of the usual; None if it is not known."""
    if seldom_read(measurement):
        return None
    if expected.from_like_devices and speed and clock and expected.clock:
        return speed * expected.clock / clock
    share = measurement.details.get("of_clock", {}).get("share")
    return None if share is None else share / USUAL_SHARE


def _by_reason(measurement: Measurement, device: Device, expected: Yardstick) -> dict[str, float]:
    """Return the share of the lost clock by reasons, largest first."""
    losses = measurement.details.get("clock_losses")
    if not losses or not expected.clock:
        return {}
    by_reason = dict(losses["by_reason"])
    # the loss down to the like devices' clock is normal: it is taken off what was lost all the time, then off what the
    # power cap took, which holds the like devices back as well
    normal = math.log(losses["from_mhz"] / expected.clock)
    throughout, normal = max(0.0, losses["throughout"] - normal), max(0.0, normal - losses["throughout"])
    by_reason = {name: max(0.0, part - normal) if name == POWER_CAP else part for name, part in by_reason.items()}
    name = _throughout(measurement, device, losses, expected)
    by_reason[name] = by_reason.get(name, 0.0) + throughout
    by_reason = _corrected(by_reason, measurement, device)
    total = math.fsum(by_reason.values())
    ordered = sorted(by_reason.items(), key=lambda item: -item[1])
    return {name: part / total for name, part in ordered if part > NAMED_SHARE * total} if total else {}


def _throughout(measurement: Measurement, device: Device, losses: ClockLosses, expected: Yardstick) -> str:
    """Return the joined names of the reasons that lowered the clock all the time."""
    names = [name for name in losses["always"] if name != LOCK or _lock_counts(device.facts)]
    if expected.from_like_devices and not is_lowered(device) and len(names) > 1:
        names = [name for name in names if name != POWER_CAP]  # it holds the like devices back too
    if not names and is_locked(device):
        names = [LOCK]
    if not names and is_lowered(device) and _at_limit(measurement, device):
        names = [POWER_CAP]
    if names == [POWER_CAP] and not _at_limit(measurement, device):
        names = []
    return JOINT.join(names) or UNEXPLAINED


def _corrected(by_reason: Mapping[str, float], measurement: Measurement, device: Device) -> dict[str, float]:
    """Return the losses with the power cap under its right name: a lowered limit, or no reason far below the limit."""
    name = POWER_CAP if _at_limit(measurement, device) else UNEXPLAINED
    name = LOWERED_LIMIT if is_lowered(device) and name == POWER_CAP else name
    renamed: dict[str, float] = {}
    for reasons, part in by_reason.items():
        parts = [name if reason == POWER_CAP else reason for reason in reasons.split(JOINT)]
        joined = JOINT.join(reason for reason in parts if reason != UNEXPLAINED or len(parts) == 1)
        renamed[joined] = renamed.get(joined, 0.0) + part
    return renamed


def _at_limit(measurement: Measurement, device: Device) -> bool:
    """Return True if a device drew about as much as its power limit allows; True if that is not known."""
    limit, drawn = device.facts.get("power_limit_w"), measurement.details.get("telemetry", {}).get("power_w")
    return not (limit and drawn) or drawn["max"] >= DRAWN * limit


def is_lowered(device: Device) -> bool:
    """Return True if the power limit of a device is below its default."""
    limit, default = device.facts.get("power_limit_w"), device.facts.get("power_limit_default_w")
    return bool(limit and default and limit < LOWERED * default)


def is_locked(device: Device) -> bool:
    """Return True if the device states a setting that holds its clock down."""
    facts = device.facts
    application, default = facts.get("clock_application_mhz"), facts.get("clock_application_default_mhz")
    level = facts.get("perf_level")
    return bool(application and default and application < default) or level not in (None, "auto", "high")


def _lock_counts(facts: Mapping[str, Any]) -> bool:
    """Return False if the application clock is the highest one: some devices name it as the reason for every clock."""
    application, highest = facts.get("clock_application_mhz"), facts.get("clock_max_mhz")
    return not (application and highest and application >= highest)
