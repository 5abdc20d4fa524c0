"""Finds files below a folder, and names those that the system refuses."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_accel.core.exits import WrongUse

_DENIED = (errno.EACCES, errno.EPERM)
_NOT_WRITTEN = (*_DENIED, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


def folders(folder: Path, unreadable: list[str], *, links: bool = False) -> Iterator[tuple[Path, list[str]]]:
    """Yield a folder and all below it, each once, with the names of its files, sorted.

    Folders that cannot be read are added to `unreadable`, each as a line. `links` follows links to folders.
    """

    def fails(error: OSError) -> None:
        unreadable.append(f"{error.filename}: cannot be read: {error.strerror}")

    visited: set[tuple[int, int]] = set()
    for path, inside, names in os.walk(folder, onerror=fails, followlinks=links):
        try:
            status = Path(path).stat()
        except OSError as error:
            fails(error)
            continue
        identity = (status.st_dev, status.st_ino)
        if identity in visited:  # a link leads to a folder above, or to one that was read already
            inside.clear()
            continue
        visited.add(identity)
        inside.sort()
        yield Path(path), sorted(names)


def files(folder: Path, name: str, unreadable: list[str]) -> list[Path]:
    """Return the files of a name in a folder and below it, sorted. Folders that cannot be read are in `unreadable`."""
    return sorted(path / name for path, names in folders(folder, unreadable) if name in names)


@contextmanager
def writing(option: str, path: Path, kind: type[WrongUse] = WrongUse) -> Iterator[None]:
    """Raise an error that names the option and the path where the system refuses to write there."""
    try:
        yield
    except OSError as error:
        raise kind(f"{option}: cannot write to {path}: {error.strerror}") from None


def refusal(error: OSError) -> str:
    """Return the file or folder that the system refuses, and the reason. Raises nothing, whatever it refuses."""
    if not isinstance(error.filename, str | bytes):
        return error.strerror or str(error)
    path = Path(os.fsdecode(error.filename))
    folder = next((parent for parent in reversed(path.parents) if _closed(parent, os.X_OK)), None)
    obstacle = folder or (path if _closed(path, os.R_OK) else None)
    if obstacle and error.errno in _DENIED:
        return f"{obstacle}: cannot be read: {error.strerror}"
    return f"{path}: cannot be {'written' if error.errno in _NOT_WRITTEN else 'used'}: {error.strerror}"


def _closed(path: Path, mode: int) -> bool:
    """Return True for a file or folder that is there and refuses this user."""
    # pathlib would raise where a server does not answer
    return os.access(path, os.F_OK) and not os.access(path, mode)
