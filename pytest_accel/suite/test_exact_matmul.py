"""Silent corruption of the matrix units, hot from the soak: results that are known to the last bit."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("dtype", ["bf16", "fp32"])
def test_exact_matmul(accel_check, dtype):
    """Every element is right, on every device the same."""
    accel_check(probes.exact_matmul, dtype=dtype)
