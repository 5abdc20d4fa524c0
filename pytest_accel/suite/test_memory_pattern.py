"""The integrity of device memory: data read back equals the data written."""

from pytest_accel import probes


def test_memory_pattern(accel_check):
    """Check nearly all of the memory with a hash of the address, its complement, and moving inversions."""
    accel_check(probes.memory_pattern)
