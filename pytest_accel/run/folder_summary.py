"""The summary of the run in a folder: summary.json, or that of the record where it is damaged, absent or older."""

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
"""The bytes at the end of a record that are searched for its state."""
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
            summary = of_file(path, rehearsal)
            return _ended(summary) or summary if name == summaries.SUMMARY else summary
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
    file = folder / record.FILE
    runs = [] if untrusted.exists(file) else [match for path in folder.glob("run-*") if (match := _run(path))]
    return folder / max(runs, key=lambda match: int(match[1])).string / record.FILE if runs else file


def _run(folder: Path) -> re.Match[str] | None:
    return OF_RUN.fullmatch(folder.name) if untrusted.exists(folder / record.FILE) else None


def of_series(summary: Summary, run: Run) -> Summary:
    """Return the summary of a run; of one of a series with the result of the series, unless it rejects by itself.

    What was asked is the series: none of its runs accepts, or holds, where the series does not.
    """
    if summary.rejects or "follows" not in run.info:
        return summary
    folder = run.path.absolute().parent.parent
    try:
        series = of_folder(folder)
    except BadFile:
        series = None
    if series and series.result in (Result.ACCEPTED, summary.result):
        return summary
    line = series.line if series else f"NOT JUDGED a run of the series in {folder.name}, which has no result"
    return replace(summary, result=Result.NOT_JUDGED, exit=exits.NOT_JUDGED, line=line)


def of_file(path: Path, rehearsal: bool | None = None) -> Summary:
    """Return the summary that a file holds, or that of the record that it holds, by its name. Raises BadFile."""
    if path.name == summaries.SUMMARY:
        summary = _stated(path)
        record.demand_kind(path, simulated=summary.simulated, rehearsal=rehearsal)
    else:
        summary = summaries.summary(record.read(path, rehearsal=rehearsal, most=RECORD_BYTES, follow=False))
    if summary.started and summary.began is None:  # runs are ordered by it
        raise BadFile(f"{path}: is damaged: it began at {structured.short(summary.started)}")
    return summary


def _stated(path: Path) -> Summary:
    """Return the summary in its file. Raises BadFile."""
    # others may write into the folder: no link is followed, and no file of any size is read
    raw = untrusted.read_json(path, most=SUMMARY_BYTES, follow=False)
    if not isinstance(raw, dict) or "schema" not in raw:
        raise BadFile(f"{path}: is not the summary of a record: it has no 'schema'")
    try:
        summary = structured.structure(Summary, raw)
    except structured.Misfit as misfit:
        raise BadFile(f"{path}: is not the summary of a record, or a damaged one: {misfit}") from None
    record.demand_visible(path, summary.devices)
    if any(not (math.isfinite(value) and value > 0) for row in summary.figures.values() for value in row.values()):
        raise BadFile(f"{path}: is damaged: a figure is not above zero")
    return replace(summary, path=path.with_name(record.FILE))


def _ended(summary: Summary) -> Summary | None:
    """Return the summary of a record whose run has ended though its summary says that it has not; else None.

    Whoever is killed between writing the two leaves them so. The record is written first.
    """
    if summary.state != RUNNING:
        return None
    try:
        if RUNS in untrusted.read_end(summary.path, TAIL_BYTES):
            return None
        newer = of_file(summary.path)
    except BadFile:
        return None
    same_run = (newer.started, newer.host) == (summary.started, summary.host)
    return newer if same_run and newer.state != RUNNING else None


# -- the newest result of this node's own runs, read from the small summary beside its record


MOST_NIGHTS = 100
"""Most folders of nights in which the folder of this node is looked for: those whose names sort last."""
MOST_OF_NODE = 100
"""Most results of this node that are read, those whose names sort last."""


def last_run(path: Path, node: str, *, rehearsal: bool = False) -> Summary | None:
    """Return the newest result of a node at a path, None if there is none. Raises BadFile.

    A run that is under way has no result yet, and a path that does not exist yet holds none. Of several results that
    one counts which `choose` chooses among those that say something of the node; one of an interrupted run
    or of a part of the checks does not, and is returned where there is no other.

    `path` is a record, its folder, a folder in which the folders of this node's results begin with its name, or one
    in which every night has such a folder.
    """
    if not untrusted.exists(path):
        return None
    folders = [path.parent] if path.is_file() else [path, *_of_node(path, node)]
    results = [result for folder in folders if (result := _read(folder, rehearsal))]
    hosts = {node, *(result.host for result in results)}
    names = nodes_of(hosts, names_among(hosts))
    node_results = [result for result in results if names[result.host] == names[node]]
    now = datetime.now(timezone.utc)
    conclusive = [result for result in node_results if result.good or result.rejects]
    return choose(conclusive, now).counts or choose(node_results, now).counts


def _of_node(path: Path, node: str) -> Iterator[Path]:
    """Yield the folders of a node's results, which are named by the host, with its domain or without."""
    try:
        names = sorted((entry.name for entry in os.scandir(path) if not entry.name.startswith(".")), reverse=True)
    except OSError as error:
        raise BadFile(f"{path}: cannot be read: {error.strerror}") from None
    host = node.partition(".")[0]
    aliases = [file_name(node)] if host in ("", node) or host.isdigit() else [file_name(node), file_name(host)]
    prefixes = tuple(f"{name}{end}" for name in aliases for end in "-.")
    folders = [name for name in names if name in aliases or name.startswith(prefixes)]
    yield from (path / name for name in folders[:MOST_OF_NODE])
    nights = [name for name in names if name not in folders]
    for night in nights[:MOST_NIGHTS]:
        for name in aliases:
            yield from takewhile(Path.is_dir, numbered(path / night / name))


def _read(folder: Path, rehearsal: bool) -> Summary | None:
    """Return the result in a folder, None if there is none or it is no measurement of this kind of node."""
    try:
        summary = of_folder(folder, rehearsal)
    except BadFile:
        return None
    if summary is None or summary.judged_again:
        return None
    return summary if summary.began and summary.result else None  # without either, it has not ended
