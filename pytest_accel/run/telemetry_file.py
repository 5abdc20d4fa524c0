"""Reads the sensor's readings of a run back from the file beside its record."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_accel.core import untrusted
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run.record import Record, hash_file


def find(record: Record, folder: Path) -> Path:
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


def readings(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the readings of a file, in the order in which they were taken. Raises BadFile as `untrusted.lines`.

    A line that is no reading, such as the last one of a run that was killed, is passed over.
    """
    for line in untrusted.lines(path):
        try:
            reading = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(reading, dict):
            yield reading
