"""Why the GPU was slowed down: the firmware's accumulators as seconds, its flags as reasons.

The firmware looks at every limiter again and again, counts how often each held the clock down, and beside them all
its looks ("accumulation counter"). So a share of the time is exact and a second has to be made of it: the share
between two readings, of the time between them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.drivers.query import Answerer, LibraryCall, Table
from pytest_accel.drivers.vendors.amd.power import METRICS, VIOLATIONS
from pytest_accel.drivers.vendors.amd.query import absent, is_absent, value

CAUSES = {
    "sw_power_cap_s": ("ppt",),
    "hw_thermal_s": ("prochot", "vr"),
    "sw_thermal_s": ("socket", "hbm"),
}
"""Package power tracking is normal under load. PROCHOT and hot regulators are hardware; the temperature controllers
of socket and memory are firmware, which is what the other vendors call software."""
STANDSTILL_S = 2.0
"""A firmware that has not looked for so long counts nothing, and what it counted is no answer. Chosen: a loaded device
is read ten times a second."""
BITS = {
    "sw_power_cap_s": ClockEvent.SW_POWER_CAP,
    "sw_thermal_s": ClockEvent.SW_THERMAL,
    "hw_thermal_s": ClockEvent.HW_THERMAL,
}
"""The same causes as a mask, in the bits that telemetry knows."""

_KEYS = {
    "counter": ("accumulation_counter", "counter"),
    "prochot": ("prochot_residency_acc", "prochot_thrm"),
    "ppt": ("ppt_residency_acc", "ppt_pwr"),
    "socket": ("socket_thm_residency_acc", "socket_thrm"),
    "vr": ("vr_thm_residency_acc", "vr_thrm"),
    "hbm": ("hbm_thm_residency_acc", "hbm_thrm"),
}
"""What gpu_metrics and what the violation status call each; the latter takes 0.1 s, so it comes second."""


def _counts(metric: str, violation: str) -> tuple[Answerer, ...]:
    return LibraryCall(METRICS, read=value(metric)), LibraryCall(VIOLATIONS, read=value(f"acc_{violation}"))


COUNTS: Table = {
    **{name: _counts(*keys) for name, keys in _KEYS.items()},
    "clock_ns": LibraryCall(METRICS, read=value("system_clock_counter")),
}
"""With the time that the driver has put beside them, where it did."""

_STATUS_BITS = {
    "sw_power_cap_s": range(24),
    "sw_thermal_s": (*range(32, 38), 42, 43),
    "hw_thermal_s": (*range(38, 42), *range(44, 48)),
}
"""Bits of indep_throttle_status (SMU_THROTTLER_* in the kernel's amdgpu_smu.h): power and current; temperatures of
chip, memory, liquid; regulators, VRHOT and PROCHOT."""


def _from_status(answer: Any) -> int:
    """Older parts have no accumulators: the limiters that hold now."""
    status = answer.indep_throttle_status
    if is_absent(status):
        raise absent()
    return sum(BITS[cause] for cause, bits in _STATUS_BITS.items() if any(status >> bit & 1 for bit in bits))


def _from_flags(answer: Any) -> int:
    """Newer parts: the limiters that held within the last 0.1 s."""
    flags = {name: answer.get(f"active_{keys[1]}", "N/A") for name, keys in _KEYS.items() if name != "counter"}
    if "N/A" in flags.values() and set(flags.values()) == {"N/A"}:
        raise absent()
    return sum(BITS[cause] for cause, names in CAUSES.items() if any(flags[each] is True for each in names))


_RAW = LibraryCall(f"amdsmi_wrapper.{METRICS}", read=_from_status, fills="amdsmi_wrapper.amdsmi_gpu_metrics_t")
"""amdsmi itself makes "something holds" of it, which is either normal or a defect."""

SAMPLED: Table = {"reasons": _RAW}
NOW: Table = {"reasons": (LibraryCall(VIOLATIONS, read=_from_flags), _RAW)}


class Throttle:
    """The seconds that one GPU spent in each cause since the first reading."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._at = 0.0
        self._before: Mapping[str, int] = {}
        self._seconds: dict[str, float] = {}

    def seconds(self, counts: Mapping[str, int]) -> dict[str, float]:
        """The seconds by now, from the counts of now; nothing for a cause that the GPU does not count."""
        if "counter" not in counts:
            return {}
        now, before = self._clock(), self._before
        passed = (counts["clock_ns"] - before["clock_ns"]) * 1e-9 if _timed(counts, before) else now - self._at
        looks = counts["counter"] - before.get("counter", counts["counter"])
        if before and looks == 0:  # the firmware has not been around since
            return dict(self._seconds) if now - self._at <= STANDSTILL_S else {}
        for cause, names in CAUSES.items():
            known = [name for name in names if name in counts]
            if known:
                held = sum(counts[name] - before.get(name, counts[name]) for name in known)
                share = min(1.0, max(0.0, held / looks)) if looks > 0 else 0.0
                self._seconds[cause] = self._seconds.get(cause, 0.0) + share * passed
        self._at, self._before = now, dict(counts)
        return dict(self._seconds)


def _timed(*both: Mapping[str, int]) -> bool:
    return all("clock_ns" in each for each in both)
