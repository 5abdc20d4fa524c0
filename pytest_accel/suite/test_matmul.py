"""The matrix units: throughput of matrix multiplication."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "mxfp8", "fp4", "int8"])
def test_matmul(accel_check, dtype):
    """Check the sustained throughput of a dtype, on all devices at once."""
    accel_check(probes.matmul, dtype=dtype)


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_matmul_mamf(accel_check, dtype):
    """Check the throughput by the procedure of mamf-finder, at the shape that it published for the product."""
    accel_check(probes.matmul_mamf, dtype=dtype)


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_matmul_best(accel_check, dtype):
    """Check the throughput of the fastest matrix shape that a search finds."""
    accel_check(probes.matmul_best, dtype=dtype)
