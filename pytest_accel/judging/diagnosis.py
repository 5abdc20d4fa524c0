"""Finds the cause of a shortfall in what the sensor read during the measurement. Pure.

It names what was observed, worst first, and says so if nothing was: a device that is slow at full clock without any
reason is a different case from one that is hot. Power capping at the power limit is normal and named as such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev

from pytest_accel.core.details import TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.judging.fact_metrics import LOCKS
from pytest_accel.judging.judge import stored_cause
from pytest_accel.judging.telemetry import CAPPED, GaugeName, ReasonName
from pytest_accel.probes.declare import declaration_of

SHARE = 0.01
"""Fraction of the time: throttling for less than that explains nothing."""
FULL_CLOCK = 0.97
"""Fraction of the maximum clock: above it the clock is not the cause."""
DRAWN = 0.75
"""Fraction of the power limit: a device that draws less is not held at it, whatever it reports."""
LOWERED = 0.99
"""Fraction of the default power limit: a limit below it counts as lowered."""
NEAR_C = 3.0
"""Memory this close (in C) to its maximum temperature refreshes more often or is slowed down."""
UNEVEN = 0.02
"""Relative standard deviation of the blocks that is worth naming: throttling alone slows every block alike."""
USUAL_SHARE = 0.75
"""Fraction of the peak at the clock that was held: below it neither clock nor power limit explains the rate. AMD's
published pairs of rate and clock give 0.83 to 0.94 (ROCm blog, "Understanding Peak and Max-Achievable FLOPS", part 2).
"""
SHARED = 0.95
"""Fraction of the rate alone: below it the devices compete for the host link or the host's memory."""

COUNTED_SLOWDOWNS: tuple[tuple[ReasonName, str], ...] = (
    ("hw_thermal_s", "HW thermal slowdown"),
    ("hw_power_brake_s", "HW power brake"),
    ("sw_thermal_s", "SW thermal slowdown"),
    ("hw_slowdown_s", "HW slowdown without a named reason"),
)
CLIMATE: tuple[tuple[GaugeName, str], ...] = (("clock_mhz", "MHz"), ("temperature_c", "C"), ("power_w", "W"))
"""The gauges that a cause is told with, and their units."""


def explaining(devices: Iterable[Device]) -> Callable[[Measurement], str | None]:
    """Return the function that `judge` calls for the cause of a shortfall of one of the devices."""
    known = {device.uuid: device for device in devices}

    def explain(measurement: Measurement) -> str | None:
        device = known.get(measurement.subject)
        return stored_cause(measurement) or (cause(measurement, device) if device else None)

    return explain


def cause(measurement: Measurement, device: Device) -> str | None:
    """Return one sentence on the cause of a shortfall, or None if nothing was observed that could tell.

    It uses only the details of the measurement, which are in the record: the telemetry summary, the fraction of the
    peak at the observed clock (`of_clock`), the fraction of the rate alone, and the variation of the blocks.
    """
    declared, details = declaration_of(measurement.metric), measurement.details
    summary: TelemetrySummary = details.get("telemetry", {})
    if declared is None or declared.unit == "count":
        return None  # no clock explains a number of wrong elements
    stresses = declared.stresses
    if "host" in stresses:
        return _by_link(device, summary, details.get("of_alone"))
    if not {"compute", "memory"} & set(stresses) or not summary.get("seconds"):
        return None
    of_clock = details.get("of_clock", {}).get("share")
    found = [*_slowdowns(summary), *_lowered(device), *(_memory(device, summary) if "memory" in stresses else ())]
    found = [*_by_share(of_clock), *found] or _by_clock(device, summary)
    uneven = _uneven(details.get("variation"))
    return f"{', '.join([*found, *uneven])}{_climate(summary, of_clock)}" if found else None


def variation(samples: Sequence[float]) -> float | None:
    """Return the standard deviation of the samples as a fraction of their mean; None for fewer than three."""
    if len(samples) < 3 or not all(map(math.isfinite, samples)):
        return None
    mean = fmean(samples)
    return stdev(samples) / mean if mean else None


def _slowdowns(summary: TelemetrySummary) -> list[str]:
    shares = [(summary.get(name, 0.0) / summary["seconds"], text) for name, text in COUNTED_SLOWDOWNS]
    return [f"{text} {share:.0%} of the time" for share, text in sorted(shares, reverse=True) if share > SHARE]


def _lowered(device: Device) -> list[str]:
    limit, default = device.facts.get("power_limit_w"), device.facts.get("power_limit_default_w")
    if limit and default and limit < LOWERED * default:
        return [f"power limit {limit:g} W, lowered from {default:g} W"]
    return []


def _memory(device: Device, summary: TelemetrySummary) -> list[str]:
    """Return causes in the state of the memory, whose clock does not follow that of the compute units."""
    clock, most = summary.get("memory_clock_mhz"), device.facts.get("memory_clock_max_mhz")
    heat, hottest = summary.get("memory_temperature_c"), device.facts.get("memory_max_c")
    found = []
    if clock and most and clock["mean"] < FULL_CLOCK * most:
        found.append(f"memory clock {clock['mean']:.0f} of {most:g} MHz: locked, or in a lower power state")
    if heat and hottest and heat["max"] > hottest - NEAR_C:
        found.append(f"memory at {heat['max']:.0f} C, close to its maximum of {hottest:g} C")
    return found


def _by_share(of_clock: float | None) -> list[str]:
    """Return a cause for a device that is slow for its clock: units that are broken or starved, at any clock."""
    if of_clock is None or of_clock >= USUAL_SHARE:
        return []
    return ["too slow for the clock that it held, so clock and power limit do not explain it"]


def _by_clock(device: Device, summary: TelemetrySummary) -> list[str]:
    """Return the cause if there is no slowdown: the power limit, a clock setting, or an unnamed limit."""
    clock, most = summary.get("clock_mhz"), device.facts.get("clock_max_mhz")
    if not clock:
        return []
    if summary.get("sw_power_cap_s", 0.0) / summary["seconds"] > CAPPED:
        limit, drawn = device.facts.get("power_limit_w"), summary.get("power_w")
        if limit and drawn and drawn["mean"] < DRAWN * limit:
            return [f"reports the power limit of {limit:g} W as the reason, at {drawn['mean']:.0f} W: another limit"]
        return [f"clock held down by the power limit{f' of {limit:g} W' if limit else ''}, normal under full load"]
    if most and clock["mean"] < FULL_CLOCK * most:
        if held := [name for bit, name in LOCKS.items() if summary.get("reasons", 0) & bit]:
            return [f"clock below its maximum of {most:g} MHz, set by {' and '.join(held)}"]
        return [f"clock below its maximum of {most:g} MHz without any throttle reason: locked, or a hidden limit"]
    return ["slow at full clock, without any throttle reason"]


def _uneven(share: float | None) -> list[str]:
    if share is None or share < UNEVEN:
        return []
    return [f"samples vary by {share:.0%}: fed too slowly by the host, or unstable"]


def _climate(summary: TelemetrySummary, of_clock: float | None) -> str:
    """Return the mean clock, the fraction of the peak at that clock, temperature and power, in parentheses."""
    used = "" if of_clock is None else f", {of_clock:.2f} of the peak at that clock"
    shown = [
        f"{summary[name]['mean']:.0f} {unit}{used if name == 'clock_mhz' else ''}"
        for name, unit in CLIMATE
        if name in summary
    ]
    return f" (at {', '.join(shown)})" if shown else ""


def _by_link(device: Device, summary: TelemetrySummary, of_alone: float | None) -> str | None:
    """Return the cause of a slow host copy: a link below its maximum under load, or a rate below that alone."""
    gen, width = summary.get("pcie_gen"), summary.get("pcie_width")
    best_gen, best_width = device.facts.get("pcie_gen_max"), device.facts.get("pcie_width_max")
    shared = of_alone is not None and of_alone < SHARED
    together = f"{of_alone:.2f} of its rate alone: a shared uplink, or the host's memory" if shared else ""
    if not (gen and width and best_gen and best_width):
        return together or None
    if (gen, width) != (best_gen, best_width):
        return f"the link ran at PCIe {gen:g} x{width:g} under load, its maximum is {best_gen:g} x{best_width:g}"
    return f"the link ran at its maximum, PCIe {gen:g} x{width:g}: {together or 'check NUMA, IOMMU and replays'}"
