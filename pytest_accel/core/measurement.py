"""Measurement and Device: the result of a probe with its samples, conditions and troubles, and the measured device."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal

from pytest_accel.core import details
from pytest_accel.core.details import Details
from pytest_accel.core.reasons import Note
from pytest_accel.core.stats import Estimate, estimate, estimate_median, estimate_rate, estimate_ratio, standard_error

NOT_IN_FILE: Final = MappingProxyType({"file": False})
"""The metadata of a field of a dataclass that its file does not hold."""
NODE = "node"
"""The subject of a measurement that concerns all devices at once."""

EVERYTHING_ELSE = "everything else"
"""The key in a device's `unread` facts with the reason for all facts that have no entry of their own."""

Value = details.Value

LEFT_OUT: Final = "left out"
"""The event of a metric that was not tried because of an earlier failure, which has a verdict of its own."""

TroubleKind = Literal["device", "need", "external", "not_applicable", "bug"]
"""The kinds of `Trouble`, by the cause: see there."""

Event = Literal["", "hung", "crashed", "lost", "uncorrectable", "left out"]
"""The failure of a device in one word, for lines that are too short for the reason; empty where no word says it."""

Statistic = Literal["mean", "median"]
"""The statistic that makes the value of a measurement from its samples."""


def finite(value: Value | None) -> float | None:
    """Return a value as a finite number; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:  # a whole number of hundreds of digits
        return None
    return number if math.isfinite(number) else None


def is_rate(unit: str) -> bool:
    """Return True for a unit of work per time, where more is better: TFLOPS, TOPS, GB/s."""
    return unit.endswith(("/s", "OPS"))


def is_time(unit: str) -> bool:
    """Return True for a unit of time, of which less is better."""
    return unit in ("s", "ms", "us")


def speed_share(value: float, expected: float, unit: str) -> float:
    """Return the speed of a value as a share of that of an expected one: of a time the inverse. Neither may be 0."""
    return expected / value if is_time(unit) else value / expected


def estimate_of(samples: Sequence[float], unit: str, statistic: Statistic) -> Estimate:
    """Return the estimate of samples (one per block, in `unit`).

    It is their median, or their mean: for a rate total work over total time.
    """
    if statistic == "median":
        return estimate_median(samples)
    return estimate_rate(samples) if is_rate(unit) else estimate(samples)


@dataclass(frozen=True)
class Device:
    """One accelerator as its management library sees it.

    `uuid` is the identity; `index` (and `name`, "gpu0") is only its position in the current list.
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
    """The logical CPUs to run on: the device's own for a CPU, the nearby ones for a GPU."""
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Inventory for the record: firmware, limits, links, under the driver's names."""
    called: str = field(default="gpu", compare=False)
    """The short name of such a device, before its index. The sensor takes it from the vendor's declaration."""

    @property
    def product(self) -> str:
        """The model name, or the PCI id of a device whose library could not be asked."""
        return self.model or f"PCI id {self.pci_id or 'unknown'}"

    @property
    def name(self) -> str:
        """The display name: "gpu0" or "cpu0"."""
        return f"{self.called}{self.index}"


class Names(dict[str, str]):
    """Display name by subject, which is the UUID of a device, or NODE. Any other subject is its own name."""

    def __missing__(self, subject: str) -> str:
        """Return the subject itself."""
        return subject

    @classmethod
    def of(cls, devices: Iterable[Device]) -> Names:
        """Return the names of the node and of its devices."""
        return cls({NODE: NODE, **{device.uuid: device.name for device in devices}})


@dataclass(frozen=True)
class Trouble:
    """The reason why there is no value, or why the value cannot be trusted.

    `device`: the device itself was the reason. `need`: a library, permission or time was missing.
    `external`: something else disturbed the measurement. `not_applicable`: the metric cannot exist here.
    `bug`: the probe raised an error that says nothing about the hardware.
    """

    kind: TroubleKind
    reason: str
    event: Event = ""
    blamed: str = ""
    """The UUID of the device that a trouble of the node is attributed to; empty if there is none."""
    wrong: bool = False
    """True if the device gave a wrong result; other troubles of a device are errors that its library reported."""
    untried: bool = False
    """True if nothing was tried, for the reason that is given."""


@dataclass(frozen=True)
class Peak:
    """The peak that a value is a fraction of: a datasheet figure, or one measured in alternation with the samples."""

    value: float
    source: str
    samples: tuple[float, ...] = ()
    provisional: bool = False


@dataclass(frozen=True)
class Measurement:
    """One attempt at one metric of one subject.

    `value` is the estimate of `samples` (one per block, in `unit`; see `estimate_of`), unless the metric is a single
    fact. `how` is "together" (all devices at once) or "alone". Times are in seconds since the epoch.
    """

    metric: str
    subject: str
    unit: str
    value: Value | None = None
    samples: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    """Seconds per operation, one per block: the samples as durations."""
    peak: Peak | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)
    trouble: Trouble | None = None
    notes: tuple[Note, ...] = ()
    """Facts beside the value that a verdict takes into account, each of a kind in `reasons.NOTES`: excuses of a
    shortfall and doubts (verdicts/excuses.py), a known cause, changes, positions and times."""
    how: str = "together"
    """The work of the devices: "together" (at once, or in turn as the probe says), or this one "alone"."""
    started: float = 0.0
    ended: float = 0.0
    details: Details = field(default_factory=Details)
    """Evidence that explains the value: the telemetry summary, a peer matrix, the rank skew."""
    statistic: Statistic = "mean"
    """The statistic that makes the value from the samples."""
    simulated: bool = False
    """True if the device, or the node, was simulated."""
    next_run: tuple[float, float] | None = None
    """The 95 % interval (low, high) of the next run's value, in the unit of the metric; None if it is not known."""
    on_all: Mapping[str, Value] = field(default_factory=dict)
    """Facts: the value of every device that has to have the same one, by its name."""

    def note(self, kind: str) -> str:
        """Return the text of the first note of a kind, empty without one."""
        return next((note.text for note in self.notes if note.kind == kind), "")

    @cached_property
    def estimate(self) -> Estimate | None:
        """The estimate of the samples, None without samples."""
        return estimate_of(self.samples, self.unit, self.statistic) if self.samples else None

    @property
    def noise(self) -> float:
        """The standard error of the value as a fraction of it; 0 without samples."""
        interval = self.estimate
        return standard_error(interval) / abs(interval.mean) if interval and interval.mean else 0.0

    @cached_property
    def of_peak(self) -> Estimate | None:
        """The value as a fraction of its peak, None without one; pairwise if the peak was measured with the samples."""
        if self.peak is None or not self.samples:
            return None
        if self.peak.samples and is_rate(self.unit):
            pairs = list(zip(self.samples, self.peak.samples, strict=False))
            return estimate_ratio([_time(peak) for _, peak in pairs], [_time(value) for value, _ in pairs])
        if not self.peak.value > 0:
            return None
        return estimate_of([value / self.peak.value for value in self.samples], self.unit, self.statistic)


def _time(rate: float) -> float:
    """Return the seconds per unit of work at `rate`."""
    return 1 / rate if rate else math.inf
