"""The links between devices."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("direction", ["one_way", "both"])
def test_peer_copy(accel_check, direction):
    """Check the bandwidth of the slowest pair of each sender, and that the data arrives intact."""
    accel_check(probes.peer_copy, direction=direction)


@pytest.mark.parametrize("how", ["rounds", "all"])
def test_peer_copy_all(accel_check, how):
    """Check the bandwidth of the links when all devices use them at once."""
    accel_check(probes.peer_copy_all, how=how)
