"""A data-parallel training step (DistributedDataParallel) on all devices."""

from pytest_accel import probes


def test_ddp_step(accel_check, accel_devices):
    """Check that parameters stay equal on all ranks, and the time of a step."""
    accel_check(probes.ddp_step)
