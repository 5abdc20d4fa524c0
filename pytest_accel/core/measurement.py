"""What a probe found: the value, the samples behind it, the conditions, or the reason that there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pytest_accel.core import details
from pytest_accel.core.details import Details
from pytest_accel.core.stats import Estimate, estimate, estimate_rate, estimate_ratio

NODE = "node"
"""The subject of a measurement that concerns all devices at once."""

EVERYTHING_ELSE = "everything else"
"""The entry among the `unread` facts of a device for all that have none of their own."""

Value = details.Value


def is_rate(unit: str) -> bool:
    """True for work per time, of which more is better: TFLOPS, TOPS, GB/s."""
    return unit.endswith(("/s", "OPS"))


def estimate_of(samples: Sequence[float], unit: str) -> Estimate:
    """What samples (one a block, in `unit`) are together: for a rate work over time, else their mean."""
    return estimate_rate(samples) if is_rate(unit) else estimate(samples)


@dataclass(frozen=True)
class Device:
    """One accelerator as its management library sees it.

    `uuid` is the identity; `index` (and `name`, "gpu0") is only its place in today's list.
    """

    uuid: str
    index: int = field(compare=False)
    driver: str = field(compare=False)
    model: str = field(compare=False)
    memory_bytes: int = field(default=0, compare=False)
    serial: str | None = field(default=None, compare=False)
    pci_id: str | None = field(default=None, compare=False)
    pci_address: str | None = field(default=None, compare=False)
    numa_node: int | None = field(default=None, compare=False)
    cpus: Sequence[int] = field(default=(), compare=False)
    """The logical CPUs to run on: those of the device itself (CPU), or those near it (GPU)."""
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Inventory for the record: firmware, limits, links, as the driver names them."""
    called: str = field(default="gpu", compare=False)
    """The short name of such a device, before its index. The sensor takes it from the vendor's declaration."""

    @property
    def product(self) -> str:
        """What the device calls itself, or the PCI id of one that nobody could ask."""
        return self.model or f"PCI id {self.pci_id or 'unknown'}"

    @property
    def name(self) -> str:
        return f"{self.called}{self.index}"


@dataclass(frozen=True)
class Trouble:
    """Why there is no value, or why the value cannot be trusted.

    `device`: the device itself was the reason. `need`: a library, permission or time was lacking.
    `external`: something else disturbed the measurement. `not_applicable`: cannot exist here.
    `bug`: the probe raised something that says nothing about the hardware.
    """

    kind: Literal["device", "need", "external", "not_applicable", "bug"]
    reason: str


@dataclass(frozen=True)
class Peak:
    """What the value is a fraction of: a datasheet figure, or one measured in alternation with the samples."""

    value: float
    source: str
    samples: tuple[float, ...] = ()
    provisional: bool = False


@dataclass(frozen=True)
class Measurement:
    """One metric of one subject, once.

    `value` is what `samples` (one per block, in `unit`) are together, a rate as work over time, unless the metric is
    a single fact.
    `how` is "together" (all devices at once) or "alone". Times are seconds since the epoch.
    """

    metric: str
    subject: str
    unit: str
    value: Value | None = None
    samples: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    """Seconds that one operation took, block by block: the same samples as a duration."""
    peak: Peak | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    trouble: Trouble | None = None
    disturbance: str | None = None
    """What disturbed the measurement from outside: an excuse for a shortfall, never more."""
    how: str = "together"
    started: float = 0.0
    ended: float = 0.0
    details: Details = field(default_factory=Details)
    """What explains the value: the telemetry summary, a peer matrix, the rank skew."""

    @cached_property
    def estimate(self) -> Estimate | None:
        return estimate_of(self.samples, self.unit) if self.samples else None

    @cached_property
    def of_peak(self) -> Estimate | None:
        """The value as a fraction of its peak, if that is one; pairwise when the peak was measured beside it."""
        if self.peak is None or not self.samples:
            return None
        if self.peak.samples and is_rate(self.unit):
            pairs = list(zip(self.samples, self.peak.samples, strict=False))
            return estimate_ratio([_time(peak) for _, peak in pairs], [_time(value) for value, _ in pairs])
        if not self.peak.value > 0:
            return None
        return estimate_of([value / self.peak.value for value in self.samples], self.unit)


def _time(rate: float) -> float:
    """Of one piece of work at that rate."""
    return 1 / rate if rate else math.inf
