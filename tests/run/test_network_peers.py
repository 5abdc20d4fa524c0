"""Network runs on namespaces beside who is no member: a peer without the secret, another job, a second agent."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.data_files import content
from support.network_nodes import ADDRESS, PORT, Nodes, nodes, refused

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.devices,
    pytest.mark.xdist_group("network"),
]
QUICKLY = "--accel-patience=10"
SECRET = {"PYTEST_ACCEL_NETWORK_SECRET": "of several runs " * 4, "SLURM_JOB_ID": "4711"}


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    if why := refused():
        pytest.skip(why)


def _peer(made: Nodes, node: int, kept: Path, earlier: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a peer without the secret. It keeps all messages, and destroys them if it has those of an earlier run."""
    code = content("network/peer.py.in")
    return made.program(node, [sys.executable, "-c", code, ADDRESS, str(PORT), str(kept), str(earlier or "")])


def _result(made: Nodes, exits: dict[int, int]) -> Sequence[Any]:
    """Return what does not vary from run to run: what was found of each node, how the runs ended, who was met."""
    network = made.network()
    parts = [
        next(each for each in made.record(node)["measurements"] if each["metric"] == "network.pairs")["details"][
            "network"
        ]
        for node in range(made.count)
    ]
    return (
        exits,
        [(node.name, node.devices, node.left_out) for node in network.nodes],
        [(each.found, each.partners) for each in network.conclusion.nodes],
        [(each["found"], each["partners"], each["nodes"]) for each in parts],
        [made.record(node)["closing"]["result"] for node in range(made.count)],
        (network.conclusion.closing.result, [path.nodes for path in network.conclusion.paths]),
    )


def test_a_peer_without_the_secret_changes_nothing(tmp_path: Path) -> None:
    """It knows all messages of an earlier run of the same job with the same secret, in which nothing was slow."""
    slow, peer, results, said = 2, 4, list[Sequence[Any]](), ""
    for name, rates, attacks in (("before", {}, False), ("calm", {slow: 80}, False), ("attacked", {slow: 80}, True)):
        folder = tmp_path / name
        folder.mkdir()
        with nodes(4, folder, rates, spare=1) as made:
            made.start(QUICKLY, extra=dict.fromkeys(range(4), SECRET))
            alone = _peer(made, peer, folder / "kept", tmp_path / "before/kept" if attacks else None)
            results.append(_result(made, made.wait()))
            alone.wait(60)
            said = made.log(peer).read_text()
        assert "messages read" in said, said
    before, calm, attacked = results
    assert [found for found, _ in before[2]] == ["good"] * 4
    assert [found for found, _ in calm[2]] == ["good", "good", "slow", "good"]
    assert attacked == calm
    assert len(json.loads((tmp_path / "before/kept").read_text())) > 20
    assert int(said.split(", ")[-1].split()[0]) > 40, said
    everything = [path for path in tmp_path.glob("*/*") if path.is_file()] + [*tmp_path.glob("*/out/**/*.*")]
    assert not [path for path in everything if path.is_file() and "of several runs" in path.read_text(errors="replace")]


def test_a_node_of_another_job_and_a_second_agent_are_refused(tmp_path: Path) -> None:
    with nodes(3, tmp_path, spare=2) as made:
        made.start(QUICKLY, extra=dict.fromkeys(range(3), SECRET))
        made.start_one(3, QUICKLY, extra=SECRET | {"SLURM_JOB_ID": "4712", "RANK": "1", "WORLD_SIZE": "2"})
        while "collected" not in made.log(1).read_text():  # the first agent of rank 1 has met rank 0
            assert made.running(1)
        made.start_one(4, QUICKLY, extra=SECRET | {"RANK": "1"})
        exits = made.wait()
        found = [each.found for each in made.network().conclusion.nodes]
    assert exits == {0: 6, 1: 0, 2: 0, 3: 4, 4: 4}
    assert found == ["good"] * 3
    other, second = (" ".join(made.log(node).read_text().split()) for node in (3, 4))
    assert "rank 0 of this job (SLURM_JOB_ID=4712 of 2 nodes) was not met" in other
    assert "another job uses this address and port (see MASTER_PORT)" in other
    assert "another agent has rank 1" in second


HOST = """
import time
from torch.distributed import TCPStore
store = TCPStore("{host}", {port}, is_master=True, wait_for_workers=False)
time.sleep(1000)
"""


def test_a_second_attempt_in_the_store_of_the_launcher_is_refused(tmp_path: Path) -> None:
    with nodes(2, tmp_path, spare=0) as made:
        host = made.program(0, [sys.executable, "-c", HOST.format(host=ADDRESS, port=PORT)])
        try:
            hosted = SECRET | {"TORCHELASTIC_USE_AGENT_STORE": "True"}
            made.start(QUICKLY, extra=dict.fromkeys(range(2), hosted))
            assert made.wait() == {0: 6, 1: 0}
            made.start(QUICKLY, extra=dict.fromkeys(range(2), hosted))
            assert made.wait() == {0: 4, 1: 4}
            told = [" ".join(made.log(node).read_text().split()) for node in range(2)]
            assert "holds an earlier attempt of this job (SLURM_JOB_ID=4711 of 2 nodes)" in told[0]
            assert "another agent has rank 1, here or in an earlier attempt" in told[1]
            made.start(QUICKLY, extra=dict.fromkeys(range(2), hosted | {"TORCHELASTIC_RESTART_COUNT": "1"}))
            assert made.wait() == {0: 6, 1: 0}
        finally:
            host.kill()
            host.wait()
