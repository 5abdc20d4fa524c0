"""The sensor's readings of a run: kept in memory by device, and written to a file beside the record."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any


class Telemetry:
    """Every reading of the run, by device. With a `side_file`, each is also appended to it as a line of JSON."""

    def __init__(self, side_file: Path | None = None) -> None:
        self._readings: dict[str, list[dict[str, Any]]] = {}
        self._file = open(side_file, "a", encoding="utf-8") if side_file else None
        self.problem: str | None = None
        """The reason why the side file lacks readings; None if it has all."""

    def hear(self, reading: dict[str, Any]) -> None:
        """Keep one reading. If the disk is full, the side file ends and the run goes on."""
        self._readings.setdefault(reading["uuid"], []).append(reading)
        if self._file:
            try:
                self._file.write(json.dumps(reading) + "\n")
                self._file.flush()
            except OSError as error:
                self.problem = f"{self._file.name}: {error.strerror}"
                with contextlib.suppress(OSError):
                    self._file.close()
                self._file = None

    def close(self) -> None:
        """Close the side file. The readings in memory stay."""
        if self._file:
            self._file.close()
            self._file = None

    def window(self, uuid: str, start: float, end: float) -> list[dict[str, Any]]:
        """Return the readings of one device from `start` to `end`, both in seconds since the epoch."""
        return [each for each in self._readings.get(uuid, ()) if start <= each["at"] <= end]
