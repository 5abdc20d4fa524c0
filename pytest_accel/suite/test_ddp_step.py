"""A data-parallel training step (DistributedDataParallel) on all devices."""

import pytest

from pytest_accel import probes


@pytest.mark.parametrize("metric", ["ddp.step_ms", "ddp.exposed"])
def test_ddp_step(accel_check, accel_devices, metric):
    """Check that parameters stay equal on all ranks, and the time of a step or its exposed communication."""
    accel_check(probes.ddp_step, metric=metric)
