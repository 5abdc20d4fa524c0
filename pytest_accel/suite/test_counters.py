"""What the devices and the host counted while all of the above ran."""

import pytest

from pytest_accel import probes


def test_counters(accel_check, accel_counters):
    """No error that never happens on a healthy device, and no more of the others than is healthy."""
    accel_check(probes.counters, fact=accel_counters)


@pytest.mark.parametrize("fact", probes.HOST_COUNTERS)
def test_host_counters(accel_check, accel_devices, fact):
    """The same of the host: memory, processors, PCIe, NICs."""
    accel_check(probes.host_counters, fact=fact)
