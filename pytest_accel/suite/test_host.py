"""The host: settings and states that affect the performance of the devices."""

from pytest_accel import probes


def test_host(accel_check, accel_devices, accel_host):
    """Check a fact of the host against its limit; runs once for each fact that the SKU limits."""
    accel_check(probes.host, fact=accel_host)
