"""A real training step on all devices."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("metric", ["ddp.step_ms", "ddp.exposed"])
def test_ddp_step(accel_check, accel_devices, metric):
    """Gradients and parameters end up equal on all ranks, in time."""
    accel_check(probes.ddp_step, metric=metric)
