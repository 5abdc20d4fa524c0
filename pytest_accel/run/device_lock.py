"""One run per device at a time, on the whole host: a lock file per UUID, freed by the kernel with the process."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import IO

FOLDER = Path("/tmp")  # noqa: S108  the same for every user and every TMPDIR, or it would lock nothing


class Held(Exception):
    """Another run holds the device; the text names it."""


def hold(names: Iterable[tuple[str, str]], about: str) -> list[IO[str]]:
    """Lock every (uuid, name), in the order of the UUIDs. Keep the result: closing the files unlocks.

    Raises Held with what the holder said `about` itself.
    """
    files: list[IO[str]] = []
    for uuid, name in sorted(names):
        try:
            file = _open(FOLDER / f"pytest-accel-{re.sub(r'[^A-Za-z0-9-]', '_', uuid)}.lock")
        except OSError as error:
            _close(files)
            raise Held(f"{name} ({uuid}) cannot be locked: {error.filename}: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = file.read().strip() or "an unknown process"
            _close([*files, file])
            raise Held(f"{name} ({uuid}) is being measured by {holder}") from None
        file.truncate(0)
        file.write(f"pid {os.getpid()}, {about}")
        file.flush()
        files.append(file)
    return files


def _close(files: Iterable[IO[str]]) -> None:
    for file in files:
        file.close()


def _open(path: Path) -> IO[str]:
    """Open or create, readable and writable for every user (a sticky folder forbids O_CREAT on others' files).

    A symbolic link is refused: another user may have put it there, and what it points to would be overwritten.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with contextlib.suppress(OSError):
            os.fchmod(handle, 0o666)
    return os.fdopen(handle, "r+", encoding="utf-8")
