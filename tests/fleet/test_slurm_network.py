"""Network runs as one job of a real Slurm cluster of pretend nodes, whose workers meet by gloo.

Below our code every all-reduce takes a stated time, so that other work on this machine makes no node slow.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slurm_cluster import SlurmCluster, cluster, missing
from support.data_files import content
from support.network_nodes import PATCH

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.devices,
    pytest.mark.skipif(bool(missing()), reason=missing()),
]

COMMAND = "import sys; from pytest_accel.cli.main import main; sys.exit(main())"
BODY = """
        import os
        node = os.environ.get("SLURMD_NODENAME", "")
        open(f"FOLDER/measures-{node}", "a").close()
        time.sleep((0.1 + 0.05 * os.path.exists(f"FOLDER/slow-{node}")) * (tensor.numel() > 1000))
"""
"""The lines that a worker runs after each all-reduce: it makes a file, and rests, longer if there is `slow-NODE`."""
SKU = """
sku: small
extends: cpu
probes: {network_pairs: {size: 1MiB}, collective: {size: 1MiB}}
"""


@pytest.fixture(scope="module")
def slurm() -> Iterator[SlurmCluster]:
    with cluster(4, name="tray") as started:  # whose devices no other pretend node of this machine has
        yield started


class NetworkJob:
    """A job of `fleet network`, with the nodes as `pytest-accel` and the queue show them."""

    def __init__(self, slurm: SlurmCluster, folder: Path) -> None:
        self.slurm, self.place, self.folder = slurm, folder, folder / "run"
        self.more: dict[str, str] = {}
        """Variables of the job."""
        (folder / "patch").mkdir()
        (folder / "patch/sitecustomize.py").write_text(
            PATCH.replace("{body}", BODY.strip().replace("FOLDER", str(folder)))
        )
        (folder / "small.yaml").write_text(SKU)

    def fleet(self, *words: str | Path) -> tuple[int, str]:
        """Run `pytest-accel fleet`; return its exit status and what it prints."""
        path = os.pathsep.join(filter(None, [str(self.place / "patch"), os.environ.get("PYTHONPATH", "")]))
        more = {"MASTER_ADDR": "127.0.0.1", "PYTHONPATH": path, **self.more}  # the names of pretend nodes lead nowhere
        command = (sys.executable, "-c", COMMAND, "fleet", *map(str, words))
        done = self.slurm.run(*command, check=False, more=more, seconds=400)
        return done.returncode, done.stderr + done.stdout

    def run(self, *words: str) -> tuple[int, str]:
        """Run the job on all nodes that can start one, and wait for it."""
        own = ("--sku", self.place / "small.yaml", "--level", "quick", "--output", self.folder)
        return self.fleet("network", *own, "--", "--accel-patience=10", *words)

    def records(self) -> list[dict[str, Any]]:
        """Return the record of each node."""
        return [json.loads((self.folder / name / "record.json").read_text()) for name in self.slurm.names]

    def found(self) -> dict[str, str]:
        """Return what was found of each node that is not good."""
        network: dict[str, Any] = json.loads((self.folder / "network.json").read_text())
        pairs = zip(network["nodes"], network["conclusion"]["nodes"], strict=True)
        return {node["name"]: each["found"] for node, each in pairs if each["found"] != "good"}


@pytest.mark.nightly
def test_a_slow_node_is_named_and_drained_by_its_own_record(slurm: SlurmCluster, tmp_path: Path) -> None:
    job = NetworkJob(slurm, tmp_path)
    (tmp_path / "slow-tray3").touch()
    status, said = job.run()
    assert status == 1, said
    assert "job " in said.splitlines()[0] + said
    assert job.found() == {"tray3": "slow"}
    assert said.splitlines()[-1].startswith("REJECTED network: tray3 "), said
    status, said = job.fleet("report", job.folder)
    assert status == 1, said
    assert "rejected    tray3  REJECTED node: network.pairs " in said
    assert "network: REJECTED network: tray3 " in said
    status, said = job.fleet("drain", job.folder)
    assert "nodename=tray3 state=drain" in said, said
    assert said.count("state=drain") == 1


@pytest.mark.nightly
def test_a_peer_without_the_secret_changes_nothing(slurm: SlurmCluster, tmp_path: Path) -> None:
    """It forges, overwrites and deletes every message once or twice, as in tests/run/test_network_peers.py."""
    job = NetworkJob(slurm, tmp_path)
    (tmp_path / "slow-tray3").touch()
    (tmp_path / "earlier").write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    job.more = {"MASTER_PORT": port}
    words = ("-c", content("network/peer.py.in"), "127.0.0.1", port, tmp_path / "kept", tmp_path / "earlier")
    with subprocess.Popen([sys.executable, *map(str, words)], stdout=subprocess.PIPE, text=True) as peer:
        try:
            status, said = job.run()
            told, _ = peer.communicate(timeout=60)
        finally:
            peer.kill()
    assert (status, job.found()) == (1, {"tray3": "slow"}), said
    assert said.splitlines()[-1].startswith("REJECTED network: tray3 "), said
    assert int(told.split(", ")[1].split()[0]) > 40, told
    assert [record["closing"]["result"] for record in job.records()] == ["HELD", "HELD", "REJECTED", "HELD"]
    assert not (job.folder / "network.secret").exists(), "rank 0 has removed it"


@pytest.mark.nightly
@pytest.mark.parametrize("when", ["before it arrives", "in the middle"])
def test_a_node_that_goes_down_does_not_end_the_others(slurm: SlurmCluster, tmp_path: Path, when: str) -> None:
    job = NetworkJob(slurm, tmp_path)

    def begun() -> bool:
        logs = (job.folder / "jobs").glob("network-*.out")
        return any("collected" in each.read_text() for each in logs)

    def kill() -> None:
        ready = (tmp_path / "measures-tray4").exists if when == "in the middle" else begun
        slurm.until(ready, f"it is not {when}", 300)
        slurm.until(lambda: slurm.kill_jobs("tray4"), "tray4 has no processes")

    killer = threading.Thread(target=kill)
    killer.start()
    status, said = job.run()
    killer.join()
    assert (status, job.found()) == (6, {"tray4": "left out"}), said
    status, said = job.fleet("report", job.folder)
    assert "no result   tray4" in said, said
