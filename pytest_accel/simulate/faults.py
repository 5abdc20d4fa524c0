"""The faults that a simulated node may have: one function each, which says what a sick device shows.

A fault changes `Symptoms`, nothing else. What they do to rates, clocks and readings is the model's (model.py), to the
answers of the management library management.py's, to the worker process device.py's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pytest_accel.core import yaml_lines
from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.yaml_lines import Check, Findings, Located


@dataclass
class Symptoms:
    """What one device (or, for the faults of a node, its management library) shows. Healthy as made."""

    speed: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("compute", "memory", "host", "link"), 1.0))
    """Share of the healthy rate, by what does the work."""
    slow: dict[str, float] = field(default_factory=dict)
    """The same for single metrics, by how their names begin: "matmul.fp8"."""
    clock: float = 1.0
    """Share of the healthy clock; compute follows it."""
    fades: float = 0.0
    """Share of the clock that is lost when the device is as warm as the power limit makes it."""
    throttled: dict[str, float] = field(default_factory=dict)
    """Counter of board.COUNTERS to the share of the time under load that it counts."""
    reasons: int = 0
    degrees: float = 0.0
    """Kelvin above the healthy temperature under load."""
    power: float = 1.0
    """Share of the power that the SKU allows."""
    draw: float = 1.0
    """Share of the power that a healthy device draws of what it is allowed."""
    shows: dict[str, Any] = field(default_factory=dict)
    """What the management library says otherwise: names of management.py."""
    event: str = ""
    """What becomes of the worker process: "lost", "hang", "crash", "late", "ecc"."""
    flips: str = ""
    """Where bits are flipped: "matmul", "always" (the same ones of every product), "copy", "memory", "collective"."""
    library: str = ""
    """What becomes of the management library: "missing", "not loaded", "mismatched", "blocked"."""
    host: dict[str, str | bytes | tuple[str, str]] = field(default_factory=dict)
    """Files of the host below its root, "-> PATH" for a link, of two texts the second once a device has worked; the
    rest of it is not simulated."""


@dataclass(frozen=True)
class FaultKind:
    """A row of the table: what a fault does, what should catch it, its parameters with their defaults."""

    name: str
    does: str
    caught_by: str
    apply: Callable[..., None]
    parameters: Mapping[str, Any]
    of_node: bool = False
    """True if it concerns the node, so that no device is named."""
    begins: bool = True
    """False if it cannot begin later (`at`)."""


def _share(at: Located, key: str, findings: Findings) -> float | None:
    value = yaml_lines.positive(at, key, findings)
    if value is not None and value >= 1:
        findings.add(at, f"{key}: expected a share between 0 and 1, found {value:g}")
        return None
    return value


LINK_ERRORS = ("replay", "recovery", "crc", "effective")
"""What NVLinks count, the last from NVLink 5 on; of xGMI the library tells that there were errors, not which."""
HOT = {
    "hw": ("hw_thermal_s", ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL),
    "sw": ("sw_thermal_s", ClockEvent.SW_THERMAL),
    "memory": ("memory_thermal_s", ClockEvent.SW_THERMAL),
    "regulators": ("regulators_thermal_s", ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL),
}
"""What is too hot, or who says so, to its counter and its clock event reasons."""
RAS_BLOCKS = ("umc", "sdma", "gfx", "mmhub", "xgmi_wafl")
"""Blocks of an AMD part that count errors (amdsmi.h, AMDSMI_GPU_BLOCK_*)."""
FLIPPED = ("matmul", "always", "copy", "memory", "collective")
FAULT_DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")

PARAMETERS: dict[str, tuple[Check, str]] = {
    "by": (_share, "share that is lost, between 0 and 1"),
    "share": (_share, "share of the time under load, between 0 and 1"),
    "kind": (yaml_lines.one_of(*HOT), f"one of {', '.join(HOT)}"),
    "block": (yaml_lines.one_of(*RAS_BLOCKS), f"one of {', '.join(RAS_BLOCKS)}"),
    "what": (yaml_lines.one_of(*FLIPPED), f"one of {', '.join(FLIPPED)}"),
    "dtype": (yaml_lines.one_of(*FAULT_DTYPES), f"one of {', '.join(FAULT_DTYPES)}"),
    "degrees": (yaml_lines.positive, "kelvin"),
    "gigabytes": (yaml_lines.positive, "GB in use"),
    "percent": (yaml_lines.positive, "utilisation in percent"),
    "gen": (yaml_lines.count, "PCIe generation"),
    "width": (yaml_lines.count, "PCIe lanes"),
    "version": (yaml_lines.text, "version"),
    "number": (yaml_lines.count, "number of the Xid"),
    "links": (yaml_lines.count, "number of links"),
    "model": (yaml_lines.text, "whole name of a product"),
    "of": (yaml_lines.one_of(*LINK_ERRORS), f"one of {', '.join(LINK_ERRORS)}"),
    "count": (yaml_lines.count, "number of errors"),
}
"""What a parameter means is the same for every fault that has it."""

FAULTS: dict[str, FaultKind] = {}
Apply = TypeVar("Apply", bound=Callable[..., None])


def fault(name: str, caught_by: str, *, of_node: bool = False, begins: bool = True) -> Callable[[Apply], Apply]:
    """Enter a function into the table; its docstring says what the fault does, its keywords are the parameters."""

    def enter(function: Apply) -> Apply:
        keywords = list(inspect.signature(function).parameters.values())[1:]
        defaults = {each.name: each.default for each in keywords}
        does = inspect.getdoc(function) or ""
        FAULTS[name] = FaultKind(name, does, caught_by, function, defaults, of_node, begins and not of_node)
        return function

    return enter


# -- slower


@fault("slow-compute", "matmul.*, soak.rate")
def _(sick: Symptoms, by: float = 0.12) -> None:
    """Matrix products are slower at full clock, without a reason."""
    sick.speed["compute"] *= 1 - by


@fault("slow-memory", "stream.*")
def _(sick: Symptoms, by: float = 0.12) -> None:
    """Device memory moves less."""
    sick.speed["memory"] *= 1 - by


@fault("slow-dtype", "matmul.* of that dtype")
def _(sick: Symptoms, dtype: str = "fp8", by: float = 0.12) -> None:
    """Matrix products of one dtype are slower: a kernel or a path that this device does not take."""
    sick.slow[f"matmul.{dtype}"] = 1 - by


@fault("slow-writes", "stream.copy, stream.triad")
def _(sick: Symptoms, by: float = 0.12) -> None:
    """Device memory is read as fast as ever and written slower."""
    sick.slow["stream.copy"] = sick.slow["stream.triad"] = 1 - by


@fault("slow-uploads", "host_copy.d2h")
def _(sick: Symptoms, by: float = 0.12) -> None:
    """Copies from the device to the host are slower, those to the device are not."""
    sick.slow["host_copy.d2h"] = 1 - by


@fault("slow-collective", "all_reduce.*")
def _(sick: Symptoms, by: float = 0.23) -> None:
    """Sums over all devices are slow where copies between two are not: no reduction in the network."""
    sick.slow["all_reduce"] = 1 - by


@fault("peers-staged", "peer_copy.*")
def _(sick: Symptoms, by: float = 0.9) -> None:
    """What goes to and from the peers of this device is staged through the host."""
    sick.slow["peer_copy"] = 1 - by


@fault("narrow-pcie", "host_copy.*, host_copy_all.*")
def _(sick: Symptoms, width: int = 8) -> None:
    """The host link came up with fewer lanes than the slot has."""
    sick.shows["pcie_width"] = width


@fault("pcie-gen", "host_copy.*, host_copy_all.*")
def _(sick: Symptoms, gen: int = 4) -> None:
    """The host link stays at an older generation, each of which is half as fast as the next."""
    sick.shows["pcie_gen"] = gen


@fault("slow-link", "peer_copy.*, all_reduce.*")
def _(sick: Symptoms, by: float = 0.12) -> None:
    """Peer links move less; whoever reduces together is as slow as the slowest."""
    sick.speed["link"] *= 1 - by


# -- heat and power


@fault("thermal-slowdown", "soak.throttle.hw_thermal or .sw_thermal, matmul.*, soak.rate")
def _(sick: Symptoms, by: float = 0.15, kind: str = "hw", share: float = 0.4) -> None:
    """The device is too hot and slows its clock."""
    sick.clock *= 1 - by
    sick.degrees += 22
    counter, reasons = HOT[kind]
    sick.throttled[counter] = share
    sick.reasons |= reasons


@fault("cooling-fades", "soak.droop_slow, matmul.*")
def _(sick: Symptoms, by: float = 0.4) -> None:
    """The warmer the device, the lower its clock, and no counter says why: bad contact of the cooler."""
    sick.fades = by


@fault("power-brake", "soak.throttle.power_brake, matmul.*, soak.rate")
def _(sick: Symptoms, by: float = 0.3, share: float = 0.5) -> None:
    """The chassis or its power supply pulls the brake."""
    sick.clock *= 1 - by
    sick.power *= 1 - by
    sick.throttled["hw_power_brake_s"] = share
    sick.reasons |= ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE


@fault("power-cap-lowered", "health.power_limit_lowered from the start; matmul.*, soak.rate")
def _(sick: Symptoms, by: float = 0.3) -> None:
    """Somebody lowered the power limit; the clock is assumed to lose half of that share."""
    sick.power *= 1 - by
    sick.clock *= 1 - by / 2


@fault("clock-locked", "health.clock_lock from the start; matmul.*, soak.rate")
def _(sick: Symptoms, by: float = 0.25) -> None:
    """Somebody locked the clock below what the device would choose."""
    sick.clock *= 1 - by
    sick.reasons |= ClockEvent.APPLICATION_CLOCKS


@fault("capped", "nothing: power capping is normal")
def _(sick: Symptoms) -> None:
    """The power limit holds its clock back all the time that it works, which costs it nothing that others get."""
    sick.throttled["sw_power_cap_s"] = 1.0


@fault("low-power", "soak.power where the SKU's file limits it")
def _(sick: Symptoms, by: float = 0.4) -> None:
    """Under load the device draws less than it is allowed, and nothing says why."""
    sick.draw *= 1 - by


@fault("hot", "nothing yet: temperature and margin are in the telemetry")
def _(sick: Symptoms, degrees: float = 15.0) -> None:
    """The device runs hotter than its neighbours and does not slow down yet."""
    sick.degrees += degrees


# -- lost, hung, dead


@fault("device-missing", "inventory.driver, inventory.count", begins=False)
def _(sick: Symptoms) -> None:
    """The PCI bus shows the device, the management library does not know it."""
    sick.event = "missing"


@fault("device-lost", "inventory.count from the start; later whatever is being measured")
def _(sick: Symptoms) -> None:
    """The device falls off the bus: the library calls it lost, every kernel fails."""
    sick.event = "lost"


@fault("hang", "whatever is being measured, after --accel-patience seconds")
def _(sick: Symptoms) -> None:
    """A kernel never ends, while the management library goes on answering."""
    sick.event = "hang"


@fault("crash", "whatever is being measured")
def _(sick: Symptoms) -> None:
    """The worker process is killed in the middle of its work."""
    sick.event = "crash"


@fault("ecc-uncorrectable", "whatever is being measured")
def _(sick: Symptoms) -> None:
    """The memory returns what cannot be corrected, and the context is lost with it."""
    sick.event = "ecc"


@fault("rank-never-arrives", "all_reduce.*, ddp.*, after --accel-patience seconds")
def _(sick: Symptoms) -> None:
    """The device's rank never joins the others."""
    sick.event = "late"


# -- counted, and nothing else


@fault("ecc-corrected", "counters.ecc_corrected, as advice")
def _(sick: Symptoms, count: int = 12) -> None:
    """The memory counts errors that it corrected."""
    sick.shows["ecc_corrected"] = count


@fault("link-errors", "counters.nvlink_* or .xgmi_errors, once it begins during the run")
def _(sick: Symptoms, of: str = "recovery", count: int = 1) -> None:
    """One link to a peer counts errors; nothing else shows."""
    sick.shows[f"nvlink_{of}"] = count


@fault("pcie-replays", "counters.pcie_replays, once it begins during the run")
def _(sick: Symptoms, count: int = 30) -> None:
    """Packets are sent again over PCI Express."""
    sick.shows["pcie_replays"] = count


@fault("xid", "counters.xid_hardware, or counters.xid_application as advice; once it begins during the run")
def _(sick: Symptoms, number: int = 79) -> None:
    """The driver reports an Xid; nothing else shows."""
    sick.shows["xid"] = number


# -- wrong


@fault("wrong-result", "matmul.*, exact_matmul.*, soak.rate; stream.*, host_copy.*; memory_pattern.*; all_reduce.*")
def _(sick: Symptoms, what: str = "matmul") -> None:
    """One bit of every product, copy, stored pattern or all-reduce payload is flipped; the checks see it for real."""
    sick.flips = what


# -- configuration and software


@fault("mig-on", "inventory.mig, everything that runs on the device", begins=False)
def _(sick: Symptoms) -> None:
    """MIG mode is on."""
    sick.shows["mig"] = True


@fault("foreign-process", "health.foreign_processes is INCONCLUSIVE; whatever else falls short, too", begins=False)
def _(sick: Symptoms, gigabytes: float = 20.0, percent: float = 90.0) -> None:
    """Somebody else holds memory of the device and computes on it."""
    sick.shows["used_gb"], sick.shows["busy"] = gigabytes, percent
    sick.shows["pids"] = (4242,)


@fault("ecc-off", "inventory.ecc", begins=False)
def _(sick: Symptoms) -> None:
    """Somebody switched the memory's error correction off."""
    sick.shows["ecc"] = False


@fault("wrong-vbios", "inventory.vbios", begins=False)
def _(sick: Symptoms, version: str = "96.00.61.00.01") -> None:
    """The device has another VBIOS than its neighbours."""
    sick.shows["vbios"] = version


@fault("wrong-product", "inventory.sku", begins=False)
def _(sick: Symptoms, model: str = "NVIDIA H800") -> None:
    """Another product sits in the slot."""
    sick.shows["model"] = model


# -- errors and repairs that the device remembers


@fault("ecc-counted", "health.ecc_uncorrectable_volatile; later counters.ecc_uncorrectable")
def _(sick: Symptoms, count: int = 1) -> None:
    """The memory counts errors that it could not correct; nothing else shows."""
    sick.shows["ecc_uncorrectable"] = count


@fault("ras-errors", "health.ecc_uncorrectable_volatile; later counters.ecc_uncorrectable")
def _(sick: Symptoms, block: str = "gfx", count: int = 1) -> None:
    """A block of an AMD part counts errors that it could not correct."""
    sick.shows["ras"] = {block.upper(): count}


@fault("remap-pending", "health.remap_pending or .bad_pages_pending; later counters.remap_pending or .bad_pages")
def _(sick: Symptoms) -> None:
    """A row or page of the memory will be replaced at the next reset."""
    sick.shows["remap_pending"] = 1


@fault("remap-failure", "health.remap_failure or .bad_pages_unreservable; later counters.remap_failure or .bad_pages")
def _(sick: Symptoms) -> None:
    """A row or page of the memory could not be replaced."""
    sick.shows["remap_failure"] = 1


@fault("nvlink-down", "health.nvlink_up or .xgmi_up, later counters.nvlink_down or .xgmi_down; peer_copy.*")
def _(sick: Symptoms, links: int = 1) -> None:
    """Some links to the peers are down; the peers get what the others can move."""
    sick.shows["links_down"] = links


@fault("fabric-not-ready", "health.fabric", begins=False)
def _(sick: Symptoms) -> None:
    """The fabric manager has not finished: in reality CUDA does not start either, which is not simulated."""
    sick.shows["fabric_state"] = 2


def listing() -> list[str]:
    """The table for people, a few lines a fault."""
    lines = []
    for kind in FAULTS.values():
        lines.append(kind.name)
        lines.append(f"    {kind.does}")
        for name, default in kind.parameters.items():
            lines.append(f"    {name}: {PARAMETERS[name][1]} (default {default})")
        lines.append(f"    caught by: {kind.caught_by}")
    return lines
