"""The collectives over all devices."""

from pytest_accel import probes


def test_collective(accel_check, accel_devices, accel_operation, accel_size):
    """Check that every rank has the exact result, and that the bus bandwidth of an operation reaches its floor."""
    accel_check(probes.collective, operation=accel_operation, size=accel_size)
