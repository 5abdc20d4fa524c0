"""Plans of the nodes to drain after a run, and to resume. They are pure; `cli/fleet_drain.py` applies them.

Only nodes that a run rejected are drained, and no node is touched whose reason is another's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from pytest_accel.core.groups import grouped
from pytest_accel.core.run import Run
from pytest_accel.core.summary import AHEAD, moment
from pytest_accel.core.verdict import Status
from pytest_accel.core.words import age, counted
from pytest_accel.fleet.jobs.slurm import NodeState, drain_command, resume_command
from pytest_accel.fleet.jobs.states import HOLDS, NodeResult, State

TAG: Final = "[accel]"
"""The beginning of every reason of ours."""
SIMULATED: Final = f"{TAG} simulated"
"""The beginning of the reasons that follow from simulated nodes, with which draining is rehearsed."""
HEALTH: Final = f"{TAG} ERROR"
"""The beginning of the reasons that the script of docs/fleet.md gives: the line of a check, and no metrics."""
DELIMITER = "; "
MORE: Final = f"{DELIMITER}and {{}} more"
"""The end of a reason that has no room for so many metrics."""
MOST: Final = 0.05
"""The share of the expected nodes that `fleet drain` may have drained at a time; at least one node."""
MAX_AGE: Final = "24h"
"""The age from which on a rejection drains no node."""
DOUBTFUL: Final = 0.30
"""A metric that fails on a larger share of the judged nodes has a doubtful limit, for which no node is drained."""
DOUBTFUL_NODES: Final = 3
"""The fewest nodes on which it has to fail."""
REASON_CHARACTERS = 200
"""Length of the longest reason, for lines that can be read: Slurm takes longer ones. `sinfo -R` shows the first 20."""
DRAINED = ("drain", "drng", "down", "fail")
"""Beginnings of the states of nodes that somebody, or Slurm, took out of service."""


@dataclass(frozen=True)
class Failure:
    """A verdict that rejects a node, or a device of it."""

    code: str
    """The fault code; empty if the record has none for it."""
    device: str
    metric: str


@dataclass(frozen=True)
class Step:
    """A node that is to be changed, and the command that does it."""

    node: str
    reason: str
    seen: NodeState
    """The node in Slurm by which this was planned."""
    command: tuple[str, ...]
    did: str
    """What was done once the command has run: "drained" or "resumed"."""


@dataclass
class DrainPlan:
    """What is to be done, and what is left alone and why."""

    steps: list[Step] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    """Node and reason."""
    doubtful: list[str] = field(default_factory=list)
    """A sentence for each metric whose limit is doubtful."""
    refused: str = ""
    """Why nothing may be done at all; empty if it may."""


def failures(run: Run | None) -> list[Failure]:
    """Return what rejects a node, by its record, worst first; nothing where that cannot be read or believed."""
    if run is None or run.objections:
        return []
    names = {each.uuid: each.name for each in run.devices}
    rejecting = dict.fromkeys((each.metric, each.subject) for each in run.verdicts if each.rejects)
    codes = {(each["metric"], each["subject"]): each["code"] for each in reversed(run.findings)}
    found = [(each["metric"], each["subject"]) for each in run.findings]
    ordered = dict.fromkeys([*(key for key in found if key in rejecting), *rejecting])
    return [
        Failure(_word(codes.get((metric, subject), "")), _word(names.get(subject, subject)), _word(metric))
        for metric, subject in ordered
    ]


def _word(name: str) -> str:
    """Return a name of a record as a word that cannot be taken for anything else in a reason."""
    return re.sub(r"[^A-Za-z0-9._@+-]", "_", name)[:60]


def reason_of(found: Sequence[Failure], *, simulated: bool = False) -> str:
    """Return the reason for a node: tag, then code, device and metrics, worst first.

    It has at most REASON_CHARACTERS characters. The metrics that do not fit are counted, and none is cut.
    """
    groups = grouped(found, lambda each: (each.code, each.device))
    parts: list[str] = []
    for (code, device), (first, *others) in groups.items():
        before = DELIMITER if parts else " "
        parts.append(before + " ".join(filter(None, (code, device, first.metric))))
        parts += [f" {each.metric}" for each in others]
    text, whole = SIMULATED if simulated else TAG, sum(map(len, parts))
    if len(text) + whole <= REASON_CHARACTERS:
        return text + "".join(parts)
    room = REASON_CHARACTERS - len(MORE.format(len(parts)))
    while len(text) + len(parts[0]) <= room:
        text += parts.pop(0)
    return text + MORE.format(len(parts))


def too_old(run: Run | None, started: str, at: datetime, most: float) -> str:
    """Return why a rejection drains no node for its time, and what to do; empty if it is at most `most` seconds old.

    A run counts from its end, by the content of its record, or from its start if that is not known. How old one is that
    began after `at` is not known, for the clock of its node was wrong.
    """
    began = moment(started)
    if began and began > at + AHEAD:
        return f"its run began in the future, {started}: set the clock of the node and measure it again"
    ended = moment(run.info.get("ended", "")) if run else None
    rejected = ended if ended and ended <= at + AHEAD else began
    if rejected is None:
        return "when it was rejected is not known: measure it again"
    seconds = (at - rejected).total_seconds()
    return f"rejected {age(seconds)} ago: measure it again, or allow it by --max-age" if seconds > most else ""


def plan_of(
    nodes: Sequence[NodeResult],
    found: Mapping[str, Sequence[Failure]],
    now: Iterable[NodeState],
    most: float = MOST,
    old: Mapping[str, str] = MappingProxyType({}),
) -> DrainPlan:
    """Return which nodes are to be drained.

    `found` are the failures of the rejected nodes, `now` are the nodes in Slurm. `old` says of a rejection that drains
    no node for its time why it does not.
    """
    plan, states = DrainPlan(), {each.name: each for each in now}
    judged = [each for each in nodes if each.state in (*HOLDS, State.REJECTED, State.NOT_JUDGED)]
    doubtful = _doubtful(found, len(judged))
    plan.doubtful = [
        f"{metric} fails on {count} of {len(judged)} judged nodes: its limit is in doubt, so no node is drained for it"
        for metric, count in doubtful.items()
    ]
    rehearsal = all(each.result.simulated for each in nodes if each.result)
    reasons = [states[each.node].reason for each in nodes if each.node in states]
    ours = sum(each.startswith(TAG) and not each.startswith(HEALTH) for each in reasons)  # given by `fleet drain`
    for each in nodes:
        if each.state is not State.REJECTED or each.result is None:
            continue
        if not each.expected:
            plan.left.append((each.node, "it is not among the expected nodes"))
            continue
        grounds = [one for one in found.get(each.node, ()) if one.metric not in doubtful]
        state = states.get(each.node)
        if state is None:
            plan.left.append((each.node, "Slurm does not know it"))
            continue
        rehearsed = each.result.simulated
        if why := _left_alone(state, grounds, found.get(each.node, ()), alien=rehearsed and not rehearsal):
            plan.left.append((each.node, why))
            continue
        if each.node in old:
            plan.left.append((each.node, old[each.node]))
            continue
        reason = reason_of(grounds, simulated=rehearsed)
        plan.steps.append(Step(each.node, reason, state, tuple(drain_command(each.node, reason)), "drained"))
    _limit(plan, found, ours, sum(each.expected for each in nodes), most)
    return plan


def _left_alone(state: NodeState, grounds: Sequence[Failure], every: Sequence[Failure], *, alien: bool) -> str:
    """Return why a rejected node is not drained; empty if it is. `alien` is a simulated node among real ones."""
    if alien:
        return "its run was simulated, and those of other nodes were not"
    if state.reason.startswith(TAG):
        return f"drained already: {state.reason}"
    if state.reason:
        return f"{state.state} with a reason of somebody else: {state.reason}"
    if _out_of_service(state):
        return f"{state.state} without a reason"
    if every and not grounds:
        return "rejected only by limits that are in doubt"
    if not every:
        return "its record names no failure"
    return ""


def _out_of_service(state: NodeState) -> str:
    """Return how a node was taken out of service, by the beginning of its state; empty if it was not."""
    return next((each for each in DRAINED if state.state.startswith(each)), "")


def changed(seen: NodeState, now: NodeState | None) -> str:
    """Return what has changed since a step was planned so that it is not taken; empty if nothing has.

    A job that begins or ends on the node is no such change.
    """
    if now is None:
        return "Slurm does not know it any more"
    if (now.reason, now.since) != (seen.reason, seen.since) or _out_of_service(now) != _out_of_service(seen):
        return f"changed meanwhile: {now.state}{': ' if now.reason else ''}{now.reason}"
    return ""


def _doubtful(found: Mapping[str, Sequence[Failure]], judged: int) -> dict[str, int]:
    """Return the metrics that fail on too many of the judged nodes, with the number of these."""
    nodes = Counter(metric for failed in found.values() for metric in {each.metric for each in failed})
    return {
        metric: count for metric, count in nodes.most_common() if count >= DOUBTFUL_NODES and count > DOUBTFUL * judged
    }


def _limit(plan: DrainPlan, found: Mapping[str, Sequence[Failure]], ours: int, expected: int, most: float) -> None:
    """Refuse the steps of a plan that would drain too many nodes, `ours` of which were drained before.

    All of them if they alone are too many; else those that there is no room for, the fewest broken limits first.
    """
    allowed = max(1, int(most * expected + 1e-9))
    room, wanted = max(0, allowed - ours), len(plan.steps)
    would = f"{counted(wanted, 'node')} would be drained"
    may = f"at most {allowed} of {expected} nodes may be (--most={most:g})"
    of_which = f"of which {ours} {'is' if ours == 1 else 'are'} drained by us already"
    if wanted > allowed:
        plan.refused = f"{would}, and {may}; {_allowing(ours + wanted, expected)}"
    elif wanted and not room:
        way_on = f"repair and resume some; {_allowing(ours + wanted, expected)}"
        plan.refused = f"{would}, and {may}, {of_which}: {way_on}"
    elif wanted > room:
        worst = sorted(plan.steps, key=lambda step: -len(found[step.node]))[:room]
        plan.left += [(step.node, f"{may}, {of_which}") for step in plan.steps if step not in worst]
        plan.steps = worst


def _allowing(drained: int, expected: int) -> str:
    """Return which value of --most allows so many drained nodes."""
    return f"--most={-(-10_000 * drained // expected) / 10_000:g} allows it"


def plan_of_check(
    line: str, node: str, now: Sequence[NodeState], *, at: datetime, most: float, within: float
) -> DrainPlan:
    """Return whether a node is to be drained for the line of its health check; `now` are all nodes of Slurm.

    Checks may drain the share `most` of all nodes within so many seconds: one wrong option or limit would drain the
    fleet else.
    """
    plan, reason = DrainPlan(), f"{TAG} {line}"[:REASON_CHARACTERS]
    state = next((each for each in now if each.name == node), None)
    after = at - timedelta(seconds=within)  # a reason whose time is not known counts
    lately = [each for each in now if each.reason.startswith(HEALTH) and (each.since or at) >= after]
    allowed = max(1, int(most * len(now) + 1e-9))
    if not reason.startswith(HEALTH):
        plan.left.append((node, f"its check found nothing broken: {line}"))
    elif state is None:
        plan.left.append((node, "Slurm does not know it"))
    elif state.reason or _out_of_service(state):
        plan.left.append((node, f"{state.state}{': ' if state.reason else ''}{state.reason}"))
    elif len(lately) >= allowed:
        plan.refused = (
            f"health checks drained {len(lately)} of {len(now)} nodes within {age(within)}, "
            f"and at most {allowed} may be (--most={most:g}); {_allowing(len(lately) + 1, len(now))}"
        )
    else:
        plan.steps.append(Step(node, reason, state, tuple(drain_command(node, reason)), "drained"))
    return plan


REST = re.compile(r"; and \d+ more$")


def is_cut(reason: str) -> bool:
    """Return whether a reason of ours leaves out some of the metrics, or all, as that of a health check does."""
    return reason.startswith(HEALTH) or bool(REST.search(reason))


def metrics_of(reason: str) -> set[str]:
    """Return the metrics that a reason of ours names."""
    if reason.startswith(HEALTH):
        return set()
    reason = REST.sub("", reason)
    parts = [part.split() for part in re.sub(r"^\[accel\]( simulated)?", "", reason).split(DELIMITER)]
    bare = [words[1:] if words and re.fullmatch(r"[A-Z]\d{3}", words[0]) else words for words in parts]
    return {metric for words in bare for metric in words[1:]}


def held(run: Run | None) -> set[str]:
    """Return the metrics of a record whose limits hold on every device."""
    judged = [each for each in run.verdicts if each.limit] if run else []
    failed = {each.metric for each in judged if not each.status.holds}
    return {_word(each.metric) for each in judged if each.metric not in failed}


def measured(run: Run | None) -> set[str]:
    """Return the metrics that the record of an accepted node has a value of, or a failure that a waiver accepts."""
    return {
        _word(each.metric)
        for each in (run.verdicts if run else ())
        if each.status.holds
        or (each.status is Status.FAIL and each.waiver)
        or (each.status is Status.NOT_APPLICABLE and each.value is not None)
    }


def resume_plan(
    nodes: Sequence[NodeResult], now: Iterable[NodeState], holds: Mapping[str, Collection[str]], at: datetime
) -> DrainPlan:
    """Return which nodes are to be resumed: those that we drained and whose newest run began later and holds.

    A run that began after the time `at` is one of a wrong clock, which does not tell what it came after.
    It has to have measured what the node was drained for: `holds` are the metrics whose limits hold, by node; those
    that were measured where the node was accepted.
    """
    plan, results = DrainPlan(), {each.node: each for each in nodes}
    for state in now:
        each = results.get(state.name)
        if not state.reason.startswith(TAG) or each is None:
            continue
        if why := _not_resumed(state, each, holds.get(state.name, ()), at):
            plan.left.append((state.name, f"{why}; drained: {state.reason}"))
        else:
            plan.steps.append(Step(state.name, state.reason, state, tuple(resume_command(state.name)), "resumed"))
    return plan


def _not_resumed(state: NodeState, each: NodeResult, holds: Collection[str], at: datetime) -> str:
    """Return why a node that we drained is not resumed; empty if it is."""
    if each.state not in HOLDS or each.result is None:
        return each.state.value
    if each.result.simulated and not state.reason.startswith(SIMULATED):
        return "the later run was simulated"
    if not state.state.startswith("drain"):
        return f"its state is {state.state}"
    began = each.began or each.result.began
    if began is None or state.since is None or began <= state.since:
        return "not accepted since it was drained"
    if began > at:
        return f"the later run began in the future, {each.result.started}: set the clock of the node"
    if missing := sorted(metrics_of(state.reason) - set(holds)):
        return f"the later run did not measure metrics of the reason: {', '.join(missing)}"
    if each.state is State.HELD and is_cut(state.reason):
        return "the later run was no acceptance, and the reason does not have room for every metric"
    return ""
