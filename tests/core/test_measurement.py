"""What a probe found: a rate as work over time, else a mean, and the fraction of a peak that it is."""

import math

import pytest

from pytest_accel.core.measurement import Device, Measurement, Peak, finite


def found(samples: tuple[float, ...], peak: Peak | None) -> Measurement:
    return Measurement("matmul.bf16", "GPU-0", "TFLOPS", samples=samples, peak=peak)


def test_a_fact_has_no_estimate() -> None:
    fact = Measurement("inventory.count", "node", "count", 8)
    assert fact.estimate is None
    assert fact.of_peak is None
    assert found((), Peak(1000.0, "datasheet")).of_peak is None


def test_a_number_of_hundreds_of_digits_is_none_that_can_be_drawn() -> None:
    assert [finite(value) for value in (10**400, -(10**400), math.nan, True, "1", 7)] == [None] * 5 + [7.0]


def test_a_rate_is_work_over_time() -> None:
    """A block of equal work at 800 takes twice as long as one at 1600: 3 pieces of work in the time of 3.75."""
    estimate = found((800.0, 1600.0, 1600.0), None).estimate
    assert estimate is not None
    assert estimate.mean == pytest.approx(1200.0)
    assert estimate.n == 3
    assert estimate.low < 1200 < estimate.high


def test_a_block_that_never_ended_is_no_rate_above_zero() -> None:
    estimate = found((700.0, 0.0, 700.0), Peak(0.0, "beside", samples=(1.0, 1.0, 1.0))).of_peak
    assert estimate is not None
    assert estimate.mean == 0.0
    assert not math.isfinite(estimate.low)


def test_a_fraction_of_a_datasheet_peak() -> None:
    fraction = found((700.0, 710.0, 720.0), Peak(1000.0, "datasheet")).of_peak
    assert fraction is not None
    assert fraction.mean == pytest.approx(0.71, rel=2e-4)


def test_a_fraction_of_a_peak_measured_beside_is_taken_block_by_block() -> None:
    """A clock that slows both down cancels out: the ratio is known exactly although neither rate is."""
    fraction = found((100.0, 50.0, 80.0), Peak(0.0, "beside", samples=(200.0, 100.0, 160.0))).of_peak
    assert fraction is not None
    assert (fraction.low, fraction.mean, fraction.high) == pytest.approx((0.5, 0.5, 0.5))


def test_noise_of_the_value_alone_does_not_raise_its_fraction() -> None:
    """Half of the blocks were disturbed and took three times as long: the fraction is of work over time as well."""
    fraction = found((100.0, 300.0) * 20, Peak(0.0, "beside", samples=(300.0,) * 40)).of_peak
    assert fraction is not None
    assert fraction.mean == pytest.approx(0.5)  # the mean of the ratios is 0.667


def test_the_identity_of_a_device_is_its_uuid() -> None:
    """Not its place in today's list, which changes when a neighbour vanishes."""
    today = Device(uuid="GPU-a", index=3, driver="nvidia", model="H100")
    assert today == Device(uuid="GPU-a", index=2, driver="nvidia", model="H100")
    assert today != Device(uuid="GPU-b", index=3, driver="nvidia", model="H100")
    assert (today.name, Device(uuid="CPU-a", index=0, driver="cpu", model="x", called="cpu").name) == ("gpu3", "cpu0")
