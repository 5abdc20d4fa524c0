"""Looking at a run until every node has a result, and what is shown meanwhile."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from pytest_accel.core.printable import printable
from pytest_accel.fleet.jobs import run_folder, states
from pytest_accel.fleet.jobs.run_folder import ExpectedNode, FleetRequest, Results
from pytest_accel.fleet.jobs.slurm import JobState, SlurmError
from pytest_accel.fleet.jobs.states import PENDING, NodeResult, State
from pytest_accel.fleet.jobs.submission import jobs_of

LEAST_PAUSE, MOST_PAUSE = 2.0, 30.0
"""Seconds between two looks; ten times as long as a look takes, within these."""
SETTLE = 5.0
"""Seconds after which nodes without a result are looked at once more: on a network file system a record may be seen
only some seconds after the job has ended."""
PATIENCE = 600.0
"""Seconds without an answer of Slurm after which it is not asked any more."""
NIGHTS = 7
"""Runs that are looked at in a folder of several: a job may begin nights after it was submitted."""
LINE_EVERY = 30.0
"""Fewest seconds between two lines where there is no terminal."""


class RunWatch:
    """Looks at the run in a folder, by the summaries beside the records."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._results = Results(folder)
        self.fleet = run_folder.request_of(self._results)
        self._asked = self.fleet.listed
        """True if `fleet run` submitted its jobs."""

    def expect(self, names: Sequence[str]) -> None:
        """Take these nodes for the expected ones of a run that no `fleet run` began."""
        self.fleet = replace(self.fleet, expected=tuple(map(ExpectedNode, names)), listed=True)
        self._asked = False

    def look(self, *, queue: bool = True) -> list[NodeResult]:
        """Return the state of every node; without `queue` by the files alone. Raises BadFile or SlurmError."""
        jobs: list[JobState] | None = [] if queue else None
        if queue and self._asked:
            jobs = jobs_of(self.fleet, self.folder)  # asked first: a job that ends meanwhile has its record by then
            self.fleet = run_folder.load(self.folder)
        results = self._results.read()
        closing = run_folder.network_line(self.folder)
        self.fleet = replace(self.fleet, others=states.others(self.fleet, results), network=closing)
        return states.of_all(
            self.fleet,
            results,
            jobs,
            partial(run_folder.last_words, self.folder),
            self._results.unreadable,
            submitting=run_folder.is_submitting(self.folder),
        )


@dataclass(frozen=True)
class Watch:
    """Looks at the run in a folder, or at the last runs in a folder of several, such as one for each night."""

    runs: Sequence[RunWatch]
    """Oldest first; at least one."""

    @property
    def fleet(self) -> FleetRequest:
        """The request of the last run."""
        return self.runs[-1].fleet

    def needed(self) -> dict[Path, str]:
        """Return the runs whose records are needed whatever their age, and why. Raises BadFile or SlurmError."""
        looks = [(run.folder, run.look()) for run in self.runs]
        pending = [folder for folder, nodes in looks if any(node.state in PENDING for node in nodes)]
        standing = states.over_nights([(folder.name, nodes) for folder, nodes in looks], ())
        rejecting = {node.result.folder: node.node for node in standing if node.result and node.result.rejects}
        names = {folder: name for path, name in rejecting.items() for folder, _ in looks if folder in path.parents}
        full_runs = {run.fleet.partition: run.folder for run in self.runs if not run.fleet.named}
        return {
            **dict.fromkeys(full_runs.values(), "it is the last run without --nodes"),
            **{folder: f"{name} is rejected in it, and was not accepted since" for folder, name in names.items()},
            **dict.fromkeys(pending, "it has jobs in the queue"),
        }

    def look(self, *, queue: bool = True) -> list[NodeResult]:
        """Return the state of every node (`states.over_nights`), as `RunWatch.look` does for one run."""
        looks = [(run.folder.name, run.look(queue=queue)) for run in self.runs]
        return states.over_nights(looks, states.expected_in([run.fleet for run in self.runs]))

    def look_anywhere(self) -> tuple[list[NodeResult], str]:
        """Return the state of every node, and why the queue could not be asked (empty if it could). Raises BadFile."""
        try:
            return self.look(), ""
        except SlurmError as error:
            return self.look(queue=False), str(error)


def watch_of(folder: Path, nights: int = NIGHTS) -> Watch:
    """Return the watch of the run in a folder, or of the last `nights` runs below it. Raises BadFile or OSError."""
    runs = [] if run_folder.exists(folder) else [path for path in folder.iterdir() if run_folder.exists(path)]
    runs.sort(key=lambda path: run_folder.load(path).created)
    return Watch([RunWatch(path) for path in runs[-nights:] or [folder]])


@dataclass
class ProgressLine:
    """Shows one line: overwritten on a terminal, elsewhere a new one if it has changed, at most every LINE_EVERY."""

    _began: float = field(default_factory=time.monotonic)
    _first: int | None = None
    """The number of nodes without a result at the first look."""
    _last: str = ""
    _next: float = 0.0
    _width: int = 0

    def nodes(self, results: Sequence[NodeResult]) -> None:
        """Show how many nodes are in which state, and about how long it will take."""
        self.text(states.in_words(results), self._left(results))

    def _left(self, nodes: Sequence[NodeResult]) -> str:
        """Return about how long it will take, by what ended since the first look."""
        pending = sum(node.state in PENDING for node in nodes)
        if self._first is None:
            self._first = pending
        finished = self._first - pending
        if finished < 1 or not pending:
            return ""
        seconds = (time.monotonic() - self._began) * pending / finished
        return f"; about {seconds / 60:.0f} min left" if seconds >= 90 else f"; about {seconds:.0f} s left"

    def text(self, message: str, more: str = "") -> None:
        """Show a text with `more` behind it, whose change alone makes no new line. An empty text is not shown."""
        if not message:
            return
        text = printable(message + more)
        if sys.stderr.isatty():
            text = text[: shutil.get_terminal_size().columns - 1]
            sys.stderr.write(f"\r{text}{' ' * (self._width - len(text))}")
            self._width = len(text)
        elif message != self._last and time.monotonic() >= self._next:
            self._last, self._next = message, time.monotonic() + LINE_EVERY
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    def end(self) -> None:
        """Clear the line on a terminal."""
        if self._width:
            sys.stderr.write(f"\r{' ' * self._width}\r")
            self._width = 0


def until_done(watch: Watch, seconds: float | None = None) -> tuple[list[NodeResult], str]:
    """Look until no node is waiting or running, or until `seconds` are over, and show the progress.

    Returns the states, and why the queue could not be asked at last (empty if it could). A look at which Slurm does not
    answer is made again, until it has not answered for PATIENCE. Raises BadFile.
    """
    end = time.monotonic() + seconds if seconds is not None else None
    progress, settled = ProgressLine(), False
    last_answer = time.monotonic()
    while True:
        start = time.monotonic()
        nodes, problem = watch.look_anywhere()
        if problem:
            progress.text(problem)
            if time.monotonic() - last_answer >= PATIENCE:
                break
        else:
            last_answer = time.monotonic()
            progress.nodes(nodes)
            if not any(node.state in PENDING for node in nodes):
                if settled or not any(node.state is State.NO_RESULT for node in nodes):
                    break
                settled = True
        if end is not None and time.monotonic() >= end:
            break
        pause = min(MOST_PAUSE, max(LEAST_PAUSE, 10 * (time.monotonic() - start)))
        pause = SETTLE if settled else pause
        time.sleep(pause if end is None else max(0.0, min(pause, end - time.monotonic())))
    progress.end()
    return nodes, problem
