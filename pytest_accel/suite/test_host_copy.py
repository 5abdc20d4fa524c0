"""The link between host and device."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("direction", ["d2h", "h2d", "both"])
def test_host_copy(accel_check, direction):
    """Check the bandwidth of the host link, with one device copying at a time.

    Copies to the host come first, because on some versions of ROCm they are slower after one to the device.
    """
    accel_check(probes.host_copy, direction=direction)


@pytest.mark.parametrize("metric", ["host_copy.pcie_gen", "host_copy.pcie_width"])
def test_host_copy_link(accel_check, metric):
    """Check generation and width of the PCIe link under load, since an idle link may run slower to save power."""
    accel_check(probes.host_copy, direction="h2d", metric=metric)


@pytest.mark.parametrize("direction", ["d2h", "h2d", "both"])
def test_host_copy_all(accel_check, direction):
    """Check the bandwidth of the host links, with all devices copying at once."""
    accel_check(probes.host_copy_all, direction=direction)
