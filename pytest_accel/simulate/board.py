"""The state that the processes of a simulated node share: one row of numbers per device, in a memory-mapped file.

The worker that loads a device writes its row; the sensor's management library reads it.
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
"""Columns of a row. `now` is in simulated seconds; `began PROBE` is when the probe first loaded it, -1 before."""


class SharedState:
    """Rows by the index of a device in the node, columns by name."""

    def __init__(self, path: Path, devices: int) -> None:
        """Map the file, and create it if it does not exist."""
        size = devices * len(COLUMNS) * 8
        fresh = not path.exists()
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            if fresh:
                file.truncate(size)
            self._numbers = memoryview(mmap.mmap(file.fileno(), size)).cast("d")
        if fresh:
            for slot in range(devices):
                for probe in PROBES:
                    self.write(slot, **{f"began {probe}": -1.0})

    def read(self, slot: int, column: str) -> float:
        """Return one number of a device's row."""
        return self._numbers[slot * len(COLUMNS) + COLUMNS.index(column)]

    def row(self, slot: int) -> dict[str, float]:
        """Return the row of a device by column."""
        start = slot * len(COLUMNS)
        return dict(zip(COLUMNS, self._numbers[start : start + len(COLUMNS)], strict=True))

    def write(self, slot: int, **values: float) -> None:
        """Write numbers into a device's row by column."""
        for column, value in values.items():
            # one aligned store, so a reader never sees half of a number
            self._numbers[slot * len(COLUMNS) + COLUMNS.index(column)] = value
