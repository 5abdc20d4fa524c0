"""Repeats complete runs for the hours of --accel-hours, each in a process of its own, and keeps their folder.

The folder of a series holds the records of its runs (run-1, run-2 ...) and what follows from them: series.json, and a
summary like that of a run. The next start goes on from the records: a stop or a kill loses at most one run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from pytest_accel.core import clock, exits, structured, untrusted
from pytest_accel.core.node_name import node_name
from pytest_accel.core.pipe import die_with_parent
from pytest_accel.core.run import Run
from pytest_accel.core.summary import FINISHED
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Closing, Result
from pytest_accel.judging.closing import series_result as judging
from pytest_accel.judging.closing.series_result import SeriesRun, hours_done
from pytest_accel.run import device_lock, record, summaries, telemetry_file
from pytest_accel.run.deadline import SHORTEST, Deadline
from pytest_accel.run.folder_summary import OF_RUN
from pytest_accel.run.options import FOLLOWS, NO_PREVIOUS_RUN, Options, Refused
from pytest_accel.run.processes.supervisor import python
from pytest_accel.run.record_folder import file_name
from pytest_accel.run.terms import waivers

FILE: Final = "series.json"
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass
class Series:
    """The runs of a series, oldest first, as the records in its folder tell them."""

    folder: Path
    runs: list[SeriesRun] = field(default_factory=list)
    last: Run | None = None
    """The record of the last whole run."""
    rejection: str = ""
    """The closing line that it was rejected with; empty if it was not."""

    @staticmethod
    def read(folder: Path) -> Series:
        """Read the records in a folder. Raises Refused for one that is damaged, was changed, or is missing."""
        series, file = Series(folder), folder / FILE
        paths = folder.glob(f"run-*/{record.FILE}")
        numbers = [int(match[1]) for path in paths if (match := OF_RUN.fullmatch(path.parent.name))]
        try:
            concluded = file.exists() or (folder / summaries.SUMMARY).exists()
            content: Any = untrusted.read_json(file) if concluded else {"runs": (), "closing": {"result": None}}
            # the records hold everything else; series.json alone knows of runs whose folders were removed
            numbers += [int(run["number"]) for run in content["runs"]]
            series.rejection = content["closing"]["line"] if content["closing"]["result"] == Result.REJECTED else ""
        except (BadFile, LookupError, TypeError, ValueError) as bad:
            raise Refused(f"--accel-output: {file} is damaged: {bad}; begin a new series in another folder") from None
        # a removed run raises here: its findings are not forgotten
        for number in range(1, max(numbers, default=0) + 1):
            series.add(number)
        return series

    def run_folder(self, number: int) -> Path:
        """Return the folder of a run."""
        return self.folder / f"run-{number}"

    def add(self, number: int) -> None:
        """Read the record of one more run. Raises Refused."""
        file = self.run_folder(number) / record.FILE
        try:
            run = record.read(file)
        except BadFile as bad:
            raise Refused(f"--accel-output: {bad}; begin a new series in another folder") from None
        if run.objections:
            raise Refused(f"--accel-output: {file} is not believed: {run.objections[0]}; begin a new series")
        self.runs.append(judging.of_record(number, run, _last_reading(file.parent, run)))
        if self.runs[-1].whole:
            self.last = run

    def write(self, closing: Closing, hours: float) -> None:
        """Write the closing line and an entry for each run, and the summary by which others know of the series."""
        runs = [_entry(run, self.run_folder(run.number).name) for run in self.runs]
        conclusion = {"done": hours_done(self.runs), "closing": structured.plain(closing), "runs": runs}
        _replace(self.folder / FILE, {"hours": hours, **conclusion})
        if self.last:
            rejected = sorted({verdict.subject for verdict in closing.verdicts if verdict.rejects})
            summary = replace(summaries.summary(self.last), state=FINISHED, figures={}, rejected=rejected)
            summary = replace(summary, line=closing.line, result=closing.result, exit=closing.exit, marked=rejected)
            _replace(self.folder / summaries.SUMMARY, structured.plain(summary))


def _replace(path: Path, content: Any) -> None:
    record.replace_file(path, json.dumps(content, indent=1) + "\n")


def _entry(run: SeriesRun, folder: str) -> dict[str, Any]:
    """Return the entry of a run in the file of the series; the record in its folder holds the rest."""
    names = ("number", "state", "whole", "seconds", "boot", "last", "line")
    return {"folder": folder, **{name: getattr(run, name) for name in names}}


def _last_reading(folder: Path, run: Run) -> str:
    """Return the time of the last reading of a run; of one that did not end, by its telemetry."""
    if run.state != "running":
        return run.info.get("ended", run.started)
    times = [measurement.ended for measurement in run.measurements]
    with contextlib.suppress(BadFile):
        times += [reading["at"] for reading in telemetry_file.readings(folder / record.TELEMETRY) if "at" in reading]
    last = max(times, default=0.0)
    return clock.iso(last) if last else run.started


# -- going on

Start = Callable[[Path, str, float | None], int]
"""Makes a run, and returns its exit status, or the negative number of the signal that killed it: called with the folder
of its record, the record of the run before (or NO_PREVIOUS_RUN), and the seconds that it may take (None for any)."""


def folder_of(options: Options) -> Path:
    """Return the folder of a series: that of the node below it where the nodes of a job share it. Raises Refused."""
    if options.output is None:
        raise Refused("--accel-hours: name the folder of the series by --accel-output; the same command goes on there")
    folder = options.output.absolute()
    if (folder / record.FILE).exists():
        raise Refused(f"--accel-output: {folder} holds the record of a run; name a new folder for the series")
    return folder / file_name(node_name()) if options.shares_folder else folder


def locked(folder: Path) -> IO[bytes]:
    """Return the lock on the folder of a series; closing it frees the folder. Raises Refused, and names the holder."""
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    try:
        (lock,) = device_lock.hold([(f"series-{name}", f"--accel-output: {folder}")], "a series of --accel-hours")
    except device_lock.DeviceLocked as error:
        raise Refused(f"{error}; wait for that series to end, or stop it") from None
    return lock


def go_on(options: Options, start: Start, tell: Callable[[str], None]) -> int:
    """Begin or continue the series of these options, and return its exit status. Raises Refused.

    It ends with the first run that rejects, and before one that would last longer than the time limit of this start.
    `tell` is called with one line for each run, and with the closing line.
    """
    hours, granted, deadline = options.hours or 0.0, waivers(options.waivers), Deadline(options.time_limit)
    series = Series.read(folder_of(options))
    stopped: Closing | None = None
    if series.rejection:  # whatever its records are by now
        tell(series.rejection)
        return exits.REJECTED
    while True:
        closing = judging.closing(series.runs, series.last, hours, granted, stopped=stopped)
        complete = hours_done(series.runs) >= hours or judging.unreliable(series.runs)
        if closing.exit == exits.REJECTED or complete or stopped:
            break
        longest = max((run.seconds for run in series.runs), default=0.0)
        if deadline.seconds_left < max(SHORTEST, longest):
            break
        number = series.runs[-1].number + 1 if series.runs else 1
        folder, previous = series.run_folder(number), series.run_folder(number - 1) / record.FILE
        time_limit = deadline.seconds_left if options.time_limit else None
        status = start(folder, str(previous) if series.runs else NO_PREVIOUS_RUN, time_limit)
        if not (folder / record.FILE).exists():  # it was refused, and has said why
            return status if status > exits.REJECTED else exits.BROKEN  # Python itself ends with 1 for its errors
        series.add(number)
        run = series.runs[-1]
        tell(f"run {number}, {hours_done(series.runs):.3g} of {hours:g} h: {run.line or f'did not end ({status})'}")
        if status > 0 and status not in (exits.REJECTED, exits.NOT_JUDGED):
            result = Result.INTERRUPTED if status == exits.INTERRUPTED else Result.BROKEN
            stopped = Closing(run.line or result.value, status, result)
        elif not run.whole:  # the next one would break off as well, and no hour would pass
            break
    closing = judging.closing(series.runs, series.last, hours, granted, stopped=stopped)
    if series.runs:
        series.write(closing, hours)
    tell(closing.line)
    return closing.exit


def start_run(arguments: Sequence[str], level: str, folder: Path, previous: str, seconds: float | None) -> int:
    """Make a run at a level as a process of pytest (see `Start`), and pass on the signals that are to end the series.

    `arguments` are those of the series; what a run has otherwise is given after them. The run dies with this process,
    however it ends.
    """
    options = [f"--accel-output={folder}", f"--accel-level={level}"]
    # the runs beside it, of which this is the first
    options += [] if previous == NO_PREVIOUS_RUN else ["--accel-baseline=auto"]
    options += [] if seconds is None else [f"--accel-time-limit={seconds:.0f}"]
    process = subprocess.Popen(
        python("pytest", *arguments, *options),
        env={**os.environ, FOLLOWS: previous},
        preexec_fn=partial(die_with_parent, os.getpid()),  # noqa: PLW1509  no thread runs yet
    )
    handlers = {signum: signal.signal(signum, lambda number, _: process.send_signal(number)) for signum in SIGNALS}
    try:
        return process.wait()
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
