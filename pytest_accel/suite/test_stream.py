"""Device memory."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("op", ["copy", "triad", "read"])
def test_stream(accel_check, op):
    """Memory bandwidth reaches its floor."""
    accel_check(probes.stream, op=op)
