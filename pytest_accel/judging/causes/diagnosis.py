"""The cause of a shortfall, by the readings of the sensor during the measurement. Pure.

The text names what was observed and how much of the shortfall it accounts for (`causes/shares.py`). The rest is called
unexplained: no reason is named without evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import fmean

from pytest_accel.core.details import TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.reasons import Cause
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.stats import deviation
from pytest_accel.judging.causes import shares as causes
from pytest_accel.judging.causes.clock_losses import JOINT, SHARE
from pytest_accel.judging.causes.shares import FULL_CLOCK, POWER_CAP, UNEXPLAINED, USUAL, Shares
from pytest_accel.judging.facts.telemetry import GaugeName
from pytest_accel.judging.verdicts.judge_attempts import Explain, stored_cause
from pytest_accel.judging.verdicts.like_devices import SLOWDOWNS, Attempts
from pytest_accel.probes.declare import declaration_of

NEAR_C = 3.0
"""Memory this close (in C) to its maximum temperature refreshes more often or is slowed down."""
UNEVEN = 0.02
"""Relative standard deviation of the blocks that is worth naming where no reason comes and goes."""
SHARED = 0.95
"""Fraction of the rate alone: below it the devices compete for the host link or the host's memory."""
WORDS = {
    POWER_CAP: "power cap",
    "sw_thermal_s": "SW thermal",
    "hw_thermal_s": "HW thermal",
    "hw_power_brake_s": "power brake",
    "hw_slowdown_s": "HW slowdown without a named reason",
    causes.LOCK: "application or locked clocks",
    "sync_boost": "sync boost",
    UNEXPLAINED: "unexplained",
}
"""Each reason in words."""
CLIMATE: tuple[tuple[GaugeName, str], ...] = (("temperature_c", "C"), ("power_w", "W"))
"""The gauges that a cause is told with, and their units."""


def explaining(devices: Iterable[Device]) -> Explain:
    """Return the function that `judge` calls for the cause of a shortfall of one of the devices."""
    by_uuid = {device.uuid: device for device in devices}

    def explain(failed: Measurement, limit: Limit | None = None, like_devices: Sequence[Attempts] = ()) -> Cause | None:
        device = by_uuid.get(failed.subject)
        return stored_cause(failed) or (cause(failed, device, limit, like_devices) if device else None)

    return explain


def cause(
    measurement: Measurement, device: Device, limit: Limit | None = None, like_devices: Sequence[Attempts] = ()
) -> Cause | None:
    """Return the cause of a shortfall, or None if nothing was observed that could tell.

    It uses only the details of the measurements, which are in the record. `limit` is the one that was broken, and
    `like_devices` has the attempts of the like devices, its own included.
    """
    declaration = declaration_of(measurement.metric)
    summary: TelemetrySummary = measurement.details.get("telemetry", {})
    if declaration is None or declaration.unit == "count":
        return None  # no clock explains a number of wrong elements
    shares = causes.shares(measurement, device, limit, like_devices)
    if "host" in declaration.stresses:
        return _with_shortfall(shares, _by_link(shares, device, summary, measurement.details.get("of_alone")))
    if not {"compute", "memory"} & set(declaration.stresses) or not summary.get("seconds"):
        return None
    find = _of_memory if "memory" in declaration.stresses else _of_clock
    parts = find(shares, device, summary)
    if measurement.details.get("launch_bound"):
        parts = ["launch-bound: the host launched the work more slowly than the device does it", *parts]
    varied = variation(measurement.samples)
    if not shares.by_reason and varied is not None and varied >= UNEVEN:
        parts.append(f"samples vary by {varied:.0%}: fed too slowly by the host, or unstable")
    return _with_shortfall(shares, f"{'; '.join(parts)}{_climate(measurement)}") if parts else None


def variation(samples: Sequence[float]) -> float | None:
    """Return the standard deviation of the samples as a fraction of their mean; None for fewer than three."""
    if len(samples) < 3 or not all(map(math.isfinite, samples)):
        return None
    mean = fmean(samples)
    return deviation(samples, mean) / mean if mean else None


def _with_shortfall(shares: Shares, text: str | None) -> Cause | None:
    """Return a cause with the shortfall that it explains, as far as the expected value is known."""
    if not text:
        return None
    if shares.shortfall is None or shares.yardstick.value is None:
        return Cause(text)
    return Cause(text, -shares.shortfall, shares.yardstick.value, shares.yardstick.origin)


def _of_clock(shares: Shares, device: Device, summary: TelemetrySummary) -> list[str]:
    """Return the factors of a rate of the compute units: the clock, and what the device does at that clock."""
    clock, expected = shares.clock, shares.yardstick.clock
    if not clock:
        return ["unexplained"] if shares.shortfall is not None else []
    clock_text = f"clock {clock:.0f}{f' of {expected:.0f}' if expected else ''} MHz"
    if not shares.low_clock:
        return [clock_text, _at_clock(shares) or "unexplained"]
    parts = [
        f"{reason_words(name, device)} {share:.0%}{' (normal)' if name == POWER_CAP else ''}"
        for name, share in shares.by_reason.items()
    ]
    # a record of an older version has no shares
    reasons = f"of which {', '.join(parts)}" if parts else ", ".join(_meanwhile(summary) or ["unexplained"])
    return [text for text in (f"{clock_text}, {reasons}", _at_clock(shares)) if text]


def _at_clock(shares: Shares) -> str:
    """Return the speed of the device at the clock that it held in words; empty if the usual one is not known."""
    if shares.at_clock is None:
        return ""
    if shares.at_clock >= (USUAL if shares.yardstick.from_like_devices else 1.0):
        return "normal at this clock" if shares.low_clock else ""
    loss = f"{1 - shares.at_clock:.0%} " if shares.yardstick.from_like_devices else ""
    return f"{loss}slower than usual at this clock, unexplained"


def reason_words(names: str, device: Device) -> str:
    """Return reasons that cannot be separated in words, as the keys of `Shares.by_reason` name them."""
    words: dict[str, str] = {**WORDS}
    if causes.is_lowered(device):
        default, limit = device.facts["power_limit_default_w"], device.facts["power_limit_w"]
        words[causes.LOWERED_LIMIT] = f"power limit lowered from {default:g} to {limit:g} W"
    parts = [words.get(name, name) for name in names.split(JOINT)]
    return " and ".join(parts) + (" together" if len(parts) > 1 else "")


def _of_memory(shares: Shares, device: Device, summary: TelemetrySummary) -> list[str]:
    """Return causes in the state of the memory, whose clock does not follow that of the compute units."""
    clock, full_clock = summary.get("memory_clock_mhz"), device.facts.get("memory_clock_max_mhz")
    heat, hottest = summary.get("memory_temperature_c"), device.facts.get("memory_max_c")
    parts = []
    if clock and full_clock and clock["mean"] < FULL_CLOCK * full_clock:
        parts.append(f"memory clock {clock['mean']:.0f} of {full_clock:g} MHz: locked, or in a lower power state")
        parts += _rest(shares, shares.memory_clock, "normal at that clock")
    if heat and hottest and heat["max"] > hottest - NEAR_C:
        parts.append(f"memory at {heat['max']:.0f} C, close to its maximum of {hottest:g} C")
    parts += _meanwhile(summary)
    suffix = f" at the memory's full clock of {full_clock:g} MHz" if clock and full_clock else ""
    return parts or [f"unexplained{suffix}"]


def _meanwhile(summary: TelemetrySummary) -> list[str]:
    """Return the slowdowns that were reported, with the fraction of the time, longest first."""
    shares = [(summary.get(name, 0.0) / summary["seconds"], WORDS[name]) for name in SLOWDOWNS]
    return [f"{text} {share:.0%} of the time" for share, text in sorted(shares, reverse=True) if share > SHARE]


def _climate(measurement: Measurement) -> str:
    """Return the fraction of the peak at the mean clock, mean temperature and mean power, in parentheses."""
    summary, share = measurement.details.get("telemetry", {}), measurement.details.get("of_clock", {}).get("share")
    gauges = [f"{summary[name]['mean']:.0f} {unit}" for name, unit in CLIMATE if name in summary]
    peak = [] if share is None else [f"{share:.2f} of the peak at that clock"]
    return f" ({', '.join([*peak, *gauges])})" if peak or gauges else ""


def _rest(shares: Shares, factor: float | None, normal: str) -> list[str]:
    """Return in words that a factor accounts for the shortfall, or what it leaves unexplained; empty if not known."""
    if factor is None or shares.shortfall is None:
        return []
    if 1 + shares.shortfall >= USUAL * factor:
        return [normal]
    return [f"{1 - (1 + shares.shortfall) / factor:.0%} slower than that accounts for, unexplained"]


def _by_link(shares: Shares, device: Device, summary: TelemetrySummary, of_alone: float | None) -> str | None:
    """Return the cause of a slow host copy: a link below its maximum under load, or a rate below that alone."""
    gen, width = summary.get("pcie_gen"), summary.get("pcie_width")
    best_gen, best_width = device.facts.get("pcie_gen_max"), device.facts.get("pcie_width_max")
    shared = of_alone is not None and of_alone < SHARED
    together = f"{of_alone:.2f} of its rate alone: a shared uplink, or the host's memory" if shared else ""
    if not (gen and width and best_gen and best_width):
        return together or None
    if (gen, width) != (best_gen, best_width):
        text = f"the link ran at PCIe {gen:g} x{width:g} under load, its maximum is {best_gen:g} x{best_width:g}"
        note = f": {shares.link:.2f} of the usual bandwidth" if shares.link and shares.link < FULL_CLOCK else ""
        note = ", as on the like devices" if shares.yardstick.from_like_devices and shares.link == 1 else note
        return "; ".join([text + note, *_rest(shares, shares.link, "normal for that link")])
    return f"the link ran at its maximum, PCIe {gen:g} x{width:g}: {together or 'check NUMA, IOMMU and replays'}"
