"""The parts of a network run by themselves: where the agents meet, what they report, and what their transport is."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel.core.details import NetworkPart
from pytest_accel.core.measurement import NODE, Measurement, Trouble
from pytest_accel.core.messages import CallTrouble, Outcome
from pytest_accel.core.network_run import NetworkNode, Report
from pytest_accel.core.sku_types import Platform
from pytest_accel.judging.network.transport import wrong_transport
from pytest_accel.probes.device.collective_library import Account
from pytest_accel.run.launcher import launch_of
from pytest_accel.run.network.agent import report_of, verified
from pytest_accel.run.network.message_store import MessageStore, StoreLost
from pytest_accel.run.options import Refused
from pytest_accel.run.rendezvous import Rendezvous, first_of, leaf_of, rendezvous_of

TABLES = data_files.tables("run/network")


@pytest.fixture
def unused_tcp_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


SLURM = {"SLURM_JOB_ID": "4711", "SLURM_PROCID": "1", "SLURM_STEP_NUM_NODES": "4", "SLURM_STEP_NODELIST": "gpu[07-10]"}
TORCHRUN = {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "gpu07"}


def _there(environment: dict[str, str]) -> Rendezvous:
    return rendezvous_of(launch_of(environment), environment)


@each_row(("listed", "first"), TABLES["first_nodes"])
def test_the_first_node_of_a_list_runs_the_store(listed: str, first: str) -> None:
    assert first_of(listed) == first


def test_the_agents_meet_where_the_launcher_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")  # no scontrol
    there = _there(SLURM)
    assert (there.rank, there.nodes, there.host, there.port) == (1, 4, "gpu07", 24711)
    assert there.name_of(3) == "rank 3"
    assert _there(SLURM | {"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "1234"}).host == "10.0.0.7"
    there = _there(TORCHRUN | {"MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True"})
    assert (there.rank, there.nodes, there.host, there.port, there.hosted) == (2, 4, "gpu07", 29500, True)


@each_row(("environment", "job"), TABLES["jobs"])
def test_a_job_is_named_by_what_is_the_same_on_all_of_its_nodes(
    environment: dict[str, str], job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")  # no scontrol
    assert _there(environment).job == job


GOOD = NetworkPart("good", 23.0, nodes=4)
UNSUPPORTED = "rank 0 states good with 23 GB/s, and this node measured "


@each_row(
    ("part", "best", "found"),
    [
        (GOOD, 23.0, GOOD),
        (GOOD, 0.0, NetworkPart("unmeasured", text=UNSUPPORTED + "nothing")),
        (GOOD, 22.9, NetworkPart("unmeasured", text=UNSUPPORTED + "22.9 GB/s")),
        (
            NetworkPart("good"),
            0.0,
            NetworkPart("unmeasured", text=UNSUPPORTED.replace("23 GB/s", "nothing") + "nothing"),
        ),
        (NetworkPart("slow", 20.0), 23.0, NetworkPart("slow", 20.0)),
        (NetworkPart("left out", text="late"), 0.0, NetworkPart("left out", text="late")),
    ],
)
def test_a_node_is_good_only_by_what_it_measured_itself(part: NetworkPart, best: float, found: NetworkPart) -> None:
    assert verified(part, best) == found


@each_row(("environment", "told"), TABLES["no_meeting"])
def test_where_they_cannot_meet_is_an_error_that_says_what_to_do(environment: dict[str, str], told: str) -> None:
    with pytest.raises(Refused, match=told):
        _there(environment)


def test_a_leaf_switch_is_the_last_one_of_the_address_that_slurm_states() -> None:
    address = {"SLURM_TOPOLOGY_ADDR": "s0.s4.gpu07", "SLURM_TOPOLOGY_ADDR_PATTERN": "switch.switch.node"}
    assert leaf_of(address) == "s4"
    assert leaf_of(address | {"SLURM_TOPOLOGY_ADDR_PATTERN": "node"}) == ""
    assert leaf_of({}) == ""


def _found(kind: Any = None, reason: str = "", value: float | None = None, *, wrong: bool = False) -> Measurement:
    trouble = Trouble(kind, reason, wrong=wrong) if kind else None
    return Measurement("network.pairs", NODE, "GB/s", value, trouble=trouble, details={"ranks": [value, value]})


@each_row(("sent", "found", "reported"), TABLES["reports"])
def test_an_agent_reports_whether_its_own_ranks_reached_the_call(
    sent: dict[str, Any], found: dict[str, Any], reported: dict[str, Any]
) -> None:
    """A rank that waited, or whose library complains, may do so because of another node: it is not blamed."""
    trouble = CallTrouble(**{"kind": "need", "reason": "", **sent}) if sent else None
    outcomes = [Outcome((), trouble=trouble), Outcome((), trouble=CallTrouble("need", "", secondary=True))]
    assert report_of(outcomes, _found(**found)) == Report(**reported)


SENT = "gpu07:311:345 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via "
RECEIVED = "gpu07:311:345 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via "


@each_row(("first", "second", "network", "host_link", "wrong"), TABLES["transports"])
def test_a_transport_that_the_platform_does_not_have_is_named(
    first: str, second: str, network: dict[str, Any], host_link: dict[str, Any], wrong: str
) -> None:
    """The lines have the form of NCCL 2.30 (src/transport/net.cc and p2p.cc)."""
    account = Account()
    account.read([SENT + first, RECEIVED + first, SENT + second, RECEIVED + second] * 2)
    assert account.connections.total() == 8
    platform = Platform("x", 2, network=network, host_link=host_link)
    assert wrong_transport(account.connections, platform, devices=2) == wrong


def test_a_name_of_rank_0_that_does_not_resolve_is_an_error_at_once(tmp_path: Path) -> None:
    """torch would try for five minutes."""
    with pytest.raises(Refused, match=r"the name of rank 0, no-such-node\.invalid, does not resolve on this node"):
        MessageStore(Rendezvous(1, 2, "no-such-node.invalid", 20_000), tmp_path, 300.0)


@pytest.mark.nightly
def test_a_rank_0_that_is_not_there_is_told_with_its_address(unused_tcp_port: int, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=f"rank 0 was not reached within 1 s at 127.0.0.1:{unused_tcp_port}"):
        MessageStore(Rendezvous(1, 2, "127.0.0.1", unused_tcp_port), tmp_path, 1.0)


STORE = """
import sys
import time
from pathlib import Path

from pytest_accel.run.network.message_store import MessageStore
from pytest_accel.run.rendezvous import Rendezvous

store = MessageStore(Rendezvous(0, 2, "127.0.0.1", int(sys.argv[1])), Path(sys.argv[2]), 30.0)
print("there", flush=True)
time.sleep(100)
"""


@pytest.mark.nightly
def test_a_store_that_answers_no_more_is_lost_and_the_run_goes_on(
    unused_tcp_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_accel.run.network.message_store.ANSWER_SECONDS", 1.0)
    command = [sys.executable, "-c", STORE, str(unused_tcp_port), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as rank_0:
        try:
            assert rank_0.stdout
            rank_0.stdout.readline()
            own = MessageStore(Rendezvous(1, 2, "127.0.0.1", unused_tcp_port), tmp_path, 30.0)
            own.put("node/1/0", NetworkNode("gpu07"))
            rank_0.send_signal(signal.SIGSTOP)
            with pytest.raises(StoreLost, match="it did not answer for 1 s"):
                own.take(NetworkNode, "node/2/0", 300.0)
        finally:
            rank_0.kill()
