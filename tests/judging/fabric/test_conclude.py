"""What is concluded from the rounds of a fabric run: who is named, who is not, and how the run ends."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from fabrics import GB_PER_S, cluster, ended, fabric, fault, found, places, simulated, transport

from pytest_accel.core import structured
from pytest_accel.core.fabric import NAMED, Fabric, NodePair, Report
from pytest_accel.judging.fabric.conclude import conclude, node_parts
from pytest_accel.judging.fabric.rounds import next_round

WAITED = Report("waited")
TWENTY = range(20)


def named(run: Fabric) -> dict[int, str]:
    """The nodes that are named, and for what."""
    return {place: each.found for place, each in enumerate(run.conclusion.findings) if each.found in NAMED}


def ends(run: Fabric) -> tuple[str, int]:
    return run.conclusion.closing.word, run.conclusion.closing.exit


# -- twenty placements of each


@pytest.mark.parametrize("nodes", [2, 3, 8, 17, 64])
@pytest.mark.parametrize("seed", TWENTY)
def test_in_a_healthy_fabric_nobody_is_named(nodes: int, seed: int) -> None:
    run = simulated(cluster(nodes, seed=seed), floor=0.9 * GB_PER_S)
    assert (named(run), run.conclusion.paths, run.conclusion.islands) == ({}, [], [])
    assert found(run, "good") == {*range(nodes)}
    assert ends(run) == ("ACCEPTED", 0)


@pytest.mark.parametrize("nodes", [8, 64])
@pytest.mark.parametrize("how", ["link at 80 %", "a dead rail", "no link", "hung", "wrong data"])
@pytest.mark.parametrize("seed", TWENTY)
def test_the_sick_node_is_named_and_no_other(nodes: int, how: str, seed: int) -> None:
    place = Random(seed).randrange(nodes)  # noqa: S311
    sick, expected = {
        "link at 80 %": (fault("slow-node", node=place, by=0.2), "slow"),
        "a dead rail": (fault("dead-rail", node=place, rail=3), "slow"),
        "no link": (fault("dead-link", node=place), "slow"),
        "hung": (fault("hung-node", node=place), "not reached"),
        "wrong data": (fault("wrong-data", node=place, share=1.0), "wrong"),
    }[how]
    run = simulated(cluster(nodes, sick, seed=seed))
    assert (named(run), run.conclusion.paths, run.conclusion.islands) == ({place: expected}, [], [])
    assert found(run, "good") == {*range(nodes)} - {place}
    assert ends(run) == ("REJECTED", 1)
    assert run.conclusion.closing.line.startswith(f"SIMULATED REJECTED fabric: node{place} ")


@pytest.mark.parametrize("nodes", [8, 64])
@pytest.mark.parametrize(("seed", "two"), places(8, 2))
def test_two_sick_nodes_at_once(nodes: int, seed: int, two: tuple[int, int]) -> None:
    slow, other = (place * nodes // 8 for place in two)
    for name, expected, parameters in (
        ("slow-node", "slow", {"by": 0.2}),
        ("hung-node", "not reached", {}),
        ("dead-link", "slow", {}),
        ("wrong-data", "wrong", {"share": 1.0}),
    ):
        sick = fault("slow-node", node=slow, by=0.2), fault(name, node=other, **parameters)
        run = simulated(cluster(nodes, *sick, seed=seed))
        assert named(run) == {slow: "slow", other: expected}, name
        assert run.conclusion.paths == []


@pytest.mark.parametrize(("seed", "one"), places(8, 1))
def test_a_node_that_went_down_is_left_out_by_name(seed: int, one: tuple[int]) -> None:
    run = simulated(cluster(8, fault("silent-node", node=one[0]), seed=seed), floor=0.9 * GB_PER_S)
    assert (named(run), found(run, "left out"), found(run, "good")) == ({}, {*one}, {*range(8)} - {*one})
    assert ends(run) == ("HELD", 6)
    assert f"no acceptance: node{one[0]} left out: its agent did not answer" in run.conclusion.closing.line


@pytest.mark.parametrize(("seed", "two"), places(8, 2))
def test_a_slow_path_is_named_and_neither_of_its_nodes(seed: int, two: tuple[int, int]) -> None:
    run = simulated(cluster(8, fault("slow-pair", nodes=[*two], by=0.25), seed=seed))
    assert (named(run), found(run, "good")) == ({}, {*range(8)})
    ((path, value, wrong),) = [(each.nodes, each.value or 0.0, each.wrong) for each in run.conclusion.paths]
    assert (path, wrong) == (tuple(sorted(two)), False)
    assert 0.9 * 0.75 * GB_PER_S < value < 0.76 * GB_PER_S
    assert ends(run) == ("REJECTED", 1)
    assert f"between node{path[0]} and node{path[1]} {value:.4g} GB/s, good with others" in run.conclusion.closing.line


@pytest.mark.parametrize("nodes", [64, 256])
@pytest.mark.parametrize(("seed", "bad"), places(64, 3))
def test_a_slow_leaf_is_an_island_and_the_slow_nodes_beside_it_and_in_it_are_named(
    nodes: int, seed: int, bad: tuple[int, ...]
) -> None:
    leaf = Random(seed).randrange(nodes // 16)  # noqa: S311
    sick = [fault("slow-node", node=place, by=0.125) for place in bad]
    run = simulated(cluster(nodes, fault("slow-leaf", leaf=leaf, by=0.25), *sick, seed=seed, leaf=16))
    assert named(run) == dict.fromkeys(bad, "slow")
    inside = {place for place in range(nodes) if place // 16 == leaf} - {*bad}
    assert [{*each} for each in run.conclusion.islands] == [inside]
    assert found(run, "island") == inside
    assert run.conclusion.paths == []


# -- nobody can be named


@pytest.mark.parametrize("seed", TWENTY)
def test_if_too_many_are_slow_nobody_is_named(seed: int) -> None:
    bad = Random(seed).sample(range(64), 24)  # noqa: S311
    run = simulated(cluster(64, *(fault("slow-node", node=place, by=0.25) for place in bad), seed=seed))
    assert (named(run), found(run, "unclear")) == ({}, {*bad})
    assert ends(run) == ("NOT JUDGED", 6)
    assert "no node could be named: 24 of 64 nodes are short" in run.conclusion.closing.line


def test_one_slow_node_of_three_is_named_and_two_of_four_are_not() -> None:
    assert named(simulated(cluster(3, fault("slow-node", node=1, by=0.2)))) == {1: "slow"}
    two = [fault("slow-node", node=place, by=0.2) for place in (1, 2)]
    run = simulated(cluster(4, *two))
    assert (named(run), found(run, "unclear"), ends(run)) == ({}, {1, 2}, ("NOT JUDGED", 6))


def test_more_suspects_than_good_nodes_name_nobody_and_no_part() -> None:
    """Two, two and one: any of the three may be what is bad."""
    parts = [{0, 1}, {2, 3}, {4}]
    run = ended(fabric(5), transport(lambda _, group: GB_PER_S if any({*group} <= each for each in parts) else 30.0))
    assert (named(run), found(run, "unclear"), run.conclusion.islands) == ({}, {2, 3, 4}, [])
    assert ends(run) == ("NOT JUDGED", 6)


@pytest.mark.parametrize("nodes", [2, 64])
def test_a_fabric_that_is_short_as_a_whole_is_rejected_and_no_node(nodes: int) -> None:
    sick = [fault("slow-fabric", by=0.3), fault("slow-node", node=1, by=0.2)]
    run = simulated(cluster(nodes, *sick), floor=0.9 * GB_PER_S)
    assert (named(run), found(run, "unclear")) == ({}, {*range(nodes)})
    assert ends(run) == ("REJECTED", 1)
    assert "REJECTED fabric: median of the nodes " in run.conclusion.closing.line
    assert "floor 41.4 GB/s (-" in run.conclusion.closing.line
    assert run.conclusion.together is not None, "what all nodes reach together is measured also here"


def test_without_a_floor_a_fabric_is_compared_with_itself_and_not_accepted() -> None:
    run = simulated(cluster(64, fault("slow-fabric", by=0.3)))
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


@pytest.mark.parametrize("nodes", [8, 64])
@pytest.mark.parametrize(("seed", "two"), places(8, 2))
def test_two_nodes_that_send_wrong_data_are_named_and_nobody_that_met_both(
    nodes: int, seed: int, two: tuple[int, int]
) -> None:
    sick = [fault("wrong-data", node=place, share=1.0) for place in two]
    run = simulated(cluster(nodes, *sick, seed=seed))
    assert (named(run), run.conclusion.paths) == (dict.fromkeys(two, "wrong"), [])


def once_wrong(*pairs: tuple[int, int]) -> Fabric:
    """Eight nodes, whose pairs show wrong data the first time that they meet."""
    left = {*pairs}

    def value(_: str, group: Sequence[int]) -> float | list[Report]:
        pair = min(group), max(group)
        if pair not in left:
            return GB_PER_S
        left.remove(pair)
        return [Report("measured", GB_PER_S), Report("wrong", GB_PER_S, text="1 of 8 differs")]

    return ended(fabric(8, floor=40.0), transport(value))


def test_wrong_data_that_no_node_shows_again_are_those_of_the_pair() -> None:
    run = once_wrong((2, 5))
    assert (named(run), run.conclusion.paths) == ({}, [NodePair((2, 5), wrong=True)])
    assert ends(run) == ("REJECTED", 1)
    assert run.conclusion.closing.line == "REJECTED fabric: between node2 and node5 wrong data, good with others"
    confirmed = {each.nodes[0] for one in run.rounds if one.kind == "confirm" for each in one.results}
    assert confirmed == {2, 5}


def test_a_node_that_met_two_bad_ones_is_cleared_and_they_are_looked_at() -> None:
    """It shows wrong data most often, and is none of the reasons."""
    run = once_wrong((1, 2), (1, 3))
    confirmed = {each.nodes[0] for one in run.rounds if one.kind == "confirm" for each in one.results}
    assert (named(run), confirmed) == ({}, {1, 2, 3})
    assert [each.nodes for each in run.conclusion.paths] == [(1, 2), (1, 3)]


@pytest.mark.parametrize("seed", TWENTY)
def test_a_pair_whose_data_are_always_wrong_is_a_path_and_proves_neither_node_bad(seed: int) -> None:
    wrong = [Report("wrong", GB_PER_S), Report("measured", GB_PER_S)]
    run = ended(fabric(8, seed=seed), transport(lambda _, group: wrong if {*group} == {2, 5} else GB_PER_S))
    assert (named(run), [{*each.nodes} for each in run.conclusion.paths]) == ({}, [{2, 5}])


def test_a_node_that_is_named_for_wrong_data_is_named_at_once_and_confirms_nobody() -> None:
    """It was good with others before, as a node that is wrong in a share of the rounds."""
    wrong = [Report("wrong", GB_PER_S), WAITED]
    for seed in TWENTY:
        run = ended(
            fabric(8, seed=seed),
            transport(
                lambda kind, group: (
                    wrong if 2 in group and (kind == "confirm" or {3, 4} & {*group}) else 46.0 - 10.0 * (5 in group)
                )
            ),
        )
        assert named(run) == {2: "wrong", 5: "slow"}
        confirmed = [each.nodes[0] for one in run.rounds if one.kind == "confirm" for each in one.results]
        assert confirmed == [2, 5, 5], "neither node 3 nor node 4"


def test_a_slow_node_is_named_though_its_partner_with_wrong_data_hangs() -> None:
    wrong, hangs = [Report("wrong", GB_PER_S), WAITED], [Report("not reached", text="hung"), WAITED]

    def value(kind: str, group: Sequence[int]) -> float | list[Report]:
        if {*group} == {2, 5}:
            return wrong
        return hangs if kind == "confirm" and group[0] == 2 else 46.0 - 10.0 * (5 in group)

    run = ended(fabric(8), transport(value))
    assert named(run) == {2: "not reached", 5: "slow"}
    assert sum(each.nodes[0] == 2 for one in run.rounds if one.kind == "confirm" for each in one.results) == 1


def test_a_partner_that_hangs_neither_clears_a_node_nor_counts() -> None:
    """Node 2 shows wrong data with node 5, and again with the second partner that answers."""
    met: list[int] = []

    def value(kind: str, group: Sequence[int]) -> float | list[Report]:
        if kind != "confirm" or group[0] != 2:
            return [Report("wrong"), WAITED] if kind == "pairs" and {*group} == {2, 5} else GB_PER_S
        met.append(group[1])
        if len(met) == 1:
            return [WAITED, Report("not reached", text="hung")]
        return GB_PER_S if len(met) == 2 else [WAITED, Report("wrong")]

    run = ended(fabric(8), transport(value))
    assert named(run) == {2: "wrong", met[0]: "not reached"}


def test_a_slow_node_is_told_with_the_partners_that_it_measured_with() -> None:
    first = next_round(fabric(8))
    assert first
    slow, hung = first.groups[0]
    stopped = [Report("not reached", text="hung"), WAITED]

    def value(_: str, group: Sequence[int]) -> float | list[Report]:
        return (stopped if group[0] == hung else stopped[::-1]) if hung in group else 46.0 - 10.0 * (slow in group)

    run = ended(fabric(8), transport(value))
    assert named(run) == {slow: "slow", hung: "not reached"}
    assert run.conclusion.findings[slow].partners == 6


def test_two_nodes_alone_with_wrong_data_are_a_pair() -> None:
    run = simulated(cluster(2, fault("wrong-data", node=1, share=1.0)))
    assert (named(run), [each.nodes for each in run.conclusion.paths], ends(run)) == ({}, [(0, 1)], ("REJECTED", 1))


@pytest.mark.parametrize("kind", ["domain", "all"])
def test_wrong_data_that_only_a_large_group_shows_reject_the_fabric(kind: str) -> None:
    run = fabric(18)
    run = replace(run, nodes=[replace(each, domain="rack1") for each in run.nodes], floor=40.0)
    wrong = transport(lambda found, group: [Report("wrong", 1.0)] * len(group) if found == kind else GB_PER_S)
    run = ended(run, wrong)
    where = "NVLink domain rack1"
    assert run.conclusion.closing.line == f"REJECTED fabric: {where} wrong data"
    assert (named(run), found(run, "good")) == ({}, {*range(18)})


# -- what says nothing about a node


def test_a_node_that_did_not_answer_is_asked_no_more() -> None:
    down = transport(
        lambda _, group: (
            [Report("no report", text="down") if each == 3 else WAITED for each in group] if 3 in group else GB_PER_S
        )
    )
    run = ended(fabric(8, floor=40.0), down)
    assert sum(3 in result.nodes for one in run.rounds for result in one.results) == 1
    assert (found(run, "good"), found(run, "left out"), ends(run)) == ({*range(8)} - {3}, {3}, ("HELD", 6))


def test_a_pair_that_failed_once_is_measured_again() -> None:
    failed = iter([True])

    def value(_: str, group: Sequence[int]) -> float | list[Report]:
        return [Report("failed"), WAITED] if {*group} == {2, 5} and next(failed, False) else GB_PER_S

    run = ended(fabric(8, floor=40.0), transport(value))
    assert [[tuple(sorted(each.nodes)) for each in one.results] for one in run.rounds if one.kind == "path"] == [
        [(2, 5)]
    ]
    assert ends(run) == ("ACCEPTED", 0)


def test_a_pair_that_fails_every_time_is_a_path() -> None:
    fails = transport(lambda _, group: [Report("failed"), WAITED] if {*group} == {2, 5} else GB_PER_S)
    run = ended(fabric(8, floor=40.0), fails)
    assert run.conclusion.paths == [NodePair((2, 5))]
    assert run.conclusion.closing.line == "REJECTED fabric: between node2 and node5 not measurable, good with others"


def test_rounds_that_are_missing_are_not_judged() -> None:
    one = cluster(64, fault("slow-node", node=9, by=0.2))
    run = simulated(one, floor=40.0)
    lines = [conclude(replace(run, rounds=run.rounds[:count])).closing for count in range(len(run.rounds))]
    assert {each.word for each in lines[:-1]} == {"NOT JUDGED", "REJECTED"}
    assert lines[0].line == "SIMULATED NOT JUDGED fabric: no pair could be measured"
    assert lines[3].line == (
        "SIMULATED NOT JUDGED fabric: node9: no node could be named: it was not measured with enough good nodes; "
        "the good nodes were not measured together"
    )


def test_an_island_that_met_no_proven_nodes_is_not_told() -> None:
    run = simulated(cluster(64, fault("slow-leaf", leaf=1, by=0.25), leaf=16))
    confirmed = conclude(replace(run, rounds=[each for each in run.rounds if each.kind != "confirm"]))
    assert [len(each.islands) for each in (run.conclusion, confirmed)] == [1, 0]
    assert confirmed.closing.word == "NOT JUDGED"


def test_a_node_by_itself_is_not_judged() -> None:
    line = conclude(fabric(1)).closing
    assert (line.line, line.exit) == ("NOT JUDGED fabric: 1 node took part", 6)


def test_good_nodes_that_cannot_work_together_are_not_judged() -> None:
    run = ended(fabric(8, floor=40.0), transport(lambda kind, group: [WAITED] * 8 if kind == "all" else GB_PER_S))
    assert run.conclusion.closing.line == "NOT JUDGED fabric: all 8 good nodes together could not be measured"


def test_a_node_that_hangs_with_all_of_them_is_named() -> None:
    hung = [Report("not reached", text="its worker hung"), *[WAITED] * 7]
    run = ended(fabric(8, floor=40.0), transport(lambda kind, group: hung if kind == "all" else GB_PER_S))
    assert (named(run), run.conclusion.closing.line) == ({0: "not reached"}, "REJECTED fabric: node0 its worker hung")


def test_a_node_whose_only_partner_hangs_was_not_measured() -> None:
    run = simulated(cluster(2, fault("hung-node", node=1)))
    assert (named(run), found(run, "unmeasured")) == ({1: "not reached"}, {0})


def test_a_node_that_somebody_stopped_is_left_out_and_not_rejected() -> None:
    """A signal, a full disk or a missing library says nothing about the hardware."""
    stopped = Report("not reached", text="it was stopped by a signal", kind="external")
    run = ended(
        fabric(8, floor=40.0),
        transport(lambda kind, group: [stopped if each == 5 else WAITED for each in group] if 5 in group else GB_PER_S),
    )
    assert (named(run), found(run, "left out")) == ({}, {5})
    line = run.conclusion.closing.line
    assert line.startswith("HELD fabric: 7 nodes")
    assert line.endswith("no acceptance: node5 left out: it was stopped by a signal")


def test_a_slow_domain_is_told_and_none_of_its_nodes_rejected() -> None:
    run = fabric(32, floor=40.0)
    run = replace(run, nodes=[replace(each, domain=f"rack{place // 8}") for place, each in enumerate(run.nodes)])
    run = ended(
        run,
        transport(
            lambda kind, group: 600.0 if kind == "domain" and 8 in group else 800.0 if kind == "domain" else 46.0
        ),
    )
    assert (named(run), found(run, "unclear")) == ({}, {*range(8, 16)})
    assert run.conclusion.closing.line == "REJECTED fabric: NVLink domain rack1 600 GB/s, others 800 GB/s"


# -- the lines, and what is kept


def test_an_accepted_fabric_says_what_it_reaches() -> None:
    run = simulated(cluster(8, noise=0.0, congestion=0.0, seed=3), floor=41.0)
    assert run.conclusion.closing.line == (
        "SIMULATED ACCEPTED fabric: 8 nodes, slowest 45.77 GB/s, median 46.02 GB/s, floor 41 GB/s, together 366.2 GB/s"
    )


def test_a_line_names_three_and_counts_the_others() -> None:
    bad = (3, 14, 25, 36, 47)
    run = ended(fabric(64), transport(lambda _, group: 46.0 * (1 - 0.01 * max([0, *({*group} & {*bad})]))))
    line = run.conclusion.closing.line
    assert line.startswith("REJECTED fabric: node47 47.0% behind the median of 64 nodes (46 GB/s) with each of ")
    assert (line.count("behind"), line.endswith(" and 2 more")) == (3, False) or line.endswith(" and 1 more")


def test_the_slow_rail_is_told() -> None:
    run = simulated(cluster(8, fault("dead-rail", node=2, rail=5)))
    assert run.conclusion.closing.line.endswith("partners; slow by itself: device 5")
    assert run.conclusion.findings[2].rails[5] == 0


def test_each_node_has_its_part() -> None:
    run = simulated(cluster(8, fault("slow-node", node=2, by=0.2)))
    parts = node_parts(run)
    part, finding = parts[2], run.conclusion.findings[2]
    assert (part.found, part.score, part.median) == ("slow", finding.score, run.conclusion.median)
    assert (part.partners, part.nodes, part.rails) == (7, 8, finding.rails)
    assert part.score == max(each.value or 0.0 for each in part.rounds if each.kind != "all")
    assert sorted({*part.rounds[0].partners, *part.rounds[1].partners}) != []
    assert [(each.kind, each.partners) for each in parts[0].rounds][-1] == ("all", [])
    assert sum(len(each.rounds) for each in parts) == sum(
        len(group.nodes) for one in run.rounds for group in one.results
    )


def test_the_file_can_be_read_back_and_concludes_the_same() -> None:
    run = simulated(cluster(20, fault("slow-node", node=2, by=0.2), fault("hung-node", node=7), domain=5))
    again = structured.structure(Fabric, json.loads(json.dumps(structured.plain(run))))
    assert structured.plain(conclude(again)) == structured.plain(run.conclusion)


@pytest.mark.slow
@pytest.mark.nightly
def test_ten_thousand_nodes_are_decided_in_seconds() -> None:
    bad = Random(1).sample(range(10_000), 10)  # noqa: S311
    one = cluster(10_000, *(fault("slow-node", node=place, by=0.125) for place in bad), seed=1)
    began = time.process_time()
    run = simulated(one)
    assert (set(named(run)), time.process_time() - began < 60) == ({*bad}, True)
