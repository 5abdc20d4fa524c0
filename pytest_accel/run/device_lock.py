"""Locks that allow one run per device at a time on a host: a lock file for each UUID."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from pytest_accel.core.printable import printable

FOLDER = Path("/tmp")  # noqa: S108  one folder for all users, whatever their TMPDIR: otherwise two runs could overlap


HOLDER_BYTES = 400
"""Length of the longest description of a run that holds a lock."""


class DeviceLocked(Exception):
    """An error for a device that cannot be locked; the message names the run that holds it, or the reason."""


def hold(names: Iterable[tuple[str, str]], description: str) -> list[IO[bytes]]:
    """Lock every device, given as (uuid, name), in the order of the UUIDs; a UUID that is given twice is locked once.

    `description` tells of this run to others that want the lock. Closing the returned files unlocks the devices. Raises
    DeviceLocked if a device is locked already, with the description that its holder gave.
    """
    files: list[IO[bytes]] = []
    for uuid, name in sorted(dict(names).items()):  # in one order: of two runs that begin together one gets all
        try:
            file = _open(FOLDER / f"pytest-accel-{re.sub(r'[^A-Za-z0-9-]', '_', uuid)}.lock")
        except OSError as error:
            _close(files)
            raise DeviceLocked(f"{name} ({uuid}) cannot be locked: {error.filename}: {error.strerror}") from None
        try:
            # the kernel frees it when this process ends, however it ends
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = (file.read(HOLDER_BYTES) or b"").decode(errors="replace").strip("\0 \n")  # anybody can write there
            _close([*files, file])
            holder = printable(text) or "an unknown process"
            raise DeviceLocked(f"{name} ({uuid}) is being measured by {holder}") from None
        file.truncate(0)
        file.write(f"pid {os.getpid()}, {description}".encode()[:HOLDER_BYTES])
        files.append(file)
    return files


def _close(files: Iterable[IO[bytes]]) -> None:
    """Close lock files, which unlocks them."""
    for file in files:
        file.close()


def _open(path: Path) -> IO[bytes]:
    """Open or create a lock file that every user can read and write. Raises OSError."""
    # a pipe that somebody put there would block without O_NONBLOCK
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        # without O_CREAT, which the kernel may forbid in a sticky folder for existing files of other users
        handle = os.open(path, flags)
    except FileNotFoundError:
        handle = os.open(path, flags | os.O_CREAT, 0o666)
        with contextlib.suppress(OSError):
            os.fchmod(handle, 0o666)
    # anybody may have put something there: a link, also a hard one, would have its target overwritten
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a file of its own; remove it", str(path))
    return os.fdopen(handle, "r+b", buffering=0)
