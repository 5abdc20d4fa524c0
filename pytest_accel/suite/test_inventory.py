"""The expected devices are present and reachable."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("fact", ["driver", "count"])
def test_inventory_node(accel_check, accel_devices, fact):
    """Every accelerator in the machine is reachable, and their number is the expected one."""
    accel_check(probes.inventory, fact=fact)


def test_inventory_sku(accel_check):
    """The device is the product that was named."""
    accel_check(probes.inventory, fact="sku")


def test_inventory(accel_check, accel_inventory):
    """A fact of the device's inventory is within its limit."""
    accel_check(probes.inventory, fact=accel_inventory)
