"""Plans of the nodes to drain after a run, and to resume. They are pure; `cli/fleet_drain.py` applies them."""

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
    """The change once the command has run: "drained" or "resumed"."""


@dataclass
class DrainPlan:
    """The steps to take, and the nodes that are left alone, with the reasons."""

    steps: list[Step] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    """Node and reason."""
    doubtful: list[str] = field(default_factory=list)
    """A sentence for each metric whose limit is doubtful."""
    refused: str = ""
    """The reason why nothing may be done at all; empty if something may."""


def failures(run: Run | None) -> list[Failure]:
    """Return the failures that reject a node by its record, worst first; none where that cannot be read or believed."""
    if run is None or run.objections:
        return []
    names = {device.uuid: device.name for device in run.devices}
    rejecting = dict.fromkeys((verdict.metric, verdict.subject) for verdict in run.verdicts if verdict.rejects)
    codes = {(finding["metric"], finding["subject"]): finding["code"] for finding in reversed(run.findings)}
    keys = [(finding["metric"], finding["subject"]) for finding in run.findings]
    ordered = dict.fromkeys([*(key for key in keys if key in rejecting), *rejecting])
    return [
        Failure(_word(codes.get((metric, subject), "")), _word(names.get(subject, subject)), _word(metric))
        for metric, subject in ordered
    ]


def _word(name: str) -> str:
    """Return a name of a record as a word that cannot be taken for anything else in a reason."""
    return re.sub(r"[^A-Za-z0-9._@+-]", "_", name)[:60]


def reason_of(failures: Sequence[Failure], *, simulated: bool = False) -> str:
    """Return the reason for a node: tag, then code, device and metrics, worst first.

    It has at most REASON_CHARACTERS characters. The metrics that do not fit are counted, and none is cut.
    """
    groups = grouped(failures, lambda failure: (failure.code, failure.device))
    parts: list[str] = []
    for (code, device), (first, *others) in groups.items():
        separator = DELIMITER if parts else " "
        parts.append(separator + " ".join(filter(None, (code, device, first.metric))))
        parts += [f" {failure.metric}" for failure in others]
    text, length = SIMULATED if simulated else TAG, sum(map(len, parts))
    if len(text) + length <= REASON_CHARACTERS:
        return text + "".join(parts)
    room = REASON_CHARACTERS - len(MORE.format(len(parts)))
    while len(text) + len(parts[0]) <= room:
        text += parts.pop(0)
    return text + MORE.format(len(parts))


def too_old(run: Run | None, started: str, now: datetime, max_age: float) -> str:
    """Return the reason why a rejection is too old to drain a node; empty if it is at most `max_age` seconds old.

    A run counts from its end, by the content of its record, or from its start if that is not known. How old one is that
    began after `now` is not known, for the clock of its node was wrong.
    """
    start = moment(started)
    if start and start > now + AHEAD:
        return f"its run began in the future, {started}: set the clock of the node and measure it again"
    end = moment(run.info.get("ended", "")) if run else None
    time = end if end and end <= now + AHEAD else start
    if time is None:
        return "when it was rejected is not known: measure it again"
    seconds = (now - time).total_seconds()
    return f"rejected {age(seconds)} ago: measure it again, or allow it by --max-age" if seconds > max_age else ""


def plan_of(
    nodes: Sequence[NodeResult],
    failures: Mapping[str, Sequence[Failure]],
    slurm_nodes: Iterable[NodeState],
    most: float = MOST,
    outdated: Mapping[str, str] = MappingProxyType({}),
) -> DrainPlan:
    """Return the plan of the nodes to drain.

    `failures` are those of the rejected nodes, `slurm_nodes` the nodes in Slurm. `outdated` says of a rejection that
    drains no node for its time why it does not.
    """
    plan, states = DrainPlan(), {state.name: state for state in slurm_nodes}
    total = sum(node.state in (*HOLDS, State.REJECTED, State.NOT_JUDGED) for node in nodes)
    doubtful = _doubtful(failures, total)
    plan.doubtful = [
        f"{metric} fails on {count} of {total} judged nodes: its limit is in doubt, so no node is drained for it"
        for metric, count in doubtful.items()
    ]
    rehearsal = all(node.result.simulated for node in nodes if node.result)
    reasons = [states[node.node].reason for node in nodes if node.node in states]
    # Given by `fleet drain`, and not by the script of a health check.
    drained = sum(reason.startswith(TAG) and not reason.startswith(HEALTH) for reason in reasons)
    for node in nodes:
        if node.state is not State.REJECTED or node.result is None:
            continue
        state, rehearsed = states.get(node.node), node.result.simulated
        grounds = [failure for failure in failures.get(node.node, ()) if failure.metric not in doubtful]
        if not node.expected:
            obstacle = "it is not among the expected nodes"
        elif state is None:
            obstacle = "Slurm does not know it"
        else:
            obstacle = _left_alone(state, grounds, failures.get(node.node, ()), alien=rehearsed and not rehearsal)
            obstacle = obstacle or outdated.get(node.node, "")
        if obstacle or state is None:
            plan.left.append((node.node, obstacle))
            continue
        reason = reason_of(grounds, simulated=rehearsed)
        plan.steps.append(Step(node.node, reason, state, tuple(drain_command(node.node, reason)), "drained"))
    _limit(plan, failures, drained, sum(node.expected for node in nodes), most)
    return plan


def _left_alone(state: NodeState, grounds: Sequence[Failure], failures: Sequence[Failure], *, alien: bool) -> str:
    """Return the reason why a rejected node is not drained, or "". `alien` is a simulated node among real ones."""
    if alien:
        return "its run was simulated, and those of other nodes were not"
    if state.reason.startswith(TAG):
        return f"drained already: {state.reason}"
    # No node is touched whose reason is another's.
    if state.reason:
        return f"{state.state} with a reason of somebody else: {state.reason}"
    if _outage(state):
        return f"{state.state} without a reason"
    if failures and not grounds:
        return "rejected only by limits that are in doubt"
    if not failures:
        return "its record names no failure"
    return ""


def _outage(state: NodeState) -> str:
    """Return the beginning of the state of a node that was taken out of service; empty if it was not."""
    return next((prefix for prefix in DRAINED if state.state.startswith(prefix)), "")


def changed(before: NodeState, after: NodeState | None) -> str:
    """Return the change since a step was planned for which it is not taken; empty if there is none.

    A job that begins or ends on the node is no such change.
    """
    if after is None:
        return "Slurm does not know it any more"
    if (after.reason, after.since) != (before.reason, before.since) or _outage(after) != _outage(before):
        return f"changed meanwhile: {after.state}{': ' if after.reason else ''}{after.reason}"
    return ""


def _doubtful(failures: Mapping[str, Sequence[Failure]], total: int) -> dict[str, int]:
    """Return the metrics that fail on too many of the judged nodes, with the number of these."""
    nodes = Counter(metric for group in failures.values() for metric in {failure.metric for failure in group})
    return {
        metric: count for metric, count in nodes.most_common() if count >= DOUBTFUL_NODES and count > DOUBTFUL * total
    }


def _limit(plan: DrainPlan, failures: Mapping[str, Sequence[Failure]], drained: int, total: int, most: float) -> None:
    """Refuse the steps of a plan that would drain too many nodes, `drained` of which were drained before.

    All of them if they alone are too many; else those that there is no room for, the fewest broken limits first.
    """
    # 0.29 * 100 is 28.999999999999996 in floating point, and 29 nodes are meant.
    maximum = max(1, int(most * total + 1e-9))
    room, count = max(0, maximum - drained), len(plan.steps)
    plan_text = f"{counted(count, 'node')} would be drained"
    limit_text = f"at most {maximum} of {total} nodes may be (--most={most:g})"
    drained_text = f"of which {drained} {'is' if drained == 1 else 'are'} drained by us already"
    if count > maximum:
        plan.refused = f"{plan_text}, and {limit_text}; {_allowing(drained + count, total)}"
    elif count and not room:
        advice = f"repair and resume some; {_allowing(drained + count, total)}"
        plan.refused = f"{plan_text}, and {limit_text}, {drained_text}: {advice}"
    elif count > room:
        worst = sorted(plan.steps, key=lambda step: -len(failures[step.node]))[:room]
        plan.left += [(step.node, f"{limit_text}, {drained_text}") for step in plan.steps if step not in worst]
        plan.steps = worst


def _allowing(drained: int, expected: int) -> str:
    """Return the value of --most that allows so many drained nodes."""
    return f"--most={-(-10_000 * drained // expected) / 10_000:g} allows it"


def plan_of_check(
    line: str, node: str, slurm_nodes: Sequence[NodeState], *, now: datetime, most: float, seconds: float
) -> DrainPlan:
    """Return the plan to drain a node for the line of its health check; `slurm_nodes` are all nodes of Slurm.

    Checks may drain the share `most` of all nodes within so many seconds: one wrong option or limit would drain the
    fleet else.
    """
    plan, reason = DrainPlan(), f"{TAG} {line}"[:REASON_CHARACTERS]
    state = next((state for state in slurm_nodes if state.name == node), None)
    start = now - timedelta(seconds=seconds)  # a reason whose time is not known counts
    recent = [state for state in slurm_nodes if state.reason.startswith(HEALTH) and (state.since or now) >= start]
    maximum = max(1, int(most * len(slurm_nodes) + 1e-9))
    if not reason.startswith(HEALTH):
        plan.left.append((node, f"its check found nothing broken: {line}"))
    elif state is None:
        plan.left.append((node, "Slurm does not know it"))
    elif state.reason or _outage(state):
        plan.left.append((node, f"{state.state}{': ' if state.reason else ''}{state.reason}"))
    elif len(recent) >= maximum:
        plan.refused = (
            f"health checks drained {len(recent)} of {len(slurm_nodes)} nodes within {age(seconds)}, "
            f"and at most {maximum} may be (--most={most:g}); {_allowing(len(recent) + 1, len(slurm_nodes))}"
        )
    else:
        plan.steps.append(Step(node, reason, state, tuple(drain_command(node, reason)), "drained"))
    return plan


REST = re.compile(r"; and \d+ more$")


def is_cut(reason: str) -> bool:
    """Return True for a reason of ours that leaves out some metrics, or all, as that of a health check does."""
    return reason.startswith(HEALTH) or bool(REST.search(reason))


def metrics_of(reason: str) -> set[str]:
    """Return the metrics that a reason of ours names."""
    if reason.startswith(HEALTH):
        return set()
    reason = REST.sub("", reason)
    parts = [part.split() for part in re.sub(r"^\[accel\]( simulated)?", "", reason).split(DELIMITER)]
    uncoded = [words[1:] if words and re.fullmatch(r"[A-Z]\d{3}", words[0]) else words for words in parts]
    return {metric for words in uncoded for metric in words[1:]}


def held(run: Run | None) -> set[str]:
    """Return the metrics of a record whose limits hold on every device."""
    verdicts = [verdict for verdict in run.verdicts if verdict.limit] if run else []
    failing = {verdict.metric for verdict in verdicts if not verdict.status.holds}
    return {_word(verdict.metric) for verdict in verdicts if verdict.metric not in failing}


def measured(run: Run | None) -> set[str]:
    """Return the metrics that the record of an accepted node has a value of, or a failure that a waiver accepts."""
    return {
        _word(verdict.metric)
        for verdict in (run.verdicts if run else ())
        if verdict.status.holds
        or (verdict.status is Status.FAIL and verdict.waiver)
        or (verdict.status is Status.NOT_APPLICABLE and verdict.value is not None)
    }


def resume_plan(
    nodes: Sequence[NodeResult], slurm_nodes: Iterable[NodeState], holds: Mapping[str, Collection[str]], now: datetime
) -> DrainPlan:
    """Return the plan of the nodes to resume: those that we drained and whose newest run began later and holds.

    A run that began after the time `now` is one of a wrong clock, which does not tell what it came after.
    It has to have measured what the node was drained for: `holds` are the metrics whose limits hold, by node; those
    that were measured where the node was accepted.
    """
    plan, results = DrainPlan(), {node.node: node for node in nodes}
    for state in slurm_nodes:
        node = results.get(state.name)
        if not state.reason.startswith(TAG) or node is None:
            continue
        if obstacle := _not_resumed(state, node, holds.get(state.name, ()), now):
            plan.left.append((state.name, f"{obstacle}; drained: {state.reason}"))
        else:
            plan.steps.append(Step(state.name, state.reason, state, tuple(resume_command(state.name)), "resumed"))
    return plan


def _not_resumed(state: NodeState, node: NodeResult, holds: Collection[str], now: datetime) -> str:
    """Return the reason why a node that we drained is not resumed; empty if it is."""
    if node.state not in HOLDS or node.result is None:
        return node.state.value
    if node.result.simulated and not state.reason.startswith(SIMULATED):
        return "the later run was simulated"
    if not state.state.startswith("drain"):
        return f"its state is {state.state}"
    start = node.began or node.result.began
    if start is None or state.since is None or start <= state.since:
        return "not accepted since it was drained"
    if start > now:
        return f"the later run began in the future, {node.result.started}: set the clock of the node"
    if missing := sorted(metrics_of(state.reason) - set(holds)):
        return f"the later run did not measure metrics of the reason: {', '.join(missing)}"
    if node.state is State.HELD and is_cut(state.reason):
        return "the later run was no acceptance, and the reason does not have room for every metric"
    return ""
