"""Rates that are too good to be true are judged by nobody: not accepted, and no device is blamed."""

import pytest

from pytest_accel.core.measurement import Measurement, Peak
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.verdicts.judge import judge

PEAK = Peak(989.4, "bf16 datasheet peak")


def status(value: float, peak: Peak | None = PEAK, unit: str = "TFLOPS") -> Status:
    limit = Limit("matmul.bf16", unit, floor=672.0, reference=730.0)
    return judge([Measurement("matmul.bf16", "GPU-0", unit, value, peak=peak)], limit).status


@pytest.mark.parametrize("value", [730.0, 989.0, 1.28 * 989.4])
def test_a_board_may_boost_above_its_published_clock(value: float) -> None:
    assert status(value) is Status.PASS


@pytest.mark.parametrize("value", [1978.9, 730e3, 1e300])
def test_a_sparse_figure_or_another_unit_does_not_hold(value: float) -> None:
    assert status(value) is Status.UNMEASURED


def test_without_a_peak_the_healthy_reference_bounds_it() -> None:
    assert status(1400.0, None) is Status.PASS
    assert status(1500.0, None) is Status.UNMEASURED


def test_a_peak_that_was_measured_beside_bounds_nothing() -> None:
    """Both come from one machine at one time: a processor that turns faster is no slip."""
    assert status(1e4, Peak(1.0, "measured in alternation", samples=(1.0,) * 9)) is Status.PASS


def test_what_is_no_rate_is_not_bounded() -> None:
    assert status(1e4, unit="s") is Status.PASS
