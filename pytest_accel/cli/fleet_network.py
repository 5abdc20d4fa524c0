"""The action `network` of `pytest-accel fleet`: one job that measures the network between all nodes."""

from __future__ import annotations

import argparse
import secrets
import time
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.cli import fleet_run, screen
from pytest_accel.cli.parser import Actions, Subcommand
from pytest_accel.core import exits, untrusted
from pytest_accel.core.printable import printable
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.words import counted
from pytest_accel.fleet.jobs import fleet_report, run_folder, slurm, submission
from pytest_accel.fleet.jobs.waiting import LEAST_PAUSE, RunWatch, Watch, until_done
from pytest_accel.views import network_table

NETWORK = """Submit one job on all nodes, which runs 'pytest --accel-network' on each, and wait for it: nodes measure
the network between them in pairs, and name the node, the path or the leaf switch that is slow. DIR/network.json holds
every pair, DIR/NODE the record of a node. Drained, down and reserved nodes are left out by name. The exit status is
that of the network run: 0 all hold, 1 something is rejected, 6 without a verdict, as after a job that ended early."""


def run(args: argparse.Namespace) -> int:
    """Submit the job, wait for it, and show what the nodes found. Raises BadFile or SlurmError."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    folder = (args.output or Path("accel-fleet") / f"network-{stamp}").absolute()
    plan = fleet_run.begun(args, f"{stamp}-{secrets.token_hex(2)}", folder)
    fleet = replace(plan, joint=True, arguments=(*plan.arguments, "--accel-network"))
    skipped = [node for node in fleet.expected if node.skipped]
    fleet_run.tell_all([f"left out {node.name}: {node.skipped}" for node in skipped])
    count = len(fleet.expected) - len(skipped)
    if count < 2:
        raise BadFile(f"--nodes: {counted(count, 'node')} can start a job, and a network run needs two")
    if args.dry_run:
        print(printable(" ".join(submission.joint_command(fleet, folder))))
        print(submission.script_of(fleet, folder), end="")
        return exits.HOLDS
    if untrusted.exists(folder / run_folder.NETWORK):  # which would be taken for the result of this job
        raise BadFile(f"--output: {folder} holds the {run_folder.NETWORK} of an earlier job; name a new folder")
    fleet = submission.submit_joint(fleet, folder)
    print(printable(f"{folder}: job {fleet.jobs[0].job} on {counted(count, 'node')}"))
    watch = Watch([RunWatch(folder)])
    results, problem = until_done(watch)
    fleet_run.tell(problem)
    while not problem and any(job.state in slurm.ACTIVE for job in submission.jobs_of(fleet, folder)):
        time.sleep(LEAST_PAUSE)  # the first node writes the file when all records are there
    try:
        network = run_folder.network(folder)
    except BadFile as error:
        print(fleet_report.text(watch.fleet, results, slurm.fold), end="")
        print(f"NOT JUDGED network: {error}")
        return exits.NOT_JUDGED
    screen.show(network_table.lines(network, screen.width()))
    return network.conclusion.closing.exit


ACTIONS: Actions = {
    "network": Subcommand("measure the network between nodes by one job", NETWORK, fleet_run.asked_arguments, run),
}
