"""A training step on all devices."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("metric", ["ddp.step_ms", "ddp.exposed"])
def test_ddp_step(accel_check, accel_devices, metric):
    """Gradients and parameters are equal on all ranks, and the step takes no longer than its limit."""
    accel_check(probes.ddp_step, metric=metric)
