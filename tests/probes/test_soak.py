"""The windows of a soak: what a slowdown does to them, and what noise does not."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from support.rows import each_row

from pytest_accel.probes.device.torch_device import ProbeResult
from pytest_accel.probes.soak import slowest_window

BLOCK = 0.05


def slowest(seconds: float, pace: Callable[[float], float], *, noise: float = 0.0, seed: int = 0) -> float:
    """Return the slowest window of a soak whose blocks run at this pace at their time."""
    draw, at = random.Random(seed), 0.0  # noqa: S311  the same every time
    ends, rates = [], []
    while at < seconds:
        rate = 700 * pace(at) * (1 + draw.gauss(0, noise))
        at += BLOCK * 700 / rate
        ends.append(at)
        rates.append(rate)
    return float(slowest_window(ProbeResult("soak.rate", "TFLOPS", samples=rates, details={"ends": ends})).value or 0)


def test_a_steady_soak() -> None:
    assert slowest(300, lambda _: 1.0) == pytest.approx(1.0)


@pytest.mark.parametrize("seconds", [7.0, 60.0, 300.0])
def test_a_slowdown_in_the_last_tenth_is_seen(seconds: float) -> None:
    assert slowest(seconds, lambda at: 0.85 if at > 0.9 * seconds else 1.0) == pytest.approx(0.85, abs=0.02)


def test_twenty_slow_seconds_in_the_middle_are_seen() -> None:
    assert slowest(300, lambda at: 0.7 if 100 < at < 120 else 1.0) == pytest.approx(0.7, abs=0.02)


@each_row("seconds", [7.0, 60.0, 300.0])
@each_row("place", [0.2, 0.55, 0.97])
def test_a_delayed_block_is_none(seconds: float, place: float) -> None:
    """A block that takes three times as long, at any place: also in a window of its own."""
    assert slowest(seconds, lambda at: 1 / 3 if 0 <= at - place * seconds < BLOCK else 1.0) > 0.98


def test_noise_and_drift_of_healthy_devices_stay_far_from_the_limits() -> None:
    for seed in range(60):
        assert slowest(7.0, lambda at: 1 - 0.01 * at / 7, noise=0.01, seed=seed) > 0.97


def test_few_blocks_make_fewer_windows() -> None:
    assert slowest(0.5, lambda _: 1.0) == 1.0
