"""Steps one after another within a stated time, each in a process of its own with a deadline of its own.

What is found is written anew with every result and packed after every step: a session that is cut leaves what it had.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_accel.core.ranking import worst_first
from pytest_accel.core.sentences import limit_of, sentence_of
from pytest_accel.core.verdict import Result, Status, Verdict, margin_of, show
from pytest_accel.judging.closing.line import SIMULATED
from pytest_accel.probes.declare import finder_of
from pytest_accel.run.record import find, names_of, read

LATE = 2.0
"""The longest time of a step, as a multiple of its plan. The steps after it, which are worth less, pay for it."""
ENDING = 10.0
"""Seconds that a process has to end after SIGTERM, and again after SIGKILL."""
CUT = "NOT RUN: the session ended before"


@dataclass(frozen=True)
class Step:
    """A command, and the seconds that are planned for it on one GPU, the start of its process included.

    A step of the suite leaves its record in a folder of its name; the others print a JSON line a row. `runs` are the
    rows that are expected, `lacks` is why it cannot be run here.
    """

    name: str
    seconds: float
    command: Sequence[str] = ()
    table: str = "suite"
    runs: Sequence[str] = ()
    lacks: str = ""


class Session:
    """A folder, the archive of it, and the time (of `time.monotonic`) at which the last step has to end."""

    def __init__(
        self, folder: Path, until: float, steps: Sequence[Step], report: Callable[[dict[str, Any]], str]
    ) -> None:
        self.folder, self.until, self.archive = folder, until, folder.with_name(f"{folder.name}.tar.gz")
        self._steps, self._report = steps, report
        self.found: dict[str, Any] = {"about": {}, "steps": {each.name: _begun(each) for each in steps}}
        self.keep()

    def run(self) -> None:
        """Run every step that fits in the time that is left, in their order."""
        self.pack()
        for step in self._steps:
            left = self.until - time.monotonic()
            entry = self.found["steps"][step.name]
            if step.lacks:
                entry["result"] = f"NOT RUN: {step.lacks}"
            elif left < step.seconds:
                entry["result"] = f"NOT RUN: it is planned with {step.seconds:g} s, and {max(0.0, left):.0f} were left"
            else:
                try:
                    self._process(step, entry, min(left, LATE * step.seconds))
                except OSError as error:  # a full disk, on which there is no log
                    entry["result"] = f"BROKE: {error}"
            self.keep()
            self.pack()
            print(f"{step.name}: {entry['result']} ({entry['seconds']:g} s)", flush=True)

    def keep(self) -> None:
        """Write what there is; a disk that is full costs what is not written yet."""
        texts = {"session.json": json.dumps(self.found, indent=1) + "\n", "session.md": self._report(self.found)}
        for name, text in texts.items():
            part = self.folder / f"{name}.part"
            try:
                part.write_text(text, encoding="utf-8")
                part.replace(self.folder / name)
            except OSError as error:
                print(f"{part} could not be written: {error}", flush=True)

    def pack(self) -> None:
        """Put the folder into the archive; the one before it stays until the new one is whole."""
        part = self.archive.with_name(f"{self.archive.name}.part")
        try:
            with tarfile.open(part, "w:gz") as out:
                out.add(self.folder, self.folder.name)
            part.replace(self.archive)
        except OSError as error:
            print(f"{self.archive} could not be written: {error}", flush=True)

    def _process(self, step: Step, entry: dict[str, Any], limit: float) -> None:
        """Run the command for at most `limit` seconds, its output into a log, and keep what it says as it comes."""
        began, log = time.monotonic(), self.folder / f"{step.name.replace(' ', '-')}.log"
        entry["result"] = "the session was cut while it ran"
        with open(log, "w", encoding="utf-8") as out, contextlib.ExitStack() as stack:
            process = subprocess.Popen(
                step.command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip
            stack.callback(_judged, step, entry, self.folder)
            stack.callback(_hear, step, entry, log)
            stack.callback(end, process)
            ended = None
            while ended is None and time.monotonic() - began < limit:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    ended = process.wait(0.5)
                entry["seconds"] = round(time.monotonic() - began, 1)
                _hear(step, entry, log)
                self.keep()
            entry["result"] = f"STOPPED at its deadline of {limit:.0f} s" if ended is None else f"ended with {ended}"
            if ended and step.table != "suite":  # which also ends with its verdict
                entry["result"] = f"BROKE with {ended}: {_last(log)}"


def _begun(step: Step) -> dict[str, Any]:
    expected = {"table": step.table, "runs": list(step.runs), "planned": step.seconds}
    return {**expected, "seconds": 0.0, "result": CUT, "closing": "", "record": "", "verdicts": [], "rows": []}


def _hear(step: Step, entry: dict[str, Any], log: Path) -> None:
    """Take over what a step has printed up to now: whole lines only."""
    lines = log.read_text(encoding="utf-8", errors="replace").rpartition("\n")[0].splitlines()
    if step.table == "suite":
        begins = (SIMULATED, *(result.value for result in Result))
        verdicts = [line.strip() for line in lines if line.startswith(begins)]
        said = verdicts or [line.strip() for line in lines if line.strip()]  # a run that is refused has no verdict
        entry["closing"] = said[-1] if said else ""
        return
    entry["rows"] = []
    for line in lines:
        with contextlib.suppress(ValueError):  # what a library prints may begin like an object
            entry["rows"] += [json.loads(line)] if line.startswith("{") else []


def _judged(step: Step, entry: dict[str, Any], folder: Path) -> None:
    """Take over from the record of a run of the suite which of its verdicts have to be seen, also if it was ended."""
    if step.table != "suite":
        return
    try:
        record = read(find(folder / step.name))
    except Exception as error:  # noqa: BLE001  what is wrong with one record costs its own rows
        entry["record"] = f"no record: {error}"
        return
    names, statuses = names_of(record), [verdict.status for verdict in record.verdicts]
    counts = ", ".join(f"{statuses.count(status)} {status.value}" for status in Status if status in statuses)
    entry["record"] = f"{record.state}: {counts or 'no verdict'}{_not_measured(record.verdicts)}"
    fine = (Status.PASS, Status.NOT_APPLICABLE)
    seen = [verdict for verdict in record.verdicts if verdict.status not in fine]
    entry["verdicts"] = [_figures(verdict, names[verdict.subject]) for verdict in worst_first(seen)]


def _not_measured(verdicts: Sequence[Verdict]) -> str:
    """Return which metrics of probes were said to be not applicable: a fault of ours may look like that."""
    without = [
        verdict.metric for verdict in verdicts if verdict.status is Status.NOT_APPLICABLE and not verdict.information
    ]
    probed = [metric for metric in without if (found := finder_of(metric)) and not found.fact]
    return f"; not applicable of what is measured: {', '.join(dict.fromkeys(probed))}" if probed else ""


def _figures(verdict: Verdict, device: str) -> dict[str, str]:
    value = show(verdict.value, verdict.unit) if verdict.value is not None else ""
    found = {"metric": verdict.metric, "device": device, "status": verdict.status.value, "value": value}
    return {**found, "limit": limit_of(verdict), "margin": margin_of(verdict), "reason": sentence_of(verdict)}


def _last(log: Path) -> str:
    """Return the last line of a log, as a cell of a table."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it printed nothing"]
    return lines[-1].replace("|", "/")[:200]


def end(process: subprocess.Popen[bytes]) -> None:
    """End a program that leads its process group, and all that it started. What cannot be killed is left behind."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(ENDING)
