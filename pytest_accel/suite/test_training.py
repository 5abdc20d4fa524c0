"""A training step of a transformer block: on every device by itself, and on all of them together."""

from pytest_accel import probes


def test_training_step(accel_check):
    """Check the rate of a step on every device, and that its bits are the same again and on all devices."""
    accel_check(probes.training_step)


def test_ddp_step(accel_check, accel_devices):
    """Check that all ranks have the same gradients and weights, and the time of a step (DistributedDataParallel)."""
    accel_check(probes.ddp_step)
