"""Errors that the devices and the host counted during the other tests."""

import pytest

from pytest_accel import probes


def test_counters(accel_check, accel_counters):
    """The device counted no errors beyond its limits."""
    accel_check(probes.counters, fact=accel_counters)


@pytest.mark.parametrize("fact", probes.HOST_COUNTERS)
def test_host_counters(accel_check, accel_devices, fact):
    """The host counted no errors of memory, processors, PCIe or NICs beyond its limits."""
    accel_check(probes.host_counters, fact=fact)
