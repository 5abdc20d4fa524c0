"""Network runs on namespaces with shaped links: real agents and workers, gloo; the bad node is named, and no other."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.network_nodes import Nodes, nodes, patched, refused

from pytest_accel.core.network_run import NetworkRun

SLOW = 80
"""Mbit/s of a link that is a fifth slower than the others."""
EIGHT = 8
QUICKLY = "--accel-patience=10"


@pytest.fixture(autouse=True)
def _namespaces() -> None:
    if why := refused():
        pytest.skip(why)


def _named(network: NetworkRun) -> dict[int, str]:
    """Return what was found of every node that is not good, by its place: who never arrived has no name here."""
    return {place: each.found for place, each in enumerate(network.conclusion.nodes) if each.found != "good"}


def _word(made: Nodes, node: int) -> str:
    return str(made.record(node)["closing"]["result"])


@pytest.mark.nightly
@pytest.mark.devices
@pytest.mark.xdist_group("network")
def test_four_nodes_name_the_slow_one(tmp_path: Path) -> None:
    with nodes(4, tmp_path, {2: SLOW}) as made:
        made.start(QUICKLY)
        exits = made.wait()
        network = made.network()
    assert _named(network) == {2: "slow"}
    assert network.conclusion.closing.result == "REJECTED"
    assert exits == {0: 1, 1: 0, 2: 1, 3: 0}, "rank 0 ends as the network, and its own node is held"
    assert [_word(made, node) for node in range(4)] == ["HELD", "HELD", "REJECTED", "HELD"]
    assert "REJECTED network: node2" in (tmp_path / "node0.log").read_text()
    part = next(each for each in made.record(2)["measurements"] if each["metric"] == "network.pairs")["details"][
        "network"
    ]
    assert (part["found"], part["partners"], part["nodes"]) == ("slow", 3, 4)


@pytest.mark.nightly
@pytest.mark.devices
@pytest.mark.parametrize("bad", [1, 4, 7])
@pytest.mark.parametrize("fault", ["slow", "wrong sum", "hangs", "dead link", "killed", "never arrives", "two"])
def test_eight_nodes_name_the_bad_one(tmp_path: Path, fault: str, bad: int) -> None:
    other = (bad + 3) % EIGHT
    patches = {bad: patched(tmp_path, fault)} if fault in ("wrong sum", "hangs") else {}
    patches |= {other: patched(tmp_path, "wrong sum")} if fault == "two" else {}
    with nodes(EIGHT, tmp_path, {bad: SLOW} if fault in ("slow", "two") else {}) as made:
        made.start(QUICKLY, extra=patches, absent=(bad,) if fault == "never arrives" else ())
        if strike := {"dead link": made.sever, "killed": made.kill}.get(fault):
            made.wait_for_pairs(bad)
            strike(bad)
        made.wait(900.0)
        network = made.network()
    expected = {
        "slow": {bad: "slow"},
        "wrong sum": {bad: "wrong"},
        "hangs": {bad: "not reached"},
        "dead link": {bad: "left out"},
        "killed": {bad: "left out"},
        "never arrives": {bad: "left out"},
        "two": {bad: "slow", other: "wrong"},
    }
    assert _named(network) == expected[fault]


@pytest.mark.nightly
@pytest.mark.devices
def test_eight_healthy_nodes_name_nobody(tmp_path: Path) -> None:
    with nodes(EIGHT, tmp_path) as made:
        made.start(QUICKLY)
        exits = made.wait(900.0)
        network = made.network()
    assert _named(network) == {}
    assert network.conclusion.closing.result == "HELD", "compared with each other only: no floor judges this network"
    assert set(exits.values()) == {0, 6}
