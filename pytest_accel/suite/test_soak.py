"""Heat and power under sustained load. It runs late, because the tests before it do not heat the node up as much."""

import pytest

from pytest_accel import probes

METRICS = [
    "soak.rate",
    "soak.droop_slow",
    "soak.power",
    "soak.throttle.hw_thermal",
    "soak.throttle.sw_thermal",
    "soak.throttle.power_brake",
]


@pytest.mark.parametrize("metric", METRICS)
def test_soak(accel_check, metric):
    """The rate holds while the node is hot, without thermal or hardware slowdown."""
    accel_check(probes.soak, metric=metric)
