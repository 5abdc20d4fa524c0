"""The state of every expected node, from the expected list, the results in the folder and the queue. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from operator import attrgetter

from pytest_accel.core import exits
from pytest_accel.core.groups import grouped
from pytest_accel.core.node_name import nodes_of, several
from pytest_accel.core.summary import AHEAD, RUNNING, Choice, Summary, choose, moment
from pytest_accel.core.verdict import Result
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.jobs.run_folder import FleetRequest, SubmittedJob, Unreadable, level_of
from pytest_accel.fleet.jobs.slurm import ACTIVE, WAITING, JobState
from pytest_accel.run.record_folder import file_name


class State(Enum):
    """The states of a node, worst first."""

    REJECTED = Result.REJECTED.value.lower()
    ERROR = "error"
    NO_RESULT = "no result"
    NOT_JUDGED = Result.NOT_JUDGED.value.lower()
    SKIPPED = "skipped"
    RUNNING = "running"
    WAITING = "waiting"
    HELD = Result.HELD.value.lower()
    """Everything that ran holds, but it was no acceptance: own tests, SKU auto or cpu, a simulated node."""
    ACCEPTED = Result.ACCEPTED.value.lower()


SIMULATE = "--accel-simulate"
OLDEST = datetime.min.replace(tzinfo=timezone.utc)
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
    """The state of a node, the reason, and the result that it follows from (None without one)."""

    node: str
    state: State
    reason: str
    result: Summary | None = None
    job: str = ""
    """The id of the job that the reason begins with; empty if it speaks of none."""
    output: str = ""
    """The last line of the output of that job; empty unless it left no result."""
    skipped: str = ""
    """The reason why the node starts no job now; empty if it does."""
    note: str = ""
    """A sentence on the night of the result, or on a run whose time cannot be right; empty if there is none."""
    expected: bool = True
    """False for a host that no list named; it is here since it was rejected."""
    began: datetime | None = None
    """The begin of the run of its result, as far as its job tells; None where the result alone tells it."""

    @property
    def gist(self) -> str:
        """The reason without what differs from job to job; jobs whose last words differ in more have another cause."""
        return f"job {self.reason}" if self.job else self.reason

    @property
    def cause(self) -> str:
        """The last words of its job without names and numbers of its own, which nodes that fail alike share."""
        return re.sub(r"(?<=/accel-record-)\w+|\d+", "#", self.output.replace(self.node, "NODE"))

    @property
    def sentence(self) -> str:
        """The reason as one sentence."""
        reason = f"job {self.job} {self.reason}" if self.job else self.reason
        return f"{reason}; its output ends: {self.output}" if self.output else reason


def of_all(
    fleet: FleetRequest,
    results: Mapping[str, Sequence[Summary]],
    jobs: Iterable[JobState] | None,
    last_words: Callable[[str, str], str] = lambda node, job: "",
    unreadable: Sequence[Unreadable] = (),
    *,
    submitting: bool = False,
    now: datetime | None = None,
) -> list[NodeResult]:
    """Return the state of every expected node, in the order of the list, then the rejected hosts that it lacks.

    `results` are those of each host, `jobs` are None where the queue could not be asked. `last_words` returns the last
    line of the output of a node's job. `unreadable` are the folders of runs of which nothing is known but their names.
    While a process is `submitting`, a node without a job waits for one.
    """
    now = now or datetime.now(timezone.utc)
    submitted = grouped(fleet.jobs, lambda job: job.node)
    queued = grouped(jobs or (), lambda job: job.name)
    run_terms = terms_of(fleet)
    names = [node.name for node in fleet.expected]
    runs: dict[str, list[Summary]] = {}
    for host, name in nodes_of(results, names).items():
        runs.setdefault(name, []).extend(results[host])
    damaged = _damaged(unreadable, names)
    nodes = []
    for node in fleet.expected:
        has_one = node.name in submitted or not fleet.joint  # a joint job has the same name for all nodes
        node_jobs = sorted(queued.get(fleet.job_name(node.name), ()) if has_one else (), key=_number)
        known_jobs = _Jobs(submitted.get(node.name, ()), node_jobs, now)
        fitting, unasked = _fitting(runs.get(node.name, ()), run_terms)
        choice = choose(known_jobs.not_repeated(fitting), now, known_jobs.began)
        choice = known_jobs.with_own(choice, fitting)
        facts = _Facts(
            node.name, node.skipped, choice.counts, known_jobs, damaged.get(node.name), jobs is not None, submitting
        )
        state = replace(_state(facts, last_words), skipped=node.skipped)
        if unclear := several(node.name, results):
            reason = f"results do not count that may be those of several machines: {listed(unclear)}"
            state = replace(state, reason=_noted(state.reason, reason))
        note = _not_counting(choice.mistimed[:1])
        start = known_jobs.began(state.result) if state.result else None
        nodes.append(replace(state, reason=_with_notes(state, choice, unasked), note=note, began=start))
    return [*nodes, *(node for node in _unexpected(fleet, results, now) if node.state is State.REJECTED)]


def expected_in(fleets: Sequence[FleetRequest]) -> set[str]:
    """Return the nodes that some runs expect, oldest first.

    A run without --nodes has all nodes of its partition: what it lacks was removed from Slurm, and is forgotten.
    """
    newest = {fleet.partition: index for index, fleet in enumerate(fleets) if not fleet.named}
    current = (fleet for index, fleet in enumerate(fleets) if index >= newest.get(fleet.partition, 0))
    return {node.name for fleet in current for node in fleet.expected}


def over_nights(nights: Sequence[tuple[str, Sequence[NodeResult]]], expected: Collection[str]) -> list[NodeResult]:
    """Return the states of the expected nodes over some nights, given name and states of each, oldest first.

    A node that any of them rejected is rejected until a later run accepts it, also if its job ran late. One that is
    not expected is there only while it is rejected.
    """
    (last, nodes), now = nights[-1], datetime.now(timezone.utc)
    in_last = {node.node for node in nodes}
    by_node = grouped(((name, node) for name, nodes in nights for node in nodes), lambda pair: pair[1].node)
    results = []
    for node, history in by_node.items():
        name, state = _standing(history, now)
        state = replace(state, expected=node in expected, skipped=history[-1][1].skipped)
        if name != last:
            state = _from_night(state, name, "" if node in in_last else "; not in the last run")
        results += [state] if state.expected or state.state is State.REJECTED else []
    return results


def _standing(history: Sequence[tuple[str, NodeResult]], now: datetime) -> tuple[str, NodeResult]:
    """Return the rejection of a node that stands, else its last state, with its night, given its states by night."""
    of_run = {id(state.result): (name, state) for name, state in history if state.result}
    runs = [state.result for _, state in history if state.result]
    counts = choose(runs, now, lambda run: of_run[id(run)][1].began or run.began).counts
    return of_run[id(counts)] if counts and counts.rejects else history[-1]


def _from_night(state: NodeResult, name: str, more: str) -> NodeResult:
    """Return a state with the night that it is from, in its reason and its note."""
    origin = f"in {name}{f' of {state.result.day}' if state.result else ''}{more}"
    note = _noted(state.note, origin) if state.note else origin
    return replace(state, reason=_noted(state.reason, origin), note=note)


def others(
    fleet: FleetRequest, results: Mapping[str, Sequence[Summary]], *, now: datetime | None = None
) -> tuple[str, ...]:
    """Return the hosts with a result that are not among the expected nodes, and their results: "n9: ACCEPTED 8/8"."""
    nodes = _unexpected(fleet, results, now or datetime.now(timezone.utc))
    return tuple(f"{node.node}: {node.sentence}" for node in nodes if node.state is not State.REJECTED)


def _unexpected(fleet: FleetRequest, results: Mapping[str, Sequence[Summary]], now: datetime) -> list[NodeResult]:
    """Return the hosts with a result that are not among the expected nodes; none where there is no list of these."""
    if not fleet.listed:
        return []
    by_host = nodes_of(results, [node.name for node in fleet.expected])
    nodes = []
    for host in sorted(set(results) - set(by_host)):
        fitting, unasked = _fitting(results[host], terms_of(fleet))
        counts = choose(fitting, now).counts
        if counts is None:
            node = NodeResult(host, State.NO_RESULT, _not_counting(unasked[:1]) or "no result that counts")
        else:
            node = _judged(host, counts)
        nodes.append(replace(node, reason=_noted("not among the expected nodes", node.reason), expected=False))
    return nodes


def _damaged(unreadable: Iterable[Unreadable], names: Iterable[str]) -> dict[str, Unreadable]:
    """Return the run of each node that was changed last of those that cannot be read."""
    by_folder = {file_name(name): name for name in names}
    damaged: dict[str, Unreadable] = {}
    for entry in sorted(unreadable, key=attrgetter("changed")):
        if name := entry.node_of(by_folder):
            damaged[name] = entry
    return damaged


@dataclass(frozen=True)
class RunTerms:
    """The terms that the results of a run have to agree with to count. A term that is None may be anything."""

    simulated: bool | None = None
    sku: str | None = None
    level: str | None = None

    def other(self, result: Summary) -> str:
        """Return the difference of a result from the terms; empty if there is none, or it does not tell."""
        sku, level = result.sku, result.terms.get("level", "")
        if self.simulated is not None and result.simulated != self.simulated:
            return "simulated" if result.simulated else "not simulated"
        if self.sku and sku and sku != self.sku:
            return f"of SKU {sku}"
        return f"of level {level}" if self.level and level and level != self.level else ""


def terms_of(fleet: FleetRequest) -> RunTerms:
    """Return the terms that the results of a run have to agree with; none where there is no list of what was asked."""
    if not fleet.listed:
        return RunTerms()
    simulated = any(word.partition("=")[0] == SIMULATE for word in fleet.arguments)
    return RunTerms(simulated, fleet.sku or None, fleet.level or level_of(fleet.arguments))


def _fitting(runs: Sequence[Summary], terms: RunTerms) -> tuple[list[Summary], list[tuple[Summary, str]]]:
    """Return the results of a node that were measured as asked, and the others with how they differ.

    Where nothing tells what was asked, simulated results do not count beside real ones.
    """
    if terms.simulated is None and not all(run.simulated for run in runs):
        terms = replace(terms, simulated=False)
    compared = [(run, terms.other(run)) for run in runs]
    others = [(run, f"it is {difference}, which was not asked") for run, difference in compared if difference]
    return [run for run, difference in compared if not difference], others


def _with_notes(state: NodeResult, choice: Choice[Summary], unasked: Sequence[tuple[Summary, str]]) -> str:
    """Return the reason of a node with notes: why its missing result is not made up for, and which run does not count.

    The latter is one whose time cannot be right, else the newest of those that are newer than the result that counts.
    """
    missing = state.state in MISSING and state.skipped
    reason = _noted(state.reason, f"skipped by the last 'fleet run': {state.skipped}" if missing else "")
    start = choice.counts.began if choice.counts else None
    newer = [pair for pair in unasked if start is None or (pair[0].began or start) > start]
    newer.sort(key=lambda pair: pair[0].began or OLDEST, reverse=True)
    return _noted(reason, _not_counting([*choice.mistimed, *choice.passed_over, *newer][:1]))


def _not_counting(runs: Sequence[tuple[Summary, str]]) -> str:
    """Return a sentence on the runs that do not count, with the reasons."""
    return "; ".join(f"{run.folder.name} does not count: {reason}" for run, reason in runs)


def _noted(reason: str, note: str) -> str:
    """Return a reason with a note."""
    return f"{reason}; {note}" if note else reason


def _number(job: JobState) -> int:
    """Return the id of a job as a number, by which jobs are ordered in time."""
    return int(job.id) if job.id.isdigit() else 0


@dataclass(frozen=True)
class _Jobs:
    """The jobs of one node: those of fleet.json, and those in the queue, the oldest first."""

    submitted: Sequence[SubmittedJob]
    queued: Sequence[JobState]
    now: datetime

    @property
    def queue(self) -> JobState | None:
        """Its last job as the queue shows it, else the last one there that has not ended; None without either."""
        jobs = (job for job in reversed(self.queued) if job.id == self.last or job.state in ACTIVE)
        return next(jobs, None)

    @property
    def last(self) -> str:
        """The id of the last job. One that fleet.json lacks was submitted by a process that was killed right then.

        The queue may show only an older one: it forgets jobs that have ended.
        """
        submitted = self.submitted[-1].job if self.submitted else ""
        queued = self.queued[-1].id if self.queued else ""
        if submitted.isdigit() and queued.isdigit():
            return max(submitted, queued, key=int)
        return queued if queued and queued not in {job.job for job in self.submitted} else submitted

    @property
    def at(self) -> datetime:
        """The time at which the last job was submitted; now if that is not known."""
        time = next((moment(job.at) for job in self.submitted if job.job == self.last), None)
        return min(time or self.now, self.now)

    @property
    def _earlier(self) -> set[str]:
        """The ids of the jobs before the last one."""
        return {*(job.job for job in self.submitted), *(job.id for job in self.queued)} - {self.last}

    def began(self, result: Summary) -> datetime | None:
        """Return when the run of a result began, as far as its job tells: the clock of a node may be wrong.

        A run of the last job with a time in the future counts from the submission: "now" would hide later runs.
        """
        start, job = result.began, result.job
        if self.last and job == self.last:
            return self.at if start is None or start > self.now + AHEAD else max(start, self.at)
        if job in self._earlier:
            before = self.at - timedelta(microseconds=1)
            return min(start or before, before)
        return start

    def is_current(self, result: Summary) -> bool:
        """Return True for the result of the last job, or of a run by hand that began after it was submitted."""
        start = self.began(result)
        return not self.last or (start is not None and start >= self.at)

    def with_own(self, choice: Choice[Summary], results: Sequence[Summary]) -> Choice[Summary]:
        """Return the choice with the result of the last job if what counts is older and rejects nothing.

        A part of the checks does not count beside an older result, but the job left it, and need not be repeated.
        """
        if choice.counts is None or self.is_current(choice.counts) or choice.counts.rejects:
            return choice
        finished = [result for result in results if result.job == self.last and result.state != RUNNING]
        counts = max(finished, key=lambda result: self.began(result) or self.at, default=choice.counts)
        others = [(result, reason) for result, reason in choice.passed_over if result is not counts]
        return replace(choice, counts=counts, passed_over=others)

    def not_repeated(self, results: Sequence[Summary]) -> list[Summary]:
        """Return the results without those of earlier jobs if that of the last one holds: all were asked alike."""
        last_results = (result for result in results if self.last and result.job == self.last)
        if not any(result.exit == exits.HOLDS for result in last_results):
            return list(results)
        return [result for result in results if result.job not in self._earlier]


@dataclass(frozen=True)
class _Facts:
    """The facts on one node from which its state follows."""

    name: str
    skipped: str
    counts: Summary | None
    jobs: _Jobs
    unreadable: Unreadable | None
    """The run that was changed last of those that cannot be read."""
    queue_known: bool
    submitting: bool

    @property
    def damage(self) -> str:
        """The reason why the result may not be the newest: a run that cannot be read may be newer; empty if it is."""
        if self.unreadable is None:
            return ""
        start = self.jobs.began(self.counts) if self.counts else None
        return self.unreadable.why if start is None or self.unreadable.changed > start else ""

    @property
    def current(self) -> Summary | None:
        """The result that counts, None if it is older than the last job."""
        return self.counts if self.counts and self.jobs.is_current(self.counts) else None


def _state(facts: _Facts, last_words: Callable[[str, str], str]) -> NodeResult:
    """Return the state of one node."""
    name, last, job, current = facts.name, facts.jobs.last, facts.jobs.queue, facts.current
    has_ended = current is not None and current.state != RUNNING
    if current and has_ended and not facts.damage:
        return _judged(name, current)
    if job and job.state in ACTIVE and not (current and has_ended):
        return _queued(name, job)
    if facts.counts and facts.counts.rejects:  # which nothing but an acceptance takes back
        return _still_rejected(facts, facts.counts)
    if facts.damage and (current or not (last and facts.queue_known)):
        return NodeResult(name, State.NO_RESULT, facts.damage)
    if not last:
        if current:
            return NodeResult(name, State.NO_RESULT, "its record is not complete: running, or killed", current)
        if facts.skipped:
            return NodeResult(name, State.SKIPPED, facts.skipped)
        if facts.submitting:
            return NodeResult(name, State.WAITING, "its job is not submitted yet")
        return NodeResult(name, State.NO_RESULT, "no job was submitted")
    if not facts.queue_known:
        return NodeResult(name, State.NO_RESULT, f"no record; the queue could not be asked about job {last}")
    reason = _noted(_ending_of(current, job), facts.damage)
    return NodeResult(name, State.NO_RESULT, reason, job=last, output=last_words(name, last))


def _still_rejected(facts: _Facts, counts: Summary) -> NodeResult:
    """Return the state of a node that an earlier run rejected, and of which a later one left nothing that counts."""
    state = _judged(facts.name, counts)
    note = "" if facts.current else f"job {facts.jobs.last} left no result"
    return replace(state, reason=_noted(_noted(state.reason, note), facts.damage))


def _queued(name: str, job: JobState) -> NodeResult:
    """Return the state of a node whose job has not ended."""
    waits = job.state in WAITING
    reason = job.state.lower() + (f": {job.reason}" if waits and job.reason not in ("", "None") else "")
    return NodeResult(name, State.WAITING if waits else State.RUNNING, reason, job=job.id)


def _ending_of(newest: Summary | None, job: JobState | None) -> str:
    """Return the end of a node's last job, which left no result, in words."""
    causes = [text for text in (job.reason, job.exit) if text not in ("", "None")] if job else []
    suffix = f" ({', '.join(causes)})" if causes else ""
    ending = f"ended as {job.state}{suffix}" if job and job.state != "COMPLETED" else "ended"
    return f"{ending} {'with an incomplete record' if newest else 'without a record'}"


def _judged(name: str, newest: Summary) -> NodeResult:
    """Return the state of a node by a run that has ended."""
    line = newest.line or f"{'SIMULATED ' if newest.simulated else ''}{newest.state}"
    if newest.exit == exits.INTERRUPTED or newest.result is Result.INTERRUPTED:
        return NodeResult(name, State.NO_RESULT, line, newest)
    holds = State.ACCEPTED if newest.accepts and not newest.simulated else State.HELD
    states: dict[int | None, State] = {exits.REJECTED: State.REJECTED, exits.NOT_JUDGED: State.NOT_JUDGED}
    return NodeResult(name, {**states, exits.HOLDS: holds}.get(newest.exit, State.ERROR), line, newest)


def exit_status(nodes: Iterable[NodeResult]) -> int:
    """Return the exit status by the worst node: 1 one is rejected, 6 one has no verdict, 0 all limits of all hold."""
    states = {node.state for node in nodes}
    if State.REJECTED in states:
        return exits.REJECTED
    return exits.HOLDS if states and states <= set(HOLDS) else exits.NOT_JUDGED


def counts(nodes: Iterable[NodeResult]) -> dict[State, int]:
    """Return the number of nodes in each state that occurs, worst first."""
    states = [node.state for node in nodes]
    return {state: states.count(state) for state in State if state in states}


def in_words(nodes: Sequence[NodeResult]) -> str:
    """Return the number of nodes, in all and by state: "8 nodes: 1 rejected, 1 no result, 6 accepted"."""
    parts = ", ".join(f"{count} {state.value}" for state, count in counts(nodes).items())
    return f"{counted(len(nodes), 'node')}: {parts}"
