"""All that a night of a fleet shows, as one object that every view is made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from pytest_accel.core import exits
from pytest_accel.core.summary import FINISHED
from pytest_accel.fleet.nights import store
from pytest_accel.fleet.nights.findings import (
    ENOUGH_DEVICES,
    ENOUGH_NIGHTS,
    ENOUGH_NODES,
    Drift,
    Fired,
    Group,
    Offender,
    Outlier,
    RepeatedMarginal,
    SpeedTrend,
    Update,
)
from pytest_accel.fleet.nights.queries import StoredNights

WINDOW: Final = 30
"""Nights that trends, updates and repeat offenders are looked for in, the one that is shown included."""
NOT_ENDED: Final = "NOT ENDED"
"""The word for a run without a closing line."""


@dataclass(frozen=True)
class NodeRun:
    """The run of a node in the night."""

    node: str
    word: str
    exit: int | None
    line: str
    record: str
    level: str
    sku: str
    uuids: str


@dataclass(frozen=True)
class EarlierRejection:
    """A node that was rejected in an earlier night, by the last run that judged it."""

    node: str
    night: date
    line: str


@dataclass(frozen=True)
class Doubled:
    """A device that one night has on several nodes: a copied record, a changed name of the node, or a moved board."""

    uuid: str
    nodes: Sequence[str]


@dataclass(frozen=True)
class Night:
    """A night of a fleet: its runs, and what the analyses found, each worst first."""

    night: str
    first: str
    """The first night that was looked at."""
    nights: int
    simulated: bool
    runs: Sequence[NodeRun]
    verdicts: dict[str, int]
    """How many verdicts have each status."""
    outliers: Sequence[Outlier]
    trends: Sequence[SpeedTrend]
    drifts: Sequence[Drift]
    offenders: Sequence[Offender]
    repeated: Sequence[RepeatedMarginal]
    updates: Sequence[Update]
    too_often: Sequence[Fired]
    never: Sequence[Fired]
    groups: Sequence[Group]
    gone: Sequence[str]
    """Nodes that have no run in this night, though they had one in each of the last three before."""
    rejected_before: Sequence[EarlierRejection]
    """Nodes that no run of this night judged, and the last one that did, in the three nights before, rejected."""
    doubled: Sequence[Doubled]
    """Devices that this night has on several nodes."""

    @property
    def unsought(self) -> dict[str, str]:
        """The findings on devices that were not looked for, and what that takes."""
        found = {}
        if not any(each.enough for each in self.groups):
            found["outliers"] = f"{ENOUGH_DEVICES} devices of a SKU on {ENOUGH_NODES} nodes"
        if self.nights < ENOUGH_NIGHTS:
            found["trends"] = f"{ENOUGH_NIGHTS} nights"
        return found

    @property
    def words(self) -> dict[str, int]:
        """How many runs have each result, the most frequent first."""
        return dict(Counter(each.word for each in self.runs).most_common())

    @property
    def nodes(self) -> int:
        """The nodes of all runs; those of one name without a common device are several."""
        return len({(each.node, each.uuids.partition(" ")[0]) for each in self.runs})

    @property
    def devices(self) -> int:
        """The devices of all runs, each once."""
        return len({uuid for each in self.runs for uuid in each.uuids.split()})

    @property
    def exit(self) -> int:
        """The exit status: 1 for hardware that is worse, 6 for a node or night that is gone or not judged, else 0.

        A device on several nodes is not judged.
        """
        rejected = self.rejected_before or any(each.exit == exits.REJECTED for each in self.runs)
        if rejected or self.outliers or self.trends or self.offenders:
            return exits.REJECTED
        unknown = self.gone or self.doubled or any(each.exit != 0 for each in self.runs)
        return exits.NOT_JUDGED if unknown else exits.HOLDS


def window(path: Path, night: str | None, count: int) -> list[str]:
    """Return the nights of a store up to `night` (default: the last one that has begun), at most `count` of them."""
    known = store.nights(path)
    last = night or store.latest().isoformat()
    if night is not None and night not in known:
        return [night]  # Fleet names what is there
    return [each for each in known if each <= last][-count:]


def look(fleet: StoredNights) -> Night:
    """Return all that the last night of a fleet shows, beside the nights before it. Raises BadFile."""
    fleet.leave_out_doubled()
    groups, fired = fleet.groups(), fleet.limits()
    trends, drifts = fleet.trends()
    gone, rejected = fleet.absent()
    doubted = sorted((each for each in fired if each.too_often), key=lambda one: -one.share)
    return Night(
        night=fleet.night,
        first=fleet.nights[0],
        nights=len(fleet.nights),
        simulated=fleet.simulated,
        runs=[_run(*row) for row in fleet.runs()],
        verdicts=fleet.statuses(),
        outliers=fleet.outliers(groups),
        trends=trends,
        drifts=drifts,
        offenders=fleet.offenders(doubted),
        repeated=fleet.repeated(),
        updates=fleet.updates(),
        too_often=doubted,
        never=sorted((each for each in fired if each.never), key=lambda one: -(one.margin or 0.0)),
        groups=sorted((each for each in groups if each.driver is None), key=lambda each: each.kind),
        gone=gone,
        rejected_before=[EarlierRejection(*row) for row in rejected],
        doubled=[Doubled(*row) for row in fleet.doubled()],
    )


def _run(node: str, word: str, state: str, status: int | None, *others: Any) -> NodeRun:
    ended = state == FINISHED and bool(word)
    return NodeRun(node, word if ended else NOT_ENDED, status if ended else None, *others)
