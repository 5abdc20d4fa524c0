"""The memory test again, hot from the soak: weak cells lose their charge faster."""

from pytest_accel import probes


def test_memory_pattern(accel_check):
    """The memory passes the cold test again, after the soak and the products that keep it hot."""
    accel_check(probes.memory_pattern, state="hot")
