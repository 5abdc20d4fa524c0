"""The secret of a network run and its messages: who does not have the secret is not heard, whatever it does once."""

from __future__ import annotations

import importlib
import json
import os
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support.rows import each_row

from pytest_accel.core.network_run import NetworkNode, Report, Task
from pytest_accel.run.network import message_store
from pytest_accel.run.network.message_store import MessageStore, listening
from pytest_accel.run.network.secret import FILE, LONGEST, VARIABLE, Seal, secret_of
from pytest_accel.run.options import Refused
from pytest_accel.run.processes import environment
from pytest_accel.run.rendezvous import Rendezvous

SECRET = "s" * 64
SEAL = Seal(SECRET.encode(), "a1")
NAME = "report/1/0"
MEASURED = Report("measured", 23.0, [23.0])


# -- a message


def test_a_message_is_opened_by_its_own_run_under_its_own_name() -> None:
    raw = SEAL.seal(NAME, MEASURED).encode()
    assert SEAL.unseal(Report, NAME, raw) == MEASURED
    assert SEAL.unseal(Report, "report/1/1", raw) is None
    assert SEAL.unseal(Report, "report/2/0", raw) is None
    assert Seal(SEAL.secret, "a2").unseal(Report, NAME, raw) is None, "an earlier run with the same secret"
    assert Seal(b"t" * 64, "a1").unseal(Report, NAME, raw) is None


@each_row(
    "forge",
    [
        lambda raw: raw.replace(b"23.0", b"99.0"),
        lambda raw: raw[64:],
        lambda raw: b"0" * 64 + raw[64:],
        lambda raw: raw[:64],
        lambda raw: raw[:63],
        lambda raw: raw + b" ",
        lambda raw: b"",
        lambda raw: b"-",
        lambda raw: b"\xff" * 100,
        lambda raw: b"[" * 10_000,
    ],
)
def test_what_was_changed_is_no_message(forge: Callable[[bytes], bytes]) -> None:
    assert SEAL.unseal(Report, NAME, forge(SEAL.seal(NAME, MEASURED).encode())) is None


def test_a_key_is_another_one_in_each_run_and_for_each_name() -> None:
    others = [Seal(SEAL.secret, "a2").key(NAME), Seal(b"t" * 64, "a1").key(NAME), SEAL.key("report/1/1")]
    assert len({SEAL.key(NAME), *others}) == 4
    assert not any(part in SEAL.key(NAME) for part in ("report", SECRET[:8]))


@each_row(
    ("message", "fits"),
    [
        (NetworkNode("gpu07", 8, "s1", "a.b"), True),
        (NetworkNode("gpu07", 1024, left_out="x" * 1000), True),
        (NetworkNode("gpu07", 1025), False),
        (NetworkNode("gpu07", 10**30), False),
        (NetworkNode("gpu07", 0), False),
        (NetworkNode("g" * 1001), False),
        (NetworkNode("gpu07", leaf="g" * 1001), False),
        (NetworkNode("gpu07", domain="g" * 1001), False),
        (NetworkNode("gpu07", left_out="g" * 1001), False),
        (Report("measured", 0.0, [1.0] * 1024), True),
        (Report("measured", 1.0, [1.0] * 1025), False),
        (Report("measured", float("inf")), False),
        (Report("measured", float("nan")), False),
        (Report("measured", -1.0), False),
        (Report("measured", 1.0, [float("nan")]), False),
        (Report("wrong", text="x" * LONGEST), False),
        (Report("wrong", rails=[], text="x" * (LONGEST - 1000)), True),
        (Report("praised"), False),  # type: ignore[arg-type]
    ],
)
def test_what_no_node_can_have_is_not_believed_of_an_agent_with_the_secret(message: Any, fits: bool) -> None:
    found = SEAL.unseal(type(message), NAME, SEAL.seal(NAME, message).encode())
    assert found == (message if fits else None)


# -- the secret


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_the_secret_is_that_of_the_variable_or_of_the_shared_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert secret_of(tmp_path) != secret_of(tmp_path), "not there yet: one that nobody has"
    assert not (tmp_path / FILE).exists()
    made = secret_of(tmp_path, make=True)
    assert (len(made), secret_of(tmp_path), secret_of(tmp_path, make=True)) == (64, made, made)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    monkeypatch.setenv(VARIABLE, SECRET)
    assert secret_of(tmp_path) == secret_of(None) == SECRET.encode()


def test_a_new_secret_is_another_one(tmp_path: Path) -> None:
    first = secret_of(tmp_path, make=True)
    (tmp_path / FILE).unlink()
    assert secret_of(tmp_path, make=True) != first


def test_without_a_shared_folder_and_a_variable_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match=f"share the folder of --accel-output, or set {VARIABLE}"):
        secret_of(None)
    monkeypatch.setenv(VARIABLE, "short")
    with pytest.raises(Refused, match="32 or more characters"):
        secret_of(None)


def _readable(path: Path) -> None:
    path.write_text(SECRET)
    path.chmod(0o640)


def _empty(path: Path) -> None:
    path.touch(0o600)


def _link(path: Path) -> None:
    path.with_name("other").write_text(SECRET)
    path.with_name("other").chmod(0o600)
    path.symlink_to(path.with_name("other"))


def _of_another_user(path: Path) -> None:
    path.write_text(SECRET)
    path.chmod(0o600)
    os.chown(path, 4711, 4711)


@pytest.mark.parametrize("make", [False, True])
@pytest.mark.parametrize("put", [_readable, _empty, _link, _of_another_user, Path.mkdir])
def test_a_file_that_others_may_know_is_refused(tmp_path: Path, put: Callable[[Path], None], make: bool) -> None:
    if put is _of_another_user and os.geteuid():
        pytest.skip("a file can be given to another user by root alone")
    put(tmp_path / FILE)
    with pytest.raises(Refused, match=f"{FILE}: .*; remove it, or set {VARIABLE}"):
        secret_of(tmp_path, make=make)


def test_workers_do_not_inherit_the_secret_and_the_record_does_not_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    assert SECRET not in environment.of_child({}).values()
    assert SECRET not in json.dumps([*environment.user_settings(os.environ), *environment.notes(os.environ)])


# -- how the agents meet, in a store that anybody may write into


class Meeting:
    """A store of two or more ranks; `peer` is a client of it that has no secret."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.folder, self._made = folder, list[MessageStore]()

    def join(self, rank: int, nodes: int = 2, *, seconds: float = 5.0, **more: Any) -> MessageStore:
        """Return the store of an agent, which has met rank 0."""
        made = MessageStore(Rendezvous(rank, nodes, "127.0.0.1", self.port, **more), self.folder, seconds)
        self._made.append(made)
        return made

    def peer(self, *, is_master: bool = False) -> Any:
        """Return a client of torch, or a store that a launcher runs."""
        torch: Any = importlib.import_module("torch.distributed")
        return torch.TCPStore("127.0.0.1", self.port, is_master=is_master, wait_for_workers=False)

    def end(self) -> None:
        """Stop what the agents do."""
        for made in self._made:
            made.stop()


@pytest.fixture
def meeting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Meeting]:
    monkeypatch.setattr(message_store, "REPEAT", 0.2)
    made = Meeting(tmp_path)
    yield made
    made.end()


def test_agents_find_each_other_by_the_file_of_the_shared_folder(meeting: Meeting) -> None:
    lead, agent = meeting.join(0), meeting.join(1)
    agent.put("node/1/0", NetworkNode("gpu08", 8))
    assert lead.take(NetworkNode, "node/1/0", 5.0) == NetworkNode("gpu08", 8)
    lead.put("task/1/0", Task("pairs"))
    assert agent.take(Task, "task/1/0", 5.0) == Task("pairs")
    asked: list[float] = []
    assert lead.take(NetworkNode, "node/2/0", 0.3, asked.append) is None
    assert asked
    assert lead.seal == agent.seal
    lead.stop()
    assert not (meeting.folder / FILE).exists(), "a secret is that of one run"


def test_a_secret_of_an_earlier_run_that_lies_there_does_not_hinder(meeting: Meeting) -> None:
    earlier = secret_of(meeting.folder, make=True)
    lead, agent = meeting.join(0), meeting.join(1)
    assert agent.seal == lead.seal
    assert agent.seal.secret == earlier


def _forge(peer: Any, key: str) -> None:
    peer.set(key, "0" * 64 + json.dumps({"kind": "end", "part": {"found": "good", "score": 99.0}}))


ATTACKS: dict[str, Callable[[Any, str], object]] = {
    "garbage": lambda peer, key: peer.set(key, "[" * 100_000),
    "empty": lambda peer, key: peer.set(key, ""),
    "absent": lambda peer, key: peer.set(key, "-"),
    "long": lambda peer, key: peer.set(key, "x" * (7 << 20)),
    "forged": _forge,
    "deleted": lambda peer, key: peer.delete_key(key),
}


@pytest.mark.parametrize(
    "attack",
    [pytest.param(attack, marks=[pytest.mark.nightly] * (attack not in ("forged", "deleted"))) for attack in ATTACKS],
)
def test_a_message_that_a_peer_overwrites_or_deletes_once_arrives(meeting: Meeting, attack: str) -> None:
    lead, peer = meeting.join(0), meeting.peer()
    for key in peer.list_keys():  # the hello
        ATTACKS[attack](peer, key)
    agent = meeting.join(1)
    for sender, reader, name in ((agent, lead, "report/1/0"), (lead, agent, "task/1/0")):
        sender.put(name, MEASURED)
        for key in peer.list_keys():
            ATTACKS[attack](peer, key)
        assert reader.take(Report, name, 5.0) == MEASURED


@pytest.mark.nightly
def test_messages_of_an_earlier_run_of_the_same_job_and_secret_are_not_taken(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, SECRET)
    lead, agent, peer = meeting.join(0), meeting.join(1), meeting.peer()
    lead.put("task/1/0", Task("end"))
    agent.put("report/1/0", Report("measured", 99.0))
    assert agent.take(Task, "task/1/0", 5.0)
    kept = {key: peer.get(key) for key in peer.list_keys()}
    assert len(kept) == 5, "hello, here, known, task and report"
    meeting.end()
    del peer, lead, agent
    meeting._made.clear()
    with socket.socket() as free:  # the earlier store may stay until its threads have ended
        free.bind(("127.0.0.1", 0))
        meeting.port = int(free.getsockname()[1])
    lead, peer = meeting.join(0), meeting.peer()
    for key, text in kept.items():  # also its hello, in place of the new one
        peer.set(key, text)
    agent = meeting.join(1)
    assert agent.seal == lead.seal
    assert agent.take(Task, "task/1/0", 0.5) is None
    assert lead.take(Report, "report/1/0", 0.5) is None


def test_a_second_agent_of_a_rank_is_refused_and_the_first_one_stays(meeting: Meeting) -> None:
    lead, first = meeting.join(0), meeting.join(1)
    with pytest.raises(Refused, match="another agent has rank 1"):
        meeting.join(1, seconds=30.0)
    first.put("node/1/0", NetworkNode("gpu08"))
    assert lead.take(NetworkNode, "node/1/0", 5.0) == NetworkNode("gpu08")


@pytest.mark.nightly
@pytest.mark.parametrize("fault", ["another job", "another secret"])
def test_a_node_of_another_job_is_told_the_likely_cause(
    meeting: Meeting, tmp_path_factory: pytest.TempPathFactory, fault: str
) -> None:
    meeting.join(0, job="4711 of 2 nodes")
    job = "4711 of 2 nodes" if fault == "another secret" else "4712 of 2 nodes"
    if fault == "another secret":
        meeting.folder = tmp_path_factory.mktemp("other")
        secret_of(meeting.folder, make=True)
    with pytest.raises(Refused, match=rf"this job \({job}\) was not met at .*another job uses .* \(see MASTER_PORT\)"):
        meeting.join(1, seconds=1.0, job=job)


@pytest.mark.nightly
def test_a_store_of_the_launcher_serves_one_attempt(meeting: Meeting) -> None:
    host = meeting.peer(is_master=True)
    lead, agent = (meeting.join(rank, hosted=True, job="4711 of 2 nodes") for rank in range(2))
    assert agent.seal == lead.seal
    secret_of(meeting.folder, make=True)
    with pytest.raises(Refused, match=r"holds an earlier attempt of this job \(4711 of 2 nodes\)"):
        meeting.join(0, hosted=True, job="4711 of 2 nodes")
    with pytest.raises(Refused, match="another agent has rank 1, here or in an earlier attempt"):
        meeting.join(1, hosted=True, job="4711 of 2 nodes", seconds=30.0)
    again = [meeting.join(rank, hosted=True, job="4711, restarted, of 2 nodes") for rank in range(2)]
    assert again[0].seal == again[1].seal
    assert host.num_keys() > 0


# -- where the store listens


def _listens(port: int) -> set[str]:
    """Return the addresses at which this machine listens on a port."""
    import psutil

    there = cast("Any", psutil.net_connections("tcp"))
    return {each.laddr.ip for each in there if each.status == "LISTEN" and each.laddr.port == port}


def test_the_store_listens_at_the_address_of_rank_0_alone(meeting: Meeting) -> None:
    assert meeting.join(0).note == ""
    assert _listens(meeting.port) == {"127.0.0.1"}


def test_an_older_torch_takes_the_address_by_its_other_backend(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before 2.8 the store of libuv refuses a socket that listens already."""
    monkeypatch.setattr("torch.__version__", importlib.import_module("torch.torch_version").TorchVersion("2.6.0a0+ab"))
    lead, agent = meeting.join(0), meeting.join(1)
    assert not lead._store.libuvBackend
    assert _listens(meeting.port) == {"127.0.0.1"}
    agent.put("report/1/0", MEASURED)
    assert lead.take(Report, "report/1/0", 5.0) == MEASURED


def test_a_name_that_leads_to_the_loopback_alone_has_the_store_listen_everywhere(
    meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of the own host does on Debian: the other nodes find another address under it."""
    assert listening("gpu07", [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.1.1", meeting.port))]) is None
    assert listening("gpu07", [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.7", meeting.port))]) is None
    monkeypatch.setattr(message_store, "listening", lambda host, found: None)
    lead = meeting.join(0)
    assert lead.note == "the network store listens on all interfaces: 127.0.0.1 is the address of none of them"
    assert _listens(meeting.port) & {"::", "0.0.0.0"}  # noqa: S104


def test_a_port_in_use_is_told(meeting: Meeting) -> None:
    with socket.create_server(("127.0.0.1", meeting.port)):
        with pytest.raises(
            Refused, match=f"rank 0 cannot listen at 127.0.0.1:{meeting.port}: .*in use.*; see MASTER_PORT"
        ):
            meeting.join(0)
        assert not (meeting.folder / FILE).exists()
