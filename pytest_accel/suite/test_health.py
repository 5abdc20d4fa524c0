"""The health that the devices report: no broken part, no pending repair, no disabled feature."""

from pytest_accel import probes


def test_health(accel_check, accel_health):
    """Check a health fact against its limit; runs once for each fact that the SKU limits."""
    accel_check(probes.health, fact=accel_health)
