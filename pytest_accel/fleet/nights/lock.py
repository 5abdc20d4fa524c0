"""The lock of a store, which one process at a time holds while it changes the files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LOCK: Final = ".lock"
LEFTOVER: Final = ".adding-"
"""The beginning of the name of a folder in which records are read. One that is there without a lock is left over."""


@contextlib.contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold the lock of a store, and remove what a killed process left behind. The lock ends with the process."""
    handle = os.open(store / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        for each in store.glob(f"{LEFTOVER}*"):
            if each.is_dir():
                shutil.rmtree(each, ignore_errors=True)
            else:
                each.unlink(missing_ok=True)
        for each in [*store.glob(".*.parquet.*"), *store.glob("*/.*.parquet.*")]:
            each.unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)
