"""The network between this node and the others of its job."""

from pytest_accel import probes


def test_network(accel_check, accel_devices):
    """Check what a network run found of this node: its best rate with any partner, against the others and its floor."""
    accel_check(probes.network_pairs)
