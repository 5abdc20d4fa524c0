"""The all-reduce over all devices."""

from pytest_accel import probes


def test_all_reduce(accel_check, accel_devices):
    """Check that the sum over all ranks is exact and that the bus bandwidth reaches its floor."""
    accel_check(probes.all_reduce)
