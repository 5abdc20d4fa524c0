"""The action `drain` of `pytest-accel fleet`: shows which nodes to drain or resume, and does it with --yes."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.cli.fleet_run import folder_or_nights
from pytest_accel.cli.parser import Actions, Subcommand
from pytest_accel.core import exits
from pytest_accel.core.durations import duration, value_that
from pytest_accel.core.node_name import node_name
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.words import counted
from pytest_accel.fleet.jobs import drain as plans
from pytest_accel.fleet.jobs import ledger, slurm
from pytest_accel.fleet.jobs.drain import DrainPlan, Step
from pytest_accel.fleet.jobs.slurm import NodeState, SlurmError
from pytest_accel.fleet.jobs.states import HOLDS, NodeResult, State
from pytest_accel.fleet.jobs.waiting import watch_of
from pytest_accel.run import folder_summary, record

DRAIN = """Show the commands that would drain the rejected nodes of a run, and run them with --yes. Nodes with a reason
of somebody else stay as they are. The exit status is 1 if a node is rejected, 4 if nothing may be changed, else 0. With
--resume, nodes that this command drained are made available again if a later run accepted them, or held all metrics of
the reason; the exit status is 0 then, or 4 if nothing may be changed."""


def _arguments(parser: argparse.ArgumentParser) -> None:
    folder_or_nights(parser)
    add = parser.add_argument
    add("--yes", action="store_true", help="do it")
    add("--resume", action="store_true", help="resume the drained nodes whose newest run holds")
    text = (
        "the largest share of the expected nodes that this command keeps drained, nodes of earlier calls and nights "
        "included; at least one node (default: %(default)g)"
    )
    share = value_that(lambda value: 0 < value <= 1, "a share above 0, at most 1", float)
    add("--most", metavar="SHARE", type=share, default=plans.MOST, help=text)
    text = (
        "drain this node for this line of its health check; within --max-age health checks may drain the share --most "
        "of all nodes"
    )
    add("--broken", metavar="LINE", help=text)
    text = "age from which on a rejection drains no node, such as 24h (default: %(default)s)"
    add("--max-age", metavar="TIME", type=duration, default=plans.MAX_AGE, help=text)


def drain(args: argparse.Namespace) -> int:
    """Drain or resume nodes, or show which. Raises BadFile or SlurmError."""
    if args.broken is not None:
        return _drain_here(args)
    watch = watch_of(args.folder.absolute(), args.nights)
    if args.resume and len(watch.runs) > 1:
        raise BadFile(f"--resume: {args.folder} holds several runs; name the one that measured the nodes again")
    nodes = watch.look()
    states = slurm.nodes([node.node for node in nodes if node.expected])
    plan = _resume_plan(nodes, states) if args.resume else _drain_plan(nodes, states, args)
    rejected = any(node.state is State.REJECTED for node in nodes) and not args.resume
    return _carry_out(plan, nodes, args) or (exits.REJECTED if rejected else exits.HOLDS)


def _drain_here(args: argparse.Namespace) -> int:
    """Drain this node for the line of its health check, one node of the fleet at a time."""
    folder, node = args.folder.absolute(), os.environ.get("SLURMD_NODENAME") or node_name()
    # One node at a time: of checks that fail at once each would see room for its own node.
    with ledger.locked(folder):
        now = datetime.now(timezone.utc)
        share, seconds = args.most, args.max_age
        plan = plans.plan_of_check(args.broken, node, slurm.nodes(), now=now, most=share, seconds=seconds)
        return _carry_out(plan, [], args) or (exits.REJECTED if plan.steps else exits.HOLDS)


def _carry_out(plan: DrainPlan, nodes: Sequence[NodeResult], args: argparse.Namespace) -> int:
    """Do what is planned, or show it without --yes; return 0, or 4 if it is refused."""
    for sentence in plan.doubtful:
        print(printable(f"in doubt: {sentence}"))
    for node, reason in plan.left:
        print(printable(f"left alone: {node}: {reason}"))
    if plan.refused:
        report = f"fleet report {shlex.quote(str(args.folder))}"
        print(printable(f"refused: {plan.refused}"), file=sys.stderr)
        look = "health --all" if args.broken is not None else report
        print(printable(f"look at the verdicts first: pytest-accel {look}"), file=sys.stderr)
        return exits.WRONG
    if args.yes:
        _apply(plan.steps, nodes, args.folder.absolute())
    else:
        _show(plan)
    return exits.HOLDS


def _drain_plan(nodes: Sequence[NodeResult], states: Sequence[NodeState], args: argparse.Namespace) -> DrainPlan:
    """Return the plan of the nodes to drain. The records of the rejected ones are read; one may not be readable."""
    now, failures, outdated = datetime.now(timezone.utc), {}, {}
    for node in nodes:
        if node.state is State.REJECTED and node.result:
            run = _record(node)
            failures[node.node] = plans.failures(run)
            start = node.began.isoformat() if node.began else node.result.started
            if reason := plans.too_old(run, start, now, args.max_age):
                outdated[node.node] = reason
    return plans.plan_of(nodes, failures, states, args.most, outdated)


def _resume_plan(nodes: Sequence[NodeResult], states: Sequence[NodeState]) -> DrainPlan:
    """Return the plan of the nodes to resume. The records of those that we drained are read."""
    drained = {state.name for state in states if state.reason.startswith(plans.TAG)}
    holders = [node for node in nodes if node.node in drained and node.state in HOLDS]
    holding = {
        node.node: (plans.measured if node.state is State.ACCEPTED else plans.held)(_record(node)) for node in holders
    }
    return plans.resume_plan(nodes, states, holding, datetime.now(timezone.utc))


def _record(node: NodeResult) -> Run | None:
    """Return the record of a node, None if it cannot be read."""
    if node.result is None:
        return None
    try:
        return record.read(folder_summary.record_of(node.result.folder), follow=False)
    except BadFile as error:
        print(error, file=sys.stderr)
        return None


def _show(plan: DrainPlan) -> None:
    """Print the commands, and that nothing was done."""
    for step in plan.steps:
        print(printable(shlex.join(step.command)))
    if plan.steps:
        print(f"{counted(len(plan.steps), 'node')}; nothing was changed: add --yes to do it")
    else:
        print("nothing to do")


def _apply(steps: Sequence[Step], nodes: Sequence[NodeResult], folder: Path) -> None:
    """Run the commands, and enter each in the ledger of the folder. Raises SlurmError, or BadFile if not allowed."""
    results = {node.node: node.result for node in nodes}
    for step in steps:
        # Asked for right before its command: a node that somebody has drained or resumed meanwhile is left alone.
        state = next((state for state in slurm.nodes([step.node]) if state.name == step.node), None)
        if reason := plans.changed(step.seen, state):
            print(printable(f"left alone: {step.node}: {reason}"))
            continue
        try:
            slurm.change(step.command)
        except SlurmError as error:
            if error.not_allowed:
                reason = "only SlurmUser, root and operators of Slurm may drain and resume nodes"
                raise BadFile(f"{error}: {reason}; nothing was changed from {step.node} on") from None
            raise
        print(printable(f"{step.did} {step.node}: {step.reason}"))
        result = results.get(step.node)
        run = str(result.folder) if result else ""
        ledger.append(folder, [{"did": step.did, "node": step.node, "reason": step.reason, "run": run}])
    if not steps:
        print("nothing to do")


ACTIONS: Actions = {"drain": Subcommand("drain rejected nodes, or resume them", DRAIN, _arguments, drain)}
