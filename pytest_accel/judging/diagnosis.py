"""Why a device fell short: read off what the sensor saw beside the measurement. Pure.

It states what was seen, worst first, and says so when nothing was: a device that is slow at full clock, without any
reason, is another finding than one that is hot. Power capping at the power limit is normal and named as such.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean, stdev

from pytest_accel.core.details import TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.judging.inventory import LOCKS
from pytest_accel.judging.judge import told
from pytest_accel.judging.telemetry import CAPPED, GaugeName, ReasonName
from pytest_accel.probes.declare import declaration_of

SHARE = 0.01
"""Of the time: throttling below it explains nothing."""
FULL_CLOCK = 0.97
"""Of the highest clock: above it the clock is not what is short."""
LOWERED = 0.99
"""Of the default power limit."""
NEAR_C = 3.0
"""So close to the highest temperature that it is meant to have, memory refreshes more often or is slowed down."""
UNEVEN = 0.02
"""Variation of the blocks from which on it is named: a device that is held back is so in every block."""
SHARED = 0.95
"""Of what a host link moves alone: below it the devices take from each other."""

COUNTED_SLOWDOWNS: tuple[tuple[ReasonName, str], ...] = (
    ("hw_thermal_s", "HW thermal slowdown"),
    ("hw_power_brake_s", "HW power brake"),
    ("sw_thermal_s", "SW thermal slowdown"),
)
CLIMATE: tuple[tuple[GaugeName, str], ...] = (("clock_mhz", "MHz"), ("temperature_c", "C"), ("power_w", "W"))
"""The gauges that a cause is told with, and their units."""


def explaining(devices: Iterable[Device]) -> Callable[[Measurement], str | None]:
    """Return the function that says why a measurement of one of the devices fell short, for `judge`."""
    known = {device.uuid: device for device in devices}

    def explain(measurement: Measurement) -> str | None:
        device = known.get(measurement.subject)
        return told(measurement) or (cause(measurement, device) if device else None)

    return explain


def cause(measurement: Measurement, device: Device) -> str | None:
    """One sentence on the cause of a shortfall, or None where nothing was watched that could tell.

    It is read off the details of the measurement, which are in the record: the summary of the telemetry, the share of
    what the clock gives (`of_clock`) and of what the device does alone, and how much the blocks vary.
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
    found = [*_slowdowns(summary), *_lowered(device), *(_memory(device, summary) if "memory" in stresses else ())]
    found = found or _by_clock(device, summary)
    uneven, of_clock = _uneven(details.get("variation")), details.get("of_clock", {}).get("share")
    return f"{', '.join([*found, *uneven])}{_climate(summary, of_clock)}" if found else None


def variation(samples: Sequence[float]) -> float | None:
    """The standard deviation of blocks as a share of their mean, or None where too few say nothing of it."""
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
    """What the memory itself was like: its clock does not follow that of the units."""
    clock, most = summary.get("memory_clock_mhz"), device.facts.get("memory_clock_max_mhz")
    heat, hottest = summary.get("memory_temperature_c"), device.facts.get("memory_max_c")
    found = []
    if clock and most and clock["mean"] < FULL_CLOCK * most:
        found.append(f"memory clock {clock['mean']:.0f} MHz of {most:g}: locked, or in a lower state")
    if heat and hottest and heat["max"] > hottest - NEAR_C:
        found.append(f"memory at {heat['max']:.0f} C of the {hottest:g} that it may reach")
    return found


def _by_clock(device: Device, summary: TelemetrySummary) -> list[str]:
    """Without a slowdown: held back by power, by a setting, by something unnamed, or not by its clock at all."""
    clock, most = summary.get("clock_mhz"), device.facts.get("clock_max_mhz")
    if not clock:
        return []
    if summary.get("sw_power_cap_s", 0.0) / summary["seconds"] > CAPPED:
        limit = device.facts.get("power_limit_w")
        return [f"held at its power limit{f' of {limit:g} W' if limit else ''}, as is normal under full load"]
    if most and clock["mean"] < FULL_CLOCK * most:
        if held := [name for bit, name in LOCKS.items() if summary.get("reasons", 0) & bit]:
            return [f"clock below its highest of {most:g} MHz by {' and '.join(held)}: a setting"]
        return [f"clock below its highest of {most:g} MHz without any throttle reason: locked, or a hidden limit"]
    return ["slow at full clock, without any throttle reason"]


def _uneven(share: float | None) -> list[str]:
    if share is None or share < UNEVEN:
        return []
    return [f"uneven, its blocks vary by {share:.0%}: fed too slowly by the host, or unstable"]


def _climate(summary: TelemetrySummary, of_clock: float | None) -> str:
    """The clock, what of it was used, temperature and power that it was measured at."""
    used = "" if of_clock is None else f", {of_clock:.2f} of what that clock gives"
    shown = [
        f"{summary[name]['mean']:.0f} {unit}{used if name == 'clock_mhz' else ''}"
        for name, unit in CLIMATE
        if name in summary
    ]
    return f" (at {', '.join(shown)})" if shown else ""


def _by_link(device: Device, summary: TelemetrySummary, of_alone: float | None) -> str | None:
    """The host link as it was under load, beside the best that both of its ends know, and beside itself alone."""
    gen, width = summary.get("pcie_gen"), summary.get("pcie_width")
    best_gen, best_width = device.facts.get("pcie_gen_max"), device.facts.get("pcie_width_max")
    shared = of_alone is not None and of_alone < SHARED
    together = f"{of_alone:.2f} of its rate alone: a shared uplink, or the host's memory" if shared else ""
    if not (gen and width and best_gen and best_width):
        return together or None
    if (gen, width) != (best_gen, best_width):
        return f"the link ran at PCIe {gen:g} x{width:g} under load, its best is {best_gen:g} x{best_width:g}"
    return f"the link ran at PCIe {gen:g} x{width:g}, its best: {together or 'look at NUMA, IOMMU, or replays'}"
