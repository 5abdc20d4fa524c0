"""The summary of a run for later runs and reports of a fleet, and the choice of the run of a node that counts. Pure.

docs/fleet.md#which-result-of-a-node-counts tells the rule to users.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import Final, Generic, Literal, TypeVar

from pytest_accel.core.measurement import NOT_IN_FILE, Device
from pytest_accel.core.run import SCHEMA
from pytest_accel.core.verdict import Result

AHEAD: Final = timedelta(minutes=5)
"""The most by which a run may have begun ahead of this clock. One that began later was stamped by a clock that was not
set, and would count as the newest for as long."""
RUNNING, FINISHED = "running", "finished"
"""The state of a run that has not ended, or was killed, and of one that came to its end."""


def moment(text: str) -> datetime | None:
    """Return a time of ISO 8601, in UTC if it names no zone; None for any other text."""
    try:
        time = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Summary:
    """The small file beside a record, by which later runs know of the run and of its figures.

    It is written by us, and a site reads it in its own folder: whoever can write there can change it.
    """

    started: str = ""
    """ISO 8601; empty for a run that never began."""
    host: str = ""
    job: str = ""
    """The id of the job that a launcher ran it in; empty without one."""
    state: str = ""
    line: str = ""
    """The closing line; empty until the run has ended."""
    result: Result | None = None
    """The result; None until the run has ended."""
    exit: int | None = None
    """The exit status of the run; None until it has ended."""
    filtered: bool = False
    """True if the run measured less than the level has."""
    sku: str = ""
    terms: Mapping[str, str] = field(default_factory=dict)
    """Level, platform and software (`judging.verdicts.history.TERMS`), as far as they are known."""
    simulated: bool = False
    judged_again: bool = False
    devices: Sequence[Device] = ()
    """The identity of each: UUID, serial, model, slot, VBIOS."""
    rejected: Sequence[str] = ()
    """UUIDs of the devices that the run rejects, or "node" for what concerns all."""
    marked: Sequence[str] = ()
    """The rejected devices that later runs call rejected before: other limits than the user's own reject them."""
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """The value of each metric of each device (UUID, or "node"), by `history.key`; empty until the run has ended."""
    schema: Literal[1] = SCHEMA
    path: Path = field(default=Path(), metadata=NOT_IN_FILE)
    """The record that it lies beside."""

    @cached_property
    def by_uuid(self) -> dict[str, Device]:
        """The devices by UUID."""
        return {device.uuid: device for device in self.devices}

    @property
    def began(self) -> datetime | None:
        """The time at which the run began by the clock of its node; None if it does not say so."""
        return moment(self.started)

    @property
    def folder(self) -> Path:
        """The folder that holds the record."""
        return self.path.parent

    @property
    def day(self) -> str:
        """The day on which the run began: "2026-11-23"."""
        return self.started[:10]

    @property
    def finished(self) -> bool:
        """True for a run that came to its end."""
        return self.state == FINISHED

    @property
    def rejects(self) -> bool:
        """True if the run rejects the node."""
        return self.result is Result.REJECTED

    @property
    def accepts(self) -> bool:
        """True if the run accepts the node."""
        return self.result is Result.ACCEPTED

    @property
    def good(self) -> bool:
        """True if the run found nothing broken, and left nothing out that was asked for."""
        return bool(self.result and self.result.holds) and not self.filtered

    def is_history(self, sku: str) -> bool:
        """Return True for a complete run that judged the devices as the same SKU.

        Filtered and re-judged ones are none.
        """
        complete = self.finished and self.result is not None and not self.filtered and not self.judged_again
        return complete and self.sku == sku


# -- the run that counts among several

S = TypeVar("S", bound=Summary)


@dataclass(frozen=True)
class Choice(Generic[S]):
    """The run of a node that counts (None if none does), and those that do not though they may look newer."""

    counts: S | None
    mistimed: Sequence[tuple[S, str]] = ()
    """The runs whose time cannot be right, with the reason."""
    passed_over: Sequence[tuple[S, str]] = ()
    """The runs that are newer than the one that counts, newest first, with the reason why they do not count."""


def choose(runs: Iterable[S], now: datetime, when: Callable[[S], datetime | None] = attrgetter("began")) -> Choice[S]:
    """Return the choice among the runs of one node. `when` returns the time at which a run began."""
    dated: list[tuple[datetime, bool, S]] = []
    mistimed: list[tuple[S, str]] = []
    for run in runs:
        time = when(run)
        if time is None:
            mistimed.append((run, "it does not say when it began"))
        elif time > now + AHEAD:
            mistimed.append((run, f"it began in the future, {run.started}"))
        else:
            dated.append((time, run.rejects, run))
    dated.sort(key=lambda entry: entry[:2], reverse=True)
    newest_first = [run for _, _, run in dated]
    index = _counting(newest_first)
    if index is None:
        return Choice(None, mistimed)
    return Choice(newest_first[index], mistimed, [(run, _why_not(run)) for run in newest_first[:index]])


def _counting(newest_first: Sequence[Summary]) -> int | None:
    """Return the index of the run that counts among runs that are newest first; None if there is none."""
    # a rejection stands until a later run accepts the node
    decided = next((index for index, run in enumerate(newest_first) if run.rejects or run.accepts), None)
    if decided is not None and newest_first[decided].rejects:
        return decided
    return next((index for index, run in enumerate(newest_first) if not run.filtered), 0 if newest_first else None)


def _why_not(run: Summary) -> str:
    """Return the reason why a run does not count beside an older one."""
    if run.state == RUNNING:
        return "it has not ended"
    if run.filtered:
        return "it was narrowed to a part of the checks"
    return f"{Result.words(run.result, run.state)} takes no rejection back"
