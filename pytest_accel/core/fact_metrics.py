"""The metrics that are made of the facts of a device: `inventory.*` (what it is) and `health.*` (its state). Pure.

A driver reports facts in its own detail. This module alone decides which of them can have a limit, under which name
and in which unit. A mode reads "enabled" or "disabled", a pending change counts as 1.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.device_facts import DEVICE_FACTS
from pytest_accel.core.measurement import Value


@dataclass(frozen=True)
class FactMetric:
    """One metric: its unit, the facts that it needs, and the function that computes it from their values.

    `also` are facts that it takes into account where the device states them, and None where it does not.
    """

    unit: str
    needs: tuple[str, ...]
    of: Callable[..., Value | None]
    """Returns None if the device states too little; the last fact that is missing is the reason."""
    also: tuple[str, ...] = ()

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that it is computed from, needed or not."""
        return (*self.needs, *self.also)


def _fact(name: str) -> FactMetric:
    """Return the metric that is the fact itself, in its unit."""
    return FactMetric(DEVICE_FACTS[name].unit, (name,), lambda value: value)


def _mode(name: str) -> FactMetric:
    return FactMetric("text", (name,), lambda on: "enabled" if on else "disabled")


def _flag(name: str) -> FactMetric:
    return FactMetric("count", (name,), int)


def _below(lower: str, higher: str) -> FactMetric:
    """Return the metric that is the difference of two power limits, 0 where the first is not the lower one."""
    return FactMetric("W", (lower, higher), lambda now, usual: max(0.0, usual - now))


def _changes(name: str) -> FactMetric:
    """Return the metric that is 1 if a mode will change at the next reset or reboot, else 0."""
    return FactMetric("count", (name, f"{name}_pending"), lambda now, pending: int(now != pending))


SLOWDOWNS = {
    ClockEvent.HW_SLOWDOWN: "hardware slowdown",
    ClockEvent.SW_THERMAL: "software thermal",
    ClockEvent.HW_THERMAL: "hardware thermal",
    ClockEvent.HW_POWER_BRAKE: "power brake",
}
LOCKS = {ClockEvent.APPLICATION_CLOCKS: "application clocks", ClockEvent.SYNC_BOOST: "sync boost"}
"""Reasons for a low clock that an idle, healthy device does not have."""
CORRECTED = ("symbol", "effective")
"""Error counters of an NVLink that increase on healthy links too."""


def _slowdown(mask: int) -> str:
    return ", ".join(name for bit, name in SLOWDOWNS.items() if mask & bit) or "none"


def _clock_lock(mask: int, application: float | None, default: float | None, highest: float | None) -> str:
    """Return the settings that hold the clock down. Telemetry finds a lock that shows only under load.

    Newer drivers have no application clocks. One that is set to the highest clock holds nothing down, though the driver
    names it as the reason for every clock then.
    """
    if application is not None and highest is not None and application >= highest:
        mask &= ~ClockEvent.APPLICATION_CLOCKS
    found = [name for bit, name in LOCKS.items() if mask & bit]
    lowered = application is not None and default is not None and application < default
    if lowered and LOCKS[ClockEvent.APPLICATION_CLOCKS] not in found:
        found.append(LOCKS[ClockEvent.APPLICATION_CLOCKS])
    return ", ".join(found) or "none"


def _fabric(state: str, status: int) -> str:
    return state if state != "completed" or status == 0 else f"{state} with error {status}"


def _fabric_faults(faults: Sequence[str], health: str | None) -> str:
    return ", ".join([*faults, *([health] if health not in (None, "healthy") else [])]) or "none"


def most_errors(total: int, *parts: int | None) -> int:
    """Return the errors of a device: the library's total, or the sum of its parts if that is larger.

    The total of some devices leaves out places that have counters of their own.
    """
    return max(total, sum(each or 0 for each in parts))


UNCORRECTABLE_PARTS = ("ecc_sram_uncorrectable_volatile", "ecc_dram_uncorrectable_volatile")
"""Facts that count the uncorrectable errors of one place each."""


def _narrowest(path: list[Mapping[str, int]]) -> int:
    return min(each["width"] for each in path if "width" in each)


def _lanes_lost(width: int, path: Sequence[Mapping[str, int]]) -> int | None:
    """Return the lanes that both ends of the device's link have and the link does not use; None if one is not known."""
    device, port = (path[end].get("width_max") if end < len(path) else None for end in range(2))
    return max(0, min(device, port) - width) if device and port else None


def _link_errors(links: list[Mapping[str, Any]]) -> int:
    """Return the errors of all links that needed a retransmission or a recovery.

    Symbol errors that the error correction repairs are usual on NVLink 5 and not counted.
    """
    counts = [count for each in links for name, count in each.get("errors", {}).items() if name not in CORRECTED]
    return sum(counts)


def _versions(firmware: Mapping[str, str]) -> str:
    return ", ".join(f"{block} {version}" for block, version in sorted(firmware.items()))


THERMAL_FACTS = frozenset({"slowdown_c", "slowdown_margin_c"})
"""The facts by which a device states where it slows itself down."""


def thermal_margin(
    temperature_c: float | None,
    margin_c: float | None,
    slowdown_margin_c: float | None,
    slowdown_c: float | None,
) -> float | None:
    """Return the kelvin that are left until the device slows itself down; None if it does not state them.

    NVIDIA's parts from Hopper on state a margin that falls with heat, and its value at the slowdown (-2); the others
    state the temperature of the slowdown.
    """
    if margin_c is not None and slowdown_margin_c is not None:
        return margin_c - slowdown_margin_c
    if temperature_c is not None and slowdown_c is not None:
        return slowdown_c - temperature_c
    return None


def held_c(facts: Mapping[str, Any]) -> float | None:
    """Return the temperature (C) that the cooling of a device is to hold; None if it states none.

    It is the target of the fans or the highest of operation. Parts from Hopper on state a margin in its place.
    """
    stated = [facts[name] for name in ("target_c", "gpu_max_c") if facts.get(name)]
    return min(stated) if stated and "slowdown_margin_c" not in facts else None


FACT_METRICS = {
    "inventory.driver_version": _fact("driver_version"),
    "inventory.cuda_version": _fact("cuda_version"),
    "inventory.rocm_version": _fact("rocm_version"),
    "inventory.firmware_bundle": _fact("firmware_bundle"),
    "inventory.firmware": FactMetric("text", ("firmware",), _versions),
    "inventory.vbios": _fact("vbios"),
    "inventory.inforom": _fact("inforom"),
    "inventory.gsp_firmware": _fact("gsp_firmware"),
    "inventory.board_part": _fact("board_part"),
    "inventory.pci_subsystem": _fact("pci_subsystem"),
    "inventory.memory": FactMetric("GB", ("memory_bytes",), lambda size: size / 1e9),
    "inventory.compute_units": _fact("compute_units"),
    "inventory.power_limit": _fact("power_limit_w"),
    "inventory.power_limit_default": _fact("power_limit_default_w"),
    "inventory.power_limit_max": _fact("power_limit_max_w"),
    "inventory.clock_max": _fact("clock_max_mhz"),
    "inventory.memory_clock_max": _fact("memory_clock_max_mhz"),
    "inventory.memory_bus": _fact("memory_bus_bits"),
    "inventory.slowdown_temperature": _fact("slowdown_c"),
    "inventory.shutdown_temperature": _fact("shutdown_c"),
    "inventory.pcie_gen_max": _fact("pcie_gen_max"),
    "inventory.pcie_width_max": _fact("pcie_width_max"),
    "inventory.nvlink_count": _fact("nvlink_count"),
    "inventory.nvlink_speed": _fact("nvlink_gb_per_s"),
    "inventory.xgmi_speed": _fact("xgmi_gb_per_s"),
    "inventory.xgmi_hive": _fact("xgmi_hive"),
    "inventory.compute_partition": _fact("compute_partition"),
    "inventory.memory_partition": _fact("memory_partition"),
    "inventory.ecc": _mode("ecc"),
    "inventory.mig": _mode("mig"),
    "inventory.persistence": _mode("persistence"),
    "inventory.compute_mode": _fact("compute_mode"),
    "inventory.virtualization": _fact("virtualization"),
    "inventory.confidential": _fact("confidential"),
    "inventory.fabric_cluster": _fact("fabric_cluster"),
    "inventory.fabric_clique": _fact("fabric_clique"),
    "health.ecc_uncorrectable_volatile": FactMetric(
        "count", ("ecc_uncorrectable_volatile",), most_errors, UNCORRECTABLE_PARTS
    ),
    "health.ecc_correctable_volatile": _fact("ecc_correctable_volatile"),
    "health.ecc_deferred_volatile": _fact("ecc_deferred_volatile"),
    "health.bad_pages": _fact("bad_pages"),
    "health.bad_pages_pending": _fact("bad_pages_pending"),
    "health.bad_pages_unreservable": _fact("bad_pages_unreservable"),
    "health.bad_pages_of_threshold": FactMetric(
        "1", ("bad_pages", "bad_pages_threshold"), lambda pages, threshold: pages / threshold
    ),
    "health.ecc_uncorrectable_aggregate": _fact("ecc_uncorrectable_aggregate"),
    "health.ecc_sram_uncorrectable_aggregate": _fact("ecc_sram_uncorrectable_aggregate"),
    "health.ecc_sram_threshold": _flag("ecc_sram_threshold_exceeded"),
    "health.ecc_pending_change": _changes("ecc"),
    "health.mig_pending_change": _changes("mig"),
    "health.remapped_correctable": _fact("remapped_correctable"),
    "health.remapped_uncorrectable": _fact("remapped_uncorrectable"),
    "health.remap_pending": _flag("remap_pending"),
    "health.remap_failure": _flag("remap_failure"),
    "health.remap_banks_exhausted": FactMetric("count", ("remap_banks",), lambda banks: int(banks["none"])),
    "health.retired_pages": FactMetric(
        "count", ("retired_pages_correctable", "retired_pages_uncorrectable"), operator.add
    ),
    "health.retired_pages_pending": _flag("retired_pages_pending"),
    "health.channel_repair_pending": _flag("channel_repair_pending"),
    "health.tpc_repair_pending": _flag("tpc_repair_pending"),
    "health.memory_unrepairable": _flag("memory_unrepairable"),
    "health.recovery_action": _fact("recovery_action"),
    "health.fabric": FactMetric("text", ("fabric_state", "fabric_status"), _fabric),
    "health.fabric_faults": FactMetric("text", ("fabric_faults",), _fabric_faults, ("fabric_health",)),
    "health.nvlink_up": _fact("nvlink_up"),
    "health.xgmi_up": _fact("xgmi_up"),
    "health.xgmi_down": _fact("xgmi_down"),
    "health.xgmi_errors": _fact("xgmi_errors"),
    "health.xgmi_uncorrectable": _fact("xgmi_uncorrectable"),
    "health.nvlink_errors": FactMetric("count", ("nvlinks",), _link_errors),
    "health.pcie_width": _fact("pcie_width"),
    "health.pcie_lanes_lost": FactMetric("count", ("pcie_width", "pcie_path"), _lanes_lost),
    "health.pcie_path_width": FactMetric("count", ("pcie_path",), _narrowest),
    "health.pcie_replays": _fact("pcie_replays"),
    "health.pcie_fatal": _fact("pcie_fatal"),
    "health.clock_lock": FactMetric(
        "text", ("reasons",), _clock_lock, ("clock_application_mhz", "clock_application_default_mhz", "clock_max_mhz")
    ),
    "health.perf_level": _fact("perf_level"),
    "health.power_limit_lowered": _below("power_limit_requested_w", "power_limit_default_w"),
    "health.power_limit_held": _below("power_limit_w", "power_limit_requested_w"),
    "health.slowdown": FactMetric("text", ("reasons",), _slowdown),
    "health.thermal_margin": FactMetric(
        "K", ("temperature_c",), thermal_margin, ("margin_c", "slowdown_margin_c", "slowdown_c")
    ),
    "health.foreign_processes": FactMetric("count", ("processes",), len),
}


# -- values that a device can have

ALL_ONES = (2**32 - 1, 2**64 - 1)
"""Values that libraries leave in a number that they did not fill (NVML_VALUE_NOT_AVAILABLE is -1)."""
NEVER_ZERO = ("W", "MHz", "GB", "GB/s")
"""Units in which zero means that the value is not known: no device has a power limit of 0 W."""
SIGNED = ("K",)
"""Units of values that may be below zero: a device may be hotter than it should be."""


def sane(fact: Any, unit: str) -> Any:
    """Return the fact unchanged. Raises ValueError for a number that no device can have.

    A negative placeholder, for instance, would hold any ceiling.
    """
    if isinstance(fact, bool) or not isinstance(fact, int | float):
        return fact
    negative = fact < 0 and unit not in SIGNED
    if not math.isfinite(fact) or negative or fact in ALL_ONES or (fact == 0 and unit in NEVER_ZERO):
        raise ValueError(f"{fact:g} is not a possible value")
    return fact


# -- error counters

MINUTE, HOUR = 60.0, 3600.0
INACTIVE = "inactive"
"""The state of a link that is down, and so has no counters."""


@dataclass(frozen=True)
class Counter:
    """One error counter: the fact that it is read from, and how it is read.

    `also` are facts that `read` takes besides, None where the device does not state them.
    If `per` is not zero the metric is a rate per that many seconds, and shorter intervals count as that long.
    """

    fact: str
    read: Callable[..., int] = int
    unit: str = "count"
    per: float = 0.0
    also: tuple[str, ...] = ()

    def over(self, moved: int, seconds: float) -> float:
        """Return the metric's value for an increase of `moved` in `seconds`: a rate if `per` is set, else `moved`."""
        return moved * self.per / max(self.per, seconds) if self.per else moved


def _links(*names: str) -> Callable[[Any], int]:
    """Return a reader that sums the named counters over all NVLinks.

    It raises KeyError if no link has such a counter, or if an active link did not report its own: a sum without that
    link would look like a counter that was reset.
    """

    def total(links: Sequence[Mapping[str, Any]]) -> int:
        errors = [each.get("errors", {}).items() for each in links]
        said = [[sane(count, "count") for name, count in each if name in names] for each in errors]
        up = [counts for each, counts in zip(links, said, strict=True) if each.get("state", INACTIVE) != INACTIVE]
        if not any(said) or not all(up):
            raise KeyError(names[0])
        return sum(map(sum, said))

    return total


def _fabric_fault(state: str, status: int | None, faults: Sequence[str] | None, health: str | None) -> int:
    """Return 1 if the fabric of the NVLinks has a fault, else 0."""
    return int(state != "completed" or bool(status) or bool(faults) or health not in (None, "healthy"))


LINKS = "nvlinks"
"""The fact that is not in every reading."""

OF_SYSTEM = ("node reboot", "system reboot")
"""Requests of NVIDIA's driver that the state of the whole system makes: then every GPU states them."""


def asked_of_all(action: object, every: Sequence[object]) -> str | None:
    """Return why a request for recovery is no fault of the device that states it, as several do; None if it may be."""
    of_all = action in OF_SYSTEM and every.count(action) > 1
    return f"the driver asks for a {action} on several devices, whichever of them failed" if of_all else None


XGMI = ("none", "error", "multiple errors")
"""The error states of an AMD device's xGMI links since the last query, in order of severity."""

ERROR_COUNTERS = {
    "ecc_uncorrectable": Counter("ecc_uncorrectable_volatile", most_errors, also=UNCORRECTABLE_PARTS),
    "ecc_corrected": Counter("ecc_correctable_volatile", unit="per h", per=HOUR),
    "ecc_deferred": Counter("ecc_deferred_volatile"),
    "bad_pages": Counter("bad_pages"),
    "rows_remapped": Counter("remapped_uncorrectable"),
    "rows_remapped_corrected": Counter("remapped_correctable"),
    "remap_failure": Counter("remap_failure"),
    "remap_pending": Counter("remap_pending"),
    "recovery_asked": Counter("recovery_action", lambda action: int(action != "none")),
    "pcie_fatal": Counter("pcie_fatal"),
    "pcie_replays": Counter("pcie_replays", unit="per min", per=MINUTE),
    "nvlink_down": Counter("nvlinks", lambda links: sum(each["state"] == INACTIVE for each in links)),
    "fabric": Counter("fabric_state", _fabric_fault, also=("fabric_status", "fabric_faults", "fabric_health")),
    "xgmi_down": Counter("xgmi_down"),
    "nvlink_recovery": Counter("nvlinks", _links("recovery", "recovery_failed")),
    "nvlink_replay": Counter("nvlinks", _links("replay")),
    "nvlink_crc": Counter("nvlinks", _links("crc", "crc_data"), unit="per s", per=1.0),
    "nvlink_effective": Counter("nvlinks", _links("effective"), unit="per h", per=HOUR),
    "nvlink_symbol": Counter("nvlinks", _links("symbol")),
    "xgmi_errors": Counter("xgmi_errors", XGMI.index),
    "xgmi_uncorrectable": Counter("xgmi_uncorrectable"),
}
"""The counters by the variant of the metric `counters.*`.

A rate is the highest over any part of the run; a new state counts as 1.
"""
