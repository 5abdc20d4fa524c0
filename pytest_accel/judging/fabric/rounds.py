"""Plans the rounds of a fabric run, each by what those before it showed. Deterministic by the seed of the fabric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import ceil
from random import Random
from typing import Final

from pytest_accel.core.details import RoundKind
from pytest_accel.core.fabric import Fabric, PlannedRound
from pytest_accel.core.groups import grouped
from pytest_accel.judging.fabric.standing import MOST_NAMED, Standing, standing

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


def next_round(fabric: Fabric) -> PlannedRound | None:
    """Return the round that is to be measured next, None after the last one.

    The groups of a round "confirm" are pairs of a suspect and its partner, in this order.
    """
    shown, done = standing(fabric), Counter(each.kind for each in fabric.rounds)
    for kind, plan in {} if done["all"] else PLANS.items():
        if groups := plan(shown, done[kind]):
            return PlannedRound(kind, groups)
    return None


def _domain(shown: Standing, done: int) -> Groups:
    """Return the NVLink domains that have several nodes."""
    return [] if done else [tuple(nodes) for nodes in shown.domains.values()]


def _pairs(shown: Standing, done: int) -> Groups:
    """Return all nodes in pairs.

    More rounds are needed if one NVLink domain has most of the nodes, twice as many if so many are suspects that the
    good ones may not be connected yet, and four before a fabric is short as a whole.
    """
    nodes, largest = shown.taking, max(map(len, shown.domains.values()), default=0) if shown.apart else 0
    few = MATCHINGS * max(1, ceil(largest / max(1, len(nodes) - largest)))
    if done >= few and len(shown.suspects) > MOST_NAMED * len(nodes) and not shown.all_short:
        few *= 2
    few = len(nodes) - 1 + len(nodes) % 2 if len(nodes) <= ALL_PAIRS else few
    return _matching(shown, nodes, "pairs", done, max(few, MATCHINGS + 1) if shown.all_short else few)


def _suspects(shown: Standing, done: int) -> Groups:
    """Return the suspects in pairs, if there are more than two: for longer while several islands may be one."""
    alike = [each for each in shown.suspects if each not in shown.wrong_suspects]
    if len(alike) < 3 or shown.too_many or shown.all_short:
        return []
    return _matching(shown, alike, "suspects", done, MATCHINGS * (2 if len(shown.islands) > 1 else 1))


def _matching(shown: Standing, nodes: Sequence[int], name: str, turn: int, most: int) -> Groups:
    """Return the pairs of one of `most` rounds; empty after the last.

    Those whose partner takes no part any more, or is in the same NVLink domain, meet each other instead.
    """
    if turn >= most or len(nodes) < 2:
        return []
    rounds = matchings(nodes, most, _rng(shown, name))
    met = rounds[turn % len(rounds)]
    found: Groups = [pair for pair in met if shown.out.keys().isdisjoint(pair) and shown.between(*pair)]
    busy = {node for pair in found for node in pair}
    spare = [each for each in nodes if each not in busy and each not in shown.out]
    _rng(shown, f"{name} {turn}").shuffle(spare)
    spare.sort(key=lambda each: shown.fabric.nodes[each].domain if shown.apart else "")
    half = len(spare) // 2
    return found + [pair for pair in zip(spare[:half], spare[-half:], strict=False) if shown.between(*pair)]


def matchings(nodes: Sequence[int], most: int, rng: Random) -> list[list[tuple[int, int]]]:
    """Return all nodes in pairs, for `most` rounds. No two meet twice; of an odd number another one rests each time.

    With enough rounds everybody meets everybody (the circle method). Fewer are random: few turns of the circle may
    leave parts of the fabric without a pair between them.
    """
    ring, order = len(nodes) - 1 + len(nodes) % 2, [*nodes]
    rng.shuffle(order)
    if most >= ring:
        turns = [
            [(ring, at), *(((at + k) % ring, (at - k) % ring) for k in range(1, ring // 2 + 1))] for at in range(ring)
        ]
        return [[(order[i], order[j]) for i, j in turn if max(i, j) < len(order)] for turn in turns]
    found, met = list[list[tuple[int, int]]](), set[tuple[int, int]]()
    while len(found) < most:
        tried = (_at_random(order, rng) for _ in range(TRIES))
        pairs = next((each for each in tried if met.isdisjoint(each)), None) or _at_random(order, rng)
        met.update(pairs)
        found.append([each for each in pairs if each[0] != each[1]])
    return found


def _at_random(order: list[int], rng: Random) -> list[tuple[int, int]]:
    """Return nodes in pairs at random; one that rests is paired with itself."""
    rng.shuffle(order)
    pairs = zip(order[::2], [*order[1::2], *order[-1:]], strict=False)
    return [(min(pair), max(pair)) for pair in pairs]


def _confirm(shown: Standing, done: int) -> Groups:
    """Return each suspect that is left with a proven partner, or with a member of an island; nobody meets two."""
    slow = [] if shown.too_many or shown.all_short else shown.suspects
    asked = sorted({*slow, *shown.wrong_suspects} - shown.wrong)
    if done >= MOST_CONFIRMED or not asked:
        return []
    rng, proven = _rng(shown, f"confirm {done}"), sorted(shown.proven)
    rng.shuffle(proven)
    of_leaf = grouped(proven, lambda each: shown.fabric.nodes[each].leaf)
    groups, busy = Groups(), set[int]()
    for node in asked:
        partners, islands = shown.lacks(node)
        pools: list[Iterable[int]] = [_by_leaf(shown, node, proven, of_leaf)] if partners else []
        pools += [rng.sample(each, len(each)) for each in islands]
        met = shown.confirmed_with(node) | busy
        fits = (each for each in chain(*pools) if each not in met and each != node and shown.between(node, each))
        if node not in busy and (partner := next(fits, None)) is not None:
            groups.append((node, partner))
            busy.update((node, partner))
    return groups


def _by_leaf(shown: Standing, node: int, proven: Sequence[int], of_leaf: Mapping[str, Sequence[int]]) -> Iterator[int]:
    """Yield the proven nodes in the order in which a suspect should meet them.

    Those that it has not met come first; at first those of its own leaf switch, the second time those of others.
    """
    leaf = shown.fabric.nodes[node].leaf
    met = {each for meeting in shown.of.get(node, ()) for each in meeting.nodes}
    near = of_leaf.get(leaf, ()) if leaf else ()
    far = (each for each in proven if not leaf or shown.fabric.nodes[each].leaf != leaf)
    first = chain(far, near) if shown.confirmed_with(node) & shown.fabric_part else chain(near, far)
    later: list[int] = []
    for each in first:
        if each not in met:
            yield each
        else:
            later.append(each)
    yield from later


def _paths(shown: Standing, done: int) -> Groups:
    """Return the short pairs of proven nodes once more; of those that share a node one has to wait for a next round."""
    if done >= MOST_PATHS or shown.all_short:
        return []
    groups, busy = Groups(), set[int]()
    for pair, times in sorted(short_pairs(shown).items(), key=lambda item: (-item[1], item[0])):
        if times < PATH_TIMES and busy.isdisjoint(pair):
            groups.append(pair)
            busy.update(pair)
    return groups


def short_pairs(shown: Standing) -> dict[tuple[int, int], int]:
    """Return the pairs of proven nodes that were never good, with how many times they were short or failed."""
    times, good = Counter[tuple[int, int]](), set[tuple[int, int]]()
    for each in shown.meetings:
        if not each.wrong and shown.proven.issuperset(each.nodes):
            pair = min(each.nodes), max(each.nodes)
            if shown.good(each):
                good.add(pair)
            else:
                times[pair] += 1
    return {pair: number for pair, number in times.items() if pair not in good}


def _all(shown: Standing, _: int) -> Groups:
    """Return all good nodes as one group."""
    good = sorted(shown.fabric_part - shown.wrong)
    return [tuple(good)] if len(good) > 1 else []


def _rng(shown: Standing, name: str) -> Random:
    return Random(f"{shown.fabric.seed} {name}")  # noqa: S311  a matching, not a secret


PLANS: Final[Mapping[RoundKind, Callable[[Standing, int], Groups]]] = {
    "domain": _domain,
    "pairs": _pairs,
    "suspects": _suspects,
    "confirm": _confirm,
    "path": _paths,
    "all": _all,
}
"""What plans each kind of round, in the order of the kinds: its groups by what was shown and by the rounds of the kind
so far; none if there is nothing to measure."""
