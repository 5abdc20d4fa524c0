"""Device memory."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("op", ["copy", "copy_kernel", "triad", "read", "write"])
def test_stream(accel_check, op):
    """The memory bandwidth of an operation reaches its floor."""
    accel_check(probes.stream, op=op)


def test_stream_windows(accel_check):
    """No part of the memory is slower than its floor."""
    accel_check(probes.stream_windows)
