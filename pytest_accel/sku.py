"""Sku, Platform, Limit: what a device is expected to be, where it sits, and what is accepted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.measurement import Device, Value

LEVELS = ("quick", "standard", "long")

UNITS = ("TFLOPS", "TOPS", "GB/s", "ms", "s", "us", "W", "C", "MHz", "GB", "1", "count", "text", "of peak")
"""Decimal units. "of peak" is a fraction of the peak of the same metric, "1" any other ratio."""

DERIVED_FLOOR = {
    "matmul": 0.92,
    "stream": 0.93,
    "host_copy": 0.95,
    "host_copy_all": 0.95,
    "peer_copy": 0.965,
    "all_reduce": 0.94,
    "soak": 0.92,
}
"""`floor: derived` in a threshold file is this fraction of the limit's healthy reference, by probe.

Chosen between the spread of healthy parts and the smallest fault worth finding: 17 of 18 NVLinks leave
0.944 of a peer copy, floors that operators trust sit at 0.90 to 0.97 of healthy values.
"""


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


@dataclass(frozen=True)
class Limit:
    """One of floor, ceiling, range (both), equals or same-on-all for one metric.

    `origin` says where it was declared (file and line, or the test that carries the marker). `levels` are
    those that require it. `of_reference` is set when the floor was derived from `reference`.
    """

    metric: str
    unit: str
    floor: float | None = None
    ceiling: float | None = None
    warn: float | None = None
    """A value past this one, on the way to the bound, holds but is marginal."""
    equals: Value | None = None
    same_on_all: bool = False
    if_supported: bool = False
    """The limit holds where the device turns out to have the path, and asks for nothing where it has not."""
    of_unit: str | None = None
    """The unit that the metric must have for a fraction of its peak to be meant."""
    reference: float | None = None
    of_reference: float | None = None
    levels: tuple[str, ...] = LEVELS
    source: Source | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    origin: str = ""
    overridden: bool = False

    @property
    def relative(self) -> bool:
        """True if floor and ceiling are fractions of the metric's peak."""
        return self.unit == "of peak"


@dataclass(frozen=True)
class Platform:
    """Where the SKU sits. `devices` is the expected number, None where any number is right."""

    name: str
    devices: int | None
    limits: Mapping[str, Limit] = field(default_factory=dict)
    pcie: Mapping[str, float] = field(default_factory=dict)
    link: Mapping[str, Any] = field(default_factory=dict)
    overridden: bool = False
    """True if a user's own file changed the number of devices."""


@dataclass(frozen=True)
class Sku:
    """One accelerator product in one form factor, as its threshold file describes it."""

    name: str
    title: str
    vendor: str
    match: Mapping[str, Sequence[str]]
    tflops: Mapping[str, float]
    memory: Mapping[str, float]
    limits: Mapping[str, Limit]
    platforms: Mapping[str, Platform]
    probes: Mapping[str, Mapping[str, Any]]
    budgets: Mapping[str, Mapping[str, float]]
    not_applicable: Mapping[str, str]
    power_watts: float | None = None
    precision: float = 0.01
    """Half-width of an interval, as a share of the value, at which a probe stops sampling."""
    own_file: str | None = None
    """The path of a file of the user's own; None for a shipped one."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Every file that a value came from, with its SHA-256."""

    def recognises(self, device: Device) -> bool:
        """True if the device is this product: by its whole name, or by its PCI id where either has no name."""
        if self.vendor != device.driver:
            return False
        names, ids = self.match.get("names", ()), self.match.get("pci_ids", ())
        if not names and not ids:
            return True  # a file without `match` is for whatever its owner names it for
        return device.model in names if device.model and names else device.pci_id in ids

    def limits_on(self, platform: Platform) -> dict[str, Limit]:
        """All limits by metric, those of the platform over those of the SKU."""
        return {**self.limits, **platform.limits}

    def peak(self, metric: str, platform: Platform) -> tuple[float, str] | None:
        """The datasheet figure that `metric` is a fraction of, and what it is; None where there is none."""
        probe, _, variant = metric.partition(".")
        variant = variant.partition("@")[0]
        if probe == "matmul" and variant in self.tflops:
            return self.tflops[variant], f"{variant} datasheet peak"
        if probe == "stream" and "gb_per_s" in self.memory:
            return self.memory["gb_per_s"], "memory datasheet peak"
        if probe.startswith("host_copy") and "gb_per_s" in platform.pcie:
            return platform.pcie["gb_per_s"] * (2 if variant == "both" else 1), "host link rate"
        if probe == "peer_copy" and "gb_per_s" in platform.link:
            return platform.link["gb_per_s"] * (2 if variant == "both" else 1), "peer link rate"
        return None

    def why_not_applicable(self, metric: str, platform: Platform) -> str | None:
        """Why the metric cannot exist on this product and platform, or None.

        Decided by what is expected, never by what was found.
        """
        if metric in self.not_applicable:
            return self.not_applicable[metric]
        probe, _, variant = metric.partition(".")
        if probe == "matmul" and self.tflops and variant.partition("@")[0] not in self.tflops:
            return f"{self.name} has no fast path for {variant}"
        if probe in ("peer_copy", "all_reduce", "ddp") and platform.devices == 1:
            return f"platform {platform.name} has one device"
        return None


def expected_platform(sku: Sku, count: int) -> tuple[Platform, bool]:
    """The platform that `count` devices point to, and whether it may be taken for granted.

    The first platform of the file is the usual one. Another is recognised only if the count fits it exactly,
    and then somebody has to confirm it by naming it: seven of eight devices may have vanished.
    """
    first, *others = sku.platforms.values()
    if first.devices in (None, count):
        return first, True
    for platform in others:
        if platform.devices in (None, count):
            return platform, False
    return first, True
