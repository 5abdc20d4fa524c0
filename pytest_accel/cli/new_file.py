"""Writes a file that a command was asked for."""

from __future__ import annotations

from pathlib import Path

from pytest_accel.core.untrusted import BadFile


def write_new(path: Path, text: str, option: str) -> None:
    """Write a new file. Raises BadFile, which names the `option`, for one that exists: it may be an agreed one."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise BadFile(f"{option}: {path} exists; name a new file, or delete it") from None
    except OSError as error:
        raise BadFile(f"{option}: cannot write to {path}: {error.strerror}") from None
