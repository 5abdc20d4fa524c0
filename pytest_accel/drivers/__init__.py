"""Adapters to the management libraries, called in the sensor process only: any call may block for ever.

The names here are public: a package of its own adds a vendor with them (docs/architecture.md). The tables beside them
(Xids, kernel messages) are imported where they are needed.
"""

from pytest_accel.core.measurement import EVERYTHING_ELSE, Device
from pytest_accel.drivers.interface import Driver, DriverProblem, Hint, NoAnswer, NoDriver, NoLibrary, Reading
from pytest_accel.drivers.vendor import DISPLAY_3D, DISPLAY_OTHER, PROCESSING, VGA, TorchKind, Vendor
from pytest_accel.drivers.visibility import Visibility

__all__ = [
    "DISPLAY_3D",
    "DISPLAY_OTHER",
    "EVERYTHING_ELSE",
    "PROCESSING",
    "VGA",
    "Device",
    "Driver",
    "DriverProblem",
    "Hint",
    "NoAnswer",
    "NoDriver",
    "NoLibrary",
    "Reading",
    "TorchKind",
    "Vendor",
    "Visibility",
]
