"""The links between devices."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("direction", ["one_way", "both"])
def test_peer_copy(accel_check, direction):
    """The slowest pair of a sender reaches the floor, and the data arrive unchanged."""
    accel_check(probes.peer_copy, direction=direction)


@pytest.mark.parametrize("how", ["rounds", "all"])
def test_peer_copy_all(accel_check, how):
    """The links reach their floor with every device copying at once."""
    accel_check(probes.peer_copy_all, how=how)
