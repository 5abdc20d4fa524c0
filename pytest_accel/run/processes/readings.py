"""The sensor's readings of a run: kept in memory by device, and written to a file beside the record."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from pytest_accel.run import telemetry_file

TAIL_BYTES = 1 << 16
"""Bytes that are read at once in search of the last whole line."""
THINNED_SECONDS = 60.0
"""Seconds between two readings of a device that are kept of a later round in which nothing fell short. With all of them
the file of a week would have gigabytes."""


class Telemetry:
    """Every reading of the run, by device. Once there is a side file, each is also appended to it as a line of JSON.

    In the later rounds of a long run, readings wait in memory until `settle` writes them, all or some.
    """

    def __init__(self) -> None:
        self._readings: dict[str, list[dict[str, Any]]] = {}
        self._side: Path | None = None
        self._file: IO[str] | None = None
        self._waits = False
        self._written: dict[str, float] = {}
        """The time of the last reading of each device that was written by `settle`."""
        self.problem: str | None = None
        """The reason why the side file lacks readings; None if it has all."""
        self.given_up = False
        """True once the side file has been emptied."""

    def write_to(self, side_file: Path, *, more: bool = False) -> None:
        """Append readings to a file from now on; with `more`, to that of a run that is resumed. Raises OSError."""
        self._side, self._file = side_file, _open(side_file, more=more)

    def hear(self, reading: dict[str, Any]) -> None:
        """Keep one reading. If the disk is full, the side file ends and the run goes on."""
        self._readings.setdefault(reading["uuid"], []).append(reading)
        if not self._waits:
            self._write([reading])

    def _write(self, readings: Iterable[dict[str, Any]]) -> None:
        """Append readings to the side file."""
        if self._file is None:
            return
        try:
            self._file.writelines(json.dumps(each) + "\n" for each in readings)
            self._file.flush()
        except OSError as error:
            self.problem = f"{self._side}: {error.strerror}"
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def wait(self) -> None:
        """Forget the readings so far, which are in the side file, and let further ones wait for `settle`."""
        self._waits = True
        self._readings = {}

    def settle(self, *, whole: bool) -> None:
        """Write the readings that wait, `whole` or thinned, and forget them."""
        readings = [each for of_one in self._readings.values() for each in of_one]
        self._write(readings if whole else filter(self._is_due, readings))
        self._readings = {}

    def _is_due(self, reading: dict[str, Any]) -> bool:
        """Return True if the last reading of the device that was written is long enough ago."""
        uuid, at = reading["uuid"], reading["at"]
        due = at - self._written.get(uuid, 0.0) >= THINNED_SECONDS
        if due:
            self._written[uuid] = at
        return bool(due)

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


def _open(path: Path, *, more: bool) -> IO[str]:
    """Create the side file, or open it to write `more`. A link or a pipe in its place is removed, not followed."""
    if path.is_symlink() or path.is_fifo() or (path.is_file() and not more):
        path.unlink()
    if more:
        telemetry_file.unpack(path)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    _end_line(path)
    return open(handle, "a", encoding="utf-8")


def _end_line(path: Path) -> None:
    """Remove an unfinished line from the end of a file, which a kill or a power cut leaves."""
    with open(path, "r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        while end > 0:
            begin = max(0, end - TAIL_BYTES)
            file.seek(begin)
            found = file.read(end - begin).rfind(b"\n")
            end = begin
            if found >= 0:
                end = begin + found + 1
                break
        if end < size:
            file.truncate(end)
