"""Shapes of a matrix product that keep every unit of a device busy, and the search for the fastest. Pure.

A kernel computes an m x n product in tiles; `units` tiles run at once, so a product of ceil(m/tm) ceil(n/tn) tiles
takes a whole number of waves, and the last one is only full if the shape is chosen so. The winners of published
searches are such shapes (1.000, 4.000, 8.000 waves), so they follow from the number of units by arithmetic.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, cycle, islice
from statistics import median

from pytest_accel.probes.device import shape_file

named, read = shape_file.named, shape_file.read

Shape = tuple[int, int, int]
"""m, n, k: C (m x n) = A (m x k) B (k x n)."""
Measure = Callable[[Shape, float], float]
"""Runs a shape for about so many seconds and returns operations per second."""

ANCHORS: tuple[Shape, ...] = ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 16384, 16384))
"""Always tried: comparable across products and years."""
DEPTHS = tuple(chain.from_iterable((k, k + 128) for k in (2048, 3072, 4096, 5120, 8192, 16384)))
"""Values of k. Those that are no power of two avoid that all rows begin in the same memory channel."""
WAVES = 20
ASPECT = 8
"""The longer side of a product over its shorter one, at most."""
PROLOGUE = 512
"""k / (k + 512) of the time of a tile is multiplying, the rest filling and emptying its pipeline."""

FIRST = 48
KEPT = 4
"""Of the shapes of a round one in four goes on; four reach the final."""
BETTER = 1.005
"""A neighbour replaces a finalist if it is faster by more than this, twice."""
PLATEAU = 0.98
SHARES = (0.35, 0.10, 0.10, 0.15, 0.30)
"""Of the time: three rounds (first calls are slow, and most are in the first), the neighbours, the final."""
TURNS, LEAST_TURNS = 10, 6
"""Of the final; half of them choose, half are reported."""


def quantisation(shape: Shape, tile: tuple[int, int], units: int) -> float:
    """Share of the work of all waves that is not padding: m n / (waves units tm tn)."""
    m, n, _ = shape
    tiles = math.ceil(m / tile[0]) * math.ceil(n / tile[1])
    return m * n / (math.ceil(tiles / units) * units * tile[0] * tile[1])


def predicted(shape: Shape, tile: tuple[int, int], units: int) -> float:
    """Expected share of the peak: full waves, and a k that is long beside the prologue."""
    return quantisation(shape, tile, units) * shape[2] / (shape[2] + PROLOGUE)


def full_waves(units: int, tiles: Sequence[tuple[int, int]], operations: tuple[float, float]) -> list[Shape]:
    """Shapes of whole waves whose 2 m n k lies within `operations`, by turns from every tile and k, best first."""
    groups = [
        sorted(
            {
                (rows * tile[0], (waves * units // rows) * tile[1], k)
                for waves in range(1, WAVES + 1)
                for rows in range(1, waves * units + 1)
                if waves * units % rows == 0
            },
            key=lambda shape, tile=tile: (-predicted(shape, tile, units), shape),  # type: ignore[misc]
        )
        for tile in tiles
        for k in DEPTHS
    ]
    usable = [
        [each for each in group if _square(each) and operations[0] <= 2 * math.prod(each) <= operations[1]]
        for group in groups
    ]
    return list(dict.fromkeys(_by_turns(usable)))


def _square(shape: Shape) -> bool:
    return max(shape[:2]) <= ASPECT * min(shape[:2])


def _by_turns(groups: Iterable[Sequence[Shape]]) -> list[Shape]:
    queues = [iter(group) for group in groups if group]
    found = []
    while queues:
        alive = []
        for queue in queues:
            shape = next(queue, None)
            if shape is not None:
                found.append(shape)
                alive.append(queue)
        queues = alive
    return found


def grid(sides: Sequence[int], depths: Sequence[int]) -> list[Shape]:
    """Every m and n of `sides` with every k of `depths`."""
    return [(m, n, k) for m in sides for n in sides for k in depths]


def spread(shapes: Sequence[Shape], count: int) -> list[Shape]:
    """`count` of the shapes, spread evenly (by the golden ratio) over their order."""
    steps = ((place * 0.6180339887498949) % 1.0 for place in range(1, 8 * len(shapes)))
    return list(islice(dict.fromkeys(shapes[int(step * len(shapes))] for step in steps), count))


def neighbours(shape: Shape, tile: tuple[int, int]) -> list[Shape]:
    """One tile more and less in m and n; k halved and doubled."""
    m, n, k = shape
    near = [(m + tile[0], n, k), (m - tile[0], n, k), (m, n + tile[1], k), (m, n - tile[1], k), (m, n, 2 * k)]
    return [each for each in [*near, (m, n, k // 2)] if min(each) > 0]


@dataclass
class Search:
    """What a search found. `samples` are of the winner: fresh, and not those by which it was chosen."""

    winner: Shape
    samples: list[float]
    finalists: dict[Shape, float] = field(default_factory=dict)
    tried: dict[Shape, float] = field(default_factory=dict)
    plateau: int = 0
    """How many of the shapes that were tried lie within 2 % of the best: which of them wins is noise."""


def search(
    first: Sequence[Shape],
    measure: Measure,
    seconds: float,
    *,
    now: Callable[[], float],
    report: Measure | None = None,
    near: Callable[[Shape], Sequence[Shape]] = lambda shape: (),
    seed: int = 0,
) -> Search:
    """Find the fastest shape: halving in rounds, neighbours of the finalists, and a final on fresh samples.

    The maximum of many noisy figures is no estimate of the best one. So the finalists are measured anew, by turns
    (A B C D, D C B A ...); every other turn chooses the winner, the turns between are what is reported of it.

    What is reported is measured by `report`, where choosing may be quicker. `now` tells the time that `seconds` are
    counted in: a first call of a shape may take longer than it was given, so every part of the search ends by the
    clock, with what it has seen by then.
    """
    began = now()
    ends = [began + share * seconds for share in accumulate(SHARES)]
    contest = _Contest(measure, report or measure, now, random.Random(seed))  # noqa: S311  nothing secret
    alive = contest.round(list(first), ends[0])
    for end in ends[1:3]:
        alive = contest.round(alive[: max(KEPT, len(alive) // 4)], end)
    finalists = [contest.climb(shape, near(shape), ends[3], KEPT - place) for place, shape in enumerate(alive[:KEPT])]
    return contest.final(list(dict.fromkeys(finalists)), ends[4])


@dataclass
class _Contest:
    """Shapes against each other. Each part ends when the time `until` has come, but not before it has a result."""

    measure: Measure
    report: Measure
    now: Callable[[], float]
    order: random.Random
    tried: dict[Shape, float] = field(default_factory=dict)

    def _share(self, until: float, parts: int) -> float:
        return max(0.0, until - self.now()) / parts

    def round(self, shapes: Sequence[Shape], until: float) -> list[Shape]:
        """The shapes that were ever measured, best first."""
        shuffled = self.order.sample(list(shapes), len(shapes))  # a drift hits all alike, a late end none above others
        for place, shape in enumerate(shuffled):
            if self.now() >= until and len(self.tried) >= KEPT:
                break
            self.tried[shape] = self.measure(shape, self._share(until, len(shapes) - place))
        return sorted((each for each in shapes if each in self.tried), key=self.tried.__getitem__, reverse=True)

    def climb(self, shape: Shape, near: Sequence[Shape], until: float, parts: int) -> Shape:
        """The best neighbour of a shape if it is clearly better, seen twice; else the shape itself."""
        until = self.now() + self._share(until, parts)
        others = [each for each in near if each not in self.tried]
        for place, other in enumerate(others):
            if self.now() < until:
                self.tried[other] = self.measure(other, self._share(until, len(others) + 1 - place))
        best = max((each for each in others if each in self.tried), key=self.tried.__getitem__, default=shape)
        least = BETTER * self.tried[shape]
        return best if self.tried[best] > least and self.measure(best, self._share(until, 1)) > least else shape

    def final(self, finalists: Sequence[Shape], until: float) -> Search:
        choosing: dict[Shape, list[float]] = {shape: [] for shape in finalists}
        reported: dict[Shape, list[float]] = {shape: [] for shape in finalists}
        by_turns = cycle(((choosing, self.measure), (reported, self.report)))
        for turn, (rates, measure) in zip(range(TURNS), by_turns, strict=False):
            if turn >= LEAST_TURNS and turn % 2 == 0 and self.now() >= until:
                break
            for place, shape in enumerate(finalists if turn % 4 < 2 else reversed(finalists)):
                left = (TURNS - turn) * len(finalists) - place
                rates[shape].append(measure(shape, self._share(until, left)))
        winner = max(finalists, key=lambda shape: median(choosing[shape]))
        best = median(reported[winner])
        return Search(
            winner=winner,
            samples=reported[winner],
            finalists={shape: median(rates) for shape, rates in reported.items()},
            tried=self.tried,
            plateau=sum(rate > PLATEAU * best for rate in self.tried.values()),
        )


def of_model(hidden: int, ffn: int, tokens: int, vocabulary: int = 0, kv: int | None = None) -> dict[str, Shape]:
    """The matrix products of a transformer layer (forward) by name, for `tokens` tokens of a micro-batch.

    `kv` is the width of keys and values together (2 x heads x head size under grouped attention; default 2 hidden).
    """
    found = {
        "qkv": (tokens, hidden + (2 * hidden if kv is None else kv), hidden),
        "attention_out": (tokens, hidden, hidden),
        "ffn_up": (tokens, ffn, hidden),
        "ffn_down": (tokens, hidden, ffn),
    }
    return {**found, "head": (tokens, vocabulary, hidden)} if vocabulary else found
