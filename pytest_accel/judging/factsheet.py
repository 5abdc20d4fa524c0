"""What the facts of a device mean as judged metrics: `inventory.*` what it is, `health.*` how it is. Pure.

A driver states facts in its own detail; here is the one place that says which of them can have a limit, under what
name and in what unit. A mode reads "enabled" or "disabled", something pending counts 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.measurement import EVERYTHING_ELSE, Device, Trouble, Value

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Figure:
    """One metric: its unit, the facts that it needs, and how it follows from their values."""

    unit: str
    needs: tuple[str, ...]
    of: Callable[..., Value]


def _fact(name: str, unit: str) -> Figure:
    return Figure(unit, (name,), lambda value: value)


def _mode(name: str) -> Figure:
    return Figure("text", (name,), lambda on: "enabled" if on else "disabled")


def _flag(name: str) -> Figure:
    return Figure("count", (name,), int)


def _changes(name: str) -> Figure:
    """1 if a mode will be another one after the next reset or reboot."""
    return Figure("count", (name, f"{name}_pending"), lambda now, pending: int(now != pending))


SLOWDOWNS = {0x08: "hardware slowdown", 0x20: "software thermal", 0x40: "hardware thermal", 0x80: "power brake"}
LOCKS = {0x02: "application clocks", 0x10: "sync boost"}
"""Bits of NVML's clock event reasons (nvml.h): what a device at rest has no reason for."""
CORRECTED = ("symbol", "effective")
"""Error counters of a link that tick on healthy ones."""


def _slowdown(mask: int) -> str:
    return ", ".join(name for bit, name in SLOWDOWNS.items() if mask & bit) or "none"


def _clock_lock(mask: int, application: float, default: float) -> str:
    """What keeps the clock down. A lock that only load makes visible is telemetry's to find."""
    found = [name for bit, name in LOCKS.items() if mask & bit]
    if application < default and LOCKS[0x02] not in found:
        found.append(LOCKS[0x02])
    return ", ".join(found) or "none"


def _fabric(state: str, status: int) -> str:
    return state if state != "completed" or status == 0 else f"{state} with error {status}"


def _narrowest(path: list[Mapping[str, int]]) -> int:
    return min(each["width"] for each in path if "width" in each)


def _link_errors(links: list[Mapping[str, Any]]) -> int:
    """What all links had to send again or recover from; symbols that the code corrects are everyday on NVLink 5."""
    counts = [count for each in links for name, count in each.get("errors", {}).items() if name not in CORRECTED]
    return sum(counts)


def _versions(firmware: Mapping[str, str]) -> str:
    return ", ".join(f"{block} {version}" for block, version in sorted(firmware.items()))


FIGURES = {
    "inventory.driver_version": _fact("driver_version", "version"),
    "inventory.cuda_version": _fact("cuda_version", "version"),
    "inventory.rocm_version": _fact("rocm_version", "version"),
    "inventory.firmware_bundle": _fact("firmware_bundle", "version"),
    "inventory.firmware": Figure("text", ("firmware",), _versions),
    "inventory.vbios": _fact("vbios", "version"),
    "inventory.inforom": _fact("inforom", "version"),
    "inventory.gsp_firmware": _fact("gsp_firmware", "version"),
    "inventory.board_part": _fact("board_part", "text"),
    "inventory.pci_subsystem": _fact("pci_subsystem", "text"),
    "inventory.memory": Figure("GB", ("memory_bytes",), lambda size: size / 1e9),
    "inventory.compute_units": _fact("compute_units", "count"),
    "inventory.power_limit": _fact("power_limit_w", "W"),
    "inventory.power_limit_max": _fact("power_limit_max_w", "W"),
    "inventory.clock_max": _fact("clock_max_mhz", "MHz"),
    "inventory.memory_clock_max": _fact("memory_clock_max_mhz", "MHz"),
    "inventory.pcie_gen_max": _fact("pcie_gen_max", "count"),
    "inventory.pcie_width_max": _fact("pcie_width_max", "count"),
    "inventory.nvlink_count": _fact("nvlink_count", "count"),
    "inventory.nvlink_speed": _fact("nvlink_gb_per_s", "GB/s"),
    "inventory.xgmi_speed": _fact("xgmi_gb_per_s", "GB/s"),
    "inventory.xgmi_hive": _fact("xgmi_hive", "text"),
    "inventory.compute_partition": _fact("compute_partition", "text"),
    "inventory.memory_partition": _fact("memory_partition", "text"),
    "inventory.ecc": _mode("ecc"),
    "inventory.mig": _mode("mig"),
    "inventory.persistence": _mode("persistence"),
    "inventory.compute_mode": _fact("compute_mode", "text"),
    "inventory.virtualization": _fact("virtualization", "text"),
    "inventory.confidential": _fact("confidential", "text"),
    "inventory.fabric_cluster": _fact("fabric_cluster", "text"),
    "inventory.fabric_clique": _fact("fabric_clique", "count"),
    "health.ecc_uncorrectable_volatile": _fact("ecc_uncorrectable_volatile", "count"),
    "health.ecc_correctable_volatile": _fact("ecc_correctable_volatile", "count"),
    "health.ecc_deferred_volatile": _fact("ecc_deferred_volatile", "count"),
    "health.bad_pages": _fact("bad_pages", "count"),
    "health.bad_pages_pending": _fact("bad_pages_pending", "count"),
    "health.bad_pages_unreservable": _fact("bad_pages_unreservable", "count"),
    "health.bad_pages_of_threshold": Figure(
        "1", ("bad_pages", "bad_pages_threshold"), lambda pages, threshold: pages / threshold
    ),
    "health.ecc_uncorrectable_aggregate": _fact("ecc_uncorrectable_aggregate", "count"),
    "health.ecc_sram_uncorrectable_aggregate": _fact("ecc_sram_uncorrectable_aggregate", "count"),
    "health.ecc_sram_threshold": _flag("ecc_sram_threshold_exceeded"),
    "health.ecc_pending_change": _changes("ecc"),
    "health.mig_pending_change": _changes("mig"),
    "health.remapped_correctable": _fact("remapped_correctable", "count"),
    "health.remapped_uncorrectable": _fact("remapped_uncorrectable", "count"),
    "health.remap_pending": _flag("remap_pending"),
    "health.remap_failure": _flag("remap_failure"),
    "health.remap_banks_exhausted": Figure("count", ("remap_banks",), lambda banks: int(banks["none"])),
    "health.retired_pages_pending": _flag("retired_pages_pending"),
    "health.channel_repair_pending": _flag("channel_repair_pending"),
    "health.tpc_repair_pending": _flag("tpc_repair_pending"),
    "health.memory_unrepairable": _flag("memory_unrepairable"),
    "health.recovery_action": _fact("recovery_action", "text"),
    "health.fabric": Figure("text", ("fabric_state", "fabric_status"), _fabric),
    "health.fabric_faults": Figure("text", ("fabric_faults",), lambda faults: ", ".join(faults) or "none"),
    "health.nvlink_up": _fact("nvlink_up", "count"),
    "health.xgmi_up": _fact("xgmi_up", "count"),
    "health.xgmi_down": _fact("xgmi_down", "count"),
    "health.xgmi_errors": _fact("xgmi_errors", "text"),
    "health.nvlink_errors": Figure("count", ("nvlinks",), _link_errors),
    "health.pcie_width": _fact("pcie_width", "count"),
    "health.pcie_path_width": Figure("count", ("pcie_path",), _narrowest),
    "health.pcie_replays": _fact("pcie_replays", "count"),
    "health.pcie_fatal": _fact("pcie_fatal", "count"),
    "health.clock_lock": Figure(
        "text", ("reasons", "clock_application_mhz", "clock_application_default_mhz"), _clock_lock
    ),
    "health.perf_level": _fact("perf_level", "text"),
    "health.power_limit_lowered": Figure(
        "W", ("power_limit_w", "power_limit_default_w"), lambda now, default: max(0.0, default - now)
    ),
    "health.slowdown": Figure("text", ("reasons",), _slowdown),
    "health.foreign_processes": Figure("count", ("processes",), len),
}


def read(metric: str, device: Device) -> tuple[str, Value | None, Trouble | None]:
    """Unit and value of one metric of one device, or why there is no value.

    What the user, the driver or the moment withholds is a need; what device or driver do not have cannot apply.
    """
    figure = FIGURES.get(metric)
    if figure is None:
        return "text", None, Trouble("need", f"no driver reads {metric}: it is no fact that this version knows")
    facts = {**device.facts, "memory_bytes": device.memory_bytes or None}
    why = next((lacking(facts, name) for name in figure.needs if facts.get(name) is None), None)
    if why:
        return figure.unit, None, why
    try:
        return figure.unit, figure.of(*(sane(facts[name], figure.unit) for name in figure.needs)), None
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        return figure.unit, None, Trouble("need", f"the driver's answer is not understood: {error}")


ALL_ONES = (2**32 - 1, 2**64 - 1)
"""What libraries leave in a number that they did not fill (NVML_VALUE_NOT_AVAILABLE is -1)."""
NEVER_ZERO = ("W", "MHz", "GB", "GB/s")
"""What a device has of each is more than nothing: a limit of 0 W is no answer."""


def sane(fact: Any, unit: str) -> Any:
    """A fact as it is. Raises ValueError for a number that no device can mean: it would hold any ceiling."""
    if isinstance(fact, bool) or not isinstance(fact, int | float):
        return fact
    if not math.isfinite(fact) or fact < 0 or fact in ALL_ONES or (fact == 0 and unit in NEVER_ZERO):
        raise ValueError(f"{fact:g} says nothing")
    return fact


def lacking(facts: Facts, name: str) -> Trouble:
    """Why a fact is not among the facts."""
    unread = facts.get("unread", {})
    if why := unread.get(name) or unread.get(EVERYTHING_ELSE):
        return Trouble("need", f"{name}: {why}")
    reason = facts.get("unsupported", {}).get(name, "the driver has not stated it")
    return Trouble("not_applicable", f"{name}: {reason}")


def disturbance(metric: str, device: Device) -> str | None:
    """What is none of the device's fault, and keeps a shortfall from being one."""
    seen = device.facts.get("processes") if metric == "health.foreign_processes" else None
    return f"pid {', '.join(str(each['pid']) for each in seen)}" if seen else None
