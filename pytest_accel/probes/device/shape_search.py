"""Shapes of a matrix product that keep every unit of a device busy, and the search for the fastest one. Pure.

A kernel computes an m x n product in tiles, of which `units` run at once. A product of ceil(m/tm) ceil(n/tn) tiles
takes a whole number of waves, and the last wave is full only for some shapes. The winners of published searches are
such shapes (1.000, 4.000, 8.000 waves), so they can be computed from the number of units.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, cycle, islice, zip_longest
from statistics import median

Shape = tuple[int, int, int]
"""m, n, k: C (m x n) = A (m x k) B (k x n)."""
Measure = Callable[[Shape, float], float]
"""Measures a shape for about the given seconds and returns operations per second."""

ANCHORS: tuple[Shape, ...] = ((4096, 4096, 4096), (8192, 8192, 8192), (16384, 16384, 16384))
"""Shapes that are always tried, so that they can be compared across products and years."""
DEPTHS = tuple(chain.from_iterable((k, k + 128) for k in (2048, 3072, 4096, 5120, 8192, 16384)))
"""Values of k. The values that are not powers of two avoid that all rows begin in the same memory channel."""
WAVES = 20
"""Largest number of waves."""
ASPECT = 8
"""Largest ratio of the longer side of a product to its shorter one."""
PROLOGUE = 512
"""A tile spends k / (k + 512) of its time multiplying and the rest filling and emptying its pipeline."""

FIRST = 48
"""Shapes of the first round."""
KEPT = 4
"""Each round keeps the best quarter of its shapes; four shapes reach the final."""
BETTER = 1.005
"""A neighbour replaces a finalist if it is faster by more than this factor, measured twice."""
PLATEAU = 0.98
"""Shapes that reach this share of the best rate are counted as equally good."""
SHARES = (0.35, 0.10, 0.10, 0.15, 0.30)
"""Shares of the time for three rounds, the neighbours and the final. Most of the slow first calls are in round one."""
TURNS, LEAST_TURNS = 10, 6
"""Most and fewest turns of the final. Half of them choose the winner, the other half are reported."""


def quantisation(shape: Shape, tile: tuple[int, int], units: int) -> float:
    """Return the share of the work of all waves that is not padding: m n / (waves units tm tn)."""
    m, n, _ = shape
    tiles = math.ceil(m / tile[0]) * math.ceil(n / tile[1])
    return m * n / (math.ceil(tiles / units) * units * tile[0] * tile[1])


def predicted(shape: Shape, tile: tuple[int, int], units: int) -> float:
    """Return the expected share of the peak: high for full waves and a k that is long compared with the prologue."""
    return quantisation(shape, tile, units) * shape[2] / (shape[2] + PROLOGUE)


def full_waves(units: int, tiles: Sequence[tuple[int, int]], operations: tuple[float, float]) -> list[Shape]:
    """Return shapes of whole waves whose 2 m n k lies within `operations`, best first, alternating tiles and k."""
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
    least, most = operations
    square = ((shape for shape in group if max(shape[:2]) <= ASPECT * min(shape[:2])) for group in groups)
    usable = [[shape for shape in group if least <= 2 * math.prod(shape) <= most] for group in square]
    return list(dict.fromkeys(_by_turns(usable)))


def _by_turns(groups: Iterable[Sequence[Shape]]) -> list[Shape]:
    """Return the first shape of every group, then the second of every group, and so on."""
    return [shape for turn in zip_longest(*groups) for shape in turn if shape is not None]


def grid(sides: Sequence[int], depths: Sequence[int]) -> list[Shape]:
    """Return every m and n of `sides` with every k of `depths`."""
    return [(m, n, k) for m in sides for n in sides for k in depths]


def spread(shapes: Sequence[Shape], count: int) -> list[Shape]:
    """Return `count` of the shapes, spread evenly over their order by the golden ratio."""
    steps = ((index * 0.6180339887498949) % 1.0 for index in range(1, 8 * len(shapes)))
    return list(islice(dict.fromkeys(shapes[int(step * len(shapes))] for step in steps), count))


def neighbours(shape: Shape, tile: tuple[int, int]) -> list[Shape]:
    """Return the shapes with one tile more and less in m and n, and with k halved and doubled."""
    m, n, k = shape
    shapes = [(m + tile[0], n, k), (m - tile[0], n, k), (m, n + tile[1], k), (m, n - tile[1], k), (m, n, 2 * k)]
    return [neighbour for neighbour in [*shapes, (m, n, k // 2)] if min(neighbour) > 0]


@dataclass
class Search:
    """The result of a search. `samples` are of the winner: fresh ones, not those by which it was chosen."""

    winner: Shape
    samples: list[float]
    finalists: dict[Shape, float] = field(default_factory=dict)
    tried: dict[Shape, float] = field(default_factory=dict)
    plateau: int = 0
    """Number of tried shapes within 2 % of the best. Noise decides which of them wins."""


def search(
    candidates: Sequence[Shape],
    measure: Measure,
    seconds: float,
    *,
    now: Callable[[], float],
    report: Measure | None = None,
    neighbours: Callable[[Shape], Sequence[Shape]] = lambda shape: (),
    seed: int = 0,
) -> Search:
    """Find the fastest shape: rounds that drop the slower ones, neighbours of the finalists, a final on fresh samples.

    The maximum of many noisy figures overestimates the best one, so the finalists are measured again in turns (A B C D,
    D C B A ...). Every other turn chooses the winner, and the turns between are reported.

    `report` measures the reported samples; `measure` may be a quicker method to choose by. `now` is the clock that
    `seconds` refer to. The first call of a shape may take longer than its share, so every part of the search ends by
    the clock, with the results that it has by then.
    """
    start = now()
    ends = [start + share * seconds for share in accumulate(SHARES)]
    contest = _Contest(measure, report or measure, now, random.Random(seed))  # noqa: S311  nothing secret
    alive = contest.round(list(candidates), ends[0])
    for end in ends[1:3]:
        alive = contest.round(alive[: max(KEPT, len(alive) // 4)], end)
    finalists = [contest.climb(shape, neighbours(shape), ends[3], KEPT - i) for i, shape in enumerate(alive[:KEPT])]
    return contest.final(list(dict.fromkeys(finalists)), ends[4])


@dataclass
class _Contest:
    """Measures shapes against each other. Each part ends at the time `deadline`, but not before it has a result."""

    measure: Measure
    report: Measure
    now: Callable[[], float]
    order: random.Random
    tried: dict[Shape, float] = field(default_factory=dict)

    def _share(self, deadline: float, parts: int) -> float:
        """Return the seconds for one of `parts` measurements."""
        return max(0.0, deadline - self.now()) / parts

    def round(self, shapes: Sequence[Shape], deadline: float) -> list[Shape]:
        """Measure the shapes once and return those that have ever been measured, best first."""
        shuffled = self.order.sample(list(shapes), len(shapes))  # drift and an early end then affect all alike
        for index, shape in enumerate(shuffled):
            if self.now() >= deadline and len(self.tried) >= KEPT:
                break
            self.tried[shape] = self.measure(shape, self._share(deadline, len(shapes) - index))
        return sorted((shape for shape in shapes if shape in self.tried), key=self.tried.__getitem__, reverse=True)

    def climb(self, shape: Shape, candidates: Sequence[Shape], deadline: float, parts: int) -> Shape:
        """Return the best neighbour of a shape if it is faster by `BETTER` in two measurements, else the shape."""
        deadline = self.now() + self._share(deadline, parts)
        untried = [candidate for candidate in candidates if candidate not in self.tried]
        for index, candidate in enumerate(untried):
            if self.now() < deadline:
                self.tried[candidate] = self.measure(candidate, self._share(deadline, len(untried) + 1 - index))
        best = max(filter(self.tried.__contains__, untried), key=self.tried.__getitem__, default=shape)
        threshold = BETTER * self.tried[shape]
        # measured twice: the largest of several noisy figures is too high more often than not
        faster = self.tried[best] > threshold and self.measure(best, self._share(deadline, 1)) > threshold
        return best if faster else shape

    def final(self, finalists: Sequence[Shape], deadline: float) -> Search:
        """Measure the finalists in turns and return the result of the search."""
        choosing: dict[Shape, list[float]] = {shape: [] for shape in finalists}
        reported: dict[Shape, list[float]] = {shape: [] for shape in finalists}
        by_turns = cycle(((choosing, self.measure), (reported, self.report)))
        for turn, (rates, measure) in zip(range(TURNS), by_turns, strict=False):
            if turn >= LEAST_TURNS and turn % 2 == 0 and self.now() >= deadline:
                break
            for index, shape in enumerate(finalists if turn % 4 < 2 else reversed(finalists)):
                remaining = (TURNS - turn) * len(finalists) - index
                rates[shape].append(measure(shape, self._share(deadline, remaining)))
        winner = max(finalists, key=lambda shape: median(choosing[shape]))
        best_rate = median(reported[winner])
        return Search(
            winner=winner,
            samples=reported[winner],
            finalists={shape: median(rates) for shape, rates in reported.items()},
            tried=self.tried,
            plateau=sum(rate > PLATEAU * best_rate for rate in self.tried.values()),
        )


def of_model(hidden: int, ffn: int, tokens: int, vocabulary: int = 0, kv: int | None = None) -> dict[str, Shape]:
    """Return the matrix products of a transformer layer (forward) by name, for `tokens` tokens of a micro-batch.

    `kv` is the width of keys and values together (2 x heads x head size with grouped attention; default 2 hidden). With
    `vocabulary` the product of the output head is included.
    """
    products = {
        "qkv": (tokens, hidden + (2 * hidden if kv is None else kv), hidden),
        "attention_out": (tokens, hidden, hidden),
        "ffn_up": (tokens, ffn, hidden),
        "ffn_down": (tokens, hidden, ffn),
    }
    return {**products, "head": (tokens, vocabulary, hidden)} if vocabulary else products
