"""Intervals for a mean: the quantiles, the correction for correlation, and what is promised of both."""

import itertools
import math
import random
from collections.abc import Iterator
from statistics import fmean, stdev
from typing import Any

import pytest
from support.data_files import tables
from support.rows import each_row

from pytest_accel.core.stats import (
    LOOKS,
    autocorrelation,
    between_runs,
    estimate,
    estimate_median,
    estimate_rate,
    estimate_ratio,
    next_run,
    student_t,
)

ROWS = tables("core/quantiles")


@each_row(("confidence", "freedom", "quantile"), ROWS["t"])
def test_quantiles_are_those_of_the_table(confidence: float, freedom: float, quantile: float) -> None:
    assert student_t(confidence, freedom) == pytest.approx(quantile, rel=1e-3)


def test_fewer_samples_need_a_wider_quantile() -> None:
    """Also between whole numbers of degrees of freedom, where no table has a value."""
    quantiles = [student_t(0.999, freedom / 4) for freedom in range(4, 400)]
    assert all(a > b for a, b in itertools.pairwise(quantiles))


def test_interval_of_independent_samples_is_the_textbook_one() -> None:
    samples = [99.0, 101.0] * 20  # falls and rises in turn: no positive correlation to count
    interval = estimate(samples)
    half = student_t(0.999, 39) * stdev(samples) / math.sqrt(40)
    assert (interval.mean, interval.n, interval.correlation) == (100.0, 40, 0.0)
    assert (interval.low, interval.high) == pytest.approx((100 - half, 100 + half))
    assert interval.relative_half_width == pytest.approx(half / 100)


def test_correlated_samples_are_worth_fewer() -> None:
    """A slow drift makes the interval wider than the same numbers in another order."""
    drift = [100 + i / 10 for i in range(40)]
    in_turn = [sample for pair in zip(drift[:20], drift[20:], strict=True) for sample in pair]
    assert sorted(in_turn) == drift
    assert estimate(drift).relative_half_width > 5 * estimate(in_turn).relative_half_width
    assert autocorrelation(drift) == pytest.approx(0.95)


def test_what_few_or_equal_samples_bound() -> None:
    for samples in ([100.0], [100.0, 102.0]):
        interval = estimate(samples)
        assert (interval.low, interval.high, interval.relative_half_width) == (-math.inf, math.inf, math.inf)
        assert next_run(interval, 0.01).high == math.inf
    equal = estimate([5.0] * 8)
    assert (equal.low, equal.high, equal.correlation) == (5.0, 5.0, 0.0)
    assert estimate([-1.0, 0.0, 1.0]).relative_half_width == math.inf
    with pytest.raises(ValueError, match="no samples"):
        estimate([])


def test_the_bounds_of_a_noisy_rate_are_physical() -> None:
    """However noisy the blocks are, no bound is a negative rate; of what can be negative it is."""
    noisy = [100.0, 1.0] * 6
    rate = estimate_rate(noisy)
    assert 0 <= rate.low < rate.mean < rate.high
    again = next_run(rate, between=2.0, runs=5)
    assert again.low == 0
    ratio = estimate_ratio(noisy, [1.0, 100.0] * 6)
    assert 0 <= ratio.low < ratio.mean < ratio.high
    assert next_run(estimate([-0.01, 0.01, 0.0, 0.02, -0.02]), between=0.1).low < 0


def test_a_rate_is_the_inverse_of_the_mean_time_with_its_interval() -> None:
    """Not the mean of the rates, which exceeds it by the square of their relative deviation."""
    times = [0.9, 1.1] * 20
    rate, time = estimate_rate([1 / time for time in times]), estimate(times)
    assert (rate.mean, rate.low, rate.high) == pytest.approx((1 / time.mean, 1 / time.high, 1 / time.low))
    assert fmean(1 / time for time in times) == pytest.approx(rate.mean * 1.01, rel=2e-4)


def test_a_rate_whose_time_may_be_anything_has_no_upper_bound() -> None:
    rate = estimate_rate([100.0, 1.0, 100.0])
    assert 0 < rate.low < rate.mean == pytest.approx(3 / 1.02)
    assert rate.high == math.inf


@pytest.mark.parametrize(("rates", "mean"), [([5.0, 0.0, 5.0], 0.0), ([5.0, math.nan], math.nan)])
def test_rates_that_are_none_bound_nothing(rates: list[float], mean: float) -> None:
    rate = estimate_rate(rates)
    assert rate.mean == pytest.approx(mean, nan_ok=True)
    assert (rate.low, rate.high) == (-math.inf, math.inf)


def test_a_ratio_of_what_moves_together_is_known_better_than_either() -> None:
    drift = [1 + i / 10 for i in range(40)]
    ratio = estimate_ratio([0.8 * sample for sample in drift], drift)
    assert ratio.mean == pytest.approx(0.8)
    assert ratio.relative_half_width < 1e-6 < estimate(drift).relative_half_width


def test_a_sample_that_is_no_number_leaves_nothing_known() -> None:
    """It must neither crash the sampling loop nor be averaged away."""
    for bad in (math.nan, math.inf, -math.inf):
        interval = estimate([100.0] * 8 + [bad])
        assert not math.isfinite(interval.mean)
        assert (interval.low, interval.high) == (-math.inf, math.inf)


def series(shortest: int, longest: int) -> list[Any]:
    """Lengths at which a probe looks whether it may stop; thousands of long series take seconds."""
    chosen = [n for n in LOOKS if shortest <= n <= longest]
    return [pytest.param(n, marks=[pytest.mark.nightly] * (n > 100)) for n in chosen]


@pytest.mark.parametrize("n", series(18, 200))
def test_interval_covers_the_mean_of_a_correlated_series(n: int) -> None:
    """Blocks of a real device are correlated (lag 1: 0.6); the interval still holds the true mean."""
    assert coverage(n, correlation=0.6) > 0.96


@pytest.mark.parametrize("n", series(1, 200))
def test_interval_keeps_its_promise_for_independent_samples(n: int) -> None:
    assert coverage(n, correlation=0.0) > 0.995


def coverage(n: int, correlation: float, runs: int = 1000) -> float:
    """Share of simulated AR(1) series whose interval holds their mean."""
    rng = random.Random(20261121 + n)  # noqa: S311  a simulation, repeatable
    hits = 0
    for _ in range(runs):
        interval = estimate(list(ar1(rng, n, correlation)))
        hits += interval.low <= 100 <= interval.high
    return hits / runs


@pytest.mark.parametrize(("between", "within"), [(0.02, 0.0), (0.02, 0.1), (0.0, 0.1)])
def test_the_next_run_lies_in_the_interval_that_was_printed(between: float, within: float) -> None:
    """In 95 % of pairs of runs, whether it is the runs that differ or the blocks within; their own interval fails."""
    rng = random.Random(20261121)  # noqa: S311  a simulation, repeatable

    def run() -> list[float]:
        at = rng.gauss(100, 100 * between)
        return [rng.gauss(at, 100 * within) for _ in range(40)]

    pairs = [(estimate(run()), fmean(run())) for _ in range(2000)]
    hits = sum(
        interval.low <= value <= interval.high for interval, value in ((next_run(a, between), b) for a, b in pairs)
    )
    assert 0.93 < hits / len(pairs) < 0.975
    if between:
        assert sum(interval.low <= value <= interval.high for interval, value in pairs) / len(pairs) < 0.9


def test_a_spread_of_few_runs_is_known_less_well() -> None:
    interval = estimate([100.0] * 8)
    assert between_runs([98.0, 100.0, 102.0]) == pytest.approx(0.02)
    assert next_run(interval, 0.01, runs=3).high - 100 > 2 * (next_run(interval, 0.01).high - 100) > 0
    assert next_run(interval, 0.01).high - 100 == pytest.approx(1.96 * math.sqrt(2), rel=1e-3)


def ar1(rng: random.Random, n: int, correlation: float) -> Iterator[float]:
    x = rng.gauss(0, 1)
    for _ in range(n):
        yield 100 + x
        x = correlation * x + math.sqrt(1 - correlation**2) * rng.gauss(0, 1)


# -- the median


def test_the_median_lies_between_the_samples_that_tables_of_order_statistics_name() -> None:
    """At 99.9 % the extremes of 11 samples, as 2 / 2^11 is 0.00098; at 95 % the sixth of 20 from either end."""
    assert estimate_median([1.0, 3.0, 2.0]).mean == 2.0
    ten, eleven, twenty = (_from_both_ends(n) for n in (10, 11, 20))
    assert estimate_median(ten).low == -math.inf
    assert (estimate_median(eleven).low, estimate_median(eleven).mean, estimate_median(eleven).high) == (1, 6, 11)
    interval = estimate_median(twenty, 0.95)
    assert (interval.low, interval.mean, interval.high, interval.n) == (6, 10.5, 15, 20)


def _from_both_ends(n: int) -> list[float]:
    """The numbers 1 to n, low and high by turns, which is the opposite of a drift."""
    numbers = [float(number) for number in range(1, n + 1)]
    return [numbers.pop(0 if len(numbers) % 2 else -1) for _ in range(n)]


def test_one_slow_sample_moves_the_mean_and_not_the_median() -> None:
    samples = [100.0] * 30 + [20.0]
    assert estimate_rate(samples).mean < 90
    interval = estimate_median(samples)
    assert (interval.mean, interval.low, interval.high) == (100.0, 100.0, 100.0)


def test_the_interval_of_a_median_covers_it_as_often_as_it_says() -> None:
    random.seed(7)
    runs = [estimate_median([random.gauss(0, 1) for _ in range(18)], 0.95) for _ in range(1000)]
    missed = sum(not run.low <= 0 <= run.high for run in runs)
    assert missed <= 65, "5 % of a thousand, and three standard errors"


def test_correlated_samples_leave_the_median_less_certain() -> None:
    slow = [math.sin(index / 8) for index in range(60)]
    by_turns = [slow[index * 23 % 60] for index in range(60)]
    ordered, shuffled = estimate_median(slow), estimate_median(by_turns)
    assert ordered.high - ordered.low > shuffled.high - shuffled.low


def test_a_median_needs_numbers() -> None:
    with pytest.raises(ValueError, match="no samples"):
        estimate_median([])
    assert estimate_median([1.0, math.nan, 2.0]).low == -math.inf
