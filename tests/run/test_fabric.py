"""The parts of a fabric run by themselves: where the agents meet, what they report, and what their transport is."""

from __future__ import annotations

import importlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import tabled

from pytest_accel.core.details import FabricPart
from pytest_accel.core.fabric import FabricNode, Report, Task
from pytest_accel.core.measurement import NODE, Measurement, Trouble
from pytest_accel.core.messages import Outcome
from pytest_accel.core.sku import Platform
from pytest_accel.judging.fabric.transport import wrong_transport
from pytest_accel.probes.device.collectives import Account
from pytest_accel.run.fabric.agent import measured_here, report_of
from pytest_accel.run.fabric.secret import FILE, VARIABLE, Secret
from pytest_accel.run.fabric.store import FabricStore, StoreLost
from pytest_accel.run.launcher import launch_of
from pytest_accel.run.options import Refused
from pytest_accel.run.rendezvous import Rendezvous, first_of, leaf_of, rendezvous_of

TABLES = tabled.tables("run/fabric")
TCPStore: Any = importlib.import_module("torch.distributed").TCPStore


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


@pytest.mark.parametrize(("listed", "first"), TABLES["first_nodes"])
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


@pytest.mark.parametrize(("environment", "told"), TABLES["no_meeting"])
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
    return Measurement("fabric.pairs", NODE, "GB/s", value, trouble=trouble, details={"ranks": [value, value]})


@pytest.mark.parametrize(("sent", "found", "reported"), TABLES["reports"])
def test_an_agent_reports_whether_its_own_ranks_reached_the_call(
    sent: dict[str, Any], found: dict[str, Any], reported: dict[str, Any]
) -> None:
    """A rank that waited, or whose library complains, may do so because of another node: it is not blamed."""
    outcomes = [Outcome((), trouble=sent or None), Outcome((), trouble={"kind": "stopped"})]
    assert report_of(outcomes, _found(**found)) == Report(**reported)


SENT = "gpu07:311:345 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via "
RECEIVED = "gpu07:311:345 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via "


@pytest.mark.parametrize(("first", "second", "fabric", "host_link", "wrong"), TABLES["transports"])
def test_a_transport_that_the_platform_does_not_have_is_named(
    first: str, second: str, fabric: dict[str, Any], host_link: dict[str, Any], wrong: str
) -> None:
    """The lines have the form of NCCL 2.30 (src/transport/net.cc and p2p.cc)."""
    account = Account()
    account.read([SENT + first, RECEIVED + first, SENT + second, RECEIVED + second] * 2)
    assert account.connections.total() == 8
    platform = Platform("x", 2, fabric=fabric, host_link=host_link)
    assert wrong_transport(account.connections, platform, devices=2) == wrong


SECRET = "0123456789abcdef" * 4


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Secret]:
    """What makes the secret of a node, which is in its environment."""

    def made(text: str = SECRET) -> Secret:
        monkeypatch.setenv(VARIABLE, text)
        return Secret(None)

    return made


def test_messages_of_other_nodes_are_read_as_what_they_should_be(
    unused_tcp_port: int, secret: Callable[..., Secret]
) -> None:
    there = Rendezvous(0, 2, "127.0.0.1", unused_tcp_port)
    store = FabricStore(there, 5.0, secret())
    other = FabricStore(replace(there, rank=1), 5.0, secret())
    other.put("node/1", FabricNode("gpu08", 8))
    assert store.take(FabricNode, "node/1", 5.0) == FabricNode("gpu08", 8)
    unfit = [{"name": "gpu09", "devices": "many"}, FabricNode("gpu09", 10**30), FabricNode("gpu09", 0)]
    for number, message in enumerate(unfit, 2):
        other.put(f"node/{number}", message)
        assert store.take(FabricNode, f"node/{number}", 0.3) is None
    other.put("report/1/1", Report("measured", -1.0))
    assert store.take(Report, "report/1/1", 0.3) is None
    asked: list[float] = []
    assert store.take(FabricNode, "node/9", 0.3, asked.append) is None
    assert asked


def _keys(store: Any) -> list[str]:
    if not hasattr(store, "list_keys"):
        pytest.skip("this torch does not list the keys of a store")
    return [key for key in store.list_keys() if "init" not in key]


def test_what_is_under_no_seal_of_the_run_is_ignored_and_what_is_removed_comes_again(
    unused_tcp_port: int, secret: Callable[..., Secret], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer without the secret that reads, sets and deletes every key of the store."""
    monkeypatch.setattr("pytest_accel.run.fabric.store.AGAIN_SECONDS", 0.2)
    there = Rendezvous(0, 2, "127.0.0.1", unused_tcp_port)
    store = FabricStore(there, 5.0, secret())
    other = FabricStore(replace(there, rank=1), 5.0, secret())
    peer = TCPStore("127.0.0.1", unused_tcp_port, is_master=False, timeout=timedelta(seconds=5))
    assert len(_keys(peer)) == 2
    assert not any(word in key for key in _keys(peer) for word in ("hello", "agent", SECRET))
    store.put("task/1/0", Task("pairs"))
    other.put("report/0/1", Report("measured", 1.0))
    (key,) = [key for key in _keys(peer) if b"measured" in peer.get(key)]
    sent = peer.get(key)
    other.close()
    time.sleep(0.5)
    for forged in (b"[" * 100, sent.replace(b"1.0", b"9.0"), sent[:64] + b"x" * (2 << 20)):
        peer.set(key, forged)
        assert store.take(Report, "report/0/1", 0.3) is None
    peer.set(store._seal.key("report/1/1"), sent)
    assert store.take(Report, "report/1/1", 0.3) is None
    peer.delete_key(store._seal.key("task/1/0"))
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(other.take, Task, "task/1/0", 5.0)
        assert waiting.result() == Task("pairs")


def test_messages_of_an_earlier_run_are_none_of_this_one(unused_tcp_port: int, secret: Callable[..., Secret]) -> None:
    """The launcher has the store, as torchrun does, and the secret is the same."""
    hosted = TCPStore("127.0.0.1", unused_tcp_port, is_master=True, wait_for_workers=False)
    there = Rendezvous(0, 2, "127.0.0.1", unused_tcp_port, hosted=True, job="7/0")
    first = FabricStore(there, 5.0, secret())
    FabricStore(replace(there, rank=1), 5.0, secret())
    first.put("task/1/0", Task("end"))
    with pytest.raises(Refused, match="holds an earlier run of this job: start the launcher anew"):
        FabricStore(there, 5.0, secret())
    with pytest.raises(Refused, match="has another agent of rank 1: start one a node"):
        FabricStore(replace(there, rank=1), 5.0, secret())
    later = replace(there, job="7/1")
    FabricStore(later, 5.0, secret())
    assert FabricStore(replace(later, rank=1), 5.0, secret()).take(Task, "task/1/0", 0.3) is None
    del hosted


@pytest.mark.parametrize(("job", "text"), [("8/0", SECRET), ("7/0", SECRET[::-1])])
def test_a_node_of_another_job_is_no_member(
    unused_tcp_port: int, secret: Callable[..., Secret], job: str, text: str
) -> None:
    there = Rendezvous(0, 2, "127.0.0.1", unused_tcp_port, job="7/0")
    store = FabricStore(there, 5.0, secret())
    with pytest.raises(Refused, match=r"no rank 0 of this run answers at 127\.0\.0\.1:.*: another job uses"):
        FabricStore(replace(there, rank=1, job=job), 1.0, secret(text))
    assert store.take(dict, "agent/1", 0.2) is None


def test_the_store_listens_at_the_address_of_rank_0_alone(unused_tcp_port: int, secret: Callable[..., Secret]) -> None:
    store = FabricStore(Rendezvous(0, 2, "127.0.0.1", unused_tcp_port), 5.0, secret())
    sockets = [each.laddr for each in psutil.Process().net_connections() if each.status == psutil.CONN_LISTEN]
    assert {each.ip for each in sockets if each.port == unused_tcp_port} == {"127.0.0.1"}
    assert store.note == ""
    with pytest.raises(Refused, match=r"rank 0 cannot listen at 127\.0\.0\.1:.*in use.*see MASTER_PORT"):
        FabricStore(Rendezvous(0, 2, "127.0.0.1", unused_tcp_port), 5.0, secret())


def test_the_secret_of_a_run_is_a_new_file_for_this_user_alone(tmp_path: Path) -> None:
    """A file of another run that lies there is replaced; one that others can read is refused."""
    folder = tmp_path / "shared"
    folder.mkdir()
    ours, other = Secret(folder), Secret(folder)
    assert other.read() == ""
    (folder / FILE).symlink_to(tmp_path / "elsewhere")
    first, second = ours.create(), ours.create()
    assert first != second
    assert other.read() == second
    assert not (tmp_path / "elsewhere").exists()
    assert stat.S_IMODE((folder / FILE).stat().st_mode) == 0o600
    (folder / FILE).chmod(0o644)
    with pytest.raises(Refused, match="readable for others"):
        other.read()
    ours.forget()
    assert [*folder.iterdir()] == []


def test_a_run_without_a_secret_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match=r"name a folder that all nodes share \(--accel-output\), or set PYTEST"):
        Secret(None)
    monkeypatch.setenv(VARIABLE, "short")
    with pytest.raises(Refused, match="to the same 32 or more characters on every node"):
        Secret(None)
    assert VARIABLE not in os.environ, "no worker needs it"


@pytest.mark.parametrize(
    ("score", "best", "found"), [(1.0, 1.0, "good"), (9.0, 1.0, "unmeasured"), (1.0, 0.0, "unmeasured")]
)
def test_a_node_is_good_only_by_what_it_measured_itself(score: float, best: float, found: str) -> None:
    part = measured_here(FabricPart("good", score=score), best)
    assert part
    assert part.found == found


def test_a_name_of_rank_0_that_does_not_resolve_is_an_error_at_once(secret: Callable[..., Secret]) -> None:
    """torch would try for five minutes."""
    with pytest.raises(Refused, match=r"the name of rank 0, no-such-node\.invalid, does not resolve on this node"):
        FabricStore(Rendezvous(1, 2, "no-such-node.invalid", 20_000), 300.0, secret())


def test_a_rank_0_that_is_not_there_is_told_with_its_address(
    unused_tcp_port: int, secret: Callable[..., Secret]
) -> None:
    with pytest.raises(Refused, match=f"rank 0 was not reached within 1 s at 127.0.0.1:{unused_tcp_port}"):
        FabricStore(Rendezvous(1, 2, "127.0.0.1", unused_tcp_port), 1.0, secret())


STORE = """
import sys
import time

from pytest_accel.run.fabric.secret import Secret
from pytest_accel.run.fabric.store import FabricStore
from pytest_accel.run.rendezvous import Rendezvous

store = FabricStore(Rendezvous(0, 2, "127.0.0.1", int(sys.argv[1])), 30.0, Secret(None))
print("there", flush=True)
time.sleep(100)
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_a_store_that_answers_no_more_is_lost_and_the_run_goes_on(
    unused_tcp_port: int, secret: Callable[..., Secret], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_accel.run.fabric.store.ANSWER_SECONDS", 1.0)
    monkeypatch.setenv(VARIABLE, SECRET)
    command = [sys.executable, "-c", STORE, str(unused_tcp_port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as rank_0:
        try:
            assert rank_0.stdout
            rank_0.stdout.readline()
            own = FabricStore(Rendezvous(1, 2, "127.0.0.1", unused_tcp_port), 30.0, secret())
            own.put("node/1", FabricNode("gpu07"))
            rank_0.send_signal(signal.SIGSTOP)
            with pytest.raises(StoreLost, match="it did not answer for 1 s"):
                own.take(FabricNode, "node/2", 300.0)
        finally:
            rank_0.kill()
