"""The vendor's own diagnostic, where a limit requires it."""

from pytest_accel import probes


def test_vendor_diagnostic(accel_check):
    """Check that the device passes the vendor's own diagnostic."""
    accel_check(probes.vendor_diagnostic)
