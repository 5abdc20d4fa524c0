"""All devices together."""

from pytest_accel import probes


def test_all_reduce(accel_check, accel_devices):
    """The sum over all ranks is exact and reaches the floor of bus bandwidth."""
    accel_check(probes.all_reduce)
