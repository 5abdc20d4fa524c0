"""The errors that the devices and the host counted during the tests before."""

import pytest

from pytest_accel import probes


def test_counters(accel_check, accel_counters):
    """Check that an error counter of the devices has not risen by more than its limit."""
    accel_check(probes.counters, fact=accel_counters)


@pytest.mark.parametrize("fact", probes.HOST_COUNTERS)
def test_host_counters(accel_check, accel_devices, fact):
    """Check that an error counter of the host (memory, CPUs, PCIe, NICs) has not risen by more than its limit."""
    accel_check(probes.host_counters, fact=fact)
