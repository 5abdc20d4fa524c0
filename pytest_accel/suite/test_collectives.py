"""The all-reduce over all devices."""

from pytest_accel import probes


def test_all_reduce(accel_check, accel_devices, accel_size):
    """Check that the sum over all ranks is exact and that the bus bandwidth of a size reaches its floor."""
    accel_check(probes.all_reduce, size=accel_size)
