"""The account that NCCL and RCCL give of a collective, in the words of each version, and what configures them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import data_files

pytest.importorskip("torch")

import torch

from pytest_accel.probes.device import collective_library
from pytest_accel.probes.device.collective_library import Account, ask_for_account, conf_files, own_settings
from pytest_accel.probes.device.rank import Rank

CASES = data_files.tables("probes/collective-accounts")
SIZE = 2**33
LINE = "node7:4242:4250 [0] NCCL INFO "


def wrote(*lines: str) -> Account:
    account = Account()
    account.read(f"{LINE}{line}\n" for line in lines)
    return account


P2P = "Channel {:02d}/0 : 0[0] -> 1[1] via P2P/CUMEM/read"
CHANNELS = "24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per peer"


def test_only_what_the_library_states_becomes_a_condition() -> None:
    for what, lines, conditions in CASES["accounts"]:
        assert wrote(*lines).of_call("allreduce", SIZE)[0] == conditions, what


def test_the_lines_that_tell_are_kept_without_host_and_process() -> None:
    called = f"AllReduce: {SIZE} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..23}}"
    account = wrote(
        "NCCL version 2.27.3+cuda12.9",
        "NVLS multicast support is not available on dev 0 (NVLS_NCHANNELS 0)",
        *(P2P.format(channel) for channel in range(24)),
        CHANNELS,
        *[called] * 500,
    )
    details = account.of_call("allreduce", SIZE)[1]
    assert details["version"] == "2.27.3+cuda12.9"
    assert (details["protocol"], details["channels"]) == ("simple", 24)
    assert details["connections"] == {"P2P/CUMEM/read": 24}
    assert called in details["lines"]
    assert "NVLS multicast support is not available on dev 0 (NVLS_NCHANNELS 0)" in details["lines"]
    assert details["without_nvls"].startswith("NVLS multicast support is not available on dev 0")
    assert len(details["lines"]) == 4
    assert wrote("RCCL version : 2.27.7-HEAD:29e1567").version == "2.27.7-HEAD:29e1567"


def test_a_users_own_settings_of_the_account_are_left_alone() -> None:
    for taken in ("NCCL_DEBUG", "NCCL_DEBUG_FILE", "NCCL_DEBUG_SUBSYS"):
        environment = {taken: "WARN"}
        assert ask_for_account(environment, "/f", {}) == f"not read: {taken} is set in the environment"
        assert environment == {taken: "WARN"}
    files = {"/etc/nccl.conf": {"NCCL_DEBUG": "WARN"}}
    assert ask_for_account({}, "/f", files) == "not read: NCCL_DEBUG is set in /etc/nccl.conf"
    environment = {"NCCL_ALGO": "Ring"}
    assert ask_for_account(environment, "/f%", {}) == ""
    assert environment["NCCL_DEBUG_FILE"] == "/f%%"
    assert ask_for_account(environment, "/f%", {}) == "", "asking twice changes nothing"
    assert own_settings(environment) == {"NCCL_ALGO": "Ring"}, "what we ask for is no setting of the user's"


def test_the_files_count_in_the_order_in_which_nccl_reads_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nccl.conf").write_text("#NCCL_PROTO=LL\nNCCL_ALGO=Tree\nPATH=/x\nnonsense\n")
    (home / ".nccl.conf").write_text("NCCL_ALGO=Ring\nNCCL_ALGO=Tree\n")
    system, users = str(tmp_path / "etc/nccl.conf"), str(home / ".nccl.conf")
    found = conf_files({}, tmp_path, home)
    assert found == {users: {"NCCL_ALGO": "Ring"}, system: {"NCCL_ALGO": "Tree"}}
    assert list(found) == [users, system]
    assert list(conf_files({"NCCL_CONF_FILE": "/nowhere"}, tmp_path, home)) == [system]


# -- a rank


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> list[Rank]:
    """Two ranks whose library writes where it is told to."""
    for name in [each for each in os.environ if each.startswith("NCCL_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(collective_library, "_home", lambda: Path("/nonexistent"))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    for name in (*collective_library.ASKED, collective_library.FILE):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)

    def init(backend: str, rank: int, **_: Any) -> None:
        text = f"AllReduce: {SIZE} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..3}}" if not rank else ""
        Path(os.environ["NCCL_DEBUG_FILE"]).write_text(f"{LINE}{text}\n{LINE}Channel 0 : 0[0] -> 1[1] via SHM/direct\n")
        for name in (*collective_library.ASKED, collective_library.FILE):
            del os.environ[name]  # the other rank is a process of its own

    monkeypatch.setattr(torch.distributed, "init_process_group", init)
    return [made("nccl"), made("nccl")]


def made(library: str) -> Rank:
    rank = Rank()
    rank.is_cpu = False
    kind = SimpleNamespace(collectives=library)
    rank.backend = SimpleNamespace(collectives=lambda: f"cpu:gloo,cuda:{library}", kind=kind)  # type: ignore[assignment]
    return rank


def test_every_rank_reads_what_all_ranks_wrote(ranks: list[Rank], tmp_path: Path) -> None:
    for number, rank in enumerate(ranks):
        rank.join(str(tmp_path / "rendezvous-1"), number, 2)
    for rank in ranks:
        conditions, details = rank.account("allreduce", SIZE)
        assert conditions == {"algorithm": "ring", "transport": "SHM"}
        assert details["connections"] == {"SHM/direct": 2}
    assert ranks[0].collectives == {"backend": "nccl"}


def test_a_library_without_an_account_states_nothing() -> None:
    assert made("xccl").account("allreduce", SIZE) == ({}, {})
