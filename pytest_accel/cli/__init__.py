"""The command `pytest-accel`: everything that is not a test run."""
