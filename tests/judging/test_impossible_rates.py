"""Rates that are too good to be true are judged by nobody: not accepted, and no device is blamed."""

from pytest_accel.core.measurement import Measurement, Peak
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.verdicts.judge_attempts import judge

PEAK = Peak(989.4, "bf16 datasheet peak")


def status(value: float, peak: Peak | None = PEAK, unit: str = "TFLOPS") -> Status:
    limit = Limit("matmul.bf16", unit, floor=672.0, reference=730.0)
    return judge([Measurement("matmul.bf16", "GPU-0", unit, value, peak=peak)], limit).status


def test_a_board_may_boost_above_its_published_clock() -> None:
    assert {status(value) for value in (730.0, 989.0, 1.28 * 989.4)} == {Status.PASS}


def test_a_sparse_figure_or_another_unit_does_not_hold() -> None:
    assert {status(value) for value in (1978.9, 730e3, 1e300)} == {Status.UNMEASURED}
    assert [status(value, None) for value in (1400.0, 1500.0)] == [Status.PASS, Status.UNMEASURED], "by the reference"


def test_a_peak_that_was_measured_beside_and_what_is_no_rate_bounds_nothing() -> None:
    """Both come from one machine at one time: a processor that turns faster is no slip."""
    assert status(1e4, Peak(1.0, "measured in alternation", samples=(1.0,) * 9)) is Status.PASS
    assert status(1e4, unit="s") is Status.PASS
