"""The action `fabric` of `pytest-accel fleet`: one job that measures the network between all nodes."""

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
from pytest_accel.fleet.jobs import report, run_folder, slurm, submission
from pytest_accel.fleet.jobs.waiting import LEAST_PAUSE, RunWatch, Watch, until_done
from pytest_accel.views import fabric

FABRIC = """Submit one job on all nodes, which runs 'pytest --accel-fabric' on each, and wait for it: the nodes measure
the network between them in pairs, and name the node, the path or the leaf switch that is slow. DIR/fabric.json holds
every pair, DIR/NODE the record of a node. Drained, down and reserved nodes are left out by name. The exit status is
that of the fabric run: 0 all hold, 1 something is rejected, 6 without a verdict, as after a job that ended early."""


def run(chosen: argparse.Namespace) -> int:
    """Submit the job, wait for it, and show what the nodes found. Raises BadFile or SlurmError."""
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    folder = (chosen.output or Path("accel-fleet") / f"fabric-{stamp}").absolute()
    asked = fleet_run.begun(chosen, f"{stamp}-{secrets.token_hex(2)}", folder)
    fleet = replace(asked, joint=True, arguments=(*asked.arguments, "--accel-fabric"))
    skipped = [each for each in fleet.expected if each.skipped]
    fleet_run.tell_all([f"left out {each.name}: {each.skipped}" for each in skipped])
    able = len(fleet.expected) - len(skipped)
    if able < 2:
        raise BadFile(f"--nodes: {counted(able, 'node')} can start a job, and a fabric run needs two")
    if chosen.dry_run:
        print(printable(" ".join(submission.joint_command(fleet, folder))))
        print(submission.script_of(fleet, folder), end="")
        return exits.HOLDS
    if untrusted.exists(folder / run_folder.FABRIC):  # which would be taken for the result of this job
        raise BadFile(f"--output: {folder} holds the {run_folder.FABRIC} of an earlier job; name a new folder")
    fleet = submission.submit_joint(fleet, folder)
    print(printable(f"{folder}: job {fleet.jobs[0].job} on {counted(able, 'node')}"))
    watch = Watch([RunWatch(folder)])
    found, problem = until_done(watch)
    fleet_run.tell(problem)
    while not problem and any(job.state in slurm.ACTIVE for job in submission.jobs_of(fleet, folder)):
        time.sleep(LEAST_PAUSE)  # the first node writes the file when all records are there
    try:
        together = run_folder.fabric(folder)
    except BadFile as bad:
        print(report.text(watch.fleet, found, slurm.fold), end="")
        print(f"NOT JUDGED fabric: {bad}")
        return exits.NOT_JUDGED
    screen.show(fabric.lines(together, screen.width()))
    return together.conclusion.closing.exit


ACTIONS: Actions = {
    "fabric": Subcommand("measure the network between nodes by one job", FABRIC, fleet_run.asked_arguments, run),
}
