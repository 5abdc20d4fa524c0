"""The file of the sensor's readings beside a record: packed at the end of a run, and read back."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from pytest_accel.core import untrusted
from pytest_accel.core.run import Run
from pytest_accel.core.untrusted import BadFile

SUFFIX = ".gz"
MOST_READINGS = 2_500_000
"""Readings of the largest file that is looked through, in about a minute: those of eight devices over eight hours."""
LEVEL = 6
"""The level of gzip at which a week of readings is packed in about a second."""


def find(record: Run, folder: Path) -> Path:
    """Return the file of the readings of a record that lies in `folder`.

    Raises BadFile with the reason where there is none, or another one than the record states the hash of.
    """
    name = record.telemetry.get("file")
    if not name:
        raise BadFile("the record names no file of readings")
    path = folder / name
    if Path(name).name != name or not untrusted.exists(path):
        raise BadFile(f"{name} is not beside the record")
    if untrusted.sha256(path) != record.telemetry.get("sha256"):
        raise BadFile(f"{name} is not the file that the record states the hash of")
    return path


def pack(path: Path) -> Path:
    """Compress the file of a run that has ended, and return the path of the one that is there then.

    Readings are alike: a tenth of the bytes is left. If the disk has no room for both, the file stays as it is.
    """
    packed = path.with_name(f"{path.name}{SUFFIX}")
    try:
        packed.unlink(missing_ok=True)
        handle = os.open(packed, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        with open(handle, "wb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as file, open(path, "rb") as plain:
            shutil.copyfileobj(plain, file)
        path.unlink()
    except OSError:
        with contextlib.suppress(OSError):
            packed.unlink()
        return path
    return packed


def readings(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the readings of a file, in the order in which they were taken. Raises BadFile as `untrusted.lines`.

    A packed file is unpacked on the way. A line that is no reading is passed over. More than `MOST_READINGS` lines
    raise BadFile, too.
    """
    for index, line in enumerate(untrusted.lines(path)):
        if index >= MOST_READINGS:
            raise BadFile(f"{path.name}: holds more than {MOST_READINGS:,} readings, which are not looked through")
        try:
            reading = json.loads(line)
        except (ValueError, RecursionError):  # such as the last line of a run that was killed
            continue
        if isinstance(reading, dict):
            yield reading


# -- the sensor's readings of a run: kept in memory by device, and written to a file beside the record


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

    def give_up(self, reason: str) -> bool:
        """Empty and remove the side file, for a `reason`; return False if there is none.

        The readings in memory stay, so that the run goes on, and so do their summaries in the record.
        """
        if self._side is None or self.given_up:
            return False
        self.close()
        self.given_up, self.problem = True, f"{self._side}: {reason}"
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
        return [reading for reading in self._readings.get(uuid, ()) if start <= reading["at"] <= end]


def _open(path: Path) -> IO[str]:
    """Create the side file. A link or a pipe in its place is removed, not followed."""
    if path.is_symlink() or path.is_fifo() or path.is_file():
        path.unlink()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    return open(handle, "a", encoding="utf-8")
