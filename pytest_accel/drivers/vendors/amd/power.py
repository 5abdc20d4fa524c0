"""Queries on power, clocks and temperatures: settings, limits and current values."""

from __future__ import annotations

from typing import Any

from pytest_accel.drivers.library_query import LIMITS_THAT_CHANGE, Answerer, LibraryCall, Table, part
from pytest_accel.drivers.vendors.amd.query import absent, is_absent, value

CAP, CLOCK, HEAT = "amdsmi_get_power_cap_info", "amdsmi_get_clock_info", "amdsmi_get_temp_metric"
METRICS, VIOLATIONS = "amdsmi_get_gpu_metrics_info", "amdsmi_get_violation_status"
MICRO = 1e-6


def _clock(kind: str, key: str) -> Answerer:
    return LibraryCall(CLOCK, (f"AmdSmiClkType.{kind}",), value(key))


def _heat(sensor: str, metric: str = "CURRENT") -> Answerer:
    names = (f"AmdSmiTemperatureType.{sensor}", f"AmdSmiTemperatureMetric.{metric}")
    return LibraryCall(HEAT, names, value(bits=16, positive=metric != "CURRENT"))


def _metric(name: str) -> Answerer:
    return LibraryCall(METRICS, read=value(name, bits=16))


def _slowest(answer: Any) -> float:
    """Return the clock of the slowest compute die in MHz, for which the others wait."""
    clocks = [clock for clock in answer["current_gfxclks"] if not is_absent(clock) and 0 < clock < 2**16 - 1]
    if not clocks:
        raise absent()
    return float(min(clocks))


LIMITS: Table = {
    "power_limit_w": LibraryCall(CAP, read=value("power_cap", scale=MICRO)),
    "power_limit_requested_w": LibraryCall(CAP, read=value("power_cap", scale=MICRO)),
    "power_limit_default_w": LibraryCall(CAP, read=value("default_power_cap", scale=MICRO)),
    "power_limit_min_w": LibraryCall(CAP, read=value("min_power_cap", scale=MICRO)),
    "power_limit_max_w": LibraryCall(CAP, read=value("max_power_cap", scale=MICRO)),
    "clock_max_mhz": _clock("GFX", "max_clk"),
    "memory_clock_max_mhz": _clock("MEM", "max_clk"),
    "slowdown_c": _heat("HOTSPOT", "CRITICAL"),
    "shutdown_c": _heat("HOTSPOT", "EMERGENCY"),
    "memory_max_c": _heat("VRAM", "CRITICAL"),
    "memory_shutdown_c": _heat("VRAM", "EMERGENCY"),
}
"""amdsmi gives power caps in microwatts, clocks in MHz, temperatures in C."""


CHANGING = part(LIMITS, LIMITS_THAT_CHANGE)
"""The settings of power and clock that are read again while the node runs."""


def _process(process: Any) -> dict[str, Any]:
    return {"pid": process["pid"], "memory_bytes": process["memory_usage"]["vram_mem"]}


PROCESSES: Table = {
    "processes": LibraryCall("amdsmi_get_gpu_process_list", read=lambda all_: [_process(process) for process in all_]),
}

READING: Table = {
    "clock_mhz": (LibraryCall(METRICS, read=_slowest), _metric("current_gfxclk"), _clock("GFX", "clk")),
    "memory_clock_mhz": (_metric("current_uclk"), _clock("MEM", "clk")),
    "power_w": (
        _metric("current_socket_power"),
        _metric("average_socket_power"),
        LibraryCall("amdsmi_get_power_info", read=value("current_socket_power", bits=16)),
        LibraryCall("amdsmi_get_power_info", read=value("average_socket_power", bits=16)),
    ),
    "energy_j": LibraryCall(
        "amdsmi_get_energy_count",
        read=lambda counter: value("energy_accumulator")(counter) * counter["counter_resolution"] * MICRO,
    ),
    "temperature_c": (_metric("temperature_hotspot"), _heat("HOTSPOT")),
    "edge_temperature_c": (_metric("temperature_edge"), _heat("EDGE")),
    "memory_temperature_c": (_metric("temperature_mem"), _heat("VRAM")),
}
"""The queries of one telemetry reading. The GPU metrics come first: one call returns most values, sampled by the
firmware at the same moment."""
