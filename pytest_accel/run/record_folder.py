"""The output folder of a run, which holds its record, its telemetry and the logs of its processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pytest_accel.run import record
from pytest_accel.run.options import Refused
from pytest_accel.run.record import Record

SAVE_SECONDS = 1.0
"""Seconds that a verdict may wait to be written; its measurement is in the record already."""


class RecordFolder:
    """The folder that the record of one run is written to.

    `path` is None before `create`, and in a run that writes nothing.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self.problem: str | None = None
        """The reason why the last write failed, so that the record on disk is not the newest; None if it succeeded."""
        self._saved = 0.0

    def create(self, chosen: Path | None, name: str, empty: Record) -> Path:
        """Create the folder that the user chose, or `name` below accel-records, and write the `empty` record into it.

        Raises Refused if the folder cannot be written, or if the chosen one holds the record of another run.
        """
        folder = (chosen or Path("accel-records") / name).absolute()
        if (folder / record.FILE).exists():
            if chosen:
                raise Refused(f"--accel-output: {folder} holds the record of another run; name a new folder")
            folder = folder.with_name(f"{folder.name}-{os.getpid()}")
        try:
            (folder / record.LOGS).mkdir(parents=True, exist_ok=True)
            record.write(empty, folder)
        except OSError as error:
            raise Refused(f"--accel-output: cannot write to {folder}: {error.strerror}") from None
        self.path = folder
        return folder

    def is_due(self) -> bool:
        """Return True if the last write is at least SAVE_SECONDS ago."""
        return time.monotonic() - self._saved >= SAVE_SECONDS

    def save(self, newest: Record) -> None:
        """Replace the record on disk. A failure is kept in `problem`, and the run goes on."""
        if self.path is None:
            return
        try:
            record.write(newest, self.path)
            self.problem = None
        except OSError as error:
            self.problem = error.strerror or str(error)
        self._saved = time.monotonic()

    def take_back(self) -> None:
        """Remove the record of a run that never began, so that its folder can be used again."""
        if self.path:
            record.remove(self.path)
            self.path = None
