"""The health that the devices report: repairs, settings and slowdowns."""

from pytest_accel import probes


def test_health(accel_check, accel_health):
    """A fact of the device's health is within its limit."""
    accel_check(probes.health, fact=accel_health)
