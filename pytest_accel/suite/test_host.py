"""Settings and states of the host that affect the devices."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("fact", probes.HOST_FACTS)
def test_host(accel_check, accel_devices, fact):
    """A fact of the host is within its limit; without a limit it is recorded only."""
    accel_check(probes.host, fact=fact)
