"""Confidence intervals for means, rates and ratios of correlated samples. Pure, standard library only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import NormalDist, fmean, median, stdev

CONFIDENCE = 0.999
LOOKS = (5, 8, 12, 18, 27, 40, 60, 90, 135, 200, 300, 450, 675, 1000)
"""Numbers of blocks at which a sampling loop may stop; testing more often would make the interval too narrow."""

ENOUGH_ALIKE = 4
"""Number of like devices from which on their median is that of healthy ones if one of them is slow."""

SAMPLE_DIGITS = 7
"""Significant digits of a sample and its duration: far more than any clock tells, and half of those of a float."""


@dataclass(frozen=True)
class Estimate:
    """The mean of some samples and its confidence interval.

    `low` and `high` bound the mean with 99.9 % confidence, in the unit of the samples. They are infinite if there are
    too few samples. `correlation` is the lag-1 autocorrelation that widened the interval.
    """

    mean: float
    low: float
    high: float
    n: int
    correlation: float

    @property
    def relative_half_width(self) -> float:
        """Half of the interval's width as a fraction of the mean."""
        return (self.high - self.low) / 2 / abs(self.mean) if self.mean else math.inf


def significant(value: float) -> float:
    """Return a number with the significant digits of a sample."""
    return float(f"{value:.{SAMPLE_DIGITS}g}")


def deviation(samples: Sequence[float], mean: float) -> float:
    """Return the standard deviation of finite samples; statistics.stdev takes five times as long."""
    return math.sqrt(math.fsum((x - mean) ** 2 for x in samples) / (len(samples) - 1))


def estimate(samples: Sequence[float]) -> Estimate:
    """Estimate the mean of n `samples` with lag-1 autocorrelation r, which count as n (1 - r) / (1 + r) samples.

    A sample that is not finite makes the interval infinite. Raises ValueError if there is no sample.
    """
    n = len(samples)
    if n == 0:
        raise ValueError("no samples to estimate from")
    if not all(map(math.isfinite, samples)):
        return Estimate(sum(samples) / n, -math.inf, math.inf, n, 0.0)
    mean = fmean(samples)
    if n < 3:
        return Estimate(mean, -math.inf, math.inf, n, 0.0)
    r = autocorrelation(samples)
    effective = max(1.0, n * (1 - r) / (1 + r))
    half = student_t(CONFIDENCE, n - 1) * deviation(samples, mean) / math.sqrt(effective)
    return Estimate(mean, mean - half, mean + half, n, r)


def estimate_rate(rates: Sequence[float]) -> Estimate:
    """Estimate total work over total time from the rates of blocks that did equal work.

    The interval is that of the time, so a rate in it is never negative; it has no upper end if the blocks differ so
    much that the interval of the time includes zero. Raises ValueError if there is no rate.
    """
    if not all(math.isfinite(rate) and rate > 0 for rate in rates):
        mean = math.fsum(rates) / len(rates) if not all(map(math.isfinite, rates)) else 0.0
        return Estimate(mean, -math.inf, math.inf, len(rates), 0.0)
    # The harmonic mean: the arithmetic one exceeds it by about the square of the relative deviation, because it gives a
    # slow block the same weight as a fast one.
    time = estimate([1 / rate for rate in rates])
    if not math.isfinite(time.low):
        return replace(time, mean=1 / time.mean)
    high = 1 / time.low if time.low > 0 else math.inf
    return replace(time, mean=1 / time.mean, low=1 / time.high, high=high)


def estimate_median(samples: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Estimate the median of `samples`, between two of them (H. A. David, Order Statistics, section 2.5).

    The k-th lowest and the k-th highest of n independent samples enclose the median unless fewer than k of them lie on
    one side of it. Correlated samples count as fewer, as in `estimate`. The interval is infinite below 11 samples.
    Raises ValueError if there is no sample.
    """
    n, middle = len(samples), float(median(samples)) if samples else math.nan
    if n == 0:
        raise ValueError("no samples to estimate from")
    if not all(map(math.isfinite, samples)):
        return Estimate(middle, -math.inf, math.inf, n, 0.0)
    r, ranked = autocorrelation(samples), sorted(samples)
    effective = max(1, math.floor(n * (1 - r) / (1 + r))) if r > 0 else n
    rank = _rank(effective, confidence) * n // effective
    if rank == 0:
        return Estimate(middle, -math.inf, math.inf, n, r)
    return Estimate(middle, float(ranked[rank - 1]), float(ranked[n - rank]), n, r)


def _rank(n: int, confidence: float) -> int:
    """Return the largest k for which at least k of n samples lie on either side of the median; 0 if there is none."""
    outside, rank = 0, 0
    while 2 * (outside := outside + math.comb(n, rank)) <= (1 - confidence) * 2**n:
        rank += 1
    return rank


def estimate_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """Estimate the ratio of two sums from pairs of samples taken in alternation, so that common drift cancels.

    The interval is that of the residuals numerator - ratio x denominator (the ratio estimator of W. G. Cochran,
    Sampling Techniques, 1977, chapter 6). Raises ValueError if there is no pair.
    """
    mean = fmean(denominators)
    ratio = fmean(numerators) / mean
    residual = estimate([(a - ratio * b) / mean for a, b in zip(numerators, denominators, strict=True)])
    low = ratio + residual.low
    # neither sum is negative, and so their ratio is not
    return replace(residual, mean=ratio, low=max(0.0, low) if math.isfinite(low) else low, high=ratio + residual.high)


def standard_error(interval: Estimate) -> float:
    """Return the standard error within the run, in the unit of the samples; infinite for fewer than three samples."""
    return (interval.high - interval.low) / 2 / student_t(CONFIDENCE, interval.n - 1) if interval.n > 2 else math.inf


def next_run(current: Estimate, between: float, runs: float = math.inf, confidence: float = 0.95) -> Estimate:
    """Return the interval in which the next run's value of the same device lies in 95 % of cases.

    Each of the two runs deviates from the long-run value by the variation between runs (`between`: standard deviation
    as a fraction of the value, estimated from `runs` runs) and by the standard error within the run, assumed equal for
    both. This gives a prediction interval of half-width t sqrt(2 (between^2 + within^2)). It ends at 0 for a quantity
    that cannot be negative. The interval of `current` itself covers the mean of this run only.
    """
    mean, variance = current.mean, standard_error(current) ** 2 + (between * current.mean) ** 2
    half = student_t(confidence, runs - 1) * math.sqrt(2 * variance)
    return replace(current, low=max(0.0, mean - half) if current.low >= 0 else mean - half, high=mean + half)


def between_runs(values: Sequence[float]) -> float:
    """Return the standard deviation of the runs' values as a fraction of their mean.

    Raises StatisticsError for fewer than two values.
    """
    return stdev(values) / abs(fmean(values))


def autocorrelation(samples: Sequence[float]) -> float:
    """Return the lag-1 autocorrelation, corrected for the bias (1 + 4 r) / n of short series, clipped to 0 ... 0.95."""
    n = len(samples)
    mean = fmean(samples)
    deviations = [x - mean for x in samples]
    total = math.fsum(d * d for d in deviations)
    if total == 0:
        return 0.0
    r = math.fsum(a * b for a, b in itertools.pairwise(deviations)) / total
    return min(0.95, max(0.0, r + (1 + 4 * r) / n))


def student_t(confidence: float, freedom: float) -> float:
    """Return the two-sided quantile of Student's t. `freedom` is real and at least 1, or infinite."""
    return student_above((1 - confidence) / 2, freedom)


def student_tail(t: float, freedom: float) -> float:
    """Return the chance that Student's t is above `t` >= 0 (Abramowitz and Stegun, 26.5.27).

    `freedom` is real and above zero, or infinite.
    """
    if math.isinf(freedom):
        return NormalDist().cdf(-t)
    return 0.5 * _incomplete_beta(freedom / (freedom + t * t), freedom / 2)


@cache
def student_above(chance: float, freedom: float) -> float:
    """Return the t that Student's t exceeds with this `chance` (below one half), by bisection of `student_tail`."""
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > chance:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if student_tail(middle, freedom) > chance else (low, middle)
    return high


def _incomplete_beta(x: float, a: float) -> float:
    """Return the regularized incomplete beta function I_x(a, 1/2), by its continued fraction (A. and S., 26.5.8)."""
    b = 0.5
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):
        return 1 - front * _fraction(1 - x, b, a) / b
    return front * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, by the method of Lentz."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 500):
        for top in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                    -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):  # fmt: skip
            d, c = 1 / (1 + top * d), 1 + top / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return fraction
