"""What the nights of a fleet show, and what makes it a finding. Pure: decisions over what the database counted.

Distances, and what they mean, are those of `judging.distance` for the reference "fleet".
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from pytest_accel.core.measurement import is_time
from pytest_accel.judging.calibration import deviation_of
from pytest_accel.judging.distance import OF_MEDIAN, Family, Reference, allowed, distance
from pytest_accel.judging.like_devices import ENOUGH, family_of

ENOUGH_DEVICES: Final = 20
"""Devices from which on their spread is known well enough: with 20, a spread from the median absolute deviation is off
by a fifth (a standard error of 1.17 / sqrt(2 n))."""
ENOUGH_NODES: Final = ENOUGH
"""Nodes from which on the median is that of healthy ones although one node is slow as a whole."""
ENOUGH_NIGHTS: Final = 10
"""Nights from which on a trend is told."""
AROUND: Final = 5
"""Nights before and after an update whose medians are compared on each device."""
FAILED_RUNS: Final = 2
"""Runs that reject a device from which on it is a repeat offender."""
MARGINAL_OF: Final = (2, 3)
"""A metric that is MARGINAL in two of the last three nights of a device is listed: one night alone is chance."""
TOO_MANY: Final = 0.3
"""The share of nodes that a limit may reject: above, it is the limit, or a change of software, and not the hardware."""
LOOSE: Final = 0.1
"""The margin of the worst device from which on a limit that never fired finds nothing: it is 10 % off all of them."""


@dataclass(frozen=True, order=True)
class FigureKind:
    """What figures share that are compared with each other."""

    sku: str
    platform: str
    level: str
    metric: str
    unit: str
    method: str

    @property
    def more_is_better(self) -> bool:
        """True for a rate, False for a time."""
        return not is_time(self.unit)

    @property
    def family(self) -> Family:
        """The kind of metric by which a distance is judged."""
        return family_of(self.metric, self.unit)

    @property
    def least(self) -> float:
        """The smallest loss of speed that is a finding."""
        return allowed(self.family, Reference("fleet", 1.0, spread=0.0))[0]


@dataclass(frozen=True)
class Subject:
    """A device, or a node, as the store knows it, and where it was."""

    uuid: str
    node: str
    name: str
    slot: str = ""
    serial: str = ""

    @property
    def shown(self) -> str:
        """The place as a reader looks for it: "n0042 gpu3"."""
        return self.node if self.name == "node" else f"{self.node} {self.name}"


# -- devices behind their like


@dataclass(frozen=True)
class Group:
    """The figures of one kind in one night. `driver` is the version that all have, None for all versions together.

    `middle` is the median, `mad` the median absolute deviation, in the unit of the kind.
    """

    kind: FigureKind
    driver: str | None
    count: int
    """How many devices they are of; a night has one figure of each."""
    nodes: int
    middle: float
    mad: float

    @property
    def enough(self) -> bool:
        """True if an outlier can be told from them."""
        return self.count >= ENOUGH_DEVICES and self.nodes >= ENOUGH_NODES and self.middle > 0

    @property
    def spread(self) -> float:
        """The robust standard deviation as a fraction of the median."""
        return deviation_of(self.mad, self.count) / self.middle

    @property
    def reference(self) -> Reference:
        """What a device of the group is held against."""
        return Reference("fleet", self.middle, self.count, self.spread)

    @property
    def bound(self) -> float:
        """The value of an outlier: lower ones of a rate, higher ones of a time."""
        share = max(0.0, 1 - allowed(self.kind.family, self.reference)[0])
        if self.kind.more_is_better:
            return self.middle * share
        return self.middle / share if share else math.inf


@dataclass(frozen=True)
class Outlier:
    """A figure that is farther behind the median of its group than healthy devices are."""

    subject: Subject
    kind: FigureKind
    value: float
    behind: float
    middle: float
    spread: float
    devices: int
    driver: str | None
    """The driver of the group, None if devices of all drivers were compared."""
    status: str
    """The verdict of the node's own run."""
    also: tuple[str, ...] = ()
    """Other metrics in which the same device is an outlier."""
    of_node: int = 0
    """How many devices of the same node are outliers in the same metric, this one included."""


def outlier(subject: Subject, value: float, status: str, group: Group) -> Outlier | None:
    """Return what a figure is an outlier by; None if it is not one."""
    found = distance(value, group.kind.unit, group.kind.family, group.reference)
    if found is None or found.lost <= found.allowed:
        return None
    return Outlier(
        subject, group.kind, value, found.lost, group.middle, group.spread, group.count, group.driver, status
    )


def by_device(found: Iterable[Outlier]) -> list[Outlier]:
    """Return the worst outlier of every device on its node with its other metrics, the farthest first."""
    alike: dict[tuple[str, str], set[str]] = defaultdict(set)
    by_subject: dict[tuple[str, str], list[Outlier]] = defaultdict(list)
    for each in found:
        alike[each.subject.node, each.kind.metric].add(each.subject.uuid)
        by_subject[each.subject.uuid, each.subject.node].append(each)
    worst = []
    for some in by_subject.values():
        first = max(some, key=lambda one: one.behind)
        also = tuple(sorted({one.kind.metric for one in some} - {first.kind.metric}))
        worst.append(replace(first, also=also, of_node=len(alike[first.subject.node, first.kind.metric])))
    return sorted(worst, key=lambda one: (-one.behind, one.subject.shown))


# -- devices that lose speed


@dataclass(frozen=True)
class Pace:
    """How one metric of one device changed over the nights, by one method on one driver and firmware.

    `pace` is the slope of the logarithm of the value a night by least squares, `error` its standard error; `first` is
    the value of that line on the first night, in the unit of the kind.
    """

    kind: FigureKind
    subject: Subject
    driver: str
    vbios: str
    nights: int
    since: date
    days: int
    first: float
    pace: float
    error: float


@dataclass(frozen=True)
class SpeedTrend:
    """A device that loses speed: `loss` is the share of speed over the nights, without what the whole fleet lost.

    `first` and `last` are the values of the line through the figures on the first and the last night.
    """

    subject: Subject
    kind: FigureKind
    loss: float
    first: float
    last: float
    nights: int
    since: date
    driver: str
    vbios: str


@dataclass(frozen=True)
class Drift:
    """The trend that the devices of a kind share: `pace` is the median of their changes, as a logarithm a night."""

    kind: FigureKind
    devices: int
    pace: float
    nights: int

    @property
    def loss(self) -> float:
        """The speed that they lost over the nights, as a share; negative for a gain."""
        change = self.pace * (self.nights - 1)
        return 1 - math.exp(change if self.kind.more_is_better else -change)

    @property
    def found(self) -> bool:
        """True if it is a finding."""
        return self.loss > self.kind.least


def speed_trend(of: Pace, shared: float = 0.0) -> SpeedTrend | None:
    """Return the loss of speed of a device, None if it has none; `shared` is the pace of the whole fleet."""
    last = of.first * math.exp(of.pace * of.days)
    expected = of.first * math.exp(shared * of.days)
    spread = of.error * of.days / math.sqrt(2)  # the error is that of the difference, as if either value had it
    reference = Reference("fleet", expected, spread=spread, freedom=of.nights - 2)
    found = distance(last, of.kind.unit, of.kind.family, reference)
    if found is None or found.lost <= found.allowed:
        return None
    return SpeedTrend(of.subject, of.kind, found.lost, of.first, last, of.nights, of.since, of.driver, of.vbios)


# -- updates


@dataclass(frozen=True)
class Update:
    """A metric before and after an update: the median over the devices of each one's change, as a share of its value.

    `mad` is the median absolute deviation of these changes. `what` is "driver" or "vbios".
    """

    kind: FigureKind
    what: str
    old: str
    new: str
    devices: int
    nodes: int
    before: float
    after: float
    change: float
    mad: float

    @property
    def slower(self) -> bool:
        """True if the devices lost speed."""
        return (self.change < 0) == self.kind.more_is_better

    @property
    def found(self) -> bool:
        """True for a loss or a gain that is a finding beside the standard error of the change."""
        error = deviation_of(self.mad, self.devices) * math.sqrt(OF_MEDIAN / self.devices)
        reference = Reference("past", 1.0, spread=error / math.sqrt(2))  # one value has it, and not both
        return self.devices >= ENOUGH and abs(self.change) > allowed(self.kind.family, reference)[0]


# -- verdicts


@dataclass(frozen=True)
class Offender:
    """A device that failed in several runs: their number, the metrics that failed, and fault codes."""

    subject: Subject
    runs: int
    nights: Sequence[date]
    metrics: Sequence[str]
    codes: Sequence[str]


@dataclass(frozen=True)
class RepeatedMarginal:
    """A metric that is MARGINAL on a device in `nights`, of the last `of` nights on which the device was measured."""

    subject: Subject
    metric: str
    nights: Sequence[date]
    of: int


@dataclass(frozen=True)
class Fired:
    """How often a limit fired in the last night, and since the first night that was looked at.

    A waived failure counts in `fails_since` alone. `margin` is that of the worst figure that held, as a share of the
    bound; None without a bound.
    """

    sku: str
    platform: str
    level: str
    metric: str
    floor: float | None
    ceiling: float | None
    nodes: int
    devices: int
    failing_nodes: int
    marginal: int
    fails_since: int
    margin: float | None

    @property
    def share(self) -> float:
        """The share of nodes on which it fired in the last night."""
        return self.failing_nodes / self.nodes if self.nodes else 0.0

    @property
    def too_often(self) -> bool:
        """True if it fires on more nodes than hardware breaks on."""
        return self.nodes >= ENOUGH_NODES and self.share > TOO_MANY

    @property
    def never(self) -> bool:
        """True if it never fired, and no device comes near it."""
        loose = self.margin is not None and self.margin > LOOSE
        return not self.fails_since and not self.marginal and self.devices >= ENOUGH_DEVICES and loose
