"""The pairs and groups of nodes in each round of a network run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

import pytest
from support import networks
from support.networks import cluster, ended, fault, kinds, network, simulated, transport
from support.rows import each_row

from pytest_accel.core.network_run import NetworkRun, Report
from pytest_accel.judging.network.rounds import next_round

ALIKE = transport(lambda kind, nodes: 46.0)
WAITED = Report("waited")


def groups(run: NetworkRun, kind: str) -> list[list[tuple[int, ...]]]:
    return [[tuple(each.nodes) for each in one.results] for one in run.rounds if one.kind == kind]


def slow(*nodes: int, by: float = 0.2) -> networks.Transport:
    return transport(lambda kind, group: 46.0 * (1 - by * bool({*group} & {*nodes})))


def test_up_to_sixteen_nodes_meet_each_other_once() -> None:
    for nodes in range(2, 17):
        run = ended(network(nodes), ALIKE)
        rounds = groups(run, "pairs")
        met = Counter(tuple(sorted(pair)) for each in rounds for pair in each)
        assert met == Counter(combinations(range(nodes), 2)), nodes
        assert all(len({*sum(each, ())}) == 2 * len(each) for each in rounds), "nobody twice in a round"
        assert kinds(run) == [f"pairs {nodes - 1 + nodes % 2}", "all 1"]


@each_row("nodes", [17, 64, 65, 1001])
def test_more_nodes_meet_three_others_and_nobody_rests_twice(nodes: int) -> None:
    run = ended(network(nodes, seed=7), ALIKE)
    assert kinds(run) == ["pairs 3", "all 1"]
    pairs = Counter(tuple(sorted(pair)) for each in groups(run, "pairs") for pair in each)
    assert max(pairs.values()) == 1, "no two meet twice"
    rounds = Counter(node for pair in pairs for node in pair)
    assert set(rounds.values()) == ({3} if nodes % 2 == 0 else {2, 3})
    assert sum(count == 2 for count in rounds.values()) == 3 * (nodes % 2)
    assert groups(run, "all") == [[tuple(range(nodes))]]


def test_the_seed_decides_who_meets() -> None:
    first, again, other = (ended(network(64, seed=seed), ALIKE) for seed in (1, 1, 2))
    assert first == again
    assert groups(first, "pairs") != groups(other, "pairs")


def test_a_node_alone_measures_nothing() -> None:
    assert [next_round(network(nodes)) for nodes in (0, 1)] == [None, None]


def test_who_takes_no_part_meets_nobody() -> None:
    nodes = [*network(8).nodes]
    nodes[3] = replace(nodes[3], left_out="late")
    run = ended(replace(network(8), nodes=nodes), ALIKE)
    assert not any(3 in pair for one in run.rounds for each in one.results for pair in [each.nodes])
    assert len(groups(run, "pairs")) == 7


@pytest.mark.parametrize("nodes", [8, 64])
def test_a_node_that_hangs_is_not_measured_again_and_its_partners_meet(nodes: int) -> None:
    def value(_: str, group: Sequence[int]) -> float | list[Report]:
        return (
            [Report("not reached", kind="device") if each in (1, 2) else WAITED for each in group]
            if {1, 2} & {*group}
            else 46.0
        )

    run = ended(network(nodes), transport(value))
    every = [{*sum(map(tuple, each), ())} for each in groups(run, "pairs")]
    assert {1, 2} <= every[0]
    assert [each & {1, 2} for each in every[1:]] == [set()] * (len(every) - 1)
    assert all(len(each) == nodes - 2 for each in every[1:]), "the partners of both meet each other"


# -- suspects


def test_two_suspects_do_not_meet_and_three_do() -> None:
    assert kinds(ended(network(64), slow(3, 9))) == ["pairs 3", "confirm 2", "all 1"]
    run = ended(network(64), slow(3, 9, 27))
    assert kinds(run) == ["pairs 3", "suspects 3", "confirm 2", "all 1"]
    assert {tuple(sorted(pair)) for each in groups(run, "suspects") for pair in each} == {(3, 9), (3, 27), (9, 27)}


def test_nodes_with_wrong_data_need_one_round_and_do_not_meet_each_other() -> None:
    sick = [fault("wrong-data", node=place, share=1.0) for place in (3, 9, 27)]
    assert kinds(simulated(cluster(64, *sick, congestion=0.0))) == ["pairs 3", "confirm 1", "all 1"]


def test_a_suspect_is_confirmed_with_two_proven_nodes_if_possible_with_such_that_it_has_not_met() -> None:
    for nodes, seed in product([8, 20, 64], range(10)):
        run = ended(network(nodes, seed=seed), slow(3, 6))
        pairs = [{*pair} for one in groups(run, "pairs") for pair in one]
        confirmed = groups(run, "confirm")
        assert all([pair[0] for pair in each] == [3, 6] for each in confirmed), "the suspect comes first"
        assert all(len({*sum(each, ())}) == 4 for each in confirmed), "nobody meets two in a round"
        for node in (3, 6):
            before = set().union(*(pair for pair in pairs if node in pair))
            partners = [pair[1] for each in confirmed for pair in each if pair[0] == node]
            assert len({*partners}) == len(partners) == (3 if nodes > 8 and {3, 6} <= before else 2), (nodes, seed)
            assert {*partners}.isdisjoint({3, 6} if nodes == 8 else before | {3, 6})


def test_a_suspect_meets_a_proven_node_of_its_leaf_and_one_of_another() -> None:
    one = cluster(64, fault("slow-node", node=20, by=0.2), leaf=16)
    (first,), (second,) = groups(simulated(one), "confirm")
    assert (first[0], first[1] // 16, second[0]) == (20, 1, 20)
    assert second[1] // 16 != 1


def test_a_node_that_is_left_meets_two_of_the_island() -> None:
    one = cluster(64, fault("slow-leaf", leaf=2, by=0.25), fault("slow-node", node=5, by=0.2), leaf=16)
    run = simulated(one)
    partners = [pair[1] for each in groups(run, "confirm") for pair in each if pair[0] == 5]
    assert sum(each // 16 == 2 for each in partners) == 2
    assert sum(each // 16 != 2 for each in partners) == 2


def test_all_good_nodes_are_measured_together_in_the_end() -> None:
    run = ended(network(64), slow(3, 9))
    assert groups(run, "all") == [[tuple(each for each in range(64) if each not in (3, 9))]]
    assert next_round(run) is None


# -- paths


def test_short_pairs_of_good_nodes_are_measured_until_they_are_good_or_short_five_times() -> None:
    bad = {(1, 2), (1, 3), (4, 5)}
    run = ended(network(8), transport(lambda kind, group: 30.0 if tuple(sorted(group)) in bad else 46.0))
    rounds = groups(run, "path")
    assert all(len({*sum(each, ())}) == 2 * len(each) for each in rounds), "pairs that share a node wait"
    assert Counter(pair for each in rounds for pair in each) == dict.fromkeys(bad, 4)
    seen = Counter[tuple[int, ...]]()

    def once(_: str, group: Sequence[int]) -> float:
        seen[tuple(sorted(group))] += 1
        return 30.0 if tuple(sorted(group)) in bad and seen[tuple(sorted(group))] == 1 else 46.0

    assert [sorted(each) for each in groups(ended(network(8), transport(once)), "path")] == [[(1, 2), (4, 5)], [(1, 3)]]


# -- NVLink domains


def domains(*sizes: int) -> NetworkRun:
    names = [f"d{place}" for place, size in enumerate(sizes) for _ in range(size)]
    run = network(len(names))
    return replace(run, nodes=[replace(each, domain=name) for each, name in zip(run.nodes, names, strict=True)])


def test_one_domain_is_measured_together_and_then_in_pairs() -> None:
    run = ended(domains(18), ALIKE)
    assert kinds(run) == ["domain 1", "pairs 3", "all 1"]
    assert groups(run, "domain") == [[tuple(range(18))]]
    assert kinds(ended(domains(*[1] * 8), ALIKE)) == ["pairs 7", "all 1"], "one node alone is no domain"


@each_row("sizes", [(18, 18), (18, 18, 18, 17), (4, 4), (18, 9), (18, 4), (2, 1, 1)])
def test_pairs_are_of_different_domains(sizes: tuple[int, ...]) -> None:
    """NVLink between two trays would hide a slow NIC."""
    run = ended(domains(*sizes), transport(lambda kind, group: 46.0 * (1 - 0.2 * (0 in group))))
    domain = [each.domain for each in run.nodes]
    assert kinds(run)[0] == "domain 1"
    for kind in ("pairs", "suspects", "confirm", "path"):
        assert all(domain[a] != domain[b] for each in groups(run, kind) for a, b in each)
    assert (networks.found(run, "slow"), networks.found(run, "good")) == ({0}, {*range(1, sum(sizes))})
