"""The file of a simulated cluster, what each of its faults does, and the list of them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.data_files import tables
from support.networks import GB_PER_S, cluster, fault
from support.rows import each_row

from pytest_accel.cli.main import main
from pytest_accel.core.details import RoundKind
from pytest_accel.core.network_run import NetworkRun, PlannedRound, Report
from pytest_accel.core.yaml_nodes import BadFile
from pytest_accel.simulate.cluster import (
    CLUSTER_FAULTS,
    SimulatedCluster,
    load_cluster,
    measure,
    network_of,
    run_simulated,
)

ROWS = tables("simulate/cluster-files")

HEAD = "sku: h100-sxm\nplatform: dgx\nnodes: 64\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], str]:
    """Writes a cluster file; returns its path."""

    def make(text: str) -> str:
        path = tmp_path / "cluster.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return make


# -- the file


def test_a_cluster_file(write: Callable[[str], str]) -> None:
    text = "leaf: 16\ndomain: 8\nseed: 5\nnoise: 0.01\ncongestion: 0\ngb_per_s: 12.5\ndevices: 4\n"
    text += "faults:\n  - {fault: slow-pair, nodes: [1, 2], by: 0.4}\n  - {fault: slow-node, node: 7}\n"
    found = load_cluster(write(HEAD + text))
    assert (found.sku_option, found.platform.name, found.nodes, found.devices) == ("h100-sxm", "dgx", 64, 4)
    assert (found.leaf, found.domain, found.seed, found.noise, found.congestion) == (16, 8, 5, 0.01, 0)
    assert found.gb_per_s == 12.5
    pair, slow = found.faults
    assert (pair.name, pair.nodes, pair.parameters["by"]) == ("slow-pair", [1, 2], 0.4)
    assert (slow.name, slow.nodes, slow.parameters["by"]) == ("slow-node", [7], 0.125)


def test_a_healthy_pair_reaches_what_healthy_ports_do(write: Callable[[str], str]) -> None:
    found = load_cluster(write(HEAD))
    assert found.devices == 8
    assert found.gb_per_s == pytest.approx(0.94 * 400 / 8)


@pytest.mark.parametrize(
    ("text", "said"),
    ROWS["wrong"]
)  # fmt: skip
def test_what_is_wrong_with_a_cluster_file(write: Callable[[str], str], text: str, said: str) -> None:
    with pytest.raises(BadFile, match=said):
        load_cluster(write(text))


def test_a_cluster_file_that_is_not_there() -> None:
    with pytest.raises(BadFile, match=r"nowhere.yaml: there is no such cluster file"):
        load_cluster("nowhere.yaml")


# -- the faults


def still(*faults: Any, **more: Any) -> SimulatedCluster:
    """A cluster without noise."""
    return cluster(32, *faults, noise=0.0, congestion=0.0, leaf=16, **more)


def reports(one: SimulatedCluster, *nodes: int, kind: RoundKind = "pairs") -> list[Report]:
    return [*measure(one, PlannedRound(kind, [nodes]), 0).results[0].reports]


def share(one: SimulatedCluster, *nodes: int) -> float:
    """The value of a group as a share of what it is without the faults."""
    with_it, without = (reports(each, *nodes)[0].value for each in (one, replace(one, faults=())))
    assert with_it
    assert without
    return with_it / without


@each_row(("name", "parameters", "takes", "spares"), ROWS["slow"])
def test_what_slows_down(name: str, parameters: dict[str, Any], takes: list[int], spares: list[int]) -> None:
    one = still(fault(name, **parameters))
    lost = 0.125 if name == "dead-rail" else 0.2
    assert share(one, *takes) == pytest.approx(1 - lost, abs=0.02)
    if spares:
        assert share(one, *spares) == 1


@each_row(
    ("name", "own", "other"),
    [
        ("hung-node", "not reached", "waited"),
        ("dead-link", "failed", "failed"),
        ("silent-node", "no report", "waited"),
        ("wrong-data", "measured", "wrong"),
    ],
)
def test_what_is_reported(name: str, own: str, other: str) -> None:
    one = still(fault(name, node=3, **({"share": 1.0} if name == "wrong-data" else {})))
    assert [each.outcome for each in reports(one, 2, 3, 4, kind="all")] == [other, own, other]
    assert [each.outcome for each in reports(one, 3, 2)] == [own, other]
    assert [each.outcome for each in reports(one, 5, 4)] == ["measured"] * 2


def test_wrong_data_come_in_their_share_of_the_rounds() -> None:
    one = still(fault("wrong-data", node=3, share=0.25))
    seen = [
        measure(one, PlannedRound("pairs", [(3, 4)]), number).results[0].reports[1].outcome for number in range(400)
    ]
    assert 60 < seen.count("wrong") < 140


def test_a_dead_rail_is_seen_by_itself() -> None:
    (rails, *_) = (each.rails for each in reports(still(fault("dead-rail", node=3, rail=1)), 3, 4))
    assert [round(each) for each in rails] == [GB_PER_S, 0, *[GB_PER_S] * 6]


def test_a_late_node_takes_no_part() -> None:
    nodes = network_of(still(fault("late-node", node=3), domain=8)).nodes
    assert [each.name for each in nodes if each.left_out] == ["node3"]
    assert (nodes[3].left_out, nodes[17].leaf, nodes[17].domain, nodes[17].devices) == (
        "it did not arrive in time", "leaf1", "domain2", 8
    )  # fmt: skip


def test_every_fault_is_found_as_the_list_says(capsys: pytest.CaptureFixture[str]) -> None:
    """It is concluded as it is `caught_by`, and listed with its parameters."""
    parameters = {"node": 3, "nodes": [3, 4], "leaf": 1, "rail": 1}
    closings = {}
    for name, kind in CLUSTER_FAULTS.items():
        given = {**kind.defaults, **{each: parameters[each] for each in kind.parameters if each in parameters}}
        nodes = 16 if name == "slow-pair" else 32
        run = run_simulated(cluster(nodes, fault(name, **given), leaf=16, seed=2), NetworkRun((), floor=0.9 * GB_PER_S))
        closings[name] = run.conclusion.closing.result
    named = [name for name, kind in CLUSTER_FAULTS.items() if "left out" not in kind.caught_by]
    assert closings == {**dict.fromkeys(CLUSTER_FAULTS, "HELD"), **dict.fromkeys(named, "REJECTED")}
    for name, kind in CLUSTER_FAULTS.items():
        assert main(["simulate", "--list", name]) == 0
        assert capsys.readouterr().out.startswith(f"{name}\n    {kind.does}\n")
    assert main(["simulate", "--list", "slow-node"]) == 0
    told = capsys.readouterr().out
    assert "    by: share of the healthy value that is lost on average, between 0 and 1 (default 0.125)" in told


# -- rehearsals


def test_the_sick_tray_of_an_nvlink_domain_is_named() -> None:
    """Eighteen trays of four: an NVL72."""
    named = {}
    for seed in range(20):
        run = run_simulated(cluster(18, fault("slow-node", node=seed % 18, by=0.125), devices=4, domain=18, seed=seed))
        assert run.rounds[0].kind == "domain"
        named[seed] = [place for place, each in enumerate(run.conclusion.nodes) if each.found == "slow"]
    assert named == {seed: [seed % 18] for seed in range(20)}


def test_a_rehearsal_is_the_same_every_time() -> None:
    one = cluster(64, fault("slow-node", node=9, by=0.125), seed=4)
    assert run_simulated(one) == run_simulated(one)
    assert run_simulated(one) != run_simulated(replace(one, seed=5))
