"""Which launcher started a run, and that the nodes of a job do not stand in each other's way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel.core.node_name import node_name, other_name
from pytest_accel.core.run import Launch, Run
from pytest_accel.drivers.host.host_environment import pseudonym
from pytest_accel.run import earlier_records
from pytest_accel.run.launcher import SLURM, launch_of
from pytest_accel.run.processes import environment
from pytest_accel.run.record import FILE
from pytest_accel.run.record import create as create_record
from pytest_accel.run.record_folder import RecordFolder
from pytest_accel.run.simulation import node as simulated_node

TABLES = data_files.tables("run/launcher")

STEP = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1", "SLURM_PROCID": "3", "SLURM_LOCALID": "0"}
OMPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
TORCH = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "n0"}


@each_row(("variables", "launcher", "rank", "nodes", "job", "shared"), TABLES["launchers"])
def test_launchers(
    variables: Mapping[str, str], launcher: str, rank: int, nodes: int | None, job: str, shared: bool
) -> None:
    found = launch_of(variables)
    assert found is not None
    assert (found.name, found.rank, found.nodes, found.job, found.shares_folder) == (launcher, rank, nodes, job, shared)
    assert found.refusal is None


@each_row("variables", TABLES["no_launchers"])
def test_other_variables_are_no_launcher(variables: Mapping[str, str]) -> None:
    assert launch_of(variables) is None


def test_a_second_task_of_a_node_is_refused() -> None:
    found = launch_of({**STEP, "SLURM_LOCALID": "1"})
    assert found is not None
    assert "SLURM_LOCALID=1: this is task 2 of n1" in str(found.refusal)
    assert "start one task per node" in str(found.refusal)


def test_name_of_the_node() -> None:
    host = node_name({})
    assert node_name({"SLURMD_NODENAME": "n1"}) == "n1"
    assert node_name({"NODE_NAME": "built-in"}) == host, "other programs set it, too"
    assert node_name({"NODE_NAME": "k1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "k1"
    assert node_name({"SLURMD_NODENAME": "n\n1"}) == "n\\n1"
    assert other_name({}) == other_name({"SLURMD_NODENAME": f"{host.partition('.')[0]}.example"}) == ""
    assert other_name({"SLURMD_NODENAME": "n1"}) == "n1"


def test_pretend_nodes_of_one_machine_have_devices_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {pseudonym()}
    seeds = {simulated_node("h100-sxm", root=Path("/nowhere")).seed}  # type: ignore[union-attr]
    for node in ("n1", "n2"):
        monkeypatch.setenv("SLURMD_NODENAME", node)
        names.add(pseudonym())
        launch = launch_of({**STEP, "SLURMD_NODENAME": node})
        seeds.add(simulated_node("h100-sxm", launch, Path("/nowhere")).seed)  # type: ignore[union-attr]
    assert len(names) == len(seeds) == 3


def created(shared: Path, host: str) -> Path:
    return RecordFolder().create(shared, host, "unused", shared=True)


def test_every_run_of_every_node_of_a_job_has_a_folder(tmp_path: Path) -> None:
    hosts = [f"node{place}" for place in range(8)] * 3
    with ThreadPoolExecutor(24) as pool:
        places = list(pool.map(lambda host: created(tmp_path, host), hosts))
    assert len(set(places)) == len(hosts)
    names = {f"{host}{tail}" for host in hosts for tail in ("", "-2", "-3")}
    assert {place.name for place in places} == names
    for place, host in zip(places, hosts, strict=True):
        assert json.loads((place / FILE).read_text())["info"]["host"] == host


def test_the_past_of_a_node_is_that_of_its_own_folders(tmp_path: Path) -> None:
    """Two nights of three nodes, and a second run of one of them."""
    for night in ("1", "2"):
        for node in ("n1", "n2", "n10", "n1-2"):
            place = tmp_path / night / node
            place.mkdir(parents=True)
            create_record(Run(info={"host": node, "started": f"2026-11-0{night}"}), place)
    launch = Launch(SLURM, "n1", job="7")
    own = earlier_records.read(tmp_path / "2/n1-2", launch)
    assert sorted(str(each.folder.relative_to(tmp_path)) for each in own.summaries) == ["1/n1", "1/n1-2", "2/n1"]
    alone = earlier_records.read(tmp_path / "2/n1", None)
    assert sorted(each.folder.name for each in alone.summaries) == ["n1-2", "n10", "n2"]


def test_workers_join_no_group_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*TORCH, "TORCHELASTIC_USE_AGENT_STORE", "MASTER_PORT"):
        monkeypatch.setenv(name, "nonsense")
    monkeypatch.setenv("MY_RANK", "1")
    child = environment.of_child({})
    assert not {name for name, text in child.items() if text == "nonsense"}
    assert child["MY_RANK"] == "1"
