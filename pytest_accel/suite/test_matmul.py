"""The matrix units."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "fp4", "int8"])
def test_matmul(accel_check, dtype):
    """Sustained matrix multiplication reaches the floor of its dtype on all devices at once."""
    accel_check(probes.matmul, dtype=dtype)


def test_matmul_burst(accel_check):
    """The first milliseconds after a rest, which most published figures are measured in."""
    accel_check(probes.matmul_burst, dtype="bf16")


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_matmul_best(accel_check, dtype):
    """The fastest shape, which shows the rate that the device reaches when the shape does not limit it."""
    accel_check(probes.matmul_best, dtype=dtype)
