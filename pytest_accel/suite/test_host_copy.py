"""The link between host and device."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("direction", ["h2d", "d2h", "both"])
def test_host_copy(accel_check, direction):
    """One device at a time reaches the floor of its link."""
    accel_check(probes.host_copy, direction=direction)


@pytest.mark.parametrize("direction", ["h2d", "d2h", "both"])
def test_host_copy_all(accel_check, direction):
    """All devices together do."""
    accel_check(probes.host_copy_all, direction=direction)
