"""The conclusion from the rounds of a network run: the nodes that are named, those that are not, and the result."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest
from support.judged_tables import tabled
from support.networks import GB_PER_S, cluster, ended, fault, found, network, places, simulated, transport

from pytest_accel.core import structured
from pytest_accel.core.network_run import NAMED, NetworkRun, NodePair, Report
from pytest_accel.core.verdict import Result
from pytest_accel.judging.network.conclude import conclude, node_parts

WAITED = Report("waited")
TWENTY = range(20)


def named(run: NetworkRun) -> dict[int, str]:
    """The nodes that are named, and for what."""
    return {place: each.found for place, each in enumerate(run.conclusion.nodes) if each.found in NAMED}


def ends(run: NetworkRun) -> tuple[Result | None, int]:
    return run.conclusion.closing.result, run.conclusion.closing.exit


def confirmed(run: NetworkRun) -> list[int]:
    """The nodes that were measured once more."""
    return [each.nodes[0] for one in run.rounds if one.kind == "confirm" for each in one.results]


def blamed(run: NetworkRun) -> tuple[dict[int, str], list[set[int]], list[set[int]]]:
    """The nodes, paths and islands that are told."""
    told = run.conclusion
    return named(run), [{*each.nodes} for each in told.paths], [{*each} for each in told.islands]


# -- twenty placements of each


def test_in_a_healthy_network_nobody_is_named() -> None:
    for nodes, seed in product([2, 3, 8, 17, 64], TWENTY):
        run = simulated(cluster(nodes, seed=seed), floor=0.9 * GB_PER_S)
        assert (blamed(run), found(run, "good")) == (({}, [], []), {*range(nodes)}), (nodes, seed)
        assert ends(run) == ("ACCEPTED", 0)


@tabled("name, given, expected", "data/judging/network-conclude.yaml")
def test_the_sick_nodes_are_named_and_no_other(name: str, given: dict[str, Any], expected: str) -> None:
    for nodes, (seed, two) in product([8, 64], places(8, 2)):
        place, slow = (each * nodes // 8 for each in two)
        sick = fault(name, node=place, **given)
        run = simulated(cluster(nodes, sick, seed=seed))
        assert (blamed(run), found(run, "good")) == (({place: expected}, [], []), {*range(nodes)} - {place}), seed
        assert ends(run) == ("REJECTED", 1)
        assert run.conclusion.closing.line.startswith(f"SIMULATED REJECTED network: node{place} ")
        run = simulated(cluster(nodes, sick, fault("slow-node", node=slow, by=0.2), seed=seed))
        assert (named(run), run.conclusion.paths) == ({place: expected, slow: "slow"}, []), seed


def test_a_node_that_went_down_is_left_out_by_name() -> None:
    for seed, (place,) in places(8, 1):
        run = simulated(cluster(8, fault("silent-node", node=place), seed=seed), floor=0.9 * GB_PER_S)
        assert (named(run), found(run, "left out"), found(run, "good")) == ({}, {place}, {*range(8)} - {place}), seed
        assert ends(run) == ("HELD", 6)
        assert f"no acceptance: node{place} left out: its agent did not answer" in run.conclusion.closing.line


def test_a_slow_path_is_named_and_neither_of_its_nodes() -> None:
    for seed, two in places(8, 2):
        run = simulated(cluster(8, fault("slow-pair", nodes=[*two], by=0.25), seed=seed))
        assert (blamed(run), found(run, "good")) == (({}, [{*two}], []), {*range(8)}), seed
        (path,) = run.conclusion.paths
        assert not path.wrong
        assert 0.9 * 0.75 * GB_PER_S < (path.value or 0.0) < 0.76 * GB_PER_S
        first, second = sorted(two)
        said = f"between node{first} and node{second} {path.value:.4g} GB/s, good with others"
        assert (ends(run), said in run.conclusion.closing.line) == (("REJECTED", 1), True)


@pytest.mark.nightly
def test_a_slow_leaf_is_an_island_and_the_slow_nodes_beside_it_and_in_it_are_named() -> None:
    for nodes, (seed, bad) in product([64, 256], places(64, 3)):
        leaf = Random(seed).randrange(nodes // 16)  # noqa: S311
        sick = [fault("slow-node", node=place, by=0.125) for place in bad]
        run = simulated(cluster(nodes, fault("slow-leaf", leaf=leaf, by=0.25), *sick, seed=seed, leaf=16))
        inside = {*range(16 * leaf, 16 * leaf + 16)} - {*bad}
        assert (blamed(run), found(run, "island")) == ((dict.fromkeys(bad, "slow"), [], [inside]), inside), seed


# -- nobody can be named


def test_if_too_many_are_slow_nobody_is_named() -> None:
    for seed, bad in places(64, 24):
        run = simulated(cluster(64, *(fault("slow-node", node=place, by=0.25) for place in bad), seed=seed))
        assert (named(run), found(run, "unclear"), ends(run)) == ({}, {*bad}, ("NOT JUDGED", 6)), seed
        assert "no node could be named: 24 of 64 nodes are short" in run.conclusion.closing.line


def test_one_slow_node_of_three_is_named_and_two_of_four_are_not() -> None:
    assert named(simulated(cluster(3, fault("slow-node", node=1, by=0.2)))) == {1: "slow"}
    two = [fault("slow-node", node=place, by=0.2) for place in (1, 2)]
    run = simulated(cluster(4, *two))
    assert (named(run), found(run, "unclear"), ends(run)) == ({}, {1, 2}, ("NOT JUDGED", 6))


def test_more_suspects_than_good_nodes_name_nobody_and_no_part() -> None:
    """Two, two and one: any of the three may be what is bad."""
    parts = [{0, 1}, {2, 3}, {4}]
    run = ended(network(5), transport(lambda _, group: GB_PER_S if any({*group} <= each for each in parts) else 30.0))
    assert (named(run), found(run, "unclear"), run.conclusion.islands) == ({}, {2, 3, 4}, [])
    assert ends(run) == ("NOT JUDGED", 6)


@pytest.mark.parametrize("nodes", [2, 64])
def test_a_network_that_is_short_as_a_whole_is_rejected_and_no_node(nodes: int) -> None:
    sick = [fault("slow-network", by=0.3), fault("slow-node", node=1, by=0.2)]
    run = simulated(cluster(nodes, *sick), floor=0.9 * GB_PER_S)
    assert (named(run), found(run, "unclear")) == ({}, {*range(nodes)})
    assert ends(run) == ("REJECTED", 1)
    assert "REJECTED network: median of the nodes " in run.conclusion.closing.line
    assert "floor 41.4 GB/s (-" in run.conclusion.closing.line
    assert run.conclusion.together is not None, "what all nodes reach together is measured also here"


def test_without_a_floor_a_network_is_compared_with_itself_and_not_accepted() -> None:
    run = simulated(cluster(64, fault("slow-network", by=0.3)))
    assert ends(run) == ("HELD", 6)
    assert run.conclusion.closing.line.endswith("no acceptance: the platform states no floor for pairs of nodes")


def test_a_node_below_the_floor_is_named_although_it_is_near_the_others() -> None:
    sick = cluster(64, fault("slow-node", node=9, by=0.06))
    assert named(simulated(sick)) == {}
    assert named(simulated(sick, floor=0.95 * GB_PER_S)) == {9: "slow"}


@pytest.mark.parametrize(("floor", "word"), [(0.9 * 8 * GB_PER_S, "ACCEPTED"), (1.1 * 8 * GB_PER_S, "REJECTED")])
def test_all_nodes_together_have_a_floor_too(floor: float, word: str) -> None:
    run = simulated(cluster(8), floor=0.9 * GB_PER_S, together_floor=floor)
    assert (ends(run)[0], named(run), found(run, "good")) == (word, {}, {*range(8)})
    assert ("all good nodes together" in run.conclusion.closing.line) is (word == "REJECTED")


# -- wrong data


def test_two_nodes_that_send_wrong_data_are_named_and_nobody_that_met_both() -> None:
    for nodes, (seed, two) in product([8, 64], places(8, 2)):
        run = simulated(cluster(nodes, *(fault("wrong-data", node=place, share=1.0) for place in two), seed=seed))
        assert blamed(run) == (dict.fromkeys(two, "wrong"), [], []), (nodes, seed)


def once_wrong(*pairs: tuple[int, int]) -> NetworkRun:
    """Eight nodes, whose pairs show wrong data the first time that they meet."""
    left = {*pairs}

    def value(_: str, group: Sequence[int]) -> float | list[Report]:
        pair = min(group), max(group)
        if pair not in left:
            return GB_PER_S
        left.remove(pair)
        return [Report("measured", GB_PER_S), Report("wrong", GB_PER_S, text="1 of 8 differs")]

    return ended(network(8, floor=40.0), transport(value))


def test_wrong_data_that_no_node_shows_again_are_those_of_the_pair() -> None:
    run = once_wrong((2, 5))
    assert (named(run), run.conclusion.paths) == ({}, [NodePair((2, 5), wrong=True)])
    assert ends(run) == ("REJECTED", 1)
    assert run.conclusion.closing.line == "REJECTED network: between node2 and node5 wrong data, good with others"
    assert {*confirmed(run)} == {2, 5}


def test_a_node_that_met_two_bad_ones_is_cleared_and_they_are_looked_at() -> None:
    """It shows wrong data most often, and is none of the reasons."""
    run = once_wrong((1, 2), (1, 3))
    assert (blamed(run), {*confirmed(run)}) == (({}, [{1, 2}, {1, 3}], []), {1, 2, 3})


def test_a_pair_whose_data_are_always_wrong_is_a_path_and_proves_neither_node_bad() -> None:
    wrong = [Report("wrong", GB_PER_S), Report("measured", GB_PER_S)]
    always = transport(lambda _, group: wrong if {*group} == {2, 5} else GB_PER_S)
    assert [blamed(ended(network(8, seed=seed), always)) for seed in TWENTY] == [({}, [{2, 5}], [])] * 20


def test_a_node_that_is_named_for_wrong_data_is_named_at_once_and_confirms_nobody() -> None:
    """It was good with others before, as a node that is wrong in a share of the rounds."""

    def value(kind: str, group: Sequence[int]) -> float | list[Report]:
        wrong = 2 in group and (kind == "confirm" or {3, 4} & {*group})
        return [Report("wrong", GB_PER_S), WAITED] if wrong else 46.0 - 10.0 * (5 in group)

    for seed in TWENTY:
        run = ended(network(8, seed=seed), transport(value))
        assert named(run) == {2: "wrong", 5: "slow"}
        assert confirmed(run) == [2, 5, 5], "neither node 3 nor node 4"


def test_a_slow_node_is_named_though_its_partner_with_wrong_data_hangs() -> None:
    wrong, hangs = [Report("wrong", GB_PER_S), WAITED], [Report("not reached", text="hung", kind="device"), WAITED]

    def value(kind: str, group: Sequence[int]) -> float | list[Report]:
        if {*group} == {2, 5}:
            return wrong
        return hangs if kind == "confirm" and group[0] == 2 else 46.0 - 10.0 * (5 in group)

    run = ended(network(8), transport(value))
    assert (named(run), confirmed(run).count(2)) == ({2: "not reached", 5: "slow"}, 1)


def test_a_partner_that_hangs_neither_clears_a_node_nor_counts() -> None:
    """Node 2 shows wrong data with node 5, and again with the second partner that answers."""
    met: list[int] = []

    def value(kind: str, group: Sequence[int]) -> float | list[Report]:
        if kind != "confirm" or group[0] != 2:
            return [Report("wrong"), WAITED] if kind == "pairs" and {*group} == {2, 5} else GB_PER_S
        met.append(group[1])
        if len(met) == 1:
            return [WAITED, Report("not reached", text="hung", kind="device")]
        return GB_PER_S if len(met) == 2 else [WAITED, Report("wrong")]

    run = ended(network(8), transport(value))
    assert named(run) == {2: "wrong", met[0]: "not reached"}


def test_two_nodes_alone_are_a_pair_or_one_of_them_was_not_measured() -> None:
    run = simulated(cluster(2, fault("wrong-data", node=1, share=1.0)))
    assert (blamed(run), ends(run)) == (({}, [{0, 1}], []), ("REJECTED", 1))
    run = simulated(cluster(2, fault("hung-node", node=1)))
    assert (named(run), found(run, "unmeasured")) == ({1: "not reached"}, {0})


def domains(nodes: int, size: int) -> NetworkRun:
    """A network of NVLink domains."""
    run = network(nodes, floor=40.0)
    return replace(run, nodes=[replace(each, domain=f"rack{at // size}") for at, each in enumerate(run.nodes)])


@pytest.mark.parametrize("kind", ["domain", "all"])
def test_wrong_data_that_only_a_large_group_shows_reject_the_network(kind: str) -> None:
    wrong = transport(lambda found, group: [Report("wrong", 1.0)] * len(group) if found == kind else GB_PER_S)
    run = ended(domains(18, 18), wrong)
    assert run.conclusion.closing.line == "REJECTED network: NVLink domain rack0 wrong data"
    assert (named(run), found(run, "good")) == ({}, {*range(18)})


# -- what says nothing about a node


def reported(node: int, report: Report) -> NetworkRun:
    """Eight nodes, of which one says this whenever it meets others."""

    def value(_: str, group: Sequence[int]) -> float | list[Report]:
        return [report if each == node else WAITED for each in group] if node in group else GB_PER_S

    return ended(network(8, floor=40.0), transport(value))


def test_a_node_that_did_not_answer_is_asked_no_more() -> None:
    run = reported(3, Report("no report", text="down"))
    assert sum(3 in result.nodes for one in run.rounds for result in one.results) == 1
    assert (found(run, "good"), found(run, "left out"), ends(run)) == ({*range(8)} - {3}, {3}, ("HELD", 6))


def test_a_pair_that_fails_is_measured_again_and_is_a_path_if_it_fails_every_time() -> None:
    left = 1

    def value(_: str, group: Sequence[int]) -> float | list[Report]:
        nonlocal left
        failed = {*group} == {2, 5} and left > 0
        left -= failed
        return [Report("failed"), WAITED] if failed else GB_PER_S

    run = ended(network(8, floor=40.0), transport(value))
    assert [{*each.nodes} for one in run.rounds if one.kind == "path" for each in one.results] == [{2, 5}]
    assert ends(run) == ("ACCEPTED", 0)
    left = 99
    run = ended(network(8, floor=40.0), transport(value))
    assert run.conclusion.paths == [NodePair((2, 5))]
    assert run.conclusion.closing.line == "REJECTED network: between node2 and node5 not measurable, good with others"


def test_rounds_that_are_missing_are_not_judged() -> None:
    one = cluster(64, fault("slow-node", node=9, by=0.2))
    run = simulated(one, floor=40.0)
    lines = [conclude(replace(run, rounds=run.rounds[:count])).closing for count in range(len(run.rounds))]
    assert {each.result for each in lines[:-1]} == {"NOT JUDGED", "REJECTED"}
    assert lines[0].line == "SIMULATED NOT JUDGED network: no pair could be measured"
    assert lines[3].line == (
        "SIMULATED NOT JUDGED network: node9: no node could be named: it was not measured with enough good nodes; "
        "the good nodes were not measured together"
    )


def test_an_island_that_met_no_proven_nodes_is_not_told() -> None:
    run = simulated(cluster(64, fault("slow-leaf", leaf=1, by=0.25), leaf=16))
    confirmed = conclude(replace(run, rounds=[each for each in run.rounds if each.kind != "confirm"]))
    assert [len(each.islands) for each in (run.conclusion, confirmed)] == [1, 0]
    assert confirmed.closing.result == "NOT JUDGED"


def test_a_node_by_itself_is_not_judged() -> None:
    line = conclude(network(1)).closing
    assert (line.line, line.exit) == ("NOT JUDGED network: 1 node took part", 6)


@pytest.mark.parametrize(
    ("first", "names", "line"),
    [
        (WAITED, {}, "NOT JUDGED network: all 8 good nodes together could not be measured"),
        (
            Report("not reached", text="its worker hung", kind="device"),
            {0: "not reached"},
            "REJECTED network: node0 its worker hung",
        ),
    ],
)
def test_good_nodes_that_cannot_work_together(first: Report, names: dict[int, str], line: str) -> None:
    together = transport(lambda kind, group: [first, *[WAITED] * 7] if kind == "all" else GB_PER_S)
    run = ended(network(8, floor=40.0), together)
    assert (named(run), run.conclusion.closing.line) == (names, line)


def test_a_node_that_somebody_stopped_is_left_out_and_not_rejected() -> None:
    """A signal, a full disk or a missing library says nothing about the hardware."""
    run = reported(5, Report("not reached", text="it was stopped by a signal", kind="external"))
    assert (named(run), found(run, "left out")) == ({}, {5})
    line = run.conclusion.closing.line
    assert line.startswith("HELD network: 7 nodes")
    assert line.endswith("no acceptance: node5 left out: it was stopped by a signal")


def test_a_slow_domain_is_told_and_none_of_its_nodes_rejected() -> None:
    slow = transport(lambda kind, group: 46.0 if kind != "domain" else 600.0 if 8 in group else 800.0)
    run = ended(domains(32, 8), slow)
    assert (named(run), found(run, "unclear")) == ({}, {*range(8, 16)})
    assert run.conclusion.closing.line == "REJECTED network: NVLink domain rack1 600 GB/s, others 800 GB/s"


# -- the lines, and what is kept


def test_an_accepted_network_says_what_it_reaches() -> None:
    run = simulated(cluster(8, noise=0.0, congestion=0.0, seed=3), floor=41.0)
    assert run.conclusion.closing.line == (
        "SIMULATED ACCEPTED network: 8 nodes, slowest 45.77 GB/s, median 46.02 GB/s, floor 41 GB/s, together 366.2 GB/s"
    )


def test_a_line_names_three_and_counts_the_others() -> None:
    bad = (3, 14, 25, 36, 47)
    run = ended(network(64), transport(lambda _, group: 46.0 * (1 - 0.01 * max([0, *({*group} & {*bad})]))))
    line = run.conclusion.closing.line
    assert line.startswith("REJECTED network: node47 47.0% behind the median of 64 nodes (46 GB/s) with each of ")
    assert (line.count("behind"), line.endswith(" and 2 more")) == (3, False) or line.endswith(" and 1 more")


def test_the_slow_rail_is_told() -> None:
    run = simulated(cluster(8, fault("dead-rail", node=2, rail=5)))
    assert run.conclusion.closing.line.endswith("partners; slow by itself: device 5")
    assert run.conclusion.nodes[2].rails[5] == 0


def test_each_node_has_its_part() -> None:
    run = simulated(cluster(8, fault("slow-node", node=2, by=0.2)))
    parts = node_parts(run)
    part, finding = parts[2], run.conclusion.nodes[2]
    assert (part.found, part.score, part.median) == ("slow", finding.score, run.conclusion.median)
    assert (part.partners, part.nodes, part.rails) == (7, 8, finding.rails)
    assert part.score == max(each.value or 0.0 for each in part.rounds if each.kind != "all")
    assert [(each.kind, each.partners) for each in parts[0].rounds][-1] == ("all", [])
    met = sum(len(group.nodes) for one in run.rounds for group in one.results)
    assert sum(len(each.rounds) for each in parts) == met


def test_the_file_can_be_read_back_and_concludes_the_same() -> None:
    run = simulated(cluster(20, fault("slow-node", node=2, by=0.2), fault("hung-node", node=7), domain=5))
    again = structured.structure(NetworkRun, json.loads(json.dumps(structured.plain(run))))
    assert structured.plain(conclude(again)) == structured.plain(run.conclusion)


@pytest.mark.nightly
def test_ten_thousand_nodes_are_decided_in_seconds() -> None:
    bad = Random(1).sample(range(10_000), 10)  # noqa: S311
    one = cluster(10_000, *(fault("slow-node", node=place, by=0.125) for place in bad), seed=1)
    began = time.process_time()
    run = simulated(one)
    assert (set(named(run)), time.process_time() - began < 60) == ({*bad}, True)
