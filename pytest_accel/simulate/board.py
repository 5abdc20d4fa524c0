"""What the processes of a simulated node share: one row of numbers per device, in a file that all of them map.

The worker that loads a device writes its row, the sensor's management library shows it. A number is one aligned store,
so nobody reads half of one.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from pytest_accel.simulate.node import PROBES

GAUGES = ("now", "loaded", "power_w", "temperature_c", "clock_mhz", "energy_j", "reasons")
BOARD_COUNTERS = (
    "sw_power_cap_s",
    "sw_thermal_s",
    "hw_thermal_s",
    "hw_power_brake_s",
    "memory_thermal_s",
    "regulators_thermal_s",
)
COLUMNS = (*GAUGES, *BOARD_COUNTERS, *(f"began {probe}" for probe in PROBES))
"""`now` is in simulated seconds; `began PROBE` is when the device was first loaded by it, -1 before."""


class Board:
    """Rows by the place of a device in the node, columns by name."""

    def __init__(self, path: Path, devices: int) -> None:
        """Map the file; the first who comes makes it."""
        size = devices * len(COLUMNS) * 8
        fresh = not path.exists()
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            if fresh:
                file.truncate(size)
            self._numbers = memoryview(mmap.mmap(file.fileno(), size)).cast("d")
        if fresh:
            for place in range(devices):
                for probe in PROBES:
                    self.write(place, **{f"began {probe}": -1.0})

    def read(self, place: int, column: str) -> float:
        return self._numbers[place * len(COLUMNS) + COLUMNS.index(column)]

    def row(self, place: int) -> dict[str, float]:
        start = place * len(COLUMNS)
        return dict(zip(COLUMNS, self._numbers[start : start + len(COLUMNS)], strict=True))

    def write(self, place: int, **values: float) -> None:
        for column, value in values.items():
            self._numbers[place * len(COLUMNS) + COLUMNS.index(column)] = value
