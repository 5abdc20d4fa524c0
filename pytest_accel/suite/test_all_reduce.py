"""All-reduce over all devices."""

from pytest_accel import probes


def test_all_reduce(accel_check, accel_devices):
    """The sum over all ranks is exact, and the bus bandwidth reaches its floor."""
    accel_check(probes.all_reduce)
