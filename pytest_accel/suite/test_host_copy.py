"""The link between host and device."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("direction", ["h2d", "d2h", "both"])
def test_host_copy(accel_check, direction):
    """The host link reaches its floor with one device copying at a time."""
    accel_check(probes.host_copy, direction=direction)


@pytest.mark.parametrize("metric", ["host_copy.pcie_gen", "host_copy.pcie_width"])
def test_host_copy_link(accel_check, metric):
    """The host link has the expected PCIe generation and width under load; an idle link may reduce both."""
    accel_check(probes.host_copy, direction="h2d", metric=metric)


@pytest.mark.parametrize("direction", ["h2d", "d2h", "both"])
def test_host_copy_all(accel_check, direction):
    """The host link reaches its floor with all devices copying at once."""
    accel_check(probes.host_copy_all, direction=direction)


@pytest.mark.parametrize("metric", ["host_copy.latency", "host_copy.latency_p99"])
def test_host_latency(accel_check, metric):
    """A copy of four bytes, which shows the fixed cost of a small transfer, is within its limit."""
    accel_check(probes.host_latency, metric=metric)
