"""Throttling of the GPU: the firmware's accumulators as seconds, its flags as reasons.

The firmware samples every limiter periodically, and counts its samples ("accumulation counter") and how many of them
each limiter held the clock down in. The ratio between two readings is the fraction of the time under that limiter;
multiplied by the time between the readings it gives seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.drivers.library_query import Answerer, LibraryCall, Table
from pytest_accel.drivers.vendors.amd.power import METRICS, VIOLATIONS
from pytest_accel.drivers.vendors.amd.query import absent, is_absent, value

CAUSES = {
    "sw_power_cap_s": ("ppt",),
    "hw_thermal_s": ("prochot", "vr"),
    "sw_thermal_s": ("socket", "hbm"),
}
"""The limiters of each throttle reason. Package power tracking is normal under load. PROCHOT and hot regulators are
hardware; the temperature controllers of socket and memory are firmware, which other vendors call software."""
STANDSTILL_S = 2.0
"""If the firmware has not sampled for longer than that, its counters are stale and not reported. Chosen: a loaded
device is read ten times a second."""
BITS = {
    "sw_power_cap_s": ClockEvent.SW_POWER_CAP,
    "sw_thermal_s": ClockEvent.SW_THERMAL,
    "hw_thermal_s": ClockEvent.HW_THERMAL,
}
"""The same reasons as bits of a mask."""

_KEYS = {
    "counter": ("accumulation_counter", "counter"),
    "prochot": ("prochot_residency_acc", "prochot_thrm"),
    "ppt": ("ppt_residency_acc", "ppt_pwr"),
    "socket": ("socket_thm_residency_acc", "socket_thrm"),
    "vr": ("vr_thm_residency_acc", "vr_thrm"),
    "hbm": ("hbm_thm_residency_acc", "hbm_thrm"),
}
"""The name of each counter in gpu_metrics and in the violation status; the latter takes 0.1 s, so it comes second."""


def _counts(metric: str, violation: str) -> tuple[Answerer, ...]:
    return LibraryCall(METRICS, read=value(metric)), LibraryCall(VIOLATIONS, read=value(f"acc_{violation}"))


COUNTS: Table = {
    **{name: _counts(*keys) for name, keys in _KEYS.items()},
    "clock_ns": LibraryCall(METRICS, read=value("system_clock_counter")),
}
"""The queries of all counters, and of the driver's timestamp of them (`clock_ns`) if it has one."""

_STATUS_BITS = {
    "sw_power_cap_s": range(24),
    "sw_thermal_s": (*range(32, 38), 42, 43),
    "hw_thermal_s": (*range(38, 42), *range(44, 48)),
}
"""Bits of indep_throttle_status (SMU_THROTTLER_* in the kernel's amdgpu_smu.h): power and current; temperatures of
chip, memory, liquid; regulators, VRHOT and PROCHOT."""


def _from_status(answer: Any) -> int:
    """Return the mask of the limiters that are active now, for older parts, which have no accumulators."""
    status = answer.indep_throttle_status
    if is_absent(status):
        raise absent()
    return sum(BITS[cause] for cause, bits in _STATUS_BITS.items() if any(status >> bit & 1 for bit in bits))


COLD_C = 50
"""A device whose chip and memory are colder is not slowed down by heat. Some set a thermal bit of the status at any
time: at 37 C in ROCm/rocm-systems issue 11781. Chosen between that and the limits, 90 C and more."""


def _stuck(answer: Any) -> int:
    """Return the reasons of heat that a cold device shows, which say nothing of it at any temperature."""
    cold = all(degrees < COLD_C for degrees in (answer.temperature_hotspot, answer.temperature_mem))
    return _from_status(answer) & ClockEvent.SW_THERMAL if cold else 0


def _from_flags(answer: Any) -> int:
    """Return the mask of the limiters that were active within the last 0.1 s, for newer parts."""
    flags = {name: answer.get(f"active_{keys[1]}", "N/A") for name, keys in _KEYS.items() if name != "counter"}
    if "N/A" in flags.values() and set(flags.values()) == {"N/A"}:
        raise absent()
    return sum(BITS[cause] for cause, names in CAUSES.items() if any(flags[name] is True for name in names))


_RAW = LibraryCall(f"amdsmi_wrapper.{METRICS}", read=_from_status, fills="amdsmi_wrapper.amdsmi_gpu_metrics_t")
"""The raw metrics: amdsmi itself only tells that some limiter is active, which may be normal or a defect."""

SAMPLED: Table = {"reasons": _RAW}
STUCK: Table = {"stuck": replace(_RAW, read=_stuck)}
NOW: Table = {
    "reasons": (
        LibraryCall(VIOLATIONS, read=_from_flags),
        replace(_RAW, read=lambda answer: _from_status(answer) & ~_stuck(answer)),
    )
}


class ThrottleSeconds:
    """The seconds that one GPU spent under each throttle reason since the first reading."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = 0.0
        self._before: Mapping[str, int] = {}
        self._seconds: dict[str, float] = {}

    def seconds(self, counts: Mapping[str, int]) -> dict[str, float]:
        """Return the seconds up to now by reason, from the current counts; reasons that the GPU lacks are left out."""
        if "counter" not in counts:
            return {}
        now, before = self._clock(), self._before
        has_timestamps = "clock_ns" in counts and "clock_ns" in before
        passed = (counts["clock_ns"] - before["clock_ns"]) * 1e-9 if has_timestamps else now - self._at
        samples = counts["counter"] - before.get("counter", counts["counter"])
        if before and samples == 0:  # the firmware has not sampled since the last reading
            return dict(self._seconds) if now - self._at <= STANDSTILL_S else {}
        for cause, names in CAUSES.items():
            counters = [name for name in names if name in counts]
            if counters:
                limited = sum(counts[name] - before.get(name, counts[name]) for name in counters)
                share = min(1.0, max(0.0, limited / samples)) if samples > 0 else 0.0
                self._seconds[cause] = self._seconds.get(cause, 0.0) + share * passed
        self._at, self._before = now, dict(counts)
        return dict(self._seconds)
