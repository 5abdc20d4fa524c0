"""The summary of the run that a folder holds: summary.json, or that of the record where it is damaged, absent or older.

Whoever can write into the folder can change both files: only regular files are read, up to a size, and no links.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

from pytest_accel.core import exits, structured, untrusted
from pytest_accel.core.contradiction import Contradiction, Contradicts
from pytest_accel.core.run import Run
from pytest_accel.core.summary import ACCEPTED, RUNNING, Summary
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.words import listed
from pytest_accel.run import record, summaries

SUMMARY_BYTES = 1 << 20
"""Size of the largest summary that is read. That of eight devices with forty figures each has about 20 kB."""
RECORD_BYTES = 8 << 20
"""Size of the largest record that is read in place of its summary."""
FILES = (summaries.SUMMARY, record.FILE)
"""The files that tell of a run, in the order in which they are tried."""
OF_RUN = re.compile(r"run-(\d+)")
"""The names of the folders of the runs of a series."""
FOLLOWS = "--accel-follows"
"""The option that a series gives to each of its runs."""
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
    if found.rejects or not any(word.startswith(FOLLOWS) for word in run.run.get("command", ())):
        return found
    folder = run.path.absolute().parent.parent
    try:
        series = of_folder(folder)
    except BadFile:
        series = None
    if series and series.result in (ACCEPTED, found.word):
        return found
    line = series.line if series else f"NOT JUDGED a run of the series in {folder.name}, which has no result"
    return replace(found, word="NOT JUDGED", exit=exits.NOT_JUDGED, line=line)


def worked_out(folder: Path) -> Summary | None:
    """Return the summary of the run that a folder holds as its record gives it, None if there is neither file.

    A summary beside the record that says otherwise contradicts it, but that of a run that was killed between writing
    the two. Of a series the last run is worked out: one that rejects ends it, and without its acceptance there is none.
    To read a record of 1 MB takes 0.13 s. Raises BadFile as `of_folder`, and where the record is not there.
    """
    stated = of_folder(folder)
    if stated is None:
        return None
    path = record_of(folder)
    try:
        made = summaries.summary(record.read(path, follow=False))
    except BadFile as bad:
        raise BadFile(f"{folder.name}/{record.FILE} cannot be read beside its summary: {bad}") from None
    if path.parent != folder:
        if made.rejects or not stated.accepts or made.accepts:
            return replace(made if made.rejects else stated, path=stated.path)
        return replace(stated, contradictions=(Contradiction(Contradicts.INDEX, "word"), *made.contradictions))
    said, found = structured.plain(stated), structured.plain(made)
    differs = [key for key in found if found[key] != said[key]]
    if stated.state == RUNNING or not differs:
        return made
    return replace(made, contradictions=(Contradiction(Contradicts.INDEX, listed(differs)), *made.contradictions))


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
