"""The summary of the run that a folder holds: summary.json, or that of the record where it is damaged, absent or older.

Whoever can write into the folder can change both files: only regular files are read, up to a size, and no links.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from itertools import takewhile
from pathlib import Path

from pytest_accel.core import exits, structured, untrusted
from pytest_accel.core.node_name import names_among, nodes_of
from pytest_accel.core.run import Run
from pytest_accel.core.summary import RUNNING, Summary, choose
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Result
from pytest_accel.run import record, summaries
from pytest_accel.run.record_folder import file_name, numbered

SUMMARY_BYTES = 1 << 20
"""Size of the largest summary that is read. That of eight devices with forty figures each has about 20 kB."""
RECORD_BYTES = 8 << 20
"""Size of the largest record that is read in place of its summary."""
FILES = (summaries.SUMMARY, record.FILE)
"""The files that tell of a run, in the order in which they are tried."""
OF_RUN = re.compile(r"run-(\d+)")
"""The names of the folders of the runs of a series."""
TAIL_BYTES = 128 << 10
"""How much of the end of a record is searched for its state."""
RUNS = b'\n"state": "running"'
"""The state of a record as long as its run has not ended."""


def of_folder(folder: Path, rehearsal: bool | None = None) -> Summary | None:
    """Return the summary of the run that a folder holds, None if it has neither file.

    Raises BadFile, which names the first file that cannot be read, if no other one can.
    """
    bad = ""
    for name in FILES:
        path = folder / name
        try:
            path.lstat()
            found = of_file(path, rehearsal)
            return _ended(found) or found if name == summaries.SUMMARY else found
        except FileNotFoundError:
            continue
        except OSError as error:
            bad = bad or f"{folder.name}/{name} cannot be read: {error.strerror}"
        except record.OtherKind:
            raise
        except BadFile:
            bad = bad or f"{folder.name}/{name} is damaged"
    if bad:
        raise BadFile(bad)
    return None


def record_of(folder: Path) -> Path:
    """Return the record in a folder; in that of a series the one of its last run."""
    own = folder / record.FILE
    runs = [] if untrusted.exists(own) else [(int(at[1]), each) for each in folder.glob("run-*") if (at := _run(each))]
    return max(runs)[1] / record.FILE if runs else own


def _run(folder: Path) -> re.Match[str] | None:
    return OF_RUN.fullmatch(folder.name) if untrusted.exists(folder / record.FILE) else None


def of_series(found: Summary, run: Run) -> Summary:
    """Return the summary of a run; of one of a series with the result of the series, unless it rejects by itself.

    What was asked is the series: none of its runs accepts, or holds, where the series does not.
    """
    if found.rejects or "follows" not in run.info:
        return found
    folder = run.path.absolute().parent.parent
    try:
        series = of_folder(folder)
    except BadFile:
        series = None
    if series and series.result in (Result.ACCEPTED, found.result):
        return found
    line = series.line if series else f"NOT JUDGED a run of the series in {folder.name}, which has no result"
    return replace(found, result=Result.NOT_JUDGED, exit=exits.NOT_JUDGED, line=line)


def of_file(path: Path, rehearsal: bool | None = None) -> Summary:
    """Return the summary that a file holds, or that of the record that it holds, by its name. Raises BadFile."""
    if path.name == summaries.SUMMARY:
        found = _stated(path)
        record.demand_kind(path, simulated=found.simulated, rehearsal=rehearsal)
    else:
        found = summaries.summary(record.read(path, rehearsal=rehearsal, most=RECORD_BYTES, follow=False))
    if found.started and found.began is None:  # runs are ordered by it
        raise BadFile(f"{path}: is damaged: it began at {structured.short(found.started)}")
    return found


def _stated(path: Path) -> Summary:
    """Return the summary in its file. Raises BadFile."""
    raw = untrusted.read_json(path, most=SUMMARY_BYTES, follow=False)
    if not isinstance(raw, dict) or "schema" not in raw:
        raise BadFile(f"{path}: is not the summary of a record: it has no 'schema'")
    try:
        found = structured.structure(Summary, raw)
    except structured.Misfit as misfit:
        raise BadFile(f"{path}: is not the summary of a record, or a damaged one: {misfit}") from None
    record.demand_visible(path, found.devices)
    if any(not (math.isfinite(value) and value > 0) for values in found.figures.values() for value in values.values()):
        raise BadFile(f"{path}: is damaged: a figure is not above zero")
    return replace(found, path=path.with_name(record.FILE))


def _ended(found: Summary) -> Summary | None:
    """Return the summary of a record whose run has ended though its summary says that it has not; else None.

    Whoever is killed between writing the two leaves them so. The record is written first.
    """
    if found.state != RUNNING:
        return None
    try:
        if RUNS in untrusted.read_end(found.path, TAIL_BYTES):
            return None
        newer = of_file(found.path)
    except BadFile:
        return None
    same = (newer.started, newer.host) == (found.started, found.host)
    return newer if same and newer.state != RUNNING else None


# -- the newest result of this node's own runs, read from the small summary beside its record


MOST_NIGHTS = 100
"""Most folders of nights in which the folder of this node is looked for: those whose names sort last."""
MOST_OF_NODE = 100
"""Most results of this node that are read, those whose names sort last."""


def last_run(place: Path, node: str, *, rehearsal: bool = False) -> Summary | None:
    """Return the newest result of a node that `place` holds, None if there is none. Raises BadFile.

    A run that is under way has no result yet, and a place that does not exist yet holds none. Of several results that
    one counts which `choose` chooses among those that say something of the node; one of an interrupted run
    or of a part of the checks does not, and is returned where there is no other.

    `place` is a record, its folder, a folder in which the folders of this node's results begin with its name, or one
    in which every night has such a folder.
    """
    if not untrusted.exists(place):
        return None
    own = [place.parent] if place.is_file() else [place, *_of_node(place, node)]
    read = [each for folder in own if (each := _read(folder, rehearsal))]
    hosts = {node, *(each.host for each in read)}
    names = nodes_of(hosts, names_among(hosts))
    found = [each for each in read if names[each.host] == names[node]]
    now = datetime.now(timezone.utc)
    telling = [each for each in found if each.good or each.rejects]
    return choose(telling, now).counts or choose(found, now).counts


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
            yield from takewhile(Path.is_dir, numbered(place / night / name))


def _read(folder: Path, rehearsal: bool) -> Summary | None:
    """Return the result in a folder, None if there is none or it is no measurement of this kind of node."""
    try:
        found = of_folder(folder, rehearsal)
    except BadFile:
        return None
    if found is None or found.judged_again:
        return None
    return found if found.began and found.result else None  # without either, it has not ended
