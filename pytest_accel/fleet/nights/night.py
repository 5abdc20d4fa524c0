"""All that a night of a fleet shows, as one object that every view is made from."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final

from pytest_accel.core import exits
from pytest_accel.core.summary import FINISHED
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.words import counted
from pytest_accel.fleet.nights import store
from pytest_accel.fleet.nights.analysis import limits, offenders
from pytest_accel.fleet.nights.analysis.groups import ENOUGH_DEVICES, ENOUGH_NODES, Group
from pytest_accel.fleet.nights.analysis.limits import Fired
from pytest_accel.fleet.nights.analysis.offenders import Offender, RepeatedMarginal
from pytest_accel.fleet.nights.analysis.outliers import Outlier
from pytest_accel.fleet.nights.analysis.trends import ENOUGH_NIGHTS, Drift, SpeedTrend
from pytest_accel.fleet.nights.analysis.updates import Update
from pytest_accel.fleet.nights.queries import StoredNights

WINDOW: Final = 30
"""Nights that trends, updates and repeat offenders are looked for in, the one that is shown included."""
NOT_ENDED: Final = "NOT ENDED"
"""The word for a run without a closing line."""
NAMED: Final = 5
"""Most nights that are named one by one."""


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
    devices: int


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
    left_out: Sequence[str] = ()
    """Nights whose figures cannot be read. What they would show is not in the findings."""

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
    def devices(self) -> int:
        """The devices of all runs; those of a node that ran twice count once."""
        return sum({each.node: each.devices for each in self.runs}.values())

    @property
    def exit(self) -> int:
        """The exit status: 1 for hardware that is worse, 6 for a node or night that is gone or not judged, else 0.

        A device on several nodes is not judged.
        """
        rejected = self.rejected_before or any(each.exit == exits.REJECTED for each in self.runs)
        if rejected or self.outliers or self.trends or self.offenders:
            return exits.REJECTED
        unknown = self.left_out or self.gone or self.doubled or any(each.exit != 0 for each in self.runs)
        return exits.NOT_JUDGED if unknown else exits.HOLDS


def window(path: Path, night: str | None, count: int) -> list[str]:
    """Return the nights of a store up to `night` (default: the last one that has begun), at most `count` of them."""
    known = store.nights(path)
    last = night or store.latest().isoformat()
    if night is not None and night not in known:
        return [night]  # Fleet names what is there
    return [each for each in known if each <= last][-count:]


def look(fleet: StoredNights) -> Night:
    """Return all that the last night of a fleet shows, beside those nights before it that can be read."""
    try:
        return _look(fleet)
    except BadFile:
        if not fleet.leave_out_damaged():
            raise
    return _look(fleet)


def _look(fleet: StoredNights) -> Night:
    fleet.leave_out_doubled()
    groups = fleet.groups()
    trends, drifts = fleet.trends()
    events, fired = fleet.events(), fleet.limits()
    doubted = limits.too_often(fired)
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
        offenders=offenders.offenders(events, {(each.sku, each.metric) for each in doubted}),
        repeated=offenders.repeated(events, fleet.last_nights()),
        updates=fleet.updates(),
        too_often=doubted,
        never=limits.never(fired),
        groups=sorted((each for each in groups if each.driver is None), key=lambda each: each.kind),
        gone=fleet.gone(),
        rejected_before=[EarlierRejection(*row) for row in fleet.rejected_before()],
        doubled=[Doubled(*row) for row in fleet.doubled()],
        left_out=sorted(fleet.left_out),
    )


def left_out(nights: Sequence[str]) -> str:
    """Return a sentence on nights that were left out, which names the first of them."""
    named = f"{', '.join(nights[:NAMED])}{' ...' if len(nights) > NAMED else ''}"
    return f"{counted(len(nights), 'night')} left out, since the figures cannot be read: {named}"


def _run(node: str, word: str, state: str, status: int | None, *others: Any) -> NodeRun:
    ended = state == FINISHED and bool(word)
    return NodeRun(node, word if ended else NOT_ENDED, status if ended else None, *others)


def plain(value: Any) -> Any:
    """Return a value as JSON has it: dataclasses by the names of their fields, days as text, infinities as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
