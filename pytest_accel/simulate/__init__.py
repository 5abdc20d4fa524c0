"""Simulated hardware: what the drivers and the workers talk to when there is none."""

from pytest_accel.simulate import stated as stated  # its faults enter the table of faults when they are defined
