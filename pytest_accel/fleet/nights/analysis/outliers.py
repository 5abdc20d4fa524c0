"""The devices of a night that are far behind all others of their product. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_accel.fleet.nights.analysis.groups import FigureKind, Group, behind


@dataclass(frozen=True)
class Subject:
    """A device, or a node, as the store knows it, and where it was."""

    device: int
    node: str
    name: str
    slot: str = ""
    uuid: str = ""
    serial: str = ""

    @property
    def shown(self) -> str:
        """The place as a reader looks for it: "n0042 gpu3"."""
        return self.node if self.name == "node" else f"{self.node} {self.name}"


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
    short = behind(value, group.middle, group.kind)
    if short <= group.far:
        return None
    return Outlier(subject, group.kind, value, short, group.middle, group.spread, group.count, group.driver, status)


def by_device(found: Iterable[Outlier]) -> list[Outlier]:
    """Return the worst outlier of every device on its node with its other metrics, the farthest first."""
    every = list(found)
    alike: dict[tuple[str, str], set[int]] = defaultdict(set)
    by_subject: dict[tuple[int, str], list[Outlier]] = defaultdict(list)
    for each in every:
        alike[each.subject.node, each.kind.metric].add(each.subject.device)
        by_subject[each.subject.device, each.subject.node].append(each)
    worst = []
    for some in by_subject.values():
        first, *others = sorted(some, key=lambda one: -one.behind)
        worst.append(
            replace(
                first,
                also=tuple(sorted({one.kind.metric for one in others} - {first.kind.metric})),
                of_node=len(alike[first.subject.node, first.kind.metric]),
            )
        )
    return sorted(worst, key=lambda one: (-one.behind, one.subject.shown))


def pairs(found: Sequence[Outlier]) -> set[tuple[int, str]]:
    """Return device and metric of each outlier."""
    return {(each.subject.device, each.kind.metric) for each in found}
