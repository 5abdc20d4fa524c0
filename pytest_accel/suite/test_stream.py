"""The bandwidth of device memory."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("op", ["copy_kernel", "triad", "dot", "copy", "read"])
def test_stream(accel_check, op):
    """Check the memory bandwidth of one operation."""
    accel_check(probes.stream, op=op)
