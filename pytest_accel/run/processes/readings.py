"""The readings of a run: kept in memory by device, and in a side file of the record."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any


class Telemetry:
    """Every reading of the run, by device."""

    def __init__(self, side_file: Path | None = None) -> None:
        self._readings: dict[str, list[dict[str, Any]]] = {}
        self._file = open(side_file, "a", encoding="utf-8") if side_file else None
        self.problem: str | None = None
        """Why the side file does not hold every reading."""

    def hear(self, reading: dict[str, Any]) -> None:
        """Keep one reading; a full disk ends the side file, not the run."""
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
        """End the side file; what was heard stays."""
        if self._file:
            self._file.close()
            self._file = None

    def window(self, uuid: str, start: float, end: float) -> list[dict[str, Any]]:
        """The readings of one device between two times, in seconds since the epoch."""
        return [each for each in self._readings.get(uuid, ()) if start <= each["at"] <= end]
