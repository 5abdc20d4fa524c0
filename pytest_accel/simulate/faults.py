"""The faults that a simulated node may have: each is a function that sets the symptoms of a device.

A fault changes `Symptoms` and nothing else. `model.py` applies them to rates, clocks and readings, `management.py` to
the answers of the management library, and `device.py` to the worker process.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pytest_accel.core import yaml_nodes
from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.yaml_nodes import Check
from pytest_accel.probes.collectives import OPERATIONS

DEEPEST = 0.8
"""The largest share of the clock that a throttle takes while it holds; what `by` has beyond that is always lost."""


@dataclass(frozen=True)
class Throttle:
    """A reason that comes and goes: it holds for a `share` of the time under load, and lowers the clock only then.

    `by` is the mean share of the clock that is lost. `counter` is the one of board.BOARD_COUNTERS that counts the time,
    empty for none, and `reasons` are the bits of the clock event reasons.
    """

    by: float
    share: float
    counter: str
    reasons: int
    spares_power: bool = False
    """True if the device draws less power by the same share while the reason holds."""

    @property
    def depth(self) -> float:
        """The share of the clock that is lost while the reason holds."""
        return min(DEEPEST, self.by / self.share)

    @property
    def rest(self) -> float:
        """The share of the clock that remains all the time: below 1 only if `by` is too much for `share`."""
        return (1 - self.by) / (1 - self.depth * self.share)


@dataclass
class Symptoms:
    """The symptoms of one device or, for faults of the node, of its management library and host. Healthy by default."""

    speed: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("compute", "memory", "host", "link"), 1.0))
    """Share of the healthy rate, by the part of the device that does the work."""
    slow: dict[str, float] = field(default_factory=dict)
    """Share of the healthy rate for single metrics, by the beginning of their names: "matmul.fp8"."""
    clock: float = 1.0
    """Share of the healthy clock, which also scales the compute rate."""
    fades: float = 0.0
    """Share of the clock that is lost at the temperature that the device reaches at its power limit."""
    throttles: list[Throttle] = field(default_factory=list)
    """Reasons that come and go; the model adds what those that hold now do to the clock and the reasons."""
    below_cap: bool = False
    """True if something else holds the clock below the one at which the power limit would."""
    throttled: dict[str, float] = field(default_factory=dict)
    """Share of the time under load that a counter of board.BOARD_COUNTERS counts, by counter."""
    reasons: int = 0
    """Bits of the clock event reasons under load."""
    degrees: float = 0.0
    """Kelvin above the healthy temperature under load."""
    power: float = 1.0
    """Share of the SKU's power limit that is set."""
    draw: float = 1.0
    """Share of a healthy device's power draw at the same power limit."""
    shows: dict[str, Any] = field(default_factory=dict)
    """Values that the management library reports instead of the healthy ones, by the names that management.py uses."""
    event: str = ""
    """Event on the device: "lost", "hang", "crash", "late", "ecc"; "missing" if the library does not list it."""
    flips: str = ""
    """Data with flipped bits: "matmul", "always" (the same bits of every product), "copy", "memory", "collective"."""
    library: str = ""
    """State of the management library: "missing", "not loaded", "mismatched", "blocked"."""
    host: dict[str, str | bytes | tuple[str, str]] = field(default_factory=dict)
    """Files of the host by path below its root. A text "-> PATH" is a link; of two texts the second appears once a
    device has worked. Everything else of the host is not simulated."""


@dataclass(frozen=True)
class FaultKind:
    """One fault: what it does, the checks that should catch it, and its parameters with their defaults."""

    name: str
    does: str
    caught_by: str
    apply: Callable[..., None]
    parameters: Mapping[str, Any]
    of_node: bool = False
    """True if the fault concerns the node and not a device."""
    begins: bool = True
    """False if the fault is always there from the start (no `at`)."""


_share = yaml_nodes.number_that(lambda value: 0 < value < 1, "a share between 0 and 1")
LINK_ERRORS = ("replay", "recovery", "crc", "effective")
"""Error counters of NVLinks, the last one from NVLink 5 on. For xGMI the library only reports that errors occurred."""
HOT = {
    "hw": ("hw_thermal_s", ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL),
    "sw": ("sw_thermal_s", ClockEvent.SW_THERMAL),
    "memory": ("memory_thermal_s", ClockEvent.SW_THERMAL),
    "regulators": ("regulators_thermal_s", ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL),
}
"""Counter and clock event reasons, by the part that is too hot or the mechanism that reports it."""
RAS_BLOCKS = ("umc", "sdma", "gfx", "mmhub", "xgmi_wafl")
"""Blocks of an AMD GPU that count errors (amdsmi.h, AMDSMI_GPU_BLOCK_*)."""
FLIPPED = ("matmul", "always", "copy", "memory", "collective")
FAULT_DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8")

PARAMETERS: dict[str, tuple[Check, str]] = {
    "by": (_share, "share of the healthy value that is lost on average, between 0 and 1"),
    "share": (_share, "share of the time under load, between 0 and 1"),
    "kind": (yaml_nodes.one_of(*HOT), f"one of {', '.join(HOT)}"),
    "block": (yaml_nodes.one_of(*RAS_BLOCKS), f"one of {', '.join(RAS_BLOCKS)}"),
    "what": (yaml_nodes.one_of(*FLIPPED), f"one of {', '.join(FLIPPED)}"),
    "dtype": (yaml_nodes.one_of(*FAULT_DTYPES), f"one of {', '.join(FAULT_DTYPES)}"),
    "degrees": (yaml_nodes.positive, "difference in kelvin"),
    "gigabytes": (yaml_nodes.positive, "GB in use"),
    "percent": (yaml_nodes.positive, "utilisation in percent"),
    "gen": (yaml_nodes.count, "PCIe generation"),
    "width": (yaml_nodes.count, "PCIe lanes"),
    "version": (yaml_nodes.text, "version"),
    "number": (yaml_nodes.count, "number of the Xid"),
    "links": (yaml_nodes.count, "number of links"),
    "model": (yaml_nodes.text, "full name of a product"),
    "of": (yaml_nodes.one_of(*LINK_ERRORS), f"one of {', '.join(LINK_ERRORS)}"),
    "count": (yaml_nodes.count, "number of errors"),
}
"""Check and description of every parameter. A parameter has the same meaning in every fault that has it."""

OTHER_PARTS = {"NVIDIA H800": "2324", "AMD Instinct MI308X": "74a2"}
"""The PCI ids of other products, by name: a name alone makes no other product (see `Sku.differences`)."""

FAULTS: dict[str, FaultKind] = {}
Apply = TypeVar("Apply", bound=Callable[..., None])


def fault(name: str, caught_by: str, *, of_node: bool = False, begins: bool = True) -> Callable[[Apply], Apply]:
    """Register a function as a fault: its docstring is the description, its keywords are the parameters."""

    def enter(function: Apply) -> Apply:
        keywords = list(inspect.signature(function).parameters.values())[1:]
        defaults = {keyword.name: keyword.default for keyword in keywords}
        does = inspect.getdoc(function) or ""
        FAULTS[name] = FaultKind(name, does, caught_by, function, defaults, of_node, begins and not of_node)
        return function

    return enter


# -- slower


@fault("slow-compute", "matmul.*, soak.rate")
def _(symptoms: Symptoms, by: float = 0.12) -> None:
    """Slow down matrix products at full clock; no throttle reason is reported."""
    symptoms.speed["compute"] *= 1 - by


@fault("slow-memory", "stream.*")
def _(symptoms: Symptoms, by: float = 0.12) -> None:
    """Reduce the bandwidth of device memory."""
    symptoms.speed["memory"] *= 1 - by


@fault("slow-dtype", "matmul.* of that dtype")
def _(symptoms: Symptoms, dtype: str = "fp8", by: float = 0.12) -> None:
    """Slow down matrix products of one dtype, as if the device did not use its fast kernel."""
    for name in (f"matmul.{dtype}", *(["soak.rate"] if dtype == "bf16" else [])):
        symptoms.slow[name] = 1 - by


@fault("slow-writes", "stream.copy, stream.copy_kernel, stream.triad")
def _(symptoms: Symptoms, by: float = 0.12) -> None:
    """Slow down writes to device memory, but not reads."""
    for writes in ("copy", "copy_kernel", "triad"):
        symptoms.slow[f"stream.{writes}"] = 1 - by


@fault("slow-uploads", "host_copy.h2d")
def _(symptoms: Symptoms, by: float = 0.12) -> None:
    """Slow down copies to the device, but not those to the host."""
    symptoms.slow["host_copy.h2d"] = 1 - by


@fault("slow-downloads", "host_copy.d2h")
def _(symptoms: Symptoms, by: float = 0.12) -> None:
    """Slow down copies to the host, but not those to the device."""
    symptoms.slow["host_copy.d2h"] = 1 - by


@fault("slow-collective", "all_reduce.* and the other collectives")
def _(symptoms: Symptoms, by: float = 0.23) -> None:
    """Slow down collectives but not copies between two devices, as without reduction in the network."""
    symptoms.slow.update(dict.fromkeys(OPERATIONS, 1 - by))


@fault("peers-staged", "peer_copy.*")
def _(symptoms: Symptoms, by: float = 0.9) -> None:
    """Stage copies from and to the peers of this device through the host."""
    symptoms.slow["peer_copy"] = 1 - by


@fault("narrow-pcie", "host_copy.*, host_copy_all.*")
def _(symptoms: Symptoms, width: int = 8) -> None:
    """Train the host link with fewer lanes than the slot has."""
    symptoms.shows["pcie_width"] = width


@fault("pcie-gen", "host_copy.*, host_copy_all.*")
def _(symptoms: Symptoms, gen: int = 4) -> None:
    """Train the host link at an older PCIe generation. Each generation is half as fast as the next."""
    symptoms.shows["pcie_gen"] = gen


@fault("slow-link", "peer_copy.*, all_reduce.* and the other collectives")
def _(symptoms: Symptoms, by: float = 0.12) -> None:
    """Reduce the bandwidth of the peer links. Collectives are as slow as their slowest device."""
    symptoms.speed["link"] *= 1 - by


# -- heat and power


@fault("thermal-slowdown", "soak.throttle.hw_thermal or .sw_thermal, matmul.*, soak.rate")
def _(symptoms: Symptoms, by: float = 0.15, kind: str = "hw", share: float = 0.4) -> None:
    """Overheat the device, so that it lowers its clock."""
    symptoms.degrees += 22
    symptoms.throttles.append(Throttle(by, share, *HOT[kind]))


@fault("cooling-fades", "soak.droop_slow, matmul.*")
def _(symptoms: Symptoms, by: float = 0.4) -> None:
    """Lower the clock with rising temperature without counting it, as with bad contact of the cooler."""
    symptoms.fades = by
    symptoms.below_cap = True


@fault("power-brake", "soak.throttle.power_brake, matmul.*, soak.rate")
def _(symptoms: Symptoms, by: float = 0.3, share: float = 0.5) -> None:
    """Let the chassis or its power supply trigger the power brake."""
    reasons = ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE
    symptoms.throttles.append(Throttle(by, share, "hw_power_brake_s", reasons, spares_power=True))


@fault("power-cap-lowered", "health.power_limit_lowered, inventory.power_limit; matmul.*, soak.rate")
def _(symptoms: Symptoms, by: float = 0.3) -> None:
    """Lower the power limit. The clock is assumed to lose half of that share."""
    symptoms.power *= 1 - by
    symptoms.clock *= 1 - by / 2


@fault("clock-locked", "health.clock_lock; matmul.*, soak.rate")
def _(symptoms: Symptoms, by: float = 0.25) -> None:
    """Lock the clock below the one that the device would choose."""
    symptoms.clock *= 1 - by
    symptoms.below_cap = True
    symptoms.reasons |= ClockEvent.APPLICATION_CLOCKS


@fault("clock-limited", "matmul.*, soak.rate")
def _(symptoms: Symptoms, by: float = 0.2) -> None:
    """Hold the clock below the one that the device would choose, by a limit that no reason names."""
    symptoms.clock *= 1 - by
    symptoms.below_cap = True


@fault("clock-oscillates", "matmul.*, soak.rate")
def _(symptoms: Symptoms, by: float = 0.15, share: float = 0.5) -> None:
    """Let the clock go down and up again every few seconds, for a reason that no library names."""
    symptoms.throttles.append(Throttle(by, share, "", 0))


@fault("sync-boost", "health.clock_lock, matmul.*, soak.rate")
def _(symptoms: Symptoms, by: float = 0.15) -> None:
    """Put the device into a sync boost group, whose slowest device sets the clock."""
    symptoms.clock *= 1 - by
    symptoms.below_cap = True
    symptoms.reasons |= ClockEvent.SYNC_BOOST
    symptoms.shows["reasons"] = symptoms.shows.get("reasons", 0) | ClockEvent.SYNC_BOOST


@fault("capped", "no check: power capping is normal")
def _(symptoms: Symptoms) -> None:
    """Cap the power all the time under load, without making the device slower than its neighbours."""
    symptoms.throttled["sw_power_cap_s"] = 1.0


@fault("low-power", "soak.power where the SKU's file limits it")
def _(symptoms: Symptoms, by: float = 0.4) -> None:
    """Reduce the power draw under load below the limit; no throttle reason is reported."""
    symptoms.draw *= 1 - by


@fault("hw-slowdown", "soak.throttle.hw_slowdown, matmul.*")
def _(symptoms: Symptoms, by: float = 0.1, share: float = 0.5) -> None:
    """Let the hardware lower the clock and name neither heat nor the power brake."""
    symptoms.throttles.append(Throttle(by, share, "", ClockEvent.HW_SLOWDOWN))


@fault("hot", "soak.thermal_margin, if the device becomes as hot as it is where it slows itself down")
def _(symptoms: Symptoms, degrees: float = 15.0) -> None:
    """Raise the temperature above that of the other devices, without a slowdown."""
    symptoms.degrees += degrees


# -- lost, hung, dead


@fault("device-missing", "inventory.driver, inventory.count", begins=False)
def _(symptoms: Symptoms) -> None:
    """Hide the device from the management library, but not from the PCI bus."""
    symptoms.event = "missing"


@fault("device-lost", "inventory.count from the start; later the metric that is being measured")
def _(symptoms: Symptoms) -> None:
    """Drop the device off the bus: the management library reports it as lost, and every kernel fails."""
    symptoms.event = "lost"


@fault("hang", "the metric that is being measured, after --accel-patience seconds (thrice, unless most are ready)")
def _(symptoms: Symptoms) -> None:
    """Let a kernel run for ever, while the management library still answers."""
    symptoms.event = "hang"


@fault("crash", "the metric that is being measured")
def _(symptoms: Symptoms) -> None:
    """Kill the worker process during its work."""
    symptoms.event = "crash"


@fault("ecc-uncorrectable", "the metric that is being measured")
def _(symptoms: Symptoms) -> None:
    """Raise an uncorrectable memory error, after which the context is lost."""
    symptoms.event = "ecc"


@fault("rank-never-arrives", "all collectives, ddp.*, after three times --accel-patience seconds")
def _(symptoms: Symptoms) -> None:
    """Keep the rank of the device from joining the process group."""
    symptoms.event = "late"


# -- counted, and nothing else


@fault("ecc-corrected", "counters.ecc_corrected (MARGINAL), once it begins during the run")
def _(symptoms: Symptoms, count: int = 12) -> None:
    """Count corrected memory errors."""
    symptoms.shows["ecc_corrected"] = count


@fault("link-errors", "counters.nvlink_* or .xgmi_uncorrectable, once it begins during the run")
def _(symptoms: Symptoms, of: str = "recovery", count: int = 1) -> None:
    """Count errors on one link to a peer, without other symptoms."""
    symptoms.shows[f"nvlink_{of}"] = count


@fault("pcie-replays", "counters.pcie_replays, once it begins during the run")
def _(symptoms: Symptoms, count: int = 30) -> None:
    """Count replayed packets on the PCIe link."""
    symptoms.shows["pcie_replays"] = count


@fault("xid", "counters.xid_hardware, or counters.xid_application (MARGINAL), once it begins during the run")
def _(symptoms: Symptoms, number: int = 79) -> None:
    """Report an Xid, without other symptoms."""
    symptoms.shows["xid"] = number


# -- wrong


@fault("wrong-result", "matmul.*, exact_matmul.*, soak.rate; stream.*, host_copy.*; memory_pattern.*; all collectives")
def _(symptoms: Symptoms, what: str = "matmul") -> None:
    """Flip one bit of every product, copy, stored pattern or result of a collective, in the real data."""
    symptoms.flips = what


# -- configuration and software


@fault("mig-on", "the run is refused", begins=False)
def _(symptoms: Symptoms) -> None:
    """Turn MIG mode on, or (AMD) divide the compute dies of the device (CPX)."""
    symptoms.shows["mig"] = True


@fault("foreign-process", "health.foreign_processes is INCONCLUSIVE, like every other shortfall", begins=False)
def _(symptoms: Symptoms, gigabytes: float = 20.0, percent: float = 90.0) -> None:
    """Let another process hold memory of the device and compute on it."""
    symptoms.shows["used_gb"], symptoms.shows["busy"] = gigabytes, percent
    symptoms.shows["pids"] = (4242,)


@fault("ecc-off", "inventory.ecc", begins=False)
def _(symptoms: Symptoms) -> None:
    """Turn the memory's error correction off."""
    symptoms.shows["ecc"] = False


@fault("wrong-vbios", "inventory.vbios", begins=False)
def _(symptoms: Symptoms, version: str = "96.00.61.00.01") -> None:
    """Show a different VBIOS than the other devices."""
    symptoms.shows["vbios"] = version


@fault("wrong-product", "inventory.sku", begins=False)
def _(symptoms: Symptoms, model: str = "NVIDIA H800") -> None:
    """Put another product into the slot."""
    symptoms.shows["model"] = model
    symptoms.shows["part_id"] = OTHER_PARTS.get(model, "ffff")


# -- errors and repairs that the device remembers


@fault("ecc-counted", "health.ecc_uncorrectable_volatile; later counters.ecc_uncorrectable")
def _(symptoms: Symptoms, count: int = 1) -> None:
    """Count uncorrectable memory errors, without other symptoms."""
    symptoms.shows["ecc_uncorrectable"] = count


@fault("ras-errors", "health.ecc_uncorrectable_volatile; later counters.ecc_uncorrectable")
def _(symptoms: Symptoms, block: str = "gfx", count: int = 1) -> None:
    """Count uncorrectable errors in one block of an AMD GPU."""
    symptoms.shows["ras"] = {block.upper(): count}


@fault("remap-pending", "health.remap_pending or .bad_pages_pending; later counters.remap_pending or .bad_pages")
def _(symptoms: Symptoms) -> None:
    """Mark a row or page of the memory to be replaced at the next reset."""
    symptoms.shows["remap_pending"] = 1


@fault("remap-failure", "health.remap_failure or .bad_pages_unreservable; later counters.remap_failure or .bad_pages")
def _(symptoms: Symptoms) -> None:
    """Report a row or page of the memory that could not be replaced."""
    symptoms.shows["remap_failure"] = 1


@fault("nvlink-down", "health.nvlink_up or .xgmi_up, later counters.nvlink_down or .xgmi_down; peer_copy.*")
def _(symptoms: Symptoms, links: int = 1) -> None:
    """Take some links to the peers down; the remaining links carry the traffic."""
    symptoms.shows["links_down"] = links


@fault("fabric-not-ready", "health.fabric", begins=False)
def _(symptoms: Symptoms) -> None:
    """Report that the fabric manager has not finished. CUDA would not start either, which is not simulated."""
    symptoms.shows["fabric_state"] = 2


def description(kind: FaultKind) -> list[str]:
    """Return the description of a fault of a node line by line: effect, parameters, checks that should catch it."""
    described = [f"{name}: {PARAMETERS[name][1]} (default {default})" for name, default in kind.parameters.items()]
    return [kind.does, *described, f"caught by: {kind.caught_by}"]
