"""Makes measurements of facts: `inventory.*` (what a device is) and `health.*` (its state). Pure.

A driver reports facts in its own detail. This module alone decides which of them can have a limit, under which name
and in which unit. A mode reads "enabled" or "disabled", a pending change counts as 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.details import Details
from pytest_accel.core.device_facts import DEVICE_FACTS
from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.measurement import EVERYTHING_ELSE, NODE, Device, Measurement, Trouble, Value
from pytest_accel.core.sku import Sku

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class FactMetric:
    """One metric: its unit, the facts that it needs, and the function that computes it from their values."""

    unit: str
    needs: tuple[str, ...]
    of: Callable[..., Value]


def _fact(name: str) -> FactMetric:
    """Return the metric that is the fact itself, in its unit."""
    return FactMetric(DEVICE_FACTS[name].unit, (name,), lambda value: value)


def _mode(name: str) -> FactMetric:
    return FactMetric("text", (name,), lambda on: "enabled" if on else "disabled")


def _flag(name: str) -> FactMetric:
    return FactMetric("count", (name,), int)


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


def _clock_lock(mask: int, application: float, default: float) -> str:
    """Return the settings that hold the clock down. Telemetry finds a lock that shows only under load."""
    found = [name for bit, name in LOCKS.items() if mask & bit]
    if application < default and LOCKS[ClockEvent.APPLICATION_CLOCKS] not in found:
        found.append(LOCKS[ClockEvent.APPLICATION_CLOCKS])
    return ", ".join(found) or "none"


def _fabric(state: str, status: int) -> str:
    return state if state != "completed" or status == 0 else f"{state} with error {status}"


def _narrowest(path: list[Mapping[str, int]]) -> int:
    return min(each["width"] for each in path if "width" in each)


def _link_errors(links: list[Mapping[str, Any]]) -> int:
    """Return the errors of all links that needed a retransmission or a recovery.

    Symbol errors that the error correction repairs are usual on NVLink 5 and not counted.
    """
    counts = [count for each in links for name, count in each.get("errors", {}).items() if name not in CORRECTED]
    return sum(counts)


def _versions(firmware: Mapping[str, str]) -> str:
    return ", ".join(f"{block} {version}" for block, version in sorted(firmware.items()))


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
    "inventory.power_limit_max": _fact("power_limit_max_w"),
    "inventory.clock_max": _fact("clock_max_mhz"),
    "inventory.memory_clock_max": _fact("memory_clock_max_mhz"),
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
    "health.ecc_uncorrectable_volatile": _fact("ecc_uncorrectable_volatile"),
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
    "health.retired_pages_pending": _flag("retired_pages_pending"),
    "health.channel_repair_pending": _flag("channel_repair_pending"),
    "health.tpc_repair_pending": _flag("tpc_repair_pending"),
    "health.memory_unrepairable": _flag("memory_unrepairable"),
    "health.recovery_action": _fact("recovery_action"),
    "health.fabric": FactMetric("text", ("fabric_state", "fabric_status"), _fabric),
    "health.fabric_faults": FactMetric("text", ("fabric_faults",), lambda faults: ", ".join(faults) or "none"),
    "health.nvlink_up": _fact("nvlink_up"),
    "health.xgmi_up": _fact("xgmi_up"),
    "health.xgmi_down": _fact("xgmi_down"),
    "health.xgmi_errors": _fact("xgmi_errors"),
    "health.nvlink_errors": FactMetric("count", ("nvlinks",), _link_errors),
    "health.pcie_width": _fact("pcie_width"),
    "health.pcie_path_width": FactMetric("count", ("pcie_path",), _narrowest),
    "health.pcie_replays": _fact("pcie_replays"),
    "health.pcie_fatal": _fact("pcie_fatal"),
    "health.clock_lock": FactMetric(
        "text", ("reasons", "clock_application_mhz", "clock_application_default_mhz"), _clock_lock
    ),
    "health.perf_level": _fact("perf_level"),
    "health.power_limit_lowered": FactMetric(
        "W", ("power_limit_w", "power_limit_default_w"), lambda now, default: max(0.0, default - now)
    ),
    "health.slowdown": FactMetric("text", ("reasons",), _slowdown),
    "health.foreign_processes": FactMetric("count", ("processes",), len),
}


def read(metric: str, device: Device) -> tuple[str, Value | None, Trouble | None]:
    """Return unit and value of one metric of one device, or the trouble that explains why there is no value.

    The trouble is a need if permissions, the driver or a passing failure hide the fact, and not applicable if the
    device or its driver does not have it.
    """
    figure = FACT_METRICS.get(metric)
    if figure is None:
        return "text", None, Trouble("need", f"this version knows no fact {metric}, so no driver reads it")
    facts = {**device.facts, "memory_bytes": device.memory_bytes or None}
    why = next((lacking(facts, name) for name in figure.needs if facts.get(name) is None), None)
    if why:
        return figure.unit, None, why
    try:
        return figure.unit, figure.of(*(sane(facts[name], figure.unit) for name in figure.needs)), None
    except (ArithmeticError, KeyError, TypeError, ValueError) as error:
        return figure.unit, None, Trouble("need", f"the driver's answer cannot be interpreted: {error}")


ALL_ONES = (2**32 - 1, 2**64 - 1)
"""Values that libraries leave in a number that they did not fill (NVML_VALUE_NOT_AVAILABLE is -1)."""
NEVER_ZERO = ("W", "MHz", "GB", "GB/s")
"""Units in which zero means that the value is not known: no device has a power limit of 0 W."""


def sane(fact: Any, unit: str) -> Any:
    """Return the fact unchanged. Raises ValueError for a number that no device can have.

    A negative placeholder, for instance, would hold any ceiling.
    """
    if isinstance(fact, bool) or not isinstance(fact, int | float):
        return fact
    if not math.isfinite(fact) or fact < 0 or fact in ALL_ONES or (fact == 0 and unit in NEVER_ZERO):
        raise ValueError(f"{fact:g} is not a possible value")
    return fact


def lacking(facts: Facts, name: str) -> Trouble:
    """Return the trouble that explains why a fact is missing."""
    unread = facts.get("unread", {})
    if why := unread.get(name) or unread.get(EVERYTHING_ELSE):
        return Trouble("need", f"{name}: {why}")
    reason = facts.get("unsupported", {}).get(name, "the driver does not report it")
    return Trouble("not_applicable", f"{name}: {reason}")


def disturbance(metric: str, device: Device) -> str | None:
    """Return the disturbance for which the device is not to blame, such as foreign processes, or None."""
    seen = device.facts.get("processes") if metric == "health.foreign_processes" else None
    return f"in use by pid {', '.join(str(each['pid']) for each in seen)}" if seen else None


@dataclass(frozen=True)
class Discovery:
    """The answer of the sensor to a discovery.

    `problems` are drivers that failed, `shown` the accelerators that the PCI bus and /dev show without any driver.
    """

    devices: tuple[Device, ...] = ()
    problems: Sequence[dict[str, Any]] = field(default=())
    shown: Sequence[dict[str, Any]] = field(default=())
    container: str = ""
    """The kind of the container that the run is in, empty for none."""

    def unreachable(self, vendor: str | None) -> Trouble | None:
        """Return the trouble with accelerators that the machine shows and no driver can use, or None.

        It is the device's if its driver fails, and a need if the driver or its library is missing here. A container
        sees the bus of its host, but not the devices that it was not given.
        """
        lacking = [each for each in self.problems if each.get("kind") == "need"]
        broken = [each for each in self.problems if each not in lacking]
        if broken:
            return Trouble("device", _listing(broken))
        if unseen := self._unseen(vendor, {each["driver"] for each in lacking}):
            given = f"; this is a container ({self.container}), which may not have been given it"
            return Trouble("need", unseen + given) if self.container and not self.devices else Trouble("device", unseen)
        return Trouble("need", _listing(lacking)) if lacking else None

    def _unseen(self, vendor: str | None, without: set[str]) -> str | None:
        """Return a sentence on devices that the machine shows and their driver does not find, or None.

        Devices of the drivers in `without`, which are missing here, are left out.
        """
        drivers = {each["driver"] for each in self.shown if vendor in (None, each["driver"])} - without
        for driver in sorted(drivers):
            on_bus = [each for each in self.shown if each["driver"] == driver and each["where"].startswith("PCI")]
            found = sum(device.driver == driver for device in self.devices)
            if not found:
                places = _listed([each["where"] for each in self.shown if each["driver"] == driver])
                return f"the machine shows {places}, but the {driver} driver finds no device: check dmesg"
            if len(on_bus) > found:
                return f"the PCI bus shows {len(on_bus)} {driver} devices, but the driver finds {found}: check dmesg"
        return None


def _listing(problems: Sequence[dict[str, Any]]) -> str:
    return "; ".join(_problem(each) for each in problems)


def _problem(problem: dict[str, Any]) -> str:
    shown = problem.get("shown") or []
    place = f" ({_listed(shown)})" if shown else ""
    return f"{problem['driver']}{place}: {problem['reason']}"


def _listed(places: Sequence[str]) -> str:
    return ", ".join(places[:2]) + (" ..." if len(places) > 2 else "")


def facts(metric: str, discovery: Discovery, sku: Sku | None, now: float = 0.0) -> list[Measurement]:
    """Return the measurements of one metric `inventory.*` or `health.*`, made at `now` (seconds since the epoch)."""
    if metric == "inventory.driver":
        trouble = discovery.unreachable(sku.vendor if sku else None)
        return [Measurement(metric, NODE, "text", None if trouble else "ok", trouble=trouble, started=now, ended=now)]
    if metric == "inventory.count":
        return [_count(discovery, sku, now)]
    if metric == "inventory.sku":
        return [_sku(metric, device, sku, now) for device in discovery.devices]
    return _stated(metric, discovery.devices, now)


def _sku(metric: str, device: Device, sku: Sku | None, now: float) -> Measurement:
    """Return which product a device is, or a need if no library could be asked for its name."""
    unread = device.facts.get("unread", {})
    if sku and not device.model and not device.pci_id and EVERYTHING_ELSE in unread:
        trouble = Trouble("need", f"the product name is not known: {unread[EVERYTHING_ELSE]}")
        return Measurement(metric, device.uuid, "text", trouble=trouble, started=now, ended=now)
    return Measurement(metric, device.uuid, "text", _product(device, sku), started=now, ended=now)


def _count(discovery: Discovery, sku: Sku | None, now: float) -> Measurement:
    """Return the number of devices, or a need if they have no driver here."""
    count = len({device.uuid for device in discovery.devices})  # two of one identity would be measured as one
    trouble = None if count else discovery.unreachable(sku.vendor if sku else None)
    if trouble and trouble.kind == "need":
        return Measurement("inventory.count", NODE, "count", trouble=trouble, started=now, ended=now)
    return Measurement("inventory.count", NODE, "count", count, started=now, ended=now)


def _stated(metric: str, devices: Sequence[Device], now: float) -> list[Measurement]:
    """Return one metric of every device, each with the values of all devices for comparison."""
    found = {device: read(metric, device) for device in devices}
    on_all = {device.name: value for device, (_, value, _) in found.items() if value is not None}
    stated = [
        Measurement(
            metric=metric,
            subject=device.uuid,
            unit=unit,
            value=value,
            trouble=trouble,
            disturbance=disturbance(metric, device),
            started=now,
            ended=now,
            details={"on_all": on_all},
        )
        for device, (unit, value, trouble) in found.items()
    ]
    return withheld(stated, devices)


def withheld(found: Sequence[Measurement], devices: Sequence[Device]) -> list[Measurement]:
    """Turn "not applicable" into a need where another device of the same model has a value.

    A fact that one of them reports exists for that model, so that its absence on another has to be explained.
    """
    models = {device.uuid: device.model for device in devices}
    return [_as_others(each, found, models) for each in found]


def _as_others(one: Measurement, found: Sequence[Measurement], models: Mapping[str, str]) -> Measurement:
    if one.trouble is None or one.trouble.kind != "not_applicable" or one.subject not in models:
        return one
    alike = [each for each in found if each.metric == one.metric and models.get(each.subject) == models[one.subject]]
    having = sum(each.trouble is None for each in alike)
    if not having:
        return one
    reason = f"{one.trouble.reason}, but {having} of {len(alike)} devices report it"
    return replace(one, trouble=Trouble("need", reason))


def host_fact(metric: str, answer: Mapping[str, Any], now: float = 0.0) -> Measurement:
    """Return one fact of the host as a measurement, read at `now` (seconds since the epoch).

    A fact that is hidden from this user is not applicable, which becomes UNMEASURED if a limit requires it.
    """
    name = metric.removeprefix("host.")
    why = answer.get("absent") or answer.get("unreadable")
    details: Details = {}
    details.update(answer.get("details", {}))
    if worst := answer.get("worst"):
        details["worst"] = worst
    return Measurement(
        metric=metric,
        subject=NODE,
        unit=HOST_FACTS[name].unit,
        value=answer.get("value"),
        trouble=Trouble("not_applicable", why) if why else None,
        started=now,
        ended=now,
        details=details,
    )


def _product(device: Device, sku: Sku | None) -> str:
    """Return the SKU's name if the device is one, else the device's own name and the first difference."""
    why = sku.mismatch(device) if sku else None
    if sku and why is None:
        return sku.name
    shown = f"{device.model or 'no name'} ({device.pci_id or 'no PCI id'})"
    return f"{shown}: {why}" if why else shown
