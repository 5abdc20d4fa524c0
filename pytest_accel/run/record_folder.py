"""The output folder of a run, which holds its record, its telemetry and the logs of its processes."""

from __future__ import annotations

import contextlib
import errno
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pytest_accel.core.paths import writing
from pytest_accel.core.run import Run
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run import record, summaries
from pytest_accel.run.options import Refused

SAVE_SECONDS = 1.0
"""Seconds that a verdict may wait to be written; its measurement is in the record already."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a disk on which there is no room."""

MOST_FOLDERS = 100
"""Most runs that may begin in one second below accel-records."""


def file_name(text: str) -> str:
    """Return a text, such as a host's name, as one that cannot lead out of a folder."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)[:100].lstrip(".") or "_"


def numbered(first: Path) -> Iterator[Path]:
    """Yield a folder and those for further runs of the same name: node17, node17-2, node17-3 ..."""
    yield first
    yield from (first.with_name(f"{first.name}-{number}") for number in range(2, MOST_FOLDERS))


class RecordFolder:
    """The folder that the record of one run is written to.

    `path` is None before `create`, and in a run that writes nothing.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self.elsewhere: Path | None = None
        """The folder of the newest record where `path` cannot be written; None otherwise."""
        self.problem: str | None = None
        """The reason why the last write to `path` failed; None if it succeeded."""
        self._saved = 0.0

    @property
    def file(self) -> Path | None:
        """The file of the newest record, None in a run that writes nothing."""
        folder = self.elsewhere or self.path
        return folder / record.FILE if folder else None

    @property
    def instead_of(self) -> str | None:
        """The folder that the newest record should be in and why it is not there; None if it is in its place."""
        return f"{self.path} could not be written: {self.problem}" if self.problem else None

    @property
    def loss(self) -> str | None:
        """The reason why the newest record could be written nowhere; None if it was."""
        return None if self.elsewhere else self.problem

    def create(self, output: Path | None, host: str, name: str, *, shared: bool = False) -> Path:
        """Create the folder that the user chose, or `name` below accel-records, and write an empty record into it.

        Of runs that begin at the same time each gets a folder of its own. Where the chosen one holds the record of
        another `host`, as under srun with a shared file system, it is a folder named by the host in it. Raises Refused
        if the folder cannot be written, or if the chosen one holds the record of another run of this host.

        If the chosen folder is `shared` by the nodes of a job, every run has a folder in it: <host>, <host>-2 ...
        """
        empty = Run(info={"host": host})
        for folder in self._candidates(output, host, name, shared):
            with writing("--accel-output", folder, Refused):
                if folder.is_file():
                    raise Refused(f"--accel-output: {folder} is a file, not a folder; name a new folder")
                folder.mkdir(parents=True, exist_ok=True)
                if entry := _leftovers(folder):
                    if output and shared:
                        continue
                    raise Refused(f"--accel-output: {folder} holds {entry}, which is of no record; name a new folder")
                if record.create(empty, folder):  # of several runs at the same time one gets the folder
                    self.path = folder
                    (folder / record.LOGS).mkdir(exist_ok=True)
                    return folder
        raise Refused(f"--accel-output: {folder} holds the record of another run; name a new folder")

    @staticmethod
    def _candidates(output: Path | None, host: str, name: str, shared: bool) -> Iterator[Path]:
        """Yield the folders to try, in order."""
        if output is None:
            yield from numbered(Path("accel-records").absolute() / file_name(name))
            return
        if shared:
            yield from numbered(output.absolute() / file_name(host))
            return
        yield output.absolute()
        # as under srun with a file system that the nodes share
        if host_of(output / record.FILE) not in (None, host):
            yield output.absolute() / file_name(host)

    def is_due(self) -> bool:
        """Return True if the last write is at least SAVE_SECONDS ago."""
        return time.monotonic() - self._saved >= SAVE_SECONDS

    def save(self, newest: Run, make_room: Callable[[], bool] = lambda: False) -> None:
        """Replace the record on disk. A failure is kept in `problem`, and the run goes on.

        On a full disk `make_room` is called, which returns True if it has freed some of it. If the record still cannot
        be written, it goes to a temporary folder.
        """
        if self.path is None:
            return
        try:
            self._write(newest, self.path, make_room)
            self.problem, self.elsewhere = None, None
        except OSError as error:
            self.problem = error.strerror or str(error)
            self._write_elsewhere(newest)
        self._saved = time.monotonic()

    @staticmethod
    def _write(newest: Run, folder: Path, make_room: Callable[[], bool]) -> None:
        """Write the record; once more if the disk is full and room could be made. Raises OSError."""
        try:
            record.write(newest, folder)
        except OSError as error:
            if error.errno not in FULL or not make_room():
                raise
            record.write(newest, folder)

    def _write_elsewhere(self, newest: Run) -> None:
        """Write the record to a temporary folder, the same one each time. If that fails, `elsewhere` is None."""
        try:
            self.elsewhere = self.elsewhere or Path(tempfile.mkdtemp(prefix="accel-record-"))
            record.write(newest, self.elsewhere)
        except OSError:
            if self.elsewhere:
                with contextlib.suppress(OSError):
                    self.elsewhere.rmdir()
            self.elsewhere = None

    def keep(self, name: str, content: bytes) -> None:
        """Write a file of the run beside the record; on a full disk it stays in the logs alone."""
        with contextlib.suppress(OSError):
            if self.path:
                record.replace_file(self.path / name, content)

    def take_back(self) -> None:
        """Remove the record of a run that never began, so that its folder can be used again."""
        if self.path:
            record.remove(self.path)
        self.path = None


def _leftovers(folder: Path) -> str | None:
    """Return the name of what a record in this folder would replace, None if nothing is there or there is a record.

    A run makes its record before anything else, so that whatever another run makes meanwhile has its record beside it.
    """
    leftovers = [
        name for name in (record.LOGS, summaries.SUMMARY, record.TELEMETRY, record.PACKED) if (folder / name).exists()
    ]
    return leftovers[0] if leftovers and not (folder / record.FILE).exists() else None


def host_of(path: Path) -> str | None:
    """Return the host that a record names, None if there is no record or it names none."""
    try:
        return record.read(path, follow=False).host or None
    except BadFile:
        return None
