"""Writes the file that a command was asked for, or what it would hold to standard output."""

from __future__ import annotations

from pathlib import Path

from pytest_accel.core.untrusted import BadFile
from pytest_accel.run.record import replace_file


def write(path: Path | None, text: str) -> None:
    """Print a text, or replace a file by one that holds it, in one step. Raises BadFile.

    Only a regular file is replaced. A link is not followed: somebody else may have put it there.
    """
    if path is None:
        print(text, end="")
        return
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise BadFile(f"--output: {path} is not a regular file; without the option, standard output is written to")
        replace_file(path, text)
    except OSError as error:
        raise BadFile(f"--output: cannot write {path}: {error.strerror}") from None


def write_new(path: Path, text: str, option: str) -> None:
    """Write a new file. Raises BadFile, which names the `option`, for one that exists: it may be an agreed one."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadFile(f"{option}: {path} exists; name a new file, or delete it") from None
    except OSError as error:
        raise BadFile(f"{option}: cannot write to {path}: {error.strerror}") from None
