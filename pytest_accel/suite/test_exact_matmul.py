"""Silent corruption in the matrix units: products whose exact result is known, on devices hot from the soak."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_exact_matmul(accel_check, dtype):
    """Check that every element of the product is exact."""
    accel_check(probes.exact_matmul, dtype=dtype)
