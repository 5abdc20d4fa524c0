"""The command `pytest-accel`."""
