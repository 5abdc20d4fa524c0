"""Sku, Platform and Limit: the expected product, the node that it sits in, and the accepted values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final, Literal

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import Device, Value
from pytest_accel.core.metric_name import parse

DELIVERY: Final = "delivery"
"""The value of `same_on_all` that demands the same on all nodes of a delivery."""

UNITS = (
    "TFLOPS",
    "TOPS",
    "GB/s",
    "ms",
    "s",
    "us",
    "W",
    "C",
    "K",
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
"""Dtypes that a datasheet may state a rate for, by the fastest path of a matrix product; fp64_vector is fp64 without
tensor cores."""

MATMUL_DTYPES = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "fp4", "nvfp4", "mxfp4", "int8")
"""Dtypes of a matrix product that a probe measures. fp4 is the format behind the datasheet's figure: nvfp4 or mxfp4."""
DATASHEET_DTYPE = {"mxfp8": "fp8", "nvfp4": "fp4", "mxfp4": "fp4"}
"""The datasheet's dtype for each format with scaled blocks."""

TOPOLOGIES = ("switch", "mesh", "bridge", "none")
"""The links between the devices of a node: every pair at full rate, one link per pair, in pairs only, or none."""

MOST_DIGITS = 3
"""Digits of the number of devices behind the name of a platform: no node has a thousand."""

WHOLE = {"compute_partition": "SPX", "memory_partition": "NPS1"}
"""The modes of a whole device, by the fact that states each. A device that has no such modes is whole."""

MEMORY_SHOWN = (0.93, 1.10)
"""The range of the memory that a device reports, as a fraction of its nominal size: "80 GB" are 81,559 MiB (1.07), and
ECC may take a sixteenth."""


DISPLAY_CLASS = "0x0300"
"""The beginning of the PCI class of a display adapter. An accelerator without a monitor is a 3D controller (0x0302),
and a card for desktops is a display adapter too."""
DISPLAY_MEMORY = 0.25
"""The part of an accelerator's memory below which a display adapter beside it is only that: 2 to 8 GB beside 40 to 80.
Chosen."""

PARTS = (1, 2, 4, 8, 16)
"""The numbers of devices that boards, virtual machines and jobs have. Any other number is the rest of a board."""
SLICE, GUEST_SLICE = "slice", "vm-slice"
"""Names, before the number of devices, of a platform for a part of a node that a scheduler or a cloud hands out."""


@dataclass(frozen=True)
class Source:
    """The source of a figure. `kind` is datasheet, published, measured, agreed or derived."""

    kind: str
    by: str
    date: str
    software: str = ""
    conditions: str = ""
    url: str = ""
    devices: int | None = None
    nodes: int | None = None
    method: Mapping[str, Value] = field(default_factory=dict)
    """The method by which the figure was measured, in the words of the probe's own; empty if it is not known."""
    levels: tuple[str, ...] = ()
    """The levels whose method it was measured by; empty for a method that is the same at all levels."""
    simulated: bool = False
    """True if it was measured on simulated nodes: no hardware is judged by it."""


class DeclaredBy(Enum):
    """The kind of source that declares a limit."""

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
    CLASS = "class"
    """The file of the classes: no other limit bounds the metric."""


class Basis(Enum):
    """The origin of the figures behind a floor."""

    OWN = "own"
    """Figures that were measured with this package."""
    METHOD = "method"
    """Figures that others published and measured as our probe measures."""
    AGREED = "agreed"
    """Figures that the two sides of a delivery agreed on."""
    CLASS = "class"
    """The floor of a class: it finds gross faults alone."""


@dataclass(frozen=True)
class ClassFloor:
    """The floor of a class under one metric, far below which no healthy product of the class was ever published.

    `value` is in the unit of the metric, `share`, `lowest` and `highest` are fractions of the datasheet: the floor, and
    the lowest and the highest figure that were published for healthy products of the class. `factor` is what the floor
    is of the lowest, before it was rounded down.
    """

    value: float
    share: float
    lowest: float
    highest: float
    factor: float
    publishers: tuple[str, ...]
    """The publishers of the figures, each once."""
    row: str
    """The name of the row in the file of the classes."""
    of: str
    """The figure that they are fractions of: "bf16 datasheet peak"."""
    origin: str
    """File and line of the row."""
    software: Mapping[str, str] = field(default_factory=dict)
    """The versions from which on the figures of the row hold, by name. With older ones a value below it is
    INCONCLUSIVE."""
    unit: str = ""
    of_vendor: bool = False
    """True for a floor by other products of the vendor, where none of the class was published."""

    @property
    def excludes_half(self) -> bool:
        """True if it rejects a device that falls to half of the highest healthy figure.

        Of a product whose class nobody published that may be all of the datasheet.
        """
        return self.share > max(self.highest, 1.0 if self.of_vendor else 0.0) / 2


@dataclass(frozen=True)
class Figure:
    """The lowest and the highest value that somebody published for healthy devices, measured otherwise than here.

    It decides nothing. `highest` is None where only a pass bar was published, which healthy devices reach. `differs`
    says how the method differs from that of the probe, one text for each property.
    """

    lowest: float
    highest: float | None
    unit: str
    source: Source
    differs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Limit:
    """A floor, a ceiling, a range (both), or one of equals, one-of, version and same-on-all, for one metric.

    Breaking it is FAIL. `core.floor.floor_in_force` says which bound holds in a run: this one or that of the class.

    `declared_by` is the kind of source that declares it, and `origin` names that for a person: file and line, or
    the test that carries the marker. `levels` are those that require it; at other levels the metric is
    information. `of_reference` is the fraction of the lowest healthy figure, or of `reference` where no range is known,
    that the floor was derived with, if it was.
    """

    metric: str
    unit: str
    floor: float | None = None
    ceiling: float | None = None
    warn: float | None = None
    """A value between this one and the bound holds, but is marginal."""
    warn_per_kelvin: float = 0.0
    """Added to `warn` for each kelvin that the device warmed meanwhile."""
    second_sign: bool = False
    """True if breaking it is MARGINAL where no second sign confirms it: a note "single_sign"."""
    at: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Other bounds at single levels: {"quick": {"floor": 0.9}}."""
    equals: Value | None = None
    one_of: tuple[Value, ...] = ()
    """The values that hold; empty for a limit of another kind."""
    version: str | None = None
    """The range of versions (">=550.54") that the value has to lie in."""
    same_on_all: bool | Literal["delivery"] = False
    """True if all devices of the node must have the same value; the one that differs from the majority fails.

    "delivery" if all nodes of a delivery must have it besides; of a fact of the host, the run of a node cannot tell.
    """
    warns: bool = False
    """True if the file states a `warn` alone, which is the bound here: breaking it is MARGINAL."""
    if_supported: bool = False
    """True if the limit applies only to devices that turn out to support the path that it measures."""
    of_unit: str | None = None
    """The unit that the metric must have for the fraction of its peak to apply."""
    reference: float | None = None
    healthy: tuple[float, float] | None = None
    """The lowest and the highest figure that was published for healthy devices by the method of the source."""
    of_reference: float | None = None
    levels: tuple[str, ...] = LEVELS
    source: Source | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """The part of the method that only a run knows: ranks, algorithm, TunableOp."""
    software: Mapping[str, str] = field(default_factory=dict)
    """The versions that the limit was validated on, by name: {"nccl": ">=2.18"}."""
    origin: str = ""
    declared_by: DeclaredBy = DeclaredBy.SKU_FILE
    overridden: bool = False
    test: str = ""
    """The node id of the test whose marker declares it; empty for the limit of a file."""
    class_floor: ClassFloor | None = None
    """The floor of the class, which holds whatever this limit states. None for a metric without one."""
    published: Figure | None = None
    """The figure that others published for the metric, measured by another method."""

    def at_level(self, level: str) -> Limit:
        """Return the limit as it is at a level, with the bounds that it states for that.

        Figures that were measured by the method of other levels bound nothing at this one.
        """
        if self.source and self.source.levels and level not in self.source.levels:
            return self.without_bounds(f"level {', '.join(self.source.levels)} (ours: {level})")
        bounds: Mapping[str, Any] = self.at.get(level, {})
        return replace(self, **bounds, at={}) if self.at else self

    def without_bounds(self, *differs: str) -> Limit:
        """Return the limit without bounds, and with its figures as published ones, whose method `differs`."""
        figures = self.healthy or ((self.reference,) if self.reference else ())
        figure = self.published
        of_class = self.declared_by is DeclaredBy.CLASS
        if self.source and (figures or self.floor) and not (self.relative or of_class):
            unit, lowest = self.unit, figures[0] if figures else self.floor or 0.0
            figure = Figure(lowest, figures[-1] if figures else None, unit, self.source, differs)
        return replace(self, **UNBOUNDED, published=figure)

    @property
    def bounded(self) -> bool:
        """True if the limit states a bound."""
        bounds = (self.floor, self.ceiling, self.equals, self.version)
        return bool(self.one_of or self.same_on_all or any(bound is not None for bound in bounds))

    @property
    def highest(self) -> float | None:
        """The highest figure that is known of healthy devices, or the pass bar of others; None without any."""
        if self.healthy or self.reference or self.published is None:
            return self.healthy[1] if self.healthy else self.reference
        return self.published.highest or self.published.lowest

    @property
    def required(self) -> bool:
        """True if the limit demands a measurement: without one its verdict fails."""
        return not self.warns and not self.if_supported

    @property
    def relative(self) -> bool:
        """True if floor and ceiling are fractions of the metric's peak."""
        return self.unit == "of peak"


UNBOUNDED: Mapping[str, Any] = {
    "floor": None, "ceiling": None, "warn": None, "warn_per_kelvin": 0.0, "at": {}, "equals": None, "one_of": (),
    "version": None, "same_on_all": False, "reference": None, "healthy": None, "of_reference": None,
}  # fmt: skip
"""The fields of a limit without a bound."""


@dataclass(frozen=True)
class Spread:
    """The variation of a metric among healthy devices: standard deviations as fractions of the value.

    Each is None where it was not measured; at least one is stated.
    """

    source: Source
    between_devices: float | None = None
    """The deviation between devices of one node."""
    at_clock: float | None = None
    """The deviation between devices of the rate divided by the SM clock, for matrix products."""
    between_runs: float | None = None
    """The deviation between the runs of one device, estimated from `runs` runs."""
    runs: int | None = None
    declared_by: DeclaredBy = DeclaredBy.SKU_FILE
    widest: float | None = None
    """The widest range of matrix products at one clock that was published inside a healthy node of the class. A range
    at any clock, where `widest_raw` states no wider one, bounds it."""
    widest_raw: float | None = None
    """The widest range at any clock."""

    @property
    def own_probe(self) -> bool:
        """True if our own probes measured it on this product; a vendor's file states one product's for all of them."""
        return self.source.kind == "measured" and self.declared_by is not DeclaredBy.VENDOR_FILE

    @property
    def one_node(self) -> bool:
        """True if another tool measured it on no more than one node, or on another product."""
        return not self.own_probe and (self.declared_by is DeclaredBy.VENDOR_FILE or (self.source.nodes or 1) < 2)


@dataclass(frozen=True)
class Platform:
    """The kind of node that the SKU sits in.

    `devices` is the expected number, None if any number is right. `pcie` has gen, lanes and gb_per_s; `host_link` (for
    devices that reach the host by another link than PCIe) and `link` (to the peers) have type, topology, count and
    gb_per_s; all rates are per direction. `network`, the network to other nodes, has nics (the number of a node),
    gbit_per_s of each, link, nvls, nvlink_domain (the devices that NVLink joins over several nodes) and source; it is
    empty where no source states how nodes of the platform are cabled. `power_watts` is the power limit of this platform
    if it differs from the datasheet's. `virtual` means that the devices are virtual functions of a hypervisor,
    `passed_through` that they are whole devices in a virtual machine. `partition` has compute and memory, for devices
    that are parts of one.
    """

    name: str
    devices: int | None
    title: str = ""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    pcie: Mapping[str, float] = field(default_factory=dict)
    host_link: Mapping[str, Any] = field(default_factory=dict)
    link: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, Any] = field(default_factory=dict)
    power_watts: float | None = None
    virtual: bool = False
    passed_through: bool = False
    partition: Mapping[str, str] = field(default_factory=dict)
    source: Source | None = None
    overridden: bool = False
    """True if a user's own file changed the expected number or links of the devices."""

    @property
    def modes(self) -> dict[str, str]:
        """The modes in which its devices are partitioned, by fact; those of whole devices unless the platform says."""
        return {fact: self.partition.get(fact.partition("_")[0], mode) for fact, mode in WHOLE.items()}

    def is_divided_like(self, device: Device) -> bool:
        """Return True if the device is partitioned as the platform states; a device without modes is."""
        return all(device.facts.get(fact, mode) == mode for fact, mode in self.modes.items())

    @property
    def pair_gb_per_s(self) -> float | None:
        """The rate between two devices in GB/s: that of all links through a switch, of one peer's links in a mesh."""
        rate: float | None = self.link.get("gb_per_s")
        if rate is None or self.link.get("topology") != "mesh":
            return rate
        return rate / (self.devices - 1) if self.devices and self.devices > 1 else None

    @property
    def guest(self) -> bool:
        """True if the devices are in a virtual machine."""
        return self.virtual or self.passed_through

    @property
    def wire_gb_per_s(self) -> float | None:
        """The wire rate of all NICs of a node in GB/s per direction; None if the file does not state them."""
        complete = {"nics", "gbit_per_s"} <= self.network.keys()
        return float(self.network["nics"] * self.network["gbit_per_s"] / 8) if complete else None


@dataclass(frozen=True)
class Datasheet:
    """The vendor's figures for one device as the driver shows it, even if a module holds two. Dense, never sparse.

    `tflops` has the peaks by dtype (TOPS for int8); `unsupported` dtypes have no fast path; a dtype in neither is not
    known. `memory` has gb, gb_per_s, type, clock_mhz, bus_bits; `compute` has units, kind, clocks and FLOPs per clock
    and unit; `power` has watts, min_watts, max_watts; `temperature` has limits in C.
    """

    tflops: Mapping[str, float] = field(default_factory=dict)
    unsupported: Sequence[str] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)
    compute: Mapping[str, Any] = field(default_factory=dict)
    power: Mapping[str, float] = field(default_factory=dict)
    temperature: Mapping[str, float] = field(default_factory=dict)
    source: Source | None = None
    sources: Mapping[str, Source] = field(default_factory=dict)
    """The sources of single values ("tflops.int8") and groups ("memory") that differ from `source`."""
    overridden: frozenset[str] = frozenset()
    """The keys ("power.watts") of the values that a user's own file changed."""

    def source_of(self, key: str) -> Source | None:
        """Return the source of a value such as "tflops.int8": its own, its group's, or that of the datasheet."""
        return self.sources.get(key) or self.sources.get(key.partition(".")[0]) or self.source


@dataclass(frozen=True)
class Sku:
    """One accelerator product in one form factor, as its threshold file describes it."""

    name: str
    title: str
    vendor: str
    match: Mapping[str, Any] = field(default_factory=dict)
    datasheet: Datasheet = field(default_factory=Datasheet)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    platforms: Mapping[str, Platform] = field(default_factory=dict)
    probes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    budgets: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    not_applicable: Mapping[str, str] = field(default_factory=dict)
    architecture: str = ""
    card: bool = False
    """True for a card, which any host may have in its slots, and False for a part of a board."""
    precision: float = 0.01
    """The half-width of the interval, as a fraction of the value, at which a probe stops sampling."""
    spread: Mapping[str, Spread] = field(default_factory=dict)
    """The variation among healthy devices by metric, or by probe for all of its metrics."""
    widest: Spread | None = None
    """The widest range that was published inside a healthy node of the product's class, None where none was."""
    rematched: bool = False
    """True if a user's own file changed how the product is recognised."""
    own_file: str | None = None
    """The path of a user's own file; None for a shipped one."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The SHA-256 of every file that a value came from, by file."""
    calibrated_from: Sequence[str] = ()
    """The UUIDs of the devices that its own floors were calibrated from."""

    @property
    def rehearsed(self) -> str | None:
        """The first limit that was calibrated from simulated nodes, with file and line; None if there is none."""
        tables = [self.limits, *(platform.limits for platform in self.platforms.values())]
        for limit in (limit for table in tables for limit in table.values()):
            if limit.source and limit.source.simulated:
                return f"{limit.metric} ({limit.origin})"
        return None

    def matches_any(self, identifiers: Iterable[str]) -> bool:
        """Return True if the product is recognised by one of these names or PCI ids, whatever the name of its file."""
        return not {*self.match.get("names", ()), *self.match.get("pci_ids", ())}.isdisjoint(identifiers)

    def recognises(self, device: Device) -> bool:
        """Return True if the device is this product: see `mismatch`."""
        return self.mismatch(device) is None

    def renames(self, device: Device) -> bool:
        """Return True if the device is this product by everything but its name."""
        names = self.match.get("names", ())
        return bool(names) and device.model not in ("", *names) and self.recognises(device)

    def mismatch(self, device: Device) -> str | None:
        """Return the first of the `differences` between the device and this product, or None if the device is one."""
        return next(iter(self.differences(device)), None)

    def differences(self, device: Device) -> list[str]:
        """Return every difference between the device and this product, none if the device is one.

        The device and the file must agree on every property that both state: name, PCI id, subsystem, number of compute
        units, memory size. The name or the PCI id must be among these. A library or a maker may give a device another
        name: it need not agree where PCI id, compute units and memory do.
        """
        if self.vendor != device.driver:
            return [f"its driver is {device.driver}, not {self.vendor}"]
        if not self.match:
            return []  # a file without `match` applies to any device that its owner chooses it for
        ids = [*self.match.get("pci_ids", ()), *self.match.get("virtual_functions", ())]
        properties = (
            ("name", self.match.get("names", ()), device.model),
            ("PCI id", ids, device.pci_id),
            ("subsystem", self.match.get("subsystems", ()), device.facts.get("pci_subsystem")),
            ("number of compute units", self.match.get("compute_units", ()), device.facts.get("compute_units")),
        )
        mismatches = [  # names and ids as a whole, never by prefix: H20 / H200, L4 / L40S, A10 / A100
            f"its {label} is {value}, not {' or '.join(map(str, choices))}"
            for label, choices, value in properties
            if choices and value and value not in choices and not (label == "name" and self._by_silicon(device, ids))
        ]
        if not mismatches and not any(choices and value for _, choices, value in properties[:2]):
            mismatches.append("neither its name nor its PCI id is in the threshold file")
        return mismatches + self._other_memory(device)

    def _by_silicon(self, device: Device, ids: Sequence[str]) -> bool:
        """Return True if PCI id, number of compute units and memory say that a whole device is this product.

        A virtual GPU has the id of the whole one, and its own name.
        """
        facts, units = device.facts, self.datasheet.compute.get("units")
        is_whole = facts.get("virtualization") in ("none", "passthrough")
        matches = is_whole and device.pci_id in ids and units is not None and facts.get("compute_units") == units
        return matches and device.memory_bytes > 0 and not self._other_memory(device)

    def _other_memory(self, device: Device) -> list[str]:
        """Return the difference between the device's memory and that of the datasheet; empty if it fits, or unknown."""
        nominal, actual = float(self.datasheet.memory.get("gb", 0.0)), device.memory_bytes / 1e9
        low, high = MEMORY_SHOWN
        if self.datasheet.memory.get("shared"):
            low = 0.0  # the firmware carves out what the GPU is given of the processor's memory, as its owner sets it
        if nominal and actual and not low * nominal <= actual <= high * nominal:
            return [f"its memory is {actual:.1f} GB, not {nominal:g} GB"]
        return []

    def accelerators(self, devices: Sequence[Device]) -> list[Device]:
        """Return the devices without display adapters of another product, if any device is this product."""
        if not any(map(self.recognises, devices)):
            return list(devices)
        return [device for device in devices if not self._only_displays(device)]

    def _only_displays(self, device: Device) -> bool:
        """Return True for a small device of another name and id; where its PCI class is known, of that of displays."""
        is_named = device.model in self.match.get("names", ()) or device.pci_id in self.match.get("pci_ids", ())
        max_bytes = DISPLAY_MEMORY * 1e9 * float(self.datasheet.memory.get("gb", 0.0))
        shows = str(device.facts.get("pci_class", DISPLAY_CLASS)).startswith(DISPLAY_CLASS)
        foreign = bool(device.model and device.pci_id) and not is_named and not self.recognises(device)
        return foreign and 0 < device.memory_bytes < max_bytes and shows

    def slice_of(self, count: int, *, virtual: bool = False) -> Platform:
        """Return the platform of a part of a node of so many devices, of virtual functions or of whole devices.

        It has no limits of a node. Links that end at a switch are up in any part, and join its pairs as those of the
        whole; others may end outside of it.
        """
        candidates = self.platforms_for(virtual=virtual)
        typical = candidates[0]
        minimal = next((platform for platform in candidates if platform.devices == 1), replace(typical, limits={}))
        switched = typical.link.get("topology") == "switch"
        of_pairs = {metric: limit for metric, limit in typical.limits.items() if "ranks" not in limit.conditions}
        return replace(
            typical if switched else minimal,
            limits=of_pairs if switched else minimal.limits,
            name=f"{GUEST_SLICE if virtual else SLICE}{count}",
            title="a part of a node that a scheduler or a cloud hands out",
            devices=count,
            link=typical.link if switched else {},
            network={},
        )

    def platform_named(self, name: str) -> Platform | None:
        """Return the platform of a name, None if there is none.

        One of any number of devices is meant with a number behind its name, too: "pcie8" expects eight on "pcie", and
        "slice2" is two devices of any node.
        """
        base = name.rstrip("0123456789")
        digits = len(name) - len(base)
        count = int(name[len(base) :]) if 1 <= digits <= MOST_DIGITS else 0
        if count and base in (SLICE, GUEST_SLICE) and name not in self.platforms:
            return self.slice_of(count, virtual=base == GUEST_SLICE)
        if name in self.platforms or not count or base not in self.platforms:
            return self.platforms.get(name)
        platform = self.platforms[base]
        return replace(platform, name=name, devices=count) if platform.devices is None else None

    def platforms_for(self, *, virtual: bool) -> list[Platform]:
        """Return the platforms of virtual functions, or those of whole devices; all where the SKU has none such."""
        platforms = list(self.platforms.values())
        return [platform for platform in platforms if platform.virtual == virtual] or platforms

    @property
    def platform_names(self) -> list[str]:
        """The names of the platforms, with an N behind that of one of any number of devices."""
        return [*(name if platform.devices else f"{name}N" for name, platform in self.platforms.items()), f"{SLICE}N"]

    def limits_on(self, platform: Platform) -> dict[str, Limit]:
        """Return all limits by metric; those of the platform replace those of the SKU."""
        return {**self.limits, **platform.limits}

    def spread_of(self, metric: str) -> Spread | None:
        """Return the variation of a metric among healthy devices, or None if it was never measured."""
        spread = self.spread.get(metric) or self.spread.get(parse(metric).probe)
        if spread is None or spread.widest is not None or self.widest is None:
            return spread or self.widest
        return replace(spread, widest=self.widest.widest, widest_raw=self.widest.widest_raw)


def expected_platform(sku: Sku, devices: Sequence[Device]) -> tuple[Platform, bool]:
    """Return the platform that fits the devices, and False if the user has to confirm it by naming it.

    The first platform of the file is the usual one. Another is chosen only if the number of devices fits it exactly.
    Where no platform has this number, one of `PARTS` is taken for a slice, and any other for the usual platform with
    devices that are missing. Virtual functions and devices that report to be passed through get the platform for
    them, if the file has one.
    """
    count = len(devices)
    if devices and all(device.facts.get("virtualization") == "passthrough" for device in devices):
        for platform in sku.platforms.values():
            # the host copies of a virtual machine differ from those of bare metal
            if platform.passed_through and platform.devices == count:
                return platform, True
    functions = sku.match.get("virtual_functions", ())
    # all of them, not just one
    virtual = bool(devices) and all(device.pci_id in functions for device in devices)
    candidates = sku.platforms_for(virtual=virtual)
    fitting = [platform for platform in candidates if all(map(platform.is_divided_like, devices))] or candidates
    defaults = {device.facts.get("power_limit_default_w") for device in devices}
    first, *alternatives = fitting
    # a platform of the devices' own power goes before others of its count
    alternatives.sort(key=lambda platform: {platform.power_watts} != defaults)
    if first.devices in (None, count):
        return first, True
    for platform in alternatives:
        if platform.devices in (None, count):
            return platform, False  # to be confirmed: seven of eight devices may have vanished
    return (sku.slice_of(count, virtual=virtual), False) if count in PARTS else (first, True)


def is_unknown_part(sku: Sku, count: int) -> bool:
    """Return True for a number of devices that no platform of the SKU has, and that a part of a node may have."""
    return count in PARTS and not any(platform.devices in (None, count) for platform in sku.platforms.values())
