"""The sensor's readings of a run: kept in memory by device, and written to a file beside the record."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import IO, Any


class Telemetry:
    """Every reading of the run, by device. Once there is a side file, each is also appended to it as a line of JSON."""

    def __init__(self) -> None:
        self._readings: dict[str, list[dict[str, Any]]] = {}
        self._side: Path | None = None
        self._file: IO[str] | None = None
        self.problem: str | None = None
        """The reason why the side file lacks readings; None if it has all."""
        self.given_up = False
        """True once the side file has been emptied."""

    def write_to(self, side_file: Path) -> None:
        """Write readings to a file from now on. Raises OSError."""
        self._side, self._file = side_file, _open(side_file)

    def hear(self, reading: dict[str, Any]) -> None:
        """Keep one reading. If the disk is full, the side file ends and the run goes on."""
        self._readings.setdefault(reading["uuid"], []).append(reading)
        if self._file is None:
            return
        try:
            self._file.write(json.dumps(reading) + "\n")
            self._file.flush()
        except OSError as error:
            self.problem = f"{self._side}: {error.strerror}"
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def give_up(self, why: str) -> bool:
        """Empty and remove the side file, for the reason `why`; return False if there is none.

        The readings in memory stay, so that the run goes on, and so do their summaries in the record.
        """
        if self._side is None or self.given_up:
            return False
        self.close()
        self.given_up, self.problem = True, f"{self._side}: {why}"
        try:
            os.truncate(self._side, 0)
            self._side.unlink()
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the side file. The readings in memory stay."""
        if self._file:
            self._file.close()
            self._file = None

    def window(self, uuid: str, start: float, end: float) -> list[dict[str, Any]]:
        """Return the readings of one device from `start` to `end`, both in seconds since the epoch."""
        return [each for each in self._readings.get(uuid, ()) if start <= each["at"] <= end]


def _open(path: Path) -> IO[str]:
    """Create the side file. A link or a pipe in its place is removed, not followed."""
    if path.is_symlink() or path.is_fifo() or path.is_file():
        path.unlink()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    return open(handle, "a", encoding="utf-8")
