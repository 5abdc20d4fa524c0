"""The chances that a verdict is wrong, held against verdicts that the judge gives on drawn devices."""

from __future__ import annotations

import functools
import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import NormalDist

import pytest

from pytest_accel.core.measurement import NODE, Device, Measurement, Peak
from pytest_accel.core.run import EarlierFigure, Past
from pytest_accel.core.sku import ClassFloor, Limit, Sku, Source, Spread
from pytest_accel.core.stats import both_below
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.background import Background
from pytest_accel.judging.error_rates import (
    ByNeighbours,
    Way,
    by_limit_of,
    by_neighbours,
    by_past,
    error_rates,
    rounded,
    smallest,
)
from pytest_accel.judging.judge import Attempts, judge
from pytest_accel.judging.like_devices import kind_of
from pytest_accel.judging.smallest_losses import RejectedLosses, sentence, smallest_losses
from pytest_accel.skus import loader

OURS = Source("measured", "us", "2026-11")
PUBLISHED = Source("published", "them", "2026-11")
SPREAD = Spread(OURS, between_devices=0.016, between_runs=0.012, runs=30)
MEMORY = Limit("stream.triad", "GB/s", floor=950.0, reference=1000.0, source=PUBLISHED)
DEVICES = [Device(f"GPU-{place}", place, "nvidia", "NVIDIA H100 80GB HBM3") for place in range(8)]
TRIALS = 400


def one(value: float, subject: str = "GPU-0", metric: str = "stream.triad", unit: str = "GB/s") -> Measurement:
    return Measurement(metric, subject, unit, value)


def verdict_of(limit: Limit | None, goes: Callable[[], Sequence[Measurement]], attempts: Attempts) -> Verdict:
    """Return the verdict on the first device, after the repeat that a run makes."""
    first = goes()
    for each in first:
        attempts.add(each)
    metric = first[0].metric
    if attempts.short(metric, limit, {}):
        for each in goes():
            attempts.add(each)
        attempts.repeated = True
    return attempts.judged(metric, "GPU-0", limit, {})


def drawn(limit: Limit, loss: float, spread: Spread, draw: random.Random) -> Verdict:
    """Return the verdict by a limit on one device of a node that lies anywhere in the healthy range."""
    low, high = limit.healthy or (limit.reference or 0.0, limit.reference or 0.0)
    usual = draw.uniform(low, high) * (1 + draw.gauss(0, spread.between_devices or 0.0))

    def go() -> list[Measurement]:
        rate = (1 - loss) * (1 + draw.gauss(0, spread.between_runs or 0.0))
        time = limit.unit == "ms"
        return [one(usual / rate if time else usual * rate, metric=limit.metric, unit=limit.unit)]

    return verdict_of(limit, go, Attempts())


def agree(counted: int, chance: float, of: int = TRIALS) -> bool:
    """Return True if a count lies within four standard deviations of what a chance makes likely."""
    return abs(counted - of * chance) <= 4 * math.sqrt(of * chance * (1 - chance)) + 2


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.10])
@pytest.mark.parametrize(
    "limit",
    [
        MEMORY,
        replace(MEMORY, healthy=(980.0, 1060.0)),
        replace(MEMORY, warn=985.0),
        replace(MEMORY, differs=("array",), floor=1080.0),
        Limit("mine.step", "ms", ceiling=10.6, reference=10.0, source=PUBLISHED),
    ],
    ids=["floor", "range", "warn", "advisory", "time"],
)
def test_the_chances_are_the_shares_that_the_judge_gives(limit: Limit, loss: float) -> None:
    draw = random.Random(f"{limit} {loss}")  # noqa: S311  the same every time
    verdicts = [drawn(limit, loss, SPREAD, draw) for _ in range(TRIALS)]
    own = one(1.0, metric=limit.metric, unit=limit.unit)
    way, _ = by_limit_of(own, limit, Background(spread=SPREAD), advises=False)
    assert way is not None
    accepted = sum(each.status.holds for each in verdicts)
    found = sum(each.status is not Status.PASS for each in verdicts)
    assert agree(sum(each.status is Status.FAIL for each in verdicts), way.rejected(loss))
    assert agree(accepted, 1 - way.stopped(loss)), (accepted / TRIALS, 1 - way.stopped(loss))
    assert agree(found, way.found(loss)), (found / TRIALS, way.found(loss))


def test_the_neighbours_find_what_they_find_in_drawn_nodes() -> None:
    spread, draw, trials = replace(SPREAD, between_devices=0.004, between_runs=0.003), random.Random(1), 150  # noqa: S311
    kinds = {device.uuid: kind_of(device) for device in DEVICES}
    near = [[one(1000.0, device.uuid)] for device in DEVICES]
    way = by_neighbours(near[0][0], Background(near=near, spread=spread))
    assert way is not None
    for loss in (0.023, 0.03):
        statuses = []
        for _ in range(trials):
            usual = [1000 * (1 + draw.gauss(0, 0.004)) * (1 - loss * (place == 0)) for place in range(8)]

            def go(usual: Sequence[float] = usual) -> list[Measurement]:
                return [
                    one(each * (1 + draw.gauss(0, 0.003)), device.uuid)
                    for each, device in zip(usual, DEVICES, strict=True)
                ]

            statuses.append(verdict_of(None, go, Attempts(kinds=kinds, spread_of=lambda _: spread)).status)
        assert agree(sum(each is not Status.NOT_APPLICABLE for each in statuses), way.found(loss), trials)
        assert agree(sum(each is Status.FAIL for each in statuses), way.rejected(loss), trials)


DRAWN = json.loads((Path(__file__).parents[2] / "benchmarks" / "detection.json").read_text())
NAMES = {"memory": "stream.triad", "host": "host_copy.h2d", "link": "peer_copy.one_way", "products": "matmul.bf16"}
CURVES = [each for each in DRAWN["curves"] if each["way"] != "handover" and each["spread"] <= 0.02]


@pytest.mark.parametrize("curve", CURVES, ids=lambda each: f"{each['family']} {each['way']} {each['spread']}")
def test_the_smallest_losses_are_those_of_the_drawn_benchmark(curve: dict[str, object]) -> None:
    """docs/detection.md: found from the first drawn loss on that is not below the one that the formula gives."""
    family, deviation, losses = str(curve["family"]), float(str(curve["spread"])), DRAWN["losses"]
    way = benchmarked(family, str(curve["way"]), deviation)
    counted = list(map(float, curve["found"]))  # type: ignore[call-overload]
    least, trials = smallest(way.found), DRAWN["trials"]
    assert least is not None
    first = next(place for place, loss in enumerate(losses) if loss >= least)
    assert counted[first] >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / trials)
    assert first == 0 or losses[first - 1] < least
    if curve["way"] != "history":  # the larger of two drops counts there, and the formula has one
        chances = [way.found(loss) for loss in losses]
        assert all(agree(round(one * trials), chance, trials) for one, chance in zip(counted, chances, strict=True))


@functools.cache
def shipped() -> Sku:
    return loader.load("h100-sxm")


def benchmarked(family: str, name: str, deviation: float) -> Way:
    """Return a way as benchmarks/detection.py draws it."""
    metric, sku = NAMES[family], shipped()
    spread = Spread(OURS, between_devices=0.8 * deviation, between_runs=0.6 * deviation, runs=30)
    limit = replace(sku.limits_on(sku.platforms["hgx8"])[metric], differs=(), severity="fail")
    if name == "floor" and family == "products":  # their clocks differ as well
        spread = replace(spread, between_devices=math.hypot(0.8 * deviation, 0.03))
    figure = EarlierFigure(1.0, "", "")
    past = Past(figure, figure, spread.between_runs, 30)
    alike = [[one(1.0, device.uuid, metric, limit.unit)] for device in DEVICES[: 4 if family == "host" else 8]]
    around = Background(near=alike, spread=spread, past_of=lambda _: past)
    own = alike[0][0]
    way = {
        "floor": by_limit_of(own, limit, around, advises=False)[0],
        "neighbours": by_neighbours(own, around),
        "history": by_past(own, around),
    }[name]
    assert way is not None
    return way


# -- what a verdict says


def rates(limit: Limit, spread: Spread | None, **changed: object) -> tuple[float | None, float | None, float | None]:
    found = error_rates(replace(one(1000.0), **changed), limit, Background(spread=spread))  # type: ignore[arg-type]
    assert found is not None
    return found.healthy_rejected, found.accepted_short_5, found.accepted_short_10


def test_the_verdict_says_how_sure_it_is() -> None:
    verdict = judge([one(1000.0)], MEMORY, background=Background(spread=SPREAD))
    found = verdict.error_rates
    assert found is not None
    assert found.basis == "1.6% between devices, 1.2% between runs"
    assert found.healthy_rejected == pytest.approx(1.1e-3, rel=0.3)
    assert 0.5 < (found.accepted_short_5 or 0) < 0.7
    assert (found.accepted_short_10 or 1) < 0.02


def test_a_floor_far_below_the_healthy_figure_says_that_it_accepts_what_is_short() -> None:
    healthy, five, ten = rates(replace(MEMORY, floor=850.0), replace(SPREAD, between_devices=0.012))
    assert healthy == 1e-9
    assert five is not None
    assert ten is not None
    assert five > 0.9999
    assert 0.99 < ten < 1
    assert ten == rounded(ten)


def test_what_never_rejects_says_so() -> None:
    assert rates(replace(MEMORY, severity="warn"), SPREAD) == (0.0, 1.0, 1.0)
    advises = replace(MEMORY, differs=("array",))
    healthy, _, ten = rates(advises, SPREAD)
    assert healthy == 0.0
    assert ten is not None
    assert 0.99 < ten < 1, "beyond 15 % it is INCONCLUSIVE"
    assert rates(advises, None) == (0.0, None, None)


@pytest.mark.parametrize(
    ("limit", "spread", "why"),
    [
        (MEMORY, None, "not known: no spread is stated"),
        (MEMORY, Spread(OURS, between_runs=0.01, runs=9), "not known: no spread between devices is stated"),
        (replace(MEMORY, reference=None), SPREAD, "not known: the limit states no healthy figure"),
    ],
)
def test_what_is_not_known_is_not_guessed(limit: Limit, spread: Spread | None, why: str) -> None:
    found = error_rates(one(1000.0), limit, Background(spread=spread))
    assert found is not None
    assert (found.healthy_rejected, found.accepted_short_5, found.basis) == (None, None, why)


def test_a_fact_has_no_error_rates() -> None:
    fact = Measurement("inventory.link_width", "GPU-0", "count", 16)
    limit = Limit("inventory.link_width", "count", equals=16)
    assert error_rates(fact, limit, Background(spread=SPREAD)) is None
    assert judge([fact], limit).error_rates is None


def test_a_figure_of_the_node_needs_the_spread_between_nodes() -> None:
    limit = Limit("all_reduce.busbw@8GiB", "GB/s", floor=450.0, reference=479.0, source=OURS)
    of_node = Measurement(limit.metric, NODE, "GB/s", 470.0)
    unknown = error_rates(of_node, limit, Background(spread=SPREAD))
    assert unknown is not None
    assert unknown.basis == "not known: no spread between nodes is stated"
    known = error_rates(of_node, limit, Background(spread=replace(SPREAD, between_nodes=0.01)))
    assert known is not None
    assert known.basis == "1% between nodes, 1.2% between runs"


def test_the_neighbours_make_a_slow_device_less_likely_to_be_accepted() -> None:
    spread = replace(SPREAD, between_devices=0.003, between_runs=0.002)
    near = [[one(1000.0, device.uuid)] for device in DEVICES]
    alone = error_rates(near[0][0], replace(MEMORY, floor=900.0), Background(spread=spread))
    beside = error_rates(near[0][0], replace(MEMORY, floor=900.0), Background(near=near, spread=spread))
    assert alone is not None
    assert beside is not None
    assert (alone.accepted_short_5 or 0) > 0.999
    assert (beside.accepted_short_5 or 1) < 0.001


def test_equal_bounds_of_two_goes_by_the_exact_cases() -> None:
    normal = NormalDist()
    assert both_below(-2.0, -2.0, 0.0) == pytest.approx(normal.cdf(-2) ** 2)
    assert both_below(-2.0, -1.0, 1.0) == normal.cdf(-2)
    assert both_below(0.0, 0.0, 0.5) == pytest.approx(1 / 3, rel=1e-4)
    assert both_below(math.inf, -1.0, 0.3) == normal.cdf(-1)
    assert both_below(-4.0, -4.0, 0.999) == pytest.approx(normal.cdf(-4), rel=0.15)
    assert both_below(-4.0, -4.0, 0.999) < normal.cdf(-4)


# -- the closing line


def found_by(spreads: dict[str, Spread], values: dict[str, str], limits: dict[str, Limit]) -> dict[str, RejectedLosses]:
    peak = {"GB/s": Peak(2000.0, "memory datasheet peak"), "TFLOPS": Peak(2000.0, "bf16 datasheet peak")}
    every = [
        replace(one(1000.0, NODE if metric.startswith("all_reduce") else device.uuid, metric, unit), peak=peak[unit])
        for metric, unit in values.items()
        for device in DEVICES
    ]
    attempts = {(each.metric, each.subject): [each] for each in every}
    verdicts = [Verdict(each.metric, each.subject, Status.PASS, limit=limits.get(each.metric)) for each in every]
    kinds = {device.uuid: kind_of(device) for device in DEVICES}
    return smallest_losses(verdicts, attempts, kinds, spreads.get, lambda _: None, software={})


CLASS = ClassFloor(700.0, 0.35, 0.42, "row", "bf16 datasheet peak", "classes.yaml:1")


def test_what_a_run_rejects_of_one_device_and_of_all_alike() -> None:
    narrow = Spread(OURS, between_devices=0.003)
    values = {
        "stream.copy": "GB/s", "stream.triad": "GB/s", "matmul.bf16": "TFLOPS", "host_copy.h2d": "GB/s",
        "all_reduce.busbw@8GiB": "GB/s",
    }  # fmt: skip
    limits = {
        "stream.triad": Limit("stream.triad", "GB/s", floor=900.0),
        "matmul.bf16": Limit("matmul.bf16", "TFLOPS", floor=950.0, differs=("shape",), beneath=CLASS),
    }
    found = found_by({"stream.copy": SPREAD, "stream.triad": narrow}, values, limits)
    assert found["memory"].behind == pytest.approx(0.024, abs=0.005), "six deviations and 1.645, not below 2 %"
    assert found["products"].behind == pytest.approx(0.25, abs=0.001), "the widest of whole clusters"
    assert found["memory"].below == pytest.approx(0.45)
    assert found["products"].below == pytest.approx(0.35)
    said = sentence(found)
    assert said.startswith("rejects at 95%: one of 8 below its neighbours by 25.1% (products), 2.")
    assert said.endswith(
        "; all alike below 0.35 (products), 0.45 (memory) of the datasheet, nothing in host link; "
        "nothing in collectives"
    ), "an advisory floor rejects nothing, that of its class does"


def test_no_loss_is_rounded_down_and_no_share_up() -> None:
    said = sentence({"memory": RejectedLosses(0.02001, 8, 0.4599, True)})
    assert (
        said == "rejects at 95%: one of 8 below its neighbours by 2.1% (memory); all alike below 0.45 (memory) of the "
        "datasheet"
    )


def test_a_device_that_is_short_does_not_widen_what_the_run_finds_on_the_others() -> None:
    every = [one(1000.0, device.uuid) for device in DEVICES]
    noisy = Measurement("stream.triad", "GPU-0", "GB/s", 700.0, (660.0, 700.0, 740.0, 690.0, 710.0))
    attempts = {(each.metric, each.subject): [each] for each in [noisy, *every[1:]]}
    kinds = {device.uuid: kind_of(device) for device in DEVICES}

    def loss(status: Status) -> float:
        verdicts = [Verdict(m, s, status if s == "GPU-0" else Status.PASS) for m, s in attempts]
        return (
            smallest_losses(verdicts, attempts, kinds, lambda _: SPREAD, lambda _: None, software={})["memory"].behind
            or 1.0
        )

    assert loss(Status.PASS) > loss(Status.FAIL) + 0.01
    assert loss(Status.MARGINAL) == loss(Status.FAIL) < 0.2


def test_a_run_that_measured_no_speed_says_nothing() -> None:
    assert sentence({}) == ""


def test_a_gap_that_never_fails_never_rejects() -> None:
    near = [[one(1000.0, device.uuid, "mine.rate", "GB/s")] for device in DEVICES]
    way = by_neighbours(near[0][0], Background(near=near, spread=SPREAD))
    assert isinstance(way, ByNeighbours)
    assert not way.rejects
    assert way.rejected(0.5) == 0.0
    assert way.found(0.5) > 0.999
