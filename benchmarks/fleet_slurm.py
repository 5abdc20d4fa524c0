"""A fleet on a real Slurm cluster of pretend nodes on this machine: what each loss looks like, and what it costs.

    benchmarks/fleet_slurm.py [--nodes 8] [--dying 3] [--simulated 64]

Needs the Debian packages slurm-wlm and munge. Of 8 nodes that measure this machine's processors one is killed in the
middle, one was drained by somebody else, one is slow, and the disk of one is full; the others are well. The second run
completes what is missing; the slow node is drained, repaired, measured by hand and resumed. Then one of three nodes
dies with its slurmd, and comes back. Then the inventory of 64 simulated nodes of 8 GPUs is checked, four at a time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

for folder in ("tests", "tests/fleet"):
    sys.path.insert(0, str(Path(__file__).parents[1] / folder))

from slurm_cluster import SUITE, SlurmCluster, cluster, missing  # noqa: E402  from tests

INVENTORY = """
from pytest_accel import probes


def test_sku(accel_check):
    accel_check(probes.inventory, fact="sku")


def test_count(accel_check, accel_devices):
    accel_check(probes.inventory, fact="count")
"""
COMMAND = "import sys; from pytest_accel.cli.main import main; sys.exit(main())"
FULL_BYTES = 12 << 10
"""Size of the file system of the node whose disk is full: its record and logs do not fit."""


class Show:
    """Runs commands on a cluster and prints them, what they print, their status and their time."""

    def __init__(self, slurm: SlurmCluster) -> None:
        self.slurm = slurm

    def fleet(self, *words: str | Path | int, seconds: float = 1200) -> str:
        """Run `pytest-accel fleet`, and return what it prints."""
        began = time.monotonic()
        command = (sys.executable, "-c", COMMAND, "fleet", *map(str, words))
        done = self.slurm.run(*command, check=False, seconds=seconds)
        print(f"\n$ pytest-accel fleet {' '.join(map(str, words))}")
        print(f"{done.stderr}{done.stdout}exit status {done.returncode}, {time.monotonic() - began:.1f} s", flush=True)
        return done.stdout

    def states(self) -> None:
        """Print what Slurm shows of its nodes."""
        print("\n$ sinfo -R -h -o '%20E %N'")
        print(self.slurm.run("sinfo", "-R", "-h", "-o", "%20E %N").stdout, end="", flush=True)


def _environment(slurm: SlurmCluster, node: str) -> dict[str, str]:
    """Return the environment of a run by hand on a node."""
    return {**slurm.environment, "SLURM_JOB_ID": "by-hand", "SLURMD_NODENAME": node}


@contextlib.contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Give a folder a file system of its own that is too small for a record. Needs root."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={FULL_BYTES}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def real(nodes: int, work: Path) -> None:
    """Run `nodes` nodes that measure this machine's processors."""
    suite, folder = work / "test_own.py", work / "run"
    suite.write_text(SUITE)
    (work / "slow-node4").touch()
    (work / "wait-node2").touch()
    with cluster(nodes) as slurm, contextlib.ExitStack() as disks:
        show = Show(slurm)
        slurm.run("scontrol", "update", "nodename=node3", "state=drain", "reason=fan broken")
        began = time.monotonic()
        words = ("run", "--sku", "cpu", "--level", "quick", "--at-once", 3, "--output", folder, "--", suite)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(show.fleet, *words)
            slurm.until((folder / "fleet.json").exists, "the run has not begun")
            disks.enter_context(full_disk(folder / "node5"))  # before its job begins, which is one of the last
            slurm.until((work / "begun-node2").exists, "node2 has not begun", 300)
            count = slurm.kill_jobs("node2")
            print(f"\n(node2 is lost in the middle: {count} processes of its job are killed by SIGKILL)")
            first.result()
        show.fleet("status", folder)
        show.fleet("wait", folder)
        print(f"\nthe first run took {time.monotonic() - began:.0f} s; now node2 is well, and node5 has room again")
        (work / "wait-node2").unlink()
        disks.close()
        show.fleet("run", "--output", folder, "--wait")
        show.fleet("drain", folder)
        show.fleet("drain", folder, "--yes")
        show.states()
        (work / "slow-node4").unlink()
        print("\n(node4 is repaired, and measured by hand into a folder of its own)")
        arguments, repaired = json.loads((folder / "fleet.json").read_text())["arguments"], work / "repaired"
        command = [sys.executable, "-m", "pytest", "-q", *arguments, f"--accel-output={repaired}"]
        subprocess.run(command, env=_environment(slurm, "node4"), stdout=subprocess.DEVNULL, check=True)
        show.fleet("drain", repaired, "--resume", "--yes")
        show.states()
        show.fleet("run", "--output", folder, "--again", "node4", "--wait")


def dying(nodes: int, work: Path) -> None:
    """Run `nodes` nodes, one of which dies with its daemon while its job runs, and comes back."""
    suite, folder = work / "test_own.py", work / "dying"
    suite.write_text(SUITE)
    (work / "wait-node2").touch()
    with cluster(nodes, extra="SlurmdTimeout=5") as slurm:
        show = Show(slurm)
        show.fleet("run", "--sku", "cpu", "--level", "quick", "--output", folder, "--", suite)
        slurm.until((work / "begun-node2").exists, "node2 has not begun", 300)
        slurm.lose("node2")
        began = time.monotonic()
        slurm.until(lambda: slurm.states()["node2"] == "down", "Slurm has not noticed that node2 is lost", 300)
        seconds = time.monotonic() - began
        print(f"\n(node2 is lost with its slurmd and its job; Slurm has it as down {seconds:.0f} s later)")
        show.fleet("wait", folder)
        show.fleet("run", "--output", folder, "--wait")
        (work / "wait-node2").unlink()
        slurm.start_node("node2")
        slurm.until(lambda: slurm.states()["node2"] == "idle", "node2 is not idle", 300)
        print("\n(node2 is back)")
        show.fleet("run", "--output", folder, "--wait")


def simulated(nodes: int, at_once: int, work: Path) -> None:
    """Run simulated nodes of eight GPUs, `at_once` at a time, with a test of their inventory."""
    suite, folder = work / "test_inventory.py", work / "simulated"
    suite.write_text(INVENTORY)
    with cluster(nodes, gpus=8) as slurm:
        show = Show(slurm)
        show.fleet("run", "--sku", "h100-sxm", "--level", "quick", "--at-once", at_once, "--output", folder, "--wait",
                   "--", "--accel-simulate=h100-sxm", suite, seconds=7200)  # fmt: skip
        show.fleet("status", folder)
        show.fleet("drain", folder)
        found = [json.loads(path.read_text())["devices"] for path in folder.glob("node*/summary.json")]
        devices = [device for of_node in found for device in of_node]
        for what in ("uuid", "serial"):
            print(f"{len({device[what] for device in devices})} different of {len(devices)} values of {what}")


def main() -> None:
    """Run the show."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--dying", type=int, default=3)
    parser.add_argument("--simulated", type=int, default=64)
    parser.add_argument("--at-once", type=int, default=4)
    chosen = parser.parse_args()
    if why := missing():
        sys.exit(why)
    print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}")
    for part, amount in ((real, chosen.nodes), (dying, chosen.dying), (simulated, chosen.simulated)):
        if amount:
            with tempfile.TemporaryDirectory(prefix="fleet-") as work:
                more = (chosen.at_once,) if part is simulated else ()
                part(amount, *more, Path(work))


if __name__ == "__main__":
    main()
