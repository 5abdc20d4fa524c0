"""Locks that allow one run per device at a time on a host: a lock file for each UUID.

The kernel frees a lock when its process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO

FOLDER = Path("/tmp")  # noqa: S108  one folder for all users, whatever their TMPDIR: otherwise two runs could overlap


class DeviceLocked(Exception):
    """An error for a device that cannot be locked; the message names the run that holds it, or the reason."""


def hold(names: Iterable[tuple[str, str]], about: str) -> list[IO[str]]:
    """Lock every device, given as (uuid, name), in the order of the UUIDs; a UUID that is given twice is locked once.

    `about` describes this run to others that want the lock. Closing the returned files unlocks the devices. Raises
    DeviceLocked if a device is locked already, with the description that its holder gave.
    """
    files: list[IO[str]] = []
    for uuid, name in sorted(dict(names).items()):
        try:
            file = _open(FOLDER / f"pytest-accel-{re.sub(r'[^A-Za-z0-9-]', '_', uuid)}.lock")
        except OSError as error:
            _close(files)
            raise DeviceLocked(f"{name} ({uuid}) cannot be locked: {error.filename}: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = file.read().strip() or "an unknown process"
            _close([*files, file])
            raise DeviceLocked(f"{name} ({uuid}) is being measured by {holder}") from None
        file.truncate(0)
        file.write(f"pid {os.getpid()}, {about}")
        file.flush()
        files.append(file)
    return files


def _close(files: Iterable[IO[str]]) -> None:
    """Close lock files, which unlocks them."""
    for file in files:
        file.close()


def _open(path: Path) -> IO[str]:
    """Open or create a lock file that every user can read and write.

    O_CREAT is not used on an existing file: in a sticky folder the kernel may forbid it for files of other users. A
    symbolic link is refused, since another user may have put it there to have its target overwritten.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with contextlib.suppress(OSError):
            os.fchmod(handle, 0o666)
    return os.fdopen(handle, "r+", encoding="utf-8")
