"""The inventory: the right product, the expected number of devices, and all of them usable."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("fact", ["driver", "count"])
def test_inventory_node(accel_check, accel_devices, fact):
    """Check that every accelerator of the machine can be used, and that their number is as expected."""
    accel_check(probes.inventory, fact=fact)


def test_inventory_packing_list(accel_check, accel_devices, accel_packing_list):
    """Check that every board that the packing list names for this node is in it."""
    accel_check(probes.inventory, fact=accel_packing_list)


def test_inventory_sku(accel_check):
    """Check that the device is the product that the SKU describes."""
    accel_check(probes.inventory, fact="sku")


def test_inventory(accel_check, accel_inventory):
    """Check an inventory fact against its limit; runs once for each fact that the SKU limits."""
    accel_check(probes.inventory, fact=accel_inventory)
