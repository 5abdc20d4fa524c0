"""The matrix units."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"])
def test_matmul(accel_check, dtype):
    """Sustained matrix multiplication reaches the floor of its dtype, on all devices at once."""
    accel_check(probes.matmul, dtype=dtype)
