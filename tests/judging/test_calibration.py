"""From the figures of known-good devices to a floor: what is left out, how wide it is, and what it is worth."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist, fmean
from typing import Any

import pytest
from support.judged_tables import tabled
from support.rows import each_row

from pytest_accel.core.stats import student_above, student_tail
from pytest_accel.judging.records.calibration import CalibratedMetric, GoodFigure, calibrate, spreads_of
from pytest_accel.skus.lint.limits import LOOSE, TIGHT

METRIC = "matmul.bf16"


def drawn(
    nodes: int,
    devices: int = 8,
    runs: int = 1,
    *,
    metric: str = METRIC,
    between: tuple[float, float, float] = (0.012, 0.006, 0.004),
    seed: int = 0,
    **changed: Any,
) -> list[GoodFigure]:
    """Return readings around 700 with the deviations `between` devices, nodes and runs."""
    draw = random.Random(seed)  # noqa: S311  the same every time
    found = []
    for node in range(nodes):
        common = draw.gauss(1, between[1])
        for device in range(devices):
            own = common * draw.gauss(1, between[0])
            for run in range(runs):
                value = 700 * own * draw.gauss(1, between[2])
                fields = {"unit": "TFLOPS", "source": f"n{node}r{run}", **changed}
                found.append(GoodFigure(metric, value=value, device=f"n{node}d{device}", node=f"n{node}", **fields))
    return found


def only(readings: Sequence[GoodFigure]) -> CalibratedMetric:
    (found,) = calibrate(readings).metrics
    return found


def test_deviations_are_those_that_the_nodes_were_drawn_with() -> None:
    spreads = only(drawn(60, runs=6)).spreads
    assert spreads.devices == pytest.approx(0.012, rel=0.15)
    assert spreads.nodes == pytest.approx(0.006, rel=0.35)
    assert spreads.runs == pytest.approx(0.004, rel=0.15)


def test_a_single_run_counts_the_deviation_between_runs_once() -> None:
    once, often = only(drawn(60)).spreads, only(drawn(60, runs=6)).spreads
    assert once.runs is None
    assert once.total == pytest.approx(often.total, rel=0.15)
    assert spreads_of({("a", str(each)): [100.0 + each] for each in range(8)}, 103.5).nodes is None, "of one node"


def test_the_counted_rate_of_rejections_is_the_implied_one() -> None:
    """The floor for one in ten thousand is too far away to count; that of the warning limit is not."""
    others = [each.value for each in drawn(400, seed=99)]
    for distance in (1.5, 2.5):
        counted, implied = [], []
        for seed in range(12):
            found = only(drawn(12, runs=3, seed=seed))
            scale, free = found.spreads.prediction()
            floor = found.centre * (1 - distance * scale)
            counted.append(sum(each < floor for each in others) / len(others))
            implied.append(student_tail(distance, free))
        assert fmean(counted) == pytest.approx(fmean(implied), rel=0.5)


def test_the_floor_rejects_at_most_one_healthy_device_in_ten_thousand_and_healthy_devices_are_no_outliers() -> None:
    found = only(drawn(20))
    assert sum(each.value < found.bound for each in drawn(2500, seed=2)) <= 4
    assert [seed for seed in range(40) if calibrate(drawn(5, seed=seed)).outliers] == []


def test_a_short_device_is_named_and_left_out_of_every_metric() -> None:
    triad = drawn(4, metric="stream.triad", between=(0.003, 0.001, 0.001), seed=5)
    worse = [replace(each, value=each.value * (0.9 if each.device == "n2d5" else 1)) for each in triad]
    found = calibrate(drawn(4) + worse)
    (out,) = found.outliers
    assert (out.device, out.metric, out.source) == ("n2d5", "stream.triad", "n2r0")
    assert out.deviations > 8
    assert {each.devices for each in found.metrics} == {31}
    assert not [each for each in found.figures if each.device == "n2d5"]


def test_few_devices_give_a_lower_floor_but_none_that_lets_everything_pass() -> None:
    few, many = only(drawn(1)), only(drawn(30))
    assert LOOSE * few.healthy[0] <= few.bound < many.bound
    assert "too few" in few.bound_basis


def test_the_floor_is_below_every_healthy_value_and_the_warning_between() -> None:
    for seed in range(30):
        found = only(drawn(4, seed=seed))
        assert found.bound < found.warn <= found.healthy[0] < found.centre
    equal = only(drawn(3, between=(0.0, 0.0, 0.0)))
    assert equal.bound <= TIGHT * equal.centre, "the distance that lint asks for"
    assert equal.bound < equal.warn <= equal.healthy[0]
    time = only(drawn(4, metric="ddp.step_ms", unit="ms"))
    assert time.bound > time.warn >= time.healthy[1] > time.centre
    assert (time.rate, equal.rate) == (False, True)


@tabled("metric, unit, devices, reason", "data/judging/calibration.yaml")
def test_too_few_are_refused_by_the_kind_of_metric(metric: str, unit: str, devices: int, reason: str) -> None:
    few = calibrate(drawn(1, devices, metric=metric, unit=unit))
    assert few.skipped_metrics[metric].startswith(reason)
    assert not few.metrics


def test_runs_of_one_machine_are_enough_for_processors() -> None:
    """There is no fleet of equal ones, and the load of the machine makes runs differ, not its halves."""
    rng = random.Random(3)  # noqa: S311  a drawing
    readings = [
        GoodFigure("matmul.fp32", "of peak", rng.gauss(0.95, 0.02), name, "node 1", {}, f"run {run}")
        for run in range(10)
        for name in ("cpu0", "cpu1")
    ]
    (found,) = calibrate(readings, processors=True).metrics
    assert found.bound < min(each.value for each in readings)
    assert found.spreads.runs == pytest.approx(0.02, rel=0.6)
    assert not calibrate(readings).metrics, "of accelerators eight devices are needed"
    left_out = {"matmul.fp32": "7 undisturbed runs, at least 8 are needed"}
    assert calibrate(readings[:14], processors=True).skipped_metrics == left_out


def test_a_figure_that_one_node_alone_has_gets_the_limit_of_an_unknown_spread() -> None:
    alone = GoodFigure("all_reduce.busbw@8GiB", "GB/s", 800.0, "node 1", "node 1")
    found = only([alone])
    assert found.bound == pytest.approx(0.92 * 800)
    assert found.warn == pytest.approx(0.94 * 800, rel=0.002), "a healthy node is not MARGINAL for being another one"


def test_in_one_node_a_device_is_an_outlier_by_the_table_of_neighbours() -> None:
    """Eight devices tell little of their own spread: by it no distance would be far."""
    for short, named in ((0.04, True), (0.02, False)):
        readings = drawn(1, metric="stream.triad", unit="GB/s", between=(0.001, 0.0, 0.0))
        readings[3] = replace(readings[3], value=readings[3].value * (1 - short))
        found = calibrate(readings)
        assert [each.device for each in found.outliers] == ["n0d3"] * named
        assert [each.devices for each in found.metrics] == [8 - named]


def test_mixed_methods_leave_the_metric_out_and_name_what_differs() -> None:
    long = drawn(2, metric="soak.rate", conditions={"seconds": 300.0})
    found = calibrate(long + drawn(2, metric="soak.rate", conditions={"seconds": 7.0}, seed=1, source="quick"))
    assert not found.metrics
    assert found.skipped_metrics["soak.rate"] == "mixed methods: seconds 300.0 (n1r0), 7.0 (quick)"


@each_row("freedom", [1.0, 2.0, 7.0, 59.3, math.inf])
def test_the_tail_of_student_s_t(freedom: float) -> None:
    known = {1.0: 3183.0988, 2.0: 70.70007, 7.0: 7.063433, math.inf: -NormalDist().inv_cdf(1e-4)}
    found = student_above(1e-4, freedom)
    assert student_tail(found, freedom) == pytest.approx(1e-4, rel=1e-6)
    if freedom in known:
        assert found == pytest.approx(known[freedom], rel=1e-5)
