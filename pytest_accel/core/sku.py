"""Sku, Platform, Limit: what a device is expected to be, where it sits, and what is accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from pytest_accel.core.measurement import Device, Value
from pytest_accel.core.metrics import parse

LEVELS = ("quick", "standard", "long")

UNITS = (
    "TFLOPS",
    "TOPS",
    "GB/s",
    "ms",
    "s",
    "us",
    "W",
    "C",
    "MHz",
    "GB",
    "1",
    "count",
    "text",
    "version",
    "of peak",
    "per h",
    "per min",
    "per s",
)
"""Decimal units. "of peak" is a fraction of the peak of the same metric, "1" any other ratio."""

DTYPES = ("fp64", "fp64_vector", "fp32", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4", "int8")
"""What a datasheet may state a rate for: the fastest path of a matrix product, and fp64 without tensor cores."""

PRODUCTS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "fp4", "nvfp4", "mxfp4", "int8")
"""What a matrix product may be asked in. fp4 is the format behind the datasheet's figure: nvfp4 or mxfp4."""
SHEET = {"mxfp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4"}
"""The dtype of the datasheet whose rate a format with scaled blocks has."""

TOPOLOGIES = ("switch", "mesh", "bridge", "none")
"""How the devices of a node are linked: every pair at full rate, one link a pair, in twos, or not at all."""

MEMORY_SHOWN = (0.93, 1.10)
"""What a device may show of its nominal memory: "80 GB" are 81,559 MiB (1.07), ECC may take a sixteenth of it."""


@dataclass(frozen=True)
class Source:
    """Where a figure comes from. `kind` is datasheet, published, measured or derived."""

    kind: str
    by: str
    date: str
    software: str = ""
    conditions: str = ""
    url: str = ""
    devices: int | None = None
    nodes: int | None = None


class DeclaredBy(Enum):
    """Where a limit is declared."""

    SKU_FILE = "SKU file"
    """A shipped threshold file of one SKU."""
    VENDOR_FILE = "vendor file"
    """The shipped file that holds the limits of all parts of a vendor."""
    OWN_FILE = "own file"
    """A threshold file of the user's own."""
    MARKER = "marker"
    """A marker of a test."""
    RUN = "run"
    """The run itself, which expects the devices and links that the SKU's platform has."""


@dataclass(frozen=True)
class Limit:
    """One of floor, ceiling, range (both), equals, version or same-on-all for one metric.

    `declared_by` is the kind of place where it was declared, and `origin` names the place for a person: file and
    line, or the test that carries the marker. `levels` are those that require it; at others the metric is information.
    `of_reference` is set when the floor was derived from `reference`.
    """

    metric: str
    unit: str
    floor: float | None = None
    ceiling: float | None = None
    warn: float | None = None
    """A value past this one, on the way to the bound, holds but is marginal."""
    equals: Value | None = None
    version: str | None = None
    """A range of versions (">=550.54") that the value lies in."""
    same_on_all: bool = False
    """The devices of the node have the same value; blamed is the one that differs from most."""
    severity: str = "fail"
    """What breaking it means: "fail", or "warn" for advice, which makes a verdict MARGINAL and requires nothing."""
    if_supported: bool = False
    """The limit holds where the device turns out to have the path, and asks for nothing where it has not."""
    of_unit: str | None = None
    """The unit that the metric must have for a fraction of its peak to be meant."""
    reference: float | None = None
    of_reference: float | None = None
    levels: tuple[str, ...] = LEVELS
    source: Source | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    """The versions that the limit was validated on, by name: {"nccl": ">=2.18"}."""
    origin: str = ""
    declared_by: DeclaredBy = DeclaredBy.SKU_FILE
    overridden: bool = False

    @property
    def required(self) -> bool:
        """True if it fails what breaks it, and what could not be measured."""
        return self.severity == "fail" and not self.if_supported

    @property
    def relative(self) -> bool:
        """True if floor and ceiling are fractions of the metric's peak."""
        return self.unit == "of peak"


@dataclass(frozen=True)
class Spread:
    """How far the values of runs of one healthy device lie apart.

    `between_runs` is one standard deviation as a share of the value, over so many `runs`.
    """

    between_runs: float
    runs: int
    source: Source


@dataclass(frozen=True)
class Platform:
    """Where the SKU sits. `devices` is the expected number, None where any number is right.

    `pcie` has gen, lanes, gb_per_s; `host_link` (where the host is not reached by PCIe) and `link` (to the peers)
    have type, topology, count, gb_per_s; all rates per direction. `power_watts` is the limit that this platform
    sets where it is not the datasheet's. `virtual`: the devices are virtual functions of a hypervisor;
    `passed_through`: they are whole devices in a virtual machine.
    """

    name: str
    devices: int | None
    title: str = ""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    pcie: Mapping[str, float] = field(default_factory=dict)
    host_link: Mapping[str, Any] = field(default_factory=dict)
    link: Mapping[str, Any] = field(default_factory=dict)
    power_watts: float | None = None
    virtual: bool = False
    passed_through: bool = False
    source: Source | None = None
    overridden: bool = False
    """True if a user's own file changed what is expected of the devices: their number, their links."""

    @property
    def pair_gb_per_s(self) -> float | None:
        """The rate between two devices: all of a device's links through a switch, its share of them in a mesh."""
        rate: float | None = self.link.get("gb_per_s")
        if rate is None or self.link.get("topology") != "mesh":
            return rate
        return rate / (self.devices - 1) if self.devices and self.devices > 1 else None


@dataclass(frozen=True)
class Datasheet:
    """What the vendor promises of one device as its driver shows it (of one of two in a module). Dense, never sparse.

    `tflops` by dtype (for int8 TOPS); `unsupported` dtypes have no fast path; one in neither is not known. `memory`
    has gb, gb_per_s, type, clock_mhz, bus_bits; `compute` units, kind, clocks and FLOPs per clock and unit;
    `power` watts, min_watts, max_watts; `temperature` limits in C.
    """

    tflops: Mapping[str, float] = field(default_factory=dict)
    unsupported: Sequence[str] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)
    compute: Mapping[str, Any] = field(default_factory=dict)
    power: Mapping[str, float] = field(default_factory=dict)
    temperature: Mapping[str, float] = field(default_factory=dict)
    source: Source | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    """Sources of single values ("tflops.int8") and groups ("memory") that have one of their own."""

    def source_of(self, key: str) -> Source | None:
        """Where a value such as "tflops.int8" comes from: its own source, its group's, or that of the whole."""
        return self.sources.get(key) or self.sources.get(key.partition(".")[0]) or self.source


@dataclass(frozen=True)
class Sku:
    """One accelerator product in one form factor, as its threshold file describes it."""

    name: str
    title: str
    vendor: str
    match: Mapping[str, Any]
    datasheet: Datasheet
    limits: Mapping[str, Limit]
    platforms: Mapping[str, Platform]
    probes: Mapping[str, Mapping[str, Any]]
    budgets: Mapping[str, Mapping[str, float]]
    not_applicable: Mapping[str, str]
    architecture: str = ""
    precision: float = 0.01
    """Half-width of an interval, as a share of the value, at which a probe stops sampling."""
    spread: Mapping[str, Spread] = field(default_factory=dict)
    """By metric, or by probe for all metrics of it."""
    rematched: bool = False
    """True if a user's own file changed what the product is recognised by."""
    own_file: str | None = None
    """The path of a file of the user's own; None for a shipped one."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Every file that a value came from, with its SHA-256."""

    def recognises(self, device: Device) -> bool:
        """True if nothing that the device says of itself contradicts what the file says of the product."""
        return self.why_not(device) is None

    def why_not(self, device: Device) -> str | None:
        """The first thing that tells the device from this product, or None if it is one.

        Whole names and ids, never prefixes: H20 / H200, L4 / L40S, A10 / A100. Where both sides state a name, PCI id,
        subsystem, number of compute units or memory size, they have to agree; name or PCI id has to be among them.
        """
        if self.vendor != device.driver:
            return f"it is a device of the driver {device.driver}, not of {self.vendor}"
        if not self.match:
            return None  # a file without `match` is for whatever its owner names it for
        ids = [*self.match.get("pci_ids", ()), *self.match.get("virtual_functions", ())]
        stated = (
            ("name", self.match.get("names", ()), device.model),
            ("PCI id", ids, device.pci_id),
            ("subsystem", self.match.get("subsystems", ()), device.facts.get("pci_subsystem")),
            ("number of compute units", self.match.get("compute_units", ()), device.facts.get("compute_units")),
        )
        for what, known, found in stated:
            if known and found and found not in known:
                return f"its {what} is {found}, not {' or '.join(map(str, known))}"
        if not any(known and found for _, known, found in stated[:2]):
            return "it states neither a name nor a PCI id that the file knows"
        return self._other_memory(device)

    def _other_memory(self, device: Device) -> str | None:
        nominal, found = float(self.datasheet.memory.get("gb", 0.0)), device.memory_bytes / 1e9
        low, high = MEMORY_SHOWN
        if nominal and found and not low * nominal <= found <= high * nominal:
            return f"its memory is {found:.1f} GB, not {nominal:g} GB"
        return None

    def limits_on(self, platform: Platform) -> dict[str, Limit]:
        """All limits by metric, those of the platform over those of the SKU."""
        return {**self.limits, **platform.limits}

    def spread_of(self, metric: str) -> Spread | None:
        """How far the values of a metric lie apart from run to run, or None where nobody measured it."""
        return self.spread.get(metric) or self.spread.get(parse(metric).probe)


def expected_platform(sku: Sku, devices: Sequence[Device]) -> tuple[Platform, bool]:
    """The platform that the devices point to, and whether it may be taken for granted.

    The first platform of the file is the usual one. Another is recognised only if the count fits it exactly,
    and then somebody has to confirm it by naming it: seven of eight devices may have vanished. Virtual functions
    and devices that say they are passed through sit on a platform for them, where the file has one: the host copies
    of a virtual machine are not those of bare metal. One function among whole devices makes no such platform of them.
    """
    count = len(devices)
    if devices and all(device.facts.get("virtualization") == "passthrough" for device in devices):
        for platform in sku.platforms.values():
            if platform.passed_through and platform.devices == count:
                return platform, True
    functions = sku.match.get("virtual_functions", ())
    virtual = bool(devices) and all(device.pci_id in functions for device in devices)
    fitting = [each for each in sku.platforms.values() if each.virtual == virtual] or list(sku.platforms.values())
    first, *others = fitting
    if first.devices in (None, count):
        return first, True
    for platform in others:
        if platform.devices in (None, count):
            return platform, False
    return first, True
