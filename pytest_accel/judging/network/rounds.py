"""The plan of the rounds of a network run, each by those before it. Deterministic by the seed of the network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import ceil
from random import Random
from typing import Final

from pytest_accel.core.details import RoundKind
from pytest_accel.core.groups import grouped
from pytest_accel.core.network_run import NetworkRun, PlannedRound
from pytest_accel.judging.network.standing import MOST_NAMED, Standing, standing

ALL_PAIRS: Final = 16
"""Up to so many nodes each meets each other; of more, each meets three."""
MATCHINGS: Final = 3
MOST_CONFIRMED: Final = 12
"""Rounds in which suspects are confirmed, at most: five with proven partners and two with each of three islands."""
MOST_PATHS: Final = 8
"""Rounds in which short pairs are measured again, at most: four for each of two that share a node."""
PATH_TIMES: Final = 5
"""A pair of good nodes is to blame if it was short so many times, and never good. In one of thirty measurements a pair
that nothing is wrong with shares its way through the network, which leaves one of 20 million such pairs; of 1,024 nodes
4,000 pairs meet in a run."""
TRIES: Final = 50
"""Random matchings that are tried, to find one in which nobody meets or rests again."""

Groups = list[tuple[int, ...]]


def next_round(run: NetworkRun) -> PlannedRound | None:
    """Return the round that is to be measured next, None after the last one.

    The groups of a round "confirm" are pairs of a suspect and its partner, in this order.
    """
    state, turns = standing(run), Counter(network_round.kind for network_round in run.rounds)
    for kind, plan in {} if turns["all"] else PLANS.items():
        if groups := plan(state, turns[kind]):
            return PlannedRound(kind, groups)
    return None


def _domain(state: Standing, turn: int) -> Groups:
    """Return the NVLink domains that have several nodes."""
    return [] if turn else [tuple(nodes) for nodes in state.domains.values()]


def _pairs(state: Standing, turn: int) -> Groups:
    """Return all nodes in pairs.

    More rounds are needed if one NVLink domain has most of the nodes, twice as many if so many are suspects that the
    good ones may not be connected yet, and four before a network is short as a whole.
    """
    nodes, largest = state.participants, max(map(len, state.domains.values()), default=0) if state.apart else 0
    rounds = MATCHINGS * max(1, ceil(largest / max(1, len(nodes) - largest)))
    if turn >= rounds and len(state.suspects) > MOST_NAMED * len(nodes) and not state.all_short:
        rounds *= 2
    rounds = len(nodes) - 1 + len(nodes) % 2 if len(nodes) <= ALL_PAIRS else rounds
    return _matching(state, nodes, "pairs", turn, max(rounds, MATCHINGS + 1) if state.all_short else rounds)


def _suspects(state: Standing, turn: int) -> Groups:
    """Return the suspects in pairs, if there are more than two: for longer while several islands may be one."""
    suspects = [node for node in state.suspects if node not in state.wrong_suspects]
    if len(suspects) < 3 or state.too_many or state.all_short:
        return []
    return _matching(state, suspects, "suspects", turn, MATCHINGS * (2 if len(state.islands) > 1 else 1))


def _matching(state: Standing, nodes: Sequence[int], name: str, turn: int, count: int) -> Groups:
    """Return the pairs of round `turn` of `count`; empty after the last.

    Those whose partner takes no part any more, or is in the same NVLink domain, meet each other instead.
    """
    if turn >= count or len(nodes) < 2:
        return []
    rounds = matchings(nodes, count, _rng(state, name))
    planned = rounds[turn % len(rounds)]
    pairs: Groups = [pair for pair in planned if state.excluded.keys().isdisjoint(pair) and state.crosses(*pair)]
    busy = {node for pair in pairs for node in pair}
    spare = [node for node in nodes if node not in busy and node not in state.excluded]
    _rng(state, f"{name} {turn}").shuffle(spare)
    spare.sort(key=lambda node: state.run.nodes[node].domain if state.apart else "")
    half = len(spare) // 2
    return pairs + [pair for pair in zip(spare[:half], spare[-half:], strict=False) if state.crosses(*pair)]


def matchings(nodes: Sequence[int], count: int, rng: Random) -> list[list[tuple[int, int]]]:
    """Return all nodes in pairs, for `count` rounds. No two meet twice; of an odd number another one rests each time.

    With enough rounds everybody meets everybody (the circle method).
    """
    ring, order = len(nodes) - 1 + len(nodes) % 2, [*nodes]
    rng.shuffle(order)
    if count >= ring:
        steps = range(1, ring // 2 + 1)
        turns = [[(ring, hub), *(((hub + k) % ring, (hub - k) % ring) for k in steps)] for hub in range(ring)]
        return [[(order[i], order[j]) for i, j in turn if max(i, j) < len(order)] for turn in turns]
    # fewer are random: few turns of the circle may leave parts of the network without a pair between them
    rounds, used = list[list[tuple[int, int]]](), set[tuple[int, int]]()
    while len(rounds) < count:
        candidates = (_at_random(order, rng) for _ in range(TRIES))
        pairs = next(filter(used.isdisjoint, candidates), None) or _at_random(order, rng)
        used.update(pairs)
        rounds.append([pair for pair in pairs if pair[0] != pair[1]])
    return rounds


def _at_random(order: list[int], rng: Random) -> list[tuple[int, int]]:
    """Return nodes in pairs at random; one that rests is paired with itself."""
    rng.shuffle(order)
    pairs = zip(order[::2], [*order[1::2], *order[-1:]], strict=False)
    return [(min(pair), max(pair)) for pair in pairs]


def _confirm(state: Standing, turn: int) -> Groups:
    """Return each suspect that is left with a proven partner, or with a member of an island; nobody meets two."""
    slow = [] if state.too_many or state.all_short else state.suspects
    suspects = sorted({*slow, *state.wrong_suspects} - state.corrupt)
    if turn >= MOST_CONFIRMED or not suspects:
        return []
    rng, proven = _rng(state, f"confirm {turn}"), sorted(state.proven)
    rng.shuffle(proven)
    by_leaf = grouped(proven, lambda node: state.run.nodes[node].leaf)
    groups, busy = Groups(), set[int]()
    for node in suspects:
        partners, islands = state.lacks(node)
        pools: list[Iterable[int]] = [_by_leaf(state, node, proven, by_leaf)] if partners else []
        pools += [rng.sample(island, len(island)) for island in islands]
        excluded = state.confirmers(node) | busy
        others = (other for other in chain(*pools) if other not in excluded and other != node)
        candidates = (other for other in others if state.crosses(node, other))
        if node not in busy and (partner := next(candidates, None)) is not None:
            groups.append((node, partner))
            busy.update((node, partner))
    return groups


def _by_leaf(state: Standing, node: int, proven: Sequence[int], by_leaf: Mapping[str, Sequence[int]]) -> Iterator[int]:
    """Yield the proven nodes in the order in which a suspect should meet them.

    Those that it has not met come first; at first those of its own leaf switch, the second time those of others.
    """
    leaf = state.run.nodes[node].leaf
    met_nodes = {other for meeting in state.pairs_of.get(node, ()) for other in meeting.nodes}
    local = by_leaf.get(leaf, ()) if leaf else ()
    remote = (other for other in proven if not leaf or state.run.nodes[other].leaf != leaf)
    order = chain(remote, local) if state.confirmers(node) & state.good_nodes else chain(local, remote)
    postponed: list[int] = []
    for other in order:
        if other not in met_nodes:
            yield other
        else:
            postponed.append(other)
    yield from postponed


def _paths(state: Standing, turn: int) -> Groups:
    """Return the short pairs of proven nodes once more; of those that share a node one has to wait for a next round."""
    if turn >= MOST_PATHS or state.all_short:
        return []
    groups, busy = Groups(), set[int]()
    for pair, times in sorted(short_pairs(state).items(), key=lambda item: (-item[1], item[0])):
        if times < PATH_TIMES and busy.isdisjoint(pair):
            groups.append(pair)
            busy.update(pair)
    return groups


def short_pairs(state: Standing) -> dict[tuple[int, int], int]:
    """Return the pairs of proven nodes that were never good, with the number of times they were short or failed."""
    times, good = Counter[tuple[int, int]](), set[tuple[int, int]]()
    for meeting in state.meetings:
        if not meeting.wrong and state.proven.issuperset(meeting.nodes):
            pair = min(meeting.nodes), max(meeting.nodes)
            if state.good(meeting):
                good.add(pair)
            else:
                times[pair] += 1
    return {pair: number for pair, number in times.items() if pair not in good}


def _all(state: Standing, _: int) -> Groups:
    """Return all good nodes as one group."""
    good = sorted(state.good_nodes - state.corrupt)
    return [tuple(good)] if len(good) > 1 else []


def _rng(state: Standing, name: str) -> Random:
    return Random(f"{state.run.seed} {name}")  # noqa: S311  a matching, not a secret


PLANS: Final[Mapping[RoundKind, Callable[[Standing, int], Groups]]] = {
    "domain": _domain,
    "pairs": _pairs,
    "suspects": _suspects,
    "confirm": _confirm,
    "path": _paths,
    "all": _all,
}
"""The functions that plan each kind of round, in the order of the kinds. They return its groups by the standing and the
number of rounds of the kind so far; none if there is nothing to measure."""
