"""Summaries of the sensor's readings while a probe measured, and measurements made of them. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any, Literal, get_args

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.details import TelemetrySummary
from pytest_accel.core.fact_metrics import THERMAL_FACTS, held_c, thermal_margin
from pytest_accel.core.measurement import EVERYTHING_ELSE, Device, Measurement, Peak, Trouble
from pytest_accel.core.reasons import Note
from pytest_accel.core.stats import significant

Reading = Mapping[str, Any]

GaugeName = Literal["clock_mhz", "memory_clock_mhz", "power_w", "temperature_c", "memory_temperature_c", "margin_c"]
ReasonName = Literal["sw_power_cap_s", "sw_thermal_s", "hw_thermal_s", "hw_power_brake_s", "hw_slowdown_s"]
CounterName = Literal["energy_j", "busy_s", "steal_s", "foreign_s", ReasonName]
SoakName = Literal["power_w", "thermal_margin_k", ReasonName]
LinkName = Literal["pcie_gen", "pcie_width"]

GAUGES: tuple[GaugeName, ...] = get_args(GaugeName)
TELEMETRY_COUNTERS: tuple[CounterName, ...] = get_args(CounterName)
REASONS: dict[ReasonName, ClockEvent] = {
    "sw_power_cap_s": ClockEvent.SW_POWER_CAP,
    "sw_thermal_s": ClockEvent.SW_THERMAL,
    "hw_thermal_s": ClockEvent.HW_THERMAL,
    "hw_power_brake_s": ClockEvent.HW_POWER_BRAKE,
    "hw_slowdown_s": ClockEvent.HW_SLOWDOWN,
}
"""The clock event reason that replaces a counter which the driver does not have."""
MASKED: dict[str, ClockEvent] = {
    **{str(name): bit for name, bit in REASONS.items()},
    "application_clocks": ClockEvent.APPLICATION_CLOCKS,
    "sync_boost": ClockEvent.SYNC_BOOST,
}
"""Every reason with its bit. Those whose names end in `_s` may have a counter of seconds by that name."""
NAMED = ClockEvent.HW_THERMAL | ClockEvent.HW_POWER_BRAKE
"""Reasons beside which a hardware slowdown is not counted by itself: they say why. No library has a counter for it."""
LINK: tuple[LinkName, ...] = get_args(LinkName)
"""Readings of the host link. The highest generation counts, because an idle link lowers it, and the lowest width,
because an idle link keeps its lanes."""

UNWATCHED_SECONDS = 5.0
"""The part of a soak that the sensor may miss before its counters no longer describe the soak."""

THERMAL_SECONDS = 0.1
"""Seconds of software thermal slowdown up to which none is counted: the time from one reading to the next."""
NEAR_K = 5.0
"""The margin in K up to which heat is a sign of its own beside a software thermal slowdown. Chosen."""
BEYOND_CAP = 0.1
"""The share of a software thermal slowdown outside of the power cap from which on it is another sign. Of the slowdown
of a healthy GH200 1.6 % was (tests/real/series/throttle.csv)."""
LOST = 0.05
"""The loss of rate between two windows of a soak from which on it is another sign. Healthy devices lose up to 3.3 %."""

STILL_SECONDS = 1.0
"""The time under a reason, from one reading with it to the next, in which its counter would have moved."""

HEAT = ("temperature_c", "memory_temperature_c", "margin_c")
"""Gauges whose extremes are those of two readings in a row, where there is more than one reading a second."""

LONG_SOAK_SECONDS = 60.0
"""A shorter soak cannot reach a steady temperature: heat sinks take 30 to 90 s."""
AT_LIMIT = 0.95
"""Fraction of the power limit above which a device counts as fully loaded."""
CAPPED = 0.5
"""Fraction of the time under the power cap above which power limits the clock."""
STEADY_K = 1.0
"""Temperature difference in K below which a soak counts as steady."""

STEAL_SHARE = 0.05
"""Fraction of a CPU's time that a hypervisor may take before the measurement counts as disturbed."""
FOREIGN_SHARE = 0.1
"""Fraction of a CPU's time that other processes may take. The services of an idle machine take a few percent."""

SOAK_METRICS: dict[str, tuple[SoakName, str]] = {
    "soak.power": ("power_w", "W"),
    "soak.throttle.hw_thermal": ("hw_thermal_s", "s"),
    "soak.throttle.sw_thermal": ("sw_thermal_s", "1"),
    "soak.throttle.power_brake": ("hw_power_brake_s", "s"),
    "soak.throttle.hw_slowdown": ("hw_slowdown_s", "s"),
    "soak.thermal_margin": ("thermal_margin_k", "K"),
}
"""Metrics of a soak that the sensor measures: the mean of a gauge (W), the increase of a counter (s), that increase as
a fraction of the time (1), or the least margin to the temperature of the slowdown (K)."""


def summarise(readings: Sequence[Reading]) -> TelemetrySummary:
    """Return mean, min and max of each gauge, the increase of each counter, and all throttle reasons as one mask."""
    summary: TelemetrySummary = {"readings": len(readings)}
    for gauge in GAUGES:
        if values := [reading[gauge] for reading in readings if gauge in reading]:
            close = readings[-1]["at"] - readings[0]["at"] < len(readings)  # of readings far apart, each may be right
            confirmed = _confirmed(values) if close and gauge in HEAT else values
            mean = significant(sum(values) / len(values))
            summary[gauge] = {"mean": mean, "min": min(confirmed), "max": max(confirmed)}
    for counter in TELEMETRY_COUNTERS:
        values = [reading[counter] for reading in readings if counter in reading]
        if len(values) > 1 and values == sorted(values) and _throughout(readings, counter):
            summary[counter] = values[-1] - values[0]  # one that went back was reset, and says nothing
    for part in LINK:
        if values := [reading[part] for reading in readings if part in reading]:
            summary[part] = min(values) if part == "pcie_width" else max(values)
    if masks := [int(reading["reasons"]) for reading in readings if "reasons" in reading]:
        summary["reasons"] = 0
        for mask in masks:
            summary["reasons"] |= mask
    summary.update(_sampled(readings))
    if len(readings) > 1:
        summary["seconds"] = readings[-1]["at"] - readings[0]["at"]
    if loss := next((reading["lost"] for reading in readings if "lost" in reading), None):
        summary["lost"] = loss
    return summary


def _confirmed(values: Sequence[float]) -> Sequence[float]:
    """Return the middle one of each three values in a row: a die cannot follow what a single reading shows."""
    return [median(three) for three in zip(values, values[1:], values[2:], strict=False)] or values


def _throughout(readings: Sequence[Reading], name: str) -> bool:
    """Return True if the readings with the counter cover the window up to UNWATCHED_SECONDS at either end."""
    times = [reading["at"] for reading in readings if name in reading]
    gap: float = max(times[0] - readings[0]["at"], readings[-1]["at"] - times[-1])
    return gap <= UNWATCHED_SECONDS


def _sampled(readings: Sequence[Reading]) -> TelemetrySummary:
    """Return the seconds under each throttle reason that has no counter, by its bit in the sampled masks.

    A reason holds from its reading to the next one. `unseen` is the longest time between two readings. A counter that
    stands still while its reason holds counts nothing, and is taken for none.
    """
    sampled = [reading for reading in readings if "reasons" in reading]
    uncounted = [name for name in REASONS if not any(name in reading for reading in readings)]
    names = [name for name in REASONS if len(sampled) > 1 and (name in uncounted or _stands_still(name, readings))]
    if not names:
        return {}
    spans = [(before, after["at"] - before["at"]) for before, after in itertools.pairwise(sampled)]
    summary: TelemetrySummary = {"sampled": names, "unseen": max((span for _, span in spans), default=0.0)}
    for name in names:
        summary[name] = math.fsum(span for reading, span in spans if has_reason(name, reading))
    return summary


def _stands_still(name: ReasonName, readings: Sequence[Reading]) -> bool:
    """Return True if the counter of a slowdown has one value, though its reason holds for STILL_SECONDS and longer."""
    rows = [row for row in readings if "reasons" in row and name in row]
    if name == "sw_power_cap_s" or len({row[name] for row in rows}) != 1:
        return False
    states = itertools.pairwise((row["at"], has_reason(name, row)) for row in rows)
    return math.fsum(end - start for (start, was_set), (end, is_set) in states if was_set and is_set) >= STILL_SECONDS


def has_reason(name: str, reading: Reading) -> bool:
    """Return True if the mask of a reading has the reason; an unnamed hardware slowdown only by itself."""
    mask = int(reading.get("reasons", 0))
    return bool(mask & MASKED[name]) and not (name == "hw_slowdown_s" and mask & NAMED)


def disturbance(device: Device, summary: TelemetrySummary) -> str | None:
    """Return the external disturbance of the device during the measurement, or None."""
    if (steal := _share(summary, "steal_s", device)) > STEAL_SHARE:
        return f"the hypervisor took {steal:.0%} of the CPU time"
    if (foreign := _share(summary, "foreign_s", device)) > FOREIGN_SHARE:
        return f"other processes took {foreign:.0%} of the CPU time"
    return None


def _share(summary: TelemetrySummary, counter: Literal["steal_s", "foreign_s"], device: Device) -> float:
    """Return the increase of a counter of processor time as a fraction of the time of the device's CPUs."""
    seconds = summary.get("seconds", 0.0)
    return summary.get(counter, 0.0) / (seconds * max(1, len(device.cpus))) if seconds else 0.0


def misplacement(measurement: Measurement) -> str | None:
    """Return the reason why a device is not to blame for a slow host copy: it ran on CPUs of another NUMA node."""
    if measurement.conditions.get("numa") != "far":
        return None
    node = measurement.conditions["numa_node"]
    return f"the cpuset excludes every CPU of NUMA node {node}, to which the device is attached"


def temperature_rise(measurement: Measurement, readings: Sequence[Reading]) -> float | None:
    """Return the rise in K of a device from the early seconds of a droop to the late ones; None if unread."""
    late_seconds = measurement.details.get("late_seconds")
    if late_seconds is None:
        return None
    return _rise(readings, measurement.ended - late_seconds[1], measurement.conditions["early_seconds"], late_seconds)


def unproven(metric: str, device: Device, readings: Sequence[Reading]) -> str | None:
    """Return in words that a soak was too light to test cooling: no power limit and no steady temperature was reached.

    None if it reached one of them, if it is shorter than LONG_SOAK_SECONDS, or if its power was not read. Steady means
    that the mean temperatures of the middle and the last third differ by less than STEADY_K.
    """
    if not metric.startswith("soak."):
        return None
    summary, limit = summarise(readings), device.facts.get("power_limit_w")
    seconds, power = summary.get("seconds", 0.0), summary.get("power_w")
    if seconds < LONG_SOAK_SECONDS or not (power and limit):
        return None
    capped = summary.get("sw_power_cap_s", 0.0) > CAPPED * seconds
    if power["mean"] >= AT_LIMIT * limit or capped:
        return None
    third = seconds / 3
    warming = _rise(readings, readings[0]["at"], (third, 2 * third), (2 * third, seconds))
    if warming is not None and abs(warming) < STEADY_K:
        return None
    heat = (
        "its temperature was not read"
        if warming is None
        else f"was still warming at {180 * warming / seconds:.1f} K/min"
    )
    return f"soak too light to test cooling: drew {power['mean']:.0f} of {limit:g} W and {heat}"


def _rise(readings: Sequence[Reading], start: float, *windows: tuple[float, float]) -> float | None:
    """Return the rise in K of the mean temperature between two windows, in seconds since `start`; None if unread."""
    curve = [(reading["at"] - start, reading["temperature_c"]) for reading in readings if "temperature_c" in reading]
    earlier, later = ([degrees for second, degrees in curve if begin <= second <= end] for begin, end in windows)
    return fmean(later) - fmean(earlier) if earlier and later else None


def sensor_metrics(measurement: Measurement, device: Device, summary: TelemetrySummary) -> list[Measurement]:
    """Return the metrics of the same probe call that only the sensor can measure."""
    if measurement.metric == "soak.rate":
        return soak_measurements(measurement, device, summary)
    if measurement.metric == "host_copy.h2d" and not measurement.trouble:
        return link_measurements(measurement, device, summary)
    return []


def link_measurements(copy: Measurement, device: Device, summary: TelemetrySummary) -> list[Measurement]:
    """Return generation and width of the host link under load; an idle link may show less although it is healthy."""
    template = replace(_without_blocks(copy), unit="count")
    return [
        replace(
            template,
            metric=f"host_copy.{name}",
            value=summary.get(name),
            trouble=None if name in summary else _unseen(name, copy, device),
        )
        for name in LINK
    ]


def _without_blocks(measurement: Measurement) -> Measurement:
    """Return a measurement without the figures of its blocks, for a metric that the sensor measured meanwhile."""
    details = measurement.details.copy()
    details.pop("ends", None)
    details.pop("window_rates", None)
    return replace(measurement, samples=(), seconds=(), peak=None, details=details)


def _unseen(name: LinkName, copy: Measurement, device: Device) -> Trouble:
    """Return the trouble of a link that was not read under load: nobody can, or no reading fell into the copy."""
    if device.facts.get(name) is None:
        return Trouble("not_applicable", "no driver here reads this link under load")
    seconds = copy.ended - copy.started
    return Trouble("not_applicable", f"the copies took {seconds:.1f} s, too short for a reading of the link under load")


def soak_measurements(soak: Measurement, device: Device, summary: TelemetrySummary) -> list[Measurement]:
    """Return the metrics of a soak that only the sensor can measure: power and throttling (SOAK_METRICS)."""
    measurements = []
    if "lost" in summary and soak.trouble is None:
        soak = replace(soak, trouble=Trouble("device", f"{device.name} was lost: {summary['lost']}"))
    if soak.trouble is None and (gap := soak.ended - soak.started - summary.get("seconds", 0.0)) > UNWATCHED_SECONDS:
        soak = replace(soak, trouble=Trouble("need", f"the sensor did not read {device.name} for {gap:.0f} s"))
    for metric, (name, unit) in SOAK_METRICS.items():
        value = _metric_value(name, device, summary)
        trouble = soak.trouble
        if value is None and trouble is None:
            trouble = _unread(name, device)
        measurement = replace(_without_blocks(soak), metric=metric, unit=unit, value=value)
        if name == "power_w" and (watts := device.facts.get("power_limit_w")):
            measurement = replace(measurement, peak=Peak(watts, "the power limit in force"))
        if name in summary.get("sampled", ()):
            if trouble is None and (gap := summary["unseen"]) > UNWATCHED_SECONDS:
                text = f"the throttle reasons of {device.name}, which has no counter, were not read for {gap:.0f} s"
                trouble = Trouble("need", text)
            measurement = replace(measurement, conditions={**soak.conditions, "counter": "none, reasons sampled"})
        notes = (*measurement.notes, *_heat_notes(name, soak, device, summary))
        measurements.append(replace(measurement, trouble=trouble, notes=notes))
    return measurements


def _heat_notes(name: SoakName, soak: Measurement, device: Device, summary: TelemetrySummary) -> list[Note]:
    """Return the note that makes a broken limit of a software thermal slowdown a warning, or a margin doubtful."""
    limit, hottest = held_c(device.facts), summary["temperature_c"]["max"] if "temperature_c" in summary else -math.inf
    if name == "thermal_margin_k" and limit is not None and hottest >= limit:
        return [Note("doubt", f"it reached the {limit:g} C that its cooling is to hold")]
    if name != "sw_thermal_s" or not (slowed := summary.get("sw_thermal_s")):
        return []
    margins = [_metric_value("thermal_margin_k", device, summary), None if limit is None else limit - hottest]
    if "memory_temperature_c" in summary and (memory_limit := device.facts.get("memory_max_c")):
        margins.append(memory_limit - summary["memory_temperature_c"]["max"])
    is_hot = any(margin is not None and margin <= NEAR_K for margin in margins)
    rates = soak.details.get("window_rates", (1.0,))
    steady = min(rates) > (1 - LOST) * max(rates)
    within_cap = slowed - summary.get("sw_power_cap_s", 0.0) <= BEYOND_CAP * slowed
    if is_hot or not (steady and within_cap):
        return []
    margin = "" if margins[0] is None else f", {margins[0]:.0f} K below the slowdown"
    return [Note("single_sign", f"no longer than under the power cap{margin}")]


def _unread(name: SoakName, device: Device) -> Trouble:
    """Return the trouble that explains why a metric of the sensor has no value."""
    reason = device.facts.get("unread", {}).get(EVERYTHING_ELSE)
    unsupported = name == "thermal_margin_k" and not reason and not THERMAL_FACTS & set(device.facts)
    text = f"no driver here reads {name} of {device.name}{f': {reason}' if reason else ''}"
    return Trouble("not_applicable" if unsupported else "need", text)


def _metric_value(name: SoakName, device: Device, summary: TelemetrySummary) -> float | None:
    """Return the mean of a gauge, the increase of a counter in seconds, or the least margin; None without any."""
    if name == "thermal_margin_k":
        hottest = summary["temperature_c"]["max"] if "temperature_c" in summary else None
        lowest = summary["margin_c"]["min"] if "margin_c" in summary else None
        return thermal_margin(hottest, lowest, device.facts.get("slowdown_margin_c"), device.facts.get("slowdown_c"))
    if name == "power_w":
        return summary["power_w"]["mean"] if "power_w" in summary else None
    if name == "sw_thermal_s" and name in summary:
        slowdown = summary[name] if summary[name] > THERMAL_SECONDS else 0.0
        return slowdown / summary["seconds"] if summary.get("seconds") else None
    return summary.get(name)
