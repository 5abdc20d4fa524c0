"""The host: settings and states that affect the performance of the devices."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("fact", probes.HOST_FACTS)
def test_host(accel_check, accel_devices, fact):
    """Check a fact of the host against its limit; without a limit, the fact is only recorded."""
    accel_check(probes.host, fact=fact)
