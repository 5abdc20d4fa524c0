"""The newest result of this node's own runs, read from the small summary beside its record.

A folder may hold the results of ten thousand nodes and be read by each of them every few minutes, so no more is read
than what the names of its folders say to be this node's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import count
from pathlib import Path

from pytest_accel.core import untrusted
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import folder_summary, node_results
from pytest_accel.run.record_folder import file_name
from pytest_accel.run.summaries import Summary, moment

MOST_NIGHTS = 100
"""Most folders of nights in which the folder of this node is looked for: those whose names sort last."""
MOST_OF_NODE = 100
"""Most results of this node that are read, those whose names sort last."""


@dataclass(frozen=True)
class LastRun:
    """The newest result of a node: the folder that it is in, its summary, and its age in seconds."""

    folder: Path
    summary: Summary
    age: float

    @property
    def word(self) -> str:
        """The result, such as ACCEPTED; NOT JUDGED for one that contradicts itself."""
        if node_results.contradiction(self.summary):
            return "NOT JUDGED"
        return self.summary["word"] or (node_results.REJECTED if self.rejects else "")

    @property
    def rejects(self) -> bool:
        """True if the run rejected the node."""
        return node_results.rejects(self.summary)

    @property
    def accepts(self) -> bool:
        """True if the run accepted the node."""
        return node_results.accepts(self.summary)

    @property
    def good(self) -> bool:
        """True if the run found nothing broken, and left nothing out that was asked for."""
        return node_results.good(self.summary)

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

    A run that is under way has no result yet, and a place that does not exist yet holds none. Of several results that
    one counts which `node_results` chooses among those that say something of the node, or contradict themselves; one of
    an interrupted run or of a part of the checks does not, and is returned where there is no other.

    `place` is a record, its folder, a folder in which the folders of this node's results begin with its name, or one
    in which every night has such a folder.
    """
    if not untrusted.exists(place):
        return None
    own = [place.parent] if place.is_file() else [place, *_of_node(place, node)]
    read = [each for folder in own if (each := _read(folder, simulated=simulated))]
    hosts = {node, *(each.summary["host"] for each in read)}
    names = node_results.nodes_of(hosts, node_results.names_among(hosts))
    found = [each for each in read if names[each.summary["host"]] == names[node]]
    telling = [each for each in found if each.good or each.rejects or node_results.contradiction(each.summary)]
    now = datetime.now(timezone.utc)
    return node_results.choose(telling, now).counts or node_results.choose(found, now).counts


def _of_node(place: Path, node: str) -> Iterator[Path]:
    """Yield the folders of a node's results, which are named by the host, with its domain or without."""
    try:
        names = sorted((each.name for each in os.scandir(place) if not each.name.startswith(".")), reverse=True)
    except OSError as error:
        raise BadFile(f"{place}: cannot be read: {error.strerror}") from None
    short = node.partition(".")[0]
    called = [file_name(node)] if short in ("", node) or short.isdigit() else [file_name(node), file_name(short)]
    begins = tuple(f"{name}{end}" for name in called for end in "-.")
    own = [each for each in names if each in called or each.startswith(begins)]
    yield from (place / each for each in own[:MOST_OF_NODE])
    others = [each for each in names if each not in own]
    for night in others[:MOST_NIGHTS]:
        for name in called:
            yield from _numbered(place / night / name)


def _numbered(first: Path) -> Iterator[Path]:
    """Yield a folder and those of later runs beside it, with the numbers that they were given."""
    for number in count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        if not folder.is_dir():
            return
        yield folder


def _read(folder: Path, *, simulated: bool) -> LastRun | None:
    """Return the result in a folder, None if there is none or it is no measurement of this kind of node."""
    try:
        found = folder_summary.of_folder(folder)
    except BadFile:
        return None
    if found is None or found["simulated"] != simulated or found["judged_again"]:
        return None
    if not found["word"] and not node_results.rejects(found) and not node_results.contradiction(found):
        return None  # it has not ended
    began = moment(found["started"])
    return LastRun(folder, found, max(0.0, time.time() - began.timestamp())) if began else None
