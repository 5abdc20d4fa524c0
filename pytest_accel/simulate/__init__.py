"""Simulated hardware: what the drivers and the workers access on a simulated node."""

from pytest_accel.simulate import stated as stated  # importing it registers its faults
