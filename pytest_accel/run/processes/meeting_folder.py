"""The temporary folder that all processes of a run can reach, in memory if possible."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

PREFIX = "pytest-accel-"
HELD = "held"
"""The file in the folder whose lock the run holds. The kernel frees it when pytest ends, however it ends."""
NEW_SECONDS = 60.0
"""A folder of this age may belong to a run that has not locked it yet."""


class MeetingFolder:
    """A private temporary folder. It is not beside the record, which may be on a network file system or a full disk."""

    def __init__(self, memory: Path = Path("/dev/shm")) -> None:  # noqa: S108  only a private folder is made in it
        """Make the folder, and remove those that runs of this user left behind when they were killed."""
        parent = memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())
        _remove_left(parent)  # a run that was killed leaves its folder behind
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        self._lock = _lock(self.path, os.O_CREAT)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _lock(folder: Path, create: int = 0) -> int | None:
    """Lock a folder and return the file descriptor that holds the lock; None if another run holds it."""
    try:
        handle = os.open(folder / HELD, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | create, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


def _remove_left(parent: Path) -> None:
    """Remove the folders that killed runs of this user left behind."""
    for folder in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            owned = not folder.is_symlink() and folder.is_dir() and status.st_uid == os.getuid()
            # the lock of a run that lives cannot be had
            if owned and time.time() - status.st_mtime > NEW_SECONDS and (handle := _lock(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(handle)
