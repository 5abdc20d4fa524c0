"""The windows of a soak, and how its clock swings: what a slowdown does to them, and what noise does not."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from pytest_accel.judging.facts.telemetry import clock_swing
from pytest_accel.probes.device.torch_device import ProbeResult
from pytest_accel.probes.soak import steadiness

BLOCK = 0.05


def found(seconds: float, pace: Callable[[float], float], *, noise: float = 0.0, seed: int = 0) -> dict[str, float]:
    """Return the metrics of a soak whose blocks run at this pace at their time."""
    draw, at = random.Random(seed), 0.0  # noqa: S311  the same every time
    ends, rates = [], []
    while at < seconds:
        rate = 700 * pace(at) * (1 + draw.gauss(0, noise))
        at += BLOCK * 700 / rate
        ends.append(at)
        rates.append(rate)
    result = ProbeResult("soak.rate", "TFLOPS", samples=rates, details={"ends": ends})
    return {each.metric.removeprefix("soak."): float(each.value or 0) for each in steadiness(result)}


def test_a_steady_soak() -> None:
    assert found(300, lambda _: 1.0) == pytest.approx({"slowest_window": 1.0, "last_tenth": 1.0, "block_p95": 1.0})


@pytest.mark.parametrize("seconds", [7.0, 60.0, 300.0])
def test_a_slowdown_in_the_last_tenth_is_seen(seconds: float) -> None:
    late = found(seconds, lambda at: 0.85 if at > 0.9 * seconds else 1.0)
    assert late["last_tenth"] == pytest.approx(0.85, abs=0.02)
    assert late["slowest_window"] == pytest.approx(0.85, abs=0.02)


def test_twenty_slow_seconds_in_the_middle_are_seen() -> None:
    once = found(300, lambda at: 0.7 if 100 < at < 120 else 1.0)
    assert once["slowest_window"] == pytest.approx(0.7, abs=0.02)
    assert once["last_tenth"] == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("seconds", [7.0, 60.0, 300.0])
def test_a_delayed_block_is_none(seconds: float) -> None:
    """A block that takes three times as long, at any place: also in the last tenth and in a window of its own."""
    for place in (0.2, 0.55, 0.97):
        one = found(seconds, lambda at, place=place: 1 / 3 if 0 <= at - place * seconds < BLOCK else 1.0)  # type: ignore[misc]
        assert min(one["slowest_window"], one["last_tenth"]) > 0.98


def test_noise_and_drift_of_healthy_devices_stay_far_from_the_limits() -> None:
    for seed in range(60):
        healthy = found(7.0, lambda at: 1 - 0.01 * at / 7, noise=0.01, seed=seed)
        assert healthy["slowest_window"] > 0.97
        assert healthy["last_tenth"] > 0.98
        assert healthy["block_p95"] < 1.05


def test_few_blocks_make_fewer_windows() -> None:
    few = found(0.5, lambda _: 1.0)
    assert few["slowest_window"] == 1.0


def clock(values: Sequence[float]) -> float | None:
    return clock_swing([{"at": 0.1 * place, "clock_mhz": value} for place, value in enumerate(values)])


def test_a_clock_that_goes_up_and_down_swings() -> None:
    hunting = [1980.0 if place // 10 % 2 else 1200.0 for place in range(300)]
    assert clock(hunting) == pytest.approx(780 / 1980, abs=0.3)
    assert (clock(hunting) or 0) > 0.35


def test_one_step_and_the_way_up_are_no_swing() -> None:
    assert clock([1980.0] * 150 + [1200.0] * 150) == pytest.approx(0, abs=1e-4)
    assert clock([300.0 * place for place in range(6)] + [1980.0] * 294) == pytest.approx(0, abs=1e-4)


def test_a_power_limit_dithers_by_little() -> None:
    draw = random.Random(1)  # noqa: S311  the same every time
    steps = [1400 + 15 * draw.randint(-3, 3) for _ in range(300)]
    assert (clock(steps) or 1) < 0.1


def test_with_few_readings_nothing_is_told() -> None:
    assert clock([1980.0] * 10) is None
    assert clock_swing([]) is None


def test_the_height_is_that_of_three_swings() -> None:
    """Two large swings among many small ones do not count."""
    small = [1400.0 + 20 * (place % 2) for place in range(200)]
    large = [*small[:60], 900.0, *small[60:120], 900.0, *small[120:]]
    assert (clock(large) or 1) < 0.05
