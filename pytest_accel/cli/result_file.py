"""Writes the file that a command was asked for, or what it would hold to standard output."""

from __future__ import annotations

from pathlib import Path

from pytest_accel.core.paths import writing
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run.record import replace_file


def write(path: Path | None, text: str) -> None:
    """Print a text, or replace a file by one that holds it, in one step. Raises WrongUse."""
    if path is None:
        print(text, end="")
        return
    with writing("--output", path):
        # A link is not followed: somebody else may have put it there.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise BadFile(f"--output: {path} is not a regular file; without the option, standard output is written to")
        replace_file(path, text)


def write_new(path: Path, content: bytes) -> None:
    """Write a new file. Raises WrongUse for one that exists."""
    with writing("--output", path):
        try:
            # An existing file is never replaced: it may be an agreed one.
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            raise BadFile(f"--output: {path} exists; name a new file, or delete it") from None
