"""Submitting one job for each node that needs one. It can be killed at any time and begun again."""

from __future__ import annotations

import math
import os
import re
import shlex
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from pytest_accel.fleet.jobs import run_folder, slurm
from pytest_accel.fleet.jobs.run_folder import JOINT, ExpectedNode, FleetRequest, SubmittedJob
from pytest_accel.fleet.jobs.slurm import JobState, NodeState, SlurmError
from pytest_accel.fleet.jobs.states import MISSING, PENDING, NodeResult
from pytest_accel.run.network.secret import secret_of
from pytest_accel.run.processes.supervisor import python
from pytest_accel.run.record_folder import file_name

SAVE_EVERY = 50
"""After so many jobs fleet.json is written. Those that it lacks after a kill are found in the queue by their names."""
LOOK_EVERY = 1.0
"""Seconds between two looks whether the run was cancelled."""
SHORTEST_WAIT, LONGEST_WAIT = 2.0, 60.0
"""Seconds to wait if the queue takes no more jobs: twice as long each time."""
UNUSABLE = (
    "drain",
    "drng",
    "down",
    "fail",
    "maint",
    "resv",
    "reserved",
    "inval",
    "unk",
    "error",
    "block",
    "no_respond",
)
"""Beginnings of the states of nodes that start no job."""
RESERVED = ("maint", "resv", "reserved")
"""Those of them that start the jobs of their reservation."""
WORKING = ("alloc", "mix", "comp")
"""Beginnings of the states of nodes that are not idle."""
SILENT = "not responding"
MARGIN = 60
"""Seconds before the end of the job at which the run ends itself, with a complete record."""
SRUN = ("srun", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--no-kill", "--wait=0")
"""The beginning of a command that runs on each node of a job; a node that fails ends none of the others."""
OWN_LIMIT = "--accel-time-limit"
"""The option by which a run has a time limit of its own."""


def expected_of(state: NodeState, partition: str, reservation: str, idle: bool = False) -> ExpectedNode:
    """Return a node as an expected one: the job's partition and GRES, and why no job is submitted if there is none.

    With `idle` none is submitted for a node that works.
    """
    return ExpectedNode(
        state.name,
        partition or state.partition,
        gres_of(state.gres),
        skipped_of(state, reserved=bool(reservation), idle=idle),
    )


def skipped_of(state: NodeState, *, reserved: bool = False, idle: bool = False) -> str:
    """Return the reason why a node starts no job, such as "drained: fan broken"; empty if it does."""
    base = state.state.rstrip("*~#!%$@^-+")
    usable = not base.startswith(UNUSABLE) or (reserved and base.startswith(RESERVED))
    usable = usable and not (idle and base.startswith(WORKING))
    if "*" in state.state[len(base) :]:
        usable = False
        if state.reason.lower() != SILENT:  # which is Slurm's reason for a node that is down for it
            base = f"{base}, {SILENT}"
    return "" if usable else f"{base}: {state.reason}" if state.reason else base


def gres_of(gres: str) -> str:
    """Return all GPUs of a node as an option of sbatch, from the GRES that sinfo shows: "gpu:h100:8(S:0-1)".

    Other resources, such as licences, are not asked for.
    """
    parts = re.sub(r"\([^)]*\)", "", gres).split(",")  # a bracket with sockets may hold commas
    return ",".join(part.strip() for part in parts if re.fullmatch(r"gpu(:.+)?:\d+", part.strip()))


def script_of(fleet: FleetRequest, folder: Path) -> str:
    """Return the batch script of a job. It runs pytest by the interpreter that runs this, and what follows after it.

    A signal to the job reaches pytest either way, which completes its record.
    """
    limit = (
        []
        if any(word.startswith(OWN_LIMIT) for word in fleet.arguments)
        else [f"--accel-time-limit={fleet.minutes * 60 - MARGIN}"]
    )
    launcher = SRUN if fleet.joint else ()
    words = [*launcher, *python("pytest", *fleet.arguments, *limit, f"--accel-output={folder}")]
    if not fleet.after:
        return f"#!/bin/sh\nexec {shlex.join(words)}\n"
    lines = [
        "#!/bin/sh",
        f"{shlex.join(words)} & run=$!",
        "trap 'kill -TERM $run' TERM INT HUP",
        "wait $run; status=$?",
        "if kill -0 $run 2>/dev/null; then wait $run; status=$?; fi  # a signal ended the first wait",
        f"export ACCEL_OUTPUT={shlex.quote(str(folder))} ACCEL_STATUS=$status",
        fleet.after,
        "exit $status",
    ]
    return "\n".join(lines) + "\n"


def needed(nodes: Sequence[NodeResult], again: Collection[str]) -> list[str]:
    """Return the nodes that need a job and can start one: those without a result, and those of `again`."""
    return [
        node.node
        for node in nodes
        if not node.skipped and (node.state in MISSING or (node.node in again and node.state not in PENDING))
    ]


def with_states(fleet: FleetRequest, slurm_nodes: Iterable[NodeState]) -> FleetRequest:
    """Return the request with the present reasons why nodes are skipped."""
    states = {state.name: state for state in slurm_nodes}
    expected = [
        replace(node, skipped=skipped_of(states[node.name], reserved=bool(fleet.reservation), idle=fleet.idle))
        if node.name in states
        else replace(node, skipped="Slurm does not know it")
        for node in fleet.expected
    ]
    return replace(fleet, expected=tuple(expected))


OURS = re.compile(r"accel-\d{8}T\d{6}Z-[0-9a-f]{4}-(?P<node>.+)")
"""The name of a job of ours (`FleetRequest.job_name`)."""


def without_busy(fleet: FleetRequest) -> FleetRequest:
    """Return the request with the nodes skipped that have a job of another run of this user. Raises SlurmError."""
    busy = {
        match["node"]: f"job {job.id} of another run is {job.state.lower()}"
        for job in slurm.jobs("accel-")
        if job.state in slurm.ACTIVE and job.user == os.geteuid() and not job.name.startswith(fleet.prefix)
        if (match := OURS.fullmatch(job.name))
    }
    expected = (replace(node, skipped=node.skipped or busy.get(node.name, "")) for node in fleet.expected)
    return replace(fleet, expected=tuple(expected))


def not_again(nodes: Sequence[NodeResult], again: Collection[str]) -> list[tuple[str, str]]:
    """Return the nodes of `again` for which no job is submitted, and why."""
    return [
        (node.node, node.skipped or node.reason)
        for node in nodes
        if node.node in again and (node.skipped or node.state in PENDING)
    ]


def nothing_measured(nodes: Sequence[NodeResult]) -> list[str]:
    """Return a sentence that nothing is left to measure, with the time of the results; none while jobs are queued."""
    if any(node.state in PENDING for node in nodes):
        return []
    times = sorted(filter(None, (node.result.began for node in nodes if node.result)))
    if not times:
        return ["nothing is measured now: no node can start a job"]
    first, last = (moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M") for moment in (times[0], times[-1]))
    period = first if first == last else f"{first} to {last}"
    return [f"nothing is measured now: the results are those of runs that began {period} UTC"]


def command_of(fleet: FleetRequest, folder: Path, node: ExpectedNode, names: Sequence[str] = ()) -> list[str]:
    """Return the command that submits the job of one node, or that of one job on all of `names`."""
    hosts = names or (node.name,)
    log = folder / run_folder.JOBS / f"{file_name(node.name)}-%j.out"
    placement = ["-w", slurm.fold(hosts), f"-N{len(hosts)}", f"-n{len(hosts)}"]
    options = [*placement, "-J", fleet.job_name(node.name), "-o", str(log), f"-t{fleet.minutes}"]
    choices = {"partition": node.partition, "gres": node.gres, "reservation": fleet.reservation}
    return [*slurm.SUBMIT, *options, *(f"--{name}={text}" for name, text in choices.items() if text), *fleet.sbatch]


def joint_command(fleet: FleetRequest, folder: Path) -> list[str]:
    """Return the command that submits one job on all nodes that start one; it goes on if one of them dies.

    GPUs are asked for if all of them have the same.
    """
    nodes = [node for node in fleet.expected if not node.skipped]
    gres = {node.gres for node in nodes}
    job_node = ExpectedNode(JOINT, nodes[0].partition, gres.pop() if len(gres) == 1 else "")
    return [*command_of(fleet, folder, job_node, [node.name for node in nodes]), "--no-kill"]


def submit_joint(fleet: FleetRequest, folder: Path) -> FleetRequest:
    """Submit the one job on all nodes, and return the fleet with it in fleet.json. Raises SlurmError.

    The nodes find the secret of their run in the folder. Raises Refused for one there that others may know.
    """
    (folder / run_folder.JOBS).mkdir(parents=True, exist_ok=True)
    secret_of(folder, make=True)
    run_folder.save(fleet, folder)
    number = slurm.submit(joint_command(fleet, folder), script_of(fleet, folder))
    jobs = tuple(SubmittedJob(node.name, number, now()) for node in fleet.expected if not node.skipped)
    fleet = replace(fleet, jobs=jobs)
    run_folder.save(fleet, folder)
    return fleet


def jobs_of(fleet: FleetRequest, folder: Path) -> list[JobState]:
    """Return the jobs of a run in the queue, whoever submitted them. Raises SlurmError."""
    # One that fleet.json lacks counts if it is of this user, or of the owner of the folder or of fleet.json: anybody
    # else may give the name to a job.
    ids, users = {job.job for job in fleet.jobs}, {os.geteuid()}
    for path in (folder, folder / run_folder.FILE):
        with suppress(OSError):
            users.add(path.stat().st_uid)
    return [job for job in slurm.jobs(fleet.prefix) if job.id in ids or job.user in users]


class _Ended(Exception):
    """The time is over in which jobs may be submitted, or the run was cancelled."""


class Submitter:
    """Submits the jobs of a run. `tell` is called with what it waits for, and with an empty text when it goes on."""

    def __init__(self, fleet: FleetRequest, folder: Path, tell: Callable[[str], None]) -> None:
        self.fleet = fleet
        self._folder = folder
        self._tell = tell
        self._unsaved = 0
        self._end: float | None = None
        self.ended = ""
        """The reason why nodes were left; empty if none were."""

    def submit(self, nodes: Sequence[str], at_once: int = 0, end: float | None = None) -> Sequence[str]:
        """Submit a job for each node; with `at_once` not more than so many are in the queue at a time.

        If the queue refuses, wait until it takes more. After `end`, a time of the monotonic clock, no further job is
        submitted, nor once the run is cancelled. Returns the nodes that are left then, and enters why in `ended`.
        Raises SlurmError for any other refusal; what was submitted is in fleet.json then.
        """
        self._end = end
        (self._folder / run_folder.JOBS).mkdir(exist_ok=True)
        script = script_of(self.fleet, self._folder)
        expected = {node.name: node for node in self.fleet.expected}
        room = count = 0
        try:
            for node in nodes:
                if at_once and not room:
                    room = self._wait_for_room(at_once, len(nodes) - count)
                room -= 1
                self._submit(expected[node], script, len(nodes) - count)
                count += 1
        except _Ended as reason:
            self.ended = str(reason)
        finally:
            self._save()
        return nodes[count:]

    def _submit(self, node: ExpectedNode, script: str, remaining: int) -> None:
        """Submit the job of one node, and keep its id."""
        number = self._accepted(command_of(self.fleet, self._folder, node), script, remaining)
        self._tell("")
        self.fleet = replace(self.fleet, jobs=(*self.fleet.jobs, SubmittedJob(node.name, number, now())))
        self._unsaved += 1
        if self._unsaved >= SAVE_EVERY:
            self._save()

    def _accepted(self, command: Sequence[str], script: str, remaining: int) -> str:
        """Submit a job as often as the queue refuses it for being full; return its id. Raises SlurmError."""
        pause = SHORTEST_WAIT
        while True:
            self._pause(0)  # raises where the time is over
            try:
                return slurm.submit(command, script)
            except SlurmError as error:
                if not error.is_limit or not self._active():
                    raise
                self._save()
                self._tell(f"the queue takes no more jobs ({error.message}); {remaining} left to submit")
            self._pause(pause)
            pause = min(2 * pause, LONGEST_WAIT)

    def _wait_for_room(self, at_once: int, remaining: int) -> int:
        """Wait until fewer than `at_once` jobs of the run are in the queue; return how many more there may be."""
        pause = SHORTEST_WAIT
        while (queued := len(self._active())) >= at_once:
            self._save()
            self._tell(f"{queued} jobs in the queue, as many as may be at once; {remaining} left to submit")
            self._pause(pause)
            pause = min(1.5 * pause, LONGEST_WAIT / 4)
        return at_once - queued

    def _pause(self, seconds: float) -> None:
        """Wait, but only as long as jobs may be submitted. Raises _Ended after that."""
        end = time.monotonic() + seconds
        while True:
            clock = time.monotonic()
            if self._end is not None and clock > self._end:
                raise _Ended("--timeout was over")
            if (self._folder / run_folder.CANCELLED).exists():
                raise _Ended("the run was cancelled")
            if clock >= end:
                return
            time.sleep(min(end - clock, LOOK_EVERY, math.inf if self._end is None else max(0.0, self._end - clock)))

    def _active(self) -> list[JobState]:
        """Return the jobs of the run that have not ended."""
        return [job for job in jobs_of(self.fleet, self._folder) if job.state in slurm.ACTIVE]

    def _save(self) -> None:
        """Write fleet.json, if jobs were submitted since it was written."""
        if self._unsaved:
            run_folder.save(self.fleet, self._folder)
            self._unsaved = 0


def now() -> str:
    """Return the time in ISO 8601, in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
