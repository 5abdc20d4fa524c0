"""The newest result of this node's own runs, read from the small summary beside its record.

A folder may hold the results of ten thousand nodes and be read by each of them every few minutes, so no more is read
than what the names of its folders say to be this node's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from pytest_accel.core import untrusted
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import folder_summary
from pytest_accel.run.record_folder import file_name
from pytest_accel.run.summaries import Summary, moment

MOST_NIGHTS = 100
"""Most folders of nights in which the folder of this node is looked for: those whose names sort last."""
MOST_OF_NODE = 100
"""Most results of this node that are read, those whose names sort last."""
ACCEPTED, HELD, REJECTED = "ACCEPTED", "HELD", "REJECTED"
"""The words of results that say something of the node: it is accepted, nothing was broken, it is rejected."""
AHEAD_SECONDS = 300.0
"""How far ahead of this clock a result may have begun. One that began later was stamped by a clock that was not set,
and would count as the newest for as long."""


@dataclass(frozen=True)
class LastRun:
    """The newest result of a node: the folder that it is in, its summary, and its age in seconds."""

    folder: Path
    summary: Summary
    age: float

    @property
    def word(self) -> str:
        """The result, such as ACCEPTED."""
        return self.summary["word"]

    @property
    def rejects(self) -> bool:
        """True if the run rejected the node."""
        return self.word == REJECTED

    @property
    def accepts(self) -> bool:
        """True if the run accepted the node."""
        return self.word == ACCEPTED

    @property
    def good(self) -> bool:
        """True if the run found nothing broken, and left nothing out that was asked for."""
        return self.word in (ACCEPTED, HELD) and not self.summary["filtered"]

    @property
    def day(self) -> str:
        """The day on which it began: "2026-11-23"."""
        return self.summary["started"][:10]

    @property
    def started(self) -> float:
        """The time at which it began, in seconds since the epoch."""
        return time.time() - self.age


def last_run(place: Path, node: str, *, simulated: bool = False) -> LastRun | None:
    """Return the newest result of a node that `place` holds, None if there is none. Raises BadFile.

    A run that is under way has no result yet, and a place that does not exist yet holds none. A result that says
    nothing of the node, such as that of an interrupted run or of a part of the checks, does not hide an older one that
    does; and of a run that accepts nothing, HELD does not hide a rejection.

    `place` is a record, its folder, a folder in which the folders of this node's results begin with its name, or one
    in which every night has such a folder.
    """
    if not untrusted.exists(place):
        return None
    own = [place.parent] if place.is_file() else [place, *_of_node(place, node)]
    found = [each for folder in own if (each := _read(folder, node, simulated=simulated))]
    return _telling(sorted(found, key=lambda each: each.age))


def _telling(found: Sequence[LastRun]) -> LastRun | None:
    """Return the result that tells most of the node now, of results that are newest first."""
    telling = [each for each in found if each.good or each.rejects]
    first = next(iter([*telling, *found]), None)
    decided = next((each for each in telling if each.accepts or each.rejects), None)
    return decided if first and first.good and decided and decided.rejects else first


def _of_node(place: Path, node: str) -> Iterator[Path]:
    """Yield the folders of a node's results."""
    name = file_name(node)
    try:
        names = sorted((each.name for each in os.scandir(place) if not each.name.startswith(".")), reverse=True)
    except OSError as error:
        raise BadFile(f"{place}: cannot be read: {error.strerror}") from None
    own = [each for each in names if each == name or each.startswith(f"{name}-")]
    yield from (place / each for each in own[:MOST_OF_NODE])
    others = [each for each in names if each not in own]
    for night in others[:MOST_NIGHTS]:
        yield from _numbered(place / night / name)


def _numbered(first: Path) -> Iterator[Path]:
    """Yield a folder and those of later runs beside it, with the numbers that they were given."""
    for number in count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        if not folder.is_dir():
            return
        yield folder


def _read(folder: Path, node: str, *, simulated: bool) -> LastRun | None:
    """Return the result in a folder if it is one of a run of this node, else None."""
    try:
        found = folder_summary.of_folder(folder)
    except BadFile:
        return None
    if found is None or found["host"] != node or found["simulated"] != simulated:
        return None
    began = moment(found["started"])
    if found["judged_again"] or not found["word"] or began is None:
        return None
    age = time.time() - began.timestamp()
    return LastRun(folder, found, max(0.0, age)) if age > -AHEAD_SECONDS else None
