"""The state of every expected node, from the expected list, the results in the folder and the queue. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from pytest_accel.core.words import counted
from pytest_accel.fleet.jobs.run_folder import Fleet, Result, Submitted, Unreadable
from pytest_accel.fleet.jobs.slurm import ACTIVE, WAITING, JobState
from pytest_accel.run.summaries import moment

REJECTED_EXIT, INTERRUPTED_EXIT, NOT_JUDGED_EXIT = 1, 2, 6
"""Exit statuses of a run whose verdict is not that everything holds."""


class State(Enum):
    """What became of a node, the worst first."""

    REJECTED = "rejected"
    ERROR = "error"
    NO_RESULT = "no result"
    NOT_JUDGED = "not judged"
    SKIPPED = "skipped"
    RUNNING = "running"
    WAITING = "waiting"
    HELD = "held"
    """Everything that ran holds, but it was no acceptance: own tests, SKU auto or cpu, a simulated node."""
    ACCEPTED = "accepted"


ENDS = "; its output ends: "
"""What stands before the last line of the output of a job in a reason."""
SIMULATE = "--accel-simulate"
PENDING = (State.RUNNING, State.WAITING)
"""States of nodes that will have a result without anybody's doing."""
HOLDS = (State.ACCEPTED, State.HELD)
"""States of runs that ended with exit status 0."""
JUDGED = (State.REJECTED, State.ERROR, State.NOT_JUDGED, *HOLDS)
"""States of nodes whose run has ended with an exit status."""
MISSING = (State.NO_RESULT, State.ERROR)
"""States of nodes for which `fleet run` submits another job."""


@dataclass(frozen=True)
class NodeResult:
    """The state of a node, the reason in one sentence, and the result that it follows from (None without one)."""

    node: str
    state: State
    reason: str
    result: Result | None = None
    skipped: str = ""
    """Why the node starts no job now; empty if it does."""


def of_all(
    fleet: Fleet,
    results: Mapping[str, Sequence[Result]],
    jobs: Iterable[JobState] | None,
    last_words: Callable[[str, str], str] = lambda node, job: "",
    unreadable: Sequence[Unreadable] = (),
) -> list[NodeResult]:
    """Return the state of every expected node, in the order of the list.

    `jobs` are None where the queue could not be asked. `last_words` returns the last line
    of the output of a node's job. `unreadable` are the folders of runs of which nothing is known but their names.
    """
    submitted: dict[str, list[Submitted]] = {}
    for one in fleet.jobs:
        submitted.setdefault(one.node, []).append(one)
    queued: dict[str, list[JobState]] = {}
    for job in jobs or ():
        queued.setdefault(job.name, []).append(job)
    asked = asked_of(fleet)
    names = {each.name for each in fleet.expected}
    runs: dict[str, list[Result]] = {}
    for host, of_host in results.items():  # by hand, a run states the name of the host, which may have a domain
        runs.setdefault(host if host in names else host.partition(".")[0], []).extend(of_host)
    found = []
    for each in fleet.expected:
        counted_in, left_out = _counting(runs.get(each.name, ()), asked)
        of_node = sorted(queued.get(fleet.job_name(each.name), ()), key=_number)
        known = _Known(
            each.name,
            each.skipped,
            max(counted_in, key=_started, default=None),
            submitted.get(each.name, ()),
            of_node[-1] if of_node else None,
            max((one for one in unreadable if one.is_of(each.name)), key=_changed, default=None),
            queue_known=jobs is not None,
        )
        state = replace(_state(known, last_words), skipped=each.skipped)
        found.append(replace(state, reason=_with_notes(state, left_out, asked)))
    return found


@dataclass(frozen=True)
class Asked:
    """What the results of a run have to agree with to count. What is None may be anything."""

    simulated: bool | None = None
    sku: str | None = None
    level: str | None = None

    def other(self, result: Result) -> str:
        """Return how a result differs from what was asked; empty if it does not, or does not tell."""
        told = result.summary
        sku, level = told.get("sku", ""), told.get("terms", {}).get("level", "")
        if self.simulated is not None and told["simulated"] != self.simulated:
            return "simulated" if told["simulated"] else "not simulated"
        if self.sku and sku and sku != self.sku:
            return f"of SKU {sku}"
        return f"of level {level}" if self.level and level and level != self.level else ""


def asked_of(fleet: Fleet) -> Asked:
    """Return what the results of a run have to agree with; nothing where there is no list of what was asked."""
    if not fleet.listed:
        return Asked()
    level = next((word.partition("=")[2] for word in fleet.arguments if word.startswith("--accel-level=")), None)
    return Asked(any(word.partition("=")[0] == SIMULATE for word in fleet.arguments), fleet.sku or None, level)


def _counting(runs: Sequence[Result], asked: Asked) -> tuple[list[Result], list[Result]]:
    """Return the results of a node that count, and those that were measured otherwise than asked.

    Where nothing tells what was asked, simulated results do not count beside real ones.
    """
    if asked.simulated is None and not all(each.summary["simulated"] for each in runs):
        asked = replace(asked, simulated=False)
    fits = [each for each in runs if not asked.other(each)]
    return fits, [each for each in runs if asked.other(each)]


def _with_notes(state: NodeResult, left_out: Sequence[Result], asked: Asked) -> str:
    """Return the reason of a node with notes: why its missing result is not made up for, and which run does not count.

    The latter is the newest of those that were measured otherwise than asked, if it is newer than the result.
    """
    missing = state.state in MISSING and state.skipped
    reason = _noted(state.reason, f"skipped by the last 'fleet run': {state.skipped}" if missing else "")
    newest = max(left_out, key=_started, default=None)
    if newest is None or (state.result and _started(newest) <= _started(state.result)):
        return reason
    how = asked.other(newest) or "simulated"
    return _noted(reason, f"{newest.folder.name} does not count: it is {how}, which was not asked")


def _noted(reason: str, note: str) -> str:
    """Return a reason with a note, which stands before the output of a job."""
    head, ends, tail = reason.partition(ENDS)
    return f"{head}; {note}{ends}{tail}" if note else reason


def _started(result: Result) -> str:
    """Return when a run began, by which the newest one is found."""
    return result.summary["started"]


def _changed(run: Unreadable) -> datetime:
    """Return when a run that cannot be read was changed last."""
    return run.changed


def _number(job: JobState) -> int:
    """Return the id of a job as a number, by which jobs are ordered in time."""
    return int(job.id) if job.id.isdigit() else 0


@dataclass(frozen=True)
class _Known:
    """What is known of one node."""

    name: str
    skipped: str
    newest: Result | None
    submitted: Sequence[Submitted]
    job: JobState | None
    """Its last job in the queue."""
    unreadable: Unreadable | None
    """The run that was changed last of those that cannot be read."""
    queue_known: bool

    @property
    def last(self) -> str:
        """The id of the last job. One that fleet.json lacks was submitted by a process that was killed right then."""
        return self.job.id if self.job else (self.submitted[-1].job if self.submitted else "")

    @property
    def damage(self) -> str:
        """Why the newest result is not known: a run that cannot be read may be a newer one. Empty if it is."""
        if self.unreadable is None:
            return ""
        began = moment(self.newest.summary["started"]) if self.newest else None
        return self.unreadable.why if began is None or self.unreadable.changed > began else ""

    @property
    def result(self) -> Result | None:
        """The newest result, None if it is older than the last job."""
        if not self.newest or not self.last or self.newest.summary["job"] == self.last:
            return self.newest
        return self.newest if _began_after(self.newest, self.submitted, self.last) else None


def _state(known: _Known, last_words: Callable[[str, str], str]) -> NodeResult:
    """Return the state of one node."""
    name, last, result = known.name, known.last, known.result
    if result and result.summary["state"] != "running" and not known.damage:
        return _judged(name, result)
    if known.job and known.job.state in ACTIVE:
        return _queued(name, known.job)
    if known.damage and (result or not (last and known.queue_known)):
        return NodeResult(name, State.NO_RESULT, known.damage)
    if not last:
        if result:
            return NodeResult(name, State.NO_RESULT, "its record is not complete: running, or killed", result)
        if known.skipped:
            return NodeResult(name, State.SKIPPED, known.skipped)
        return NodeResult(name, State.NO_RESULT, "no job was submitted")
    if not known.queue_known:
        return NodeResult(name, State.NO_RESULT, f"no record; the queue could not be asked about job {last}")
    why = _why_none(result, last, known.job, last_words(name, last))
    return NodeResult(name, State.NO_RESULT, _noted(why, known.damage))


def _began_after(newest: Result, submitted: Sequence[Submitted], last: str) -> bool:
    """Return True if a result is newer than the last job, such as that of a run by hand."""
    at = next((each.at for each in submitted if each.job == last), "")
    began, asked = moment(newest.summary["started"]), moment(at)
    return began is not None and asked is not None and began > asked


def _queued(name: str, job: JobState) -> NodeResult:
    """Return the state of a node whose job has not ended."""
    waits = job.state in WAITING
    why = f"job {job.id} {job.state.lower()}" + (f": {job.reason}" if waits and job.reason not in ("", "None") else "")
    return NodeResult(name, State.WAITING if waits else State.RUNNING, why)


def _why_none(newest: Result | None, last: str, job: JobState | None, told: str) -> str:
    """Return why the last job of a node left no result."""
    how = f"job {last} ended" + (f" as {job.state}" if job and job.state != "COMPLETED" else "")
    left = "with an incomplete record" if newest else "without a record"
    return f"{how} {left}" + (f"{ENDS}{told}" if told else "")


def _judged(name: str, newest: Result) -> NodeResult:
    """Return the state of a node by a run that has ended."""
    summary = newest.summary
    simulated = "SIMULATED " if summary["simulated"] and not summary["line"].startswith("SIMULATED") else ""
    line = f"{simulated}{summary['line'] or summary['state']}"
    if summary["exit"] == INTERRUPTED_EXIT or summary["word"] == "INTERRUPTED":
        return NodeResult(name, State.NO_RESULT, line, newest)
    state = _of_exit(summary["exit"], summary["word"])
    if state is State.ACCEPTED and (summary["simulated"] or summary["word"] != "ACCEPTED"):
        state = State.HELD
    return NodeResult(name, state, line, newest)


def _of_exit(status: int | None, word: str) -> State:
    """Return the state that the exit status of a run stands for; by its word where older versions wrote no status."""
    if status is None:
        words = {"ACCEPTED": State.ACCEPTED, "REJECTED": State.REJECTED, "HELD": State.NOT_JUDGED}
        return words.get(word, State.NOT_JUDGED if word == "NOT JUDGED" else State.ERROR)
    states = {0: State.ACCEPTED, REJECTED_EXIT: State.REJECTED, NOT_JUDGED_EXIT: State.NOT_JUDGED}
    return states.get(status, State.ERROR)


def exit_status(nodes: Iterable[NodeResult]) -> int:
    """Return the exit status by the worst node: 1 one is rejected, 6 one has no verdict, 0 all limits of all hold."""
    states = {each.state for each in nodes}
    if State.REJECTED in states:
        return REJECTED_EXIT
    return 0 if states <= set(HOLDS) else NOT_JUDGED_EXIT


def counts(nodes: Iterable[NodeResult]) -> dict[State, int]:
    """Return how many nodes are in each state that occurs, the worst first."""
    every = [each.state for each in nodes]
    return {state: every.count(state) for state in State if state in every}


def in_words(nodes: Sequence[NodeResult]) -> str:
    """Return how many nodes there are and in which state: "8 nodes: 1 rejected, 1 no result, 6 accepted"."""
    parts = ", ".join(f"{count} {state.value}" for state, count in counts(nodes).items())
    return f"{counted(len(nodes), 'node')}: {parts}"
