"""Silent corruption in the matrix units while they are hot from the soak: products whose exact result is known."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_exact_matmul(accel_check, dtype):
    """Every element of the products is exact, and the products are the same on every device."""
    accel_check(probes.exact_matmul, dtype=dtype)
