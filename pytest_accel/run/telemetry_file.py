"""The file of the sensor's readings beside a record: packed at the end of a run, and read back."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_accel.core import untrusted
from pytest_accel.core.run import Run
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run.record import hash_file

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
    if hash_file(path) != record.telemetry.get("sha256"):
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

    A packed file is unpacked on the way. A line that is no reading, such as the last one of a run that was killed, is
    passed over. More than `MOST_READINGS` lines raise BadFile, too.
    """
    for place, line in enumerate(untrusted.lines(path)):
        if place >= MOST_READINGS:
            raise BadFile(f"{path.name}: holds more than {MOST_READINGS:,} readings, which are not looked through")
        try:
            reading = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(reading, dict):
            yield reading
