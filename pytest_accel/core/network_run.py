"""The network run as data: its nodes, the groups of each round, the reports of the nodes, and the conclusion.

The network is the one between nodes. `network.json` holds one `NetworkRun`, whose nodes are named by their index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Literal

from pytest_accel.core.details import NetworkOutcome, NetworkPart, RoundKind
from pytest_accel.core.verdict import Closing

SCHEMA: Final = 1
"""The version of the format of network.json."""

ReportOutcome = Literal["measured", "wrong", "not reached", "waited", "failed", "no report"]
"""The outcome of a round for a node.

"wrong": a rank received other data than were sent. "not reached": a worker of this node did not reach the call, by what
its own agent saw. "waited": its ranks were in the call, and the others did not come. "failed": the library raised an
error, which may be the fault of any node of the group. "no report": its agent did not answer in time."""

SCORED: Final[tuple[RoundKind, ...]] = ("pairs", "suspects", "confirm", "path")
"""The rounds of pairs, the best of which is the score of a node."""

NAMED: Final[tuple[NetworkOutcome, ...]] = ("slow", "wrong", "not reached")
"""The conclusions that name a node as bad."""


SHORT = 0.92
"""A node is slow, or a pair, below this share of the median of the nodes' scores. Healthy pairs vary by 2 %; one dead
rail of eight takes 12.5 %."""


def short_rails(rails: Sequence[float]) -> tuple[int, ...]:
    """Return the indices of the devices of a node that are slow beside the others of the same node."""
    return tuple(index for index, rate in enumerate(rails) if rate < SHORT * median(rails))


@dataclass(frozen=True)
class NetworkNode:
    """A node of the network run."""

    name: str
    devices: int = 1
    """Its accelerators, each of which is a rank."""
    leaf: str = ""
    """Its leaf switch; empty where the topology is not known."""
    domain: str = ""
    """Its NVLink domain: the cluster UUID and the clique; empty without one that holds several nodes."""
    left_out: str = ""
    """The reason why the node takes no part, such as a failed check of its own; empty if it does."""


@dataclass(frozen=True)
class Report:
    """The report of one node on its group in one round."""

    outcome: ReportOutcome
    value: float | None = None
    """GB/s that each rank sent, and received at the same time: that of the slowest rank. In the round "all" the busbw
    of the operation."""
    rails: Sequence[float] = ()
    """In a pair: GB/s of each device, which has a process group of its own with the equal device of the other node."""
    text: str = ""
    """The reason why there is no value, or the fault that the agent saw, in words."""
    kind: Literal["device", "need", "external"] = "need"
    """The kind of the failure behind "not reached", as in `measurement.Trouble`. Only "device" blames the node."""


@dataclass(frozen=True)
class Task:
    """A message of rank 0 to the agent of one node: the group that it measures in, or at the end the conclusion."""

    kind: RoundKind | Literal["end"]
    number: int = 0
    """The number of the round."""
    group: int = 0
    """The group: the lowest rank of its nodes."""
    nodes: int = 0
    """The number of its nodes."""
    position: int = 0
    """The index of this node among them."""
    part: NetworkPart | None = None


@dataclass(frozen=True)
class GroupResult:
    """A group of nodes that measured together, and the report of each in the same order."""

    nodes: Sequence[int]
    reports: Sequence[Report]

    @property
    def value(self) -> float | None:
        """The value of the slowest node; None unless all of them measured."""
        values = [report.value for report in self.reports if report.outcome == "measured" and report.value is not None]
        return min(values) if len(values) == len(self.reports) else None


@dataclass(frozen=True)
class PlannedRound:
    """A round that is to be measured. Its groups are disjoint, and work at the same time."""

    kind: RoundKind
    groups: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Round:
    """A round that was measured."""

    kind: RoundKind
    results: Sequence[GroupResult]
    started: float = 0.0
    """Seconds since the epoch."""
    ended: float = 0.0


@dataclass(frozen=True)
class NodeConclusion:
    """The conclusion on one node. They are in the order of the run's nodes."""

    found: NetworkOutcome
    score: float | None = None
    """GB/s: the best of its rounds; None if none was measured."""
    partners: int = 0
    """The number of different nodes that it measured with."""
    rails: Sequence[float] = ()
    """GB/s of each of its devices in the best of its pairs, if it was named."""
    text: str = ""
    """The fault that an agent saw, in words; empty if none did."""


@dataclass(frozen=True)
class NodePair:
    """Two nodes that are good with others and not with each other: a link or a switch between them is to blame."""

    nodes: Sequence[int]
    value: float | None = None
    """GB/s; None if they could not be measured."""
    wrong: bool = False
    """True if data arrived changed."""


@dataclass(frozen=True)
class Conclusion:
    """The conclusion of all rounds on the nodes and on the network."""

    nodes: Sequence[NodeConclusion] = ()
    median: float | None = None
    """GB/s: the median of the scores."""
    paths: Sequence[NodePair] = ()
    islands: Sequence[Sequence[int]] = ()
    together: float | None = None
    """GB/s: the busbw of all good nodes in one group; None if it was not measured."""
    closing: Closing = field(default_factory=Closing)


@dataclass(frozen=True)
class NetworkRun:
    """A network run, as network.json holds it."""

    nodes: Sequence[NetworkNode]
    rounds: Sequence[Round] = ()
    seed: int = 0
    """The seed of the matchings."""
    terms: Mapping[str, str | float] = field(default_factory=dict)
    """The terms of the measurement by name: SKU, platform, operation, size, backend."""
    floor: float | None = None
    """GB/s that each rank of a pair has to reach by the platform; None where it states none."""
    together_floor: float | None = None
    """GB/s of busbw that all nodes together have to reach; None where the platform states none."""
    conclusion: Conclusion = field(default_factory=Conclusion)
    simulated: str = ""
    """The file of a simulated cluster; empty on hardware."""
    schema: int = SCHEMA
