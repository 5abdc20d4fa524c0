"""The soak: a long load that brings the devices to their final temperature and power."""

import pytest

from pytest_accel import probes

METRICS = [
    "soak.rate",
    "soak.droop_slow",
    "soak.slowest_window",
    "soak.power",
    "soak.throttle.hw_thermal",
    "soak.throttle.sw_thermal",
    "soak.throttle.power_brake",
    "soak.throttle.hw_slowdown",
    "soak.thermal_margin",
]


@pytest.mark.parametrize("metric", METRICS)
def test_soak(accel_check, metric):
    """Check that a hot device keeps its rate, without thermal or hardware slowdown."""
    accel_check(probes.soak, metric=metric)
