"""The memory again, hot from the soak: a weak cell leaks more."""

from pytest_accel import probes


def test_memory_pattern(accel_check):
    """As the cold test, after the soak and the products that keep it hot."""
    accel_check(probes.memory_pattern, state="hot")
