"""A fleet on a real Slurm cluster of pretend nodes, which measure this machine's processors."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from slurm_cluster import SUITE, SlurmCluster, cluster, missing

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.devices,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

COMMAND = "import sys; from pytest_accel.cli.main import main; sys.exit(main())"

MISLEADING = {
    **dict.fromkeys(("SQUEUE_PARTITION", "SINFO_PARTITION", "SBATCH_RESERVATION", "SCANCEL_NAME"), "other"),
    "SQUEUE_STATES": "FAILED",
    "SLURM_TIME_FORMAT": "relative",
}


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with cluster(4) as started:
        yield started


def fleet(slurm: SlurmCluster, *words: str | Path) -> tuple[int, str]:
    """Run `pytest-accel fleet` in a shell with variables that mislead Slurm's programs.

    Returns its exit status and what it prints.
    """
    command = (sys.executable, "-c", COMMAND, "fleet", *map(str, words))
    done = slurm.run(*command, check=False, more=MISLEADING, seconds=240)
    return done.returncode, done.stderr + done.stdout


def test_a_run_its_losses_and_what_follows(slurm: SlurmCluster, tmp_path: Path) -> None:
    """node1 is well, node2 slow, node3 is lost in the middle, node4 was drained by somebody else."""
    suite, folder = tmp_path / "test_own.py", tmp_path / "run"
    suite.write_text(SUITE)
    (tmp_path / "slow-node2").touch()
    (tmp_path / "wait-node3").touch()
    slurm.run("scontrol", "update", "nodename=node4", "state=drain", "reason=fan broken")
    begin = ("run", "--sku", "cpu", "--level", "quick", "--nodes", "node[1-4]", "--output", folder, "--", suite)

    status, said = fleet(slurm, *begin)
    assert status == 0, said
    assert "4 expected nodes, 1 skipped, 3 to submit" in said
    assert "0 to submit" in fleet(slurm, *begin)[1], "what is queued was submitted again"
    slurm.until((tmp_path / "begun-node3").exists, "node3 has not begun")
    jobs = {each["node"]: each["job"] for each in json.loads((folder / "fleet.json").read_text())["jobs"]}
    slurm.run("scancel", "--signal=KILL", "--full", jobs["node3"])
    (tmp_path / "wait-node3").unlink()

    status, said = fleet(slurm, "wait", folder, "--timeout", "3")
    assert status == 1, said
    assert [line.split()[:3] for line in said.splitlines()[-5:-1]] == [
        ["rejected", "node2", "REJECTED"],
        ["no", "result", "node3"],
        ["skipped", "node4", "drained:"],
        ["held", "node1", "no"],
    ]
    assert "fan broken" in said
    log = (folder / f"jobs/node1-{jobs['node1']}.out").read_text()
    assert "HELD" in log
    assert not set(log) & {"\r", "\x1b"}, "a carriage return or a colour in the log of a job"

    status, said = fleet(slurm, "drain", folder)
    assert (status, slurm.states()["node2"]) == (1, "idle"), said
    assert "nodename=node2 state=drain 'reason=[accel]" in said
    fleet(slurm, "drain", folder, "--yes")
    assert slurm.states() == {"node1": "idle", "node2": "drained", "node3": "idle", "node4": "drained"}
    assert "left alone: node2: drained already" in fleet(slurm, "drain", folder, "--yes")[1]
    assert "left alone: node2: rejected" in fleet(slurm, "drain", folder, "--resume", "--yes")[1]

    (tmp_path / "slow-node2").unlink()
    by_hand = {**slurm.environment, "SLURM_JOB_ID": "by-hand", "SLURMD_NODENAME": "node2"}  # a drained node has no job
    repaired = tmp_path / "repaired"  # in the folder of the run a test of ours takes no rejection back
    words = (f"--accel-output={repaired}", "--accel-sku=cpu", "--accel-level=quick", "-pno:cacheprovider", str(suite))
    with subprocess.Popen((sys.executable, "-m", "pytest", *words), env=by_hand, stdout=subprocess.DEVNULL):
        status, said = fleet(slurm, "run", "--output", folder, "--wait")
        assert "4 expected nodes, 2 skipped, 1 to submit" in said, "more than what was missing is run again"
    status, said = fleet(slurm, "report", folder)
    assert (status, "held        node[1,3]" in said) == (1, True), said
    assert sorted(place.name for place in folder.glob("node*")) == ["node1", "node2", "node3", "node3-2"]
    places = (folder / "node1", folder / "node2", folder / "node3-2", repaired / "node2")
    uuids = {place: uuids_of(place) for place in places}
    assert uuids[places[1]] == uuids[places[3]]
    assert len(set().union(*uuids.values())) == sum(map(len, uuids.values())) * 3 // 4, "pretend nodes share devices"
    run = json.loads((folder / "node1/record.json").read_text())["info"]
    assert run["launcher"] == {"name": "slurm", "job": jobs["node1"], "node": "node1", "rank": 0, "nodes": 1}

    status, said = fleet(slurm, "drain", repaired, "--resume", "--yes")
    assert (status, slurm.states()["node2"]) == (0, "idle"), said
    assert slurm.states()["node4"] == "drained", "a node of somebody else was resumed"
    judge_again(slurm, folder, "node2")


def judge_again(slurm: SlurmCluster, folder: Path, node: str) -> None:
    """Have a node that was rejected and then repaired measured again, once Slurm has heard of it."""
    asked = ("sinfo", "-h", "-n", node, "-o", "%T")
    slurm.until(lambda: slurm.run(*asked).stdout.strip() == "idle", f"{node} does not respond after it was resumed")
    status, said = fleet(slurm, "run", "--output", folder, "--again", node, "--wait")
    assert (status, "held        node[1-3]" in said) == (6, True), said


def uuids_of(folder: Path) -> set[str]:
    return {str(device["uuid"]) for device in json.loads((folder / "record.json").read_text())["devices"]}
