"""The integrity of device memory again, on devices hot from the soak: weak cells leak more when hot."""

from pytest_accel import probes


def test_memory_pattern(accel_check):
    """Check the memory as the cold test does, after the soak and the exact products."""
    accel_check(probes.memory_pattern, state="hot")
