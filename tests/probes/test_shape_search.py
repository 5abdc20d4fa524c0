"""The wave model against published winners, and the search against devices whose best shape is known."""

import math
import random
from functools import partial

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel.probes.device.shape_search import (
    FIRST,
    Search,
    Shape,
    full_waves,
    grid,
    neighbours,
    of_model,
    predicted,
    quantisation,
    search,
    spread,
)

CASES = data_files.tables("probes/shape-search")


@each_row(("shape", "tile", "units", "filled"), CASES["waves"])
def test_the_wave_model_fits_published_winners(shape: Shape, tile: tuple[int, int], units: int, filled: float) -> None:
    assert quantisation(shape, tile, units) == pytest.approx(filled)


def test_proposed_shapes_fill_their_waves_and_take_a_useful_time() -> None:
    bounds = (0.15e-3 * 700e12, 10e-3 * 700e12)
    tiles = ((128, 256), (256, 128))
    found = full_waves(132, tiles, bounds)
    assert len(found) > FIRST
    for shape in found[:FIRST]:
        assert max(quantisation(shape, tile, 132) for tile in tiles) == 1.0
        assert bounds[0] <= 2 * math.prod(shape) <= bounds[1]
        assert max(shape[:2]) <= 8 * min(shape[:2])
    assert len({shape[2] for shape in found[:FIRST]}) > 3  # not one k alone
    assert predicted((8192, 8448, 8192), (256, 128), 132) < 1


def test_a_spread_takes_each_shape_once_and_from_everywhere() -> None:
    space = grid(range(256, 1024, 128), range(256, 1024, 256))
    found = spread(space, 20)
    assert len(set(found)) == len(found) == 20
    assert {shape[0] for shape in found} == set(range(256, 1024, 128))
    assert len(spread(space[:5], 20)) == 5


class Noisy:
    """A device with one best shape, a plateau, and autocorrelated noise of 5 %."""

    def __init__(self, seed: int, best: Shape, noise: float = 0.05, *, first: float = 0.0, least: float = 0.0) -> None:
        """The `first` call of a shape takes so many seconds more, and no measurement fewer than `least`."""
        self._first, self._least = first, least
        self._seen: set[Shape] = set()
        self._random, self._best, self._noise = random.Random(seed), best, noise  # noqa: S311
        self._drift, self.seconds, self.measured = 0.0, 0.0, 0

    def height(self, shape: Shape) -> float:
        distance = sum(abs(math.log2(one / other)) for one, other in zip(shape, self._best, strict=True))
        return 100e12 / (1 + 0.02 * distance)

    def now(self) -> float:
        return self.seconds

    def __call__(self, shape: Shape, seconds: float) -> float:
        if shape not in self._seen:
            self._seen.add(shape)
            self.seconds += self._first
        self.seconds += max(seconds, self._least)
        self.measured += 1
        self._drift = 0.6 * self._drift + 0.8 * self._random.gauss(0, self._noise)
        return self.height(shape) * (1 + self._drift)


SPACE = grid(range(128, 1664, 128), range(256, 3328, 256))


def searched(device: Noisy, seconds: float, seed: int = 0) -> Search:
    near = partial(neighbours, tile=(128, 128))
    return search(spread(SPACE, FIRST), device, seconds, now=device.now, neighbours=near, seed=seed)


def test_the_search_comes_near_the_best_and_its_figure_is_no_maximum() -> None:
    for seed in range(20):
        device = Noisy(seed, (768, 640, 2048))
        found = searched(device, 10.0, seed)
        assert device.height(found.winner) > 0.95 * max(map(device.height, SPACE)), seed
        assert device.seconds <= 10.0 * 1.05, seed
        assert len(found.samples) == 5, seed


@pytest.mark.parametrize(("first", "least"), [(0.03, 0.005), (0.1, 0.01), (0.0, 0.02)])
def test_slow_first_calls_cost_shapes_and_not_the_budget(first: float, least: float) -> None:
    """On a busy processor a first call takes 5 times what it was given: fewer shapes, in the same time."""
    device = Noisy(3, (768, 640, 2048), first=first, least=least)
    found = searched(device, 2.0)
    assert device.seconds <= 2.0 * 1.15
    assert len(found.tried) >= 4
    assert len(found.samples) >= 3
    assert device.height(found.winner) > 0.9 * max(map(device.height, SPACE))


def test_what_is_reported_is_not_what_was_chosen_by() -> None:
    """Over many searches of a flat space the reported figure is right on average: no winner's curse."""
    reports, claimed = [], []
    for seed in range(300):
        device = Noisy(seed, (512, 512, 512), noise=0.03)
        device.height = lambda shape: 1.0  # type: ignore[method-assign]
        found = search(grid((256, 512, 768, 1024), (256, 512, 768)), device, 1.0, now=device.now, seed=seed)
        reports.append(sum(found.samples) / len(found.samples))
        claimed.append(max(found.tried.values()))
    assert sum(reports) / len(reports) == pytest.approx(1.0, abs=0.004)
    assert sum(claimed) / len(claimed) > 1.03  # what the maximum of the search would have claimed


def test_the_products_of_a_model() -> None:
    """Llama 3 8B: hidden 4096, ffn 14336, 8 key and value heads of 128."""
    found = of_model(4096, 14336, 8192, kv=2 * 8 * 128)
    assert found["qkv"] == (8192, 6144, 4096)
    assert found["ffn_down"] == (8192, 4096, 14336)
    assert "head" not in found
