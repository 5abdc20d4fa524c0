"""Device memory keeps what is written to it."""

from pytest_accel import probes


def test_memory_pattern(accel_check):
    """Nearly all of the memory keeps a hash of its address and the complement; one window passes moving inversions."""
    accel_check(probes.memory_pattern)
