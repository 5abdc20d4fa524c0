"""A sensor that could not be killed, remembered so that the next checks start no other one that would hang as well.

A process that hangs in its driver ends when the driver answers, however long that takes. A check that runs every few
minutes would leave one more each time.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from pytest_accel.core import untrusted
from pytest_accel.core.untrusted import BadFile
from pytest_accel.run.device_lock import FOLDER

NAME = "pytest-accel-health.stuck"
"""The file that names the process and when it was started."""


def remember(pid: int, folder: Path = FOLDER) -> None:
    """Note that a process hangs. Where that fails, the next check starts another sensor."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with suppress(OSError), open(os.open(folder / NAME, flags, 0o644), "w", encoding="ascii") as file:
        file.write(f"{pid} {_start_of(pid)}\n")


def find(folder: Path = FOLDER) -> str | None:
    """Return a sentence if the sensor of an earlier check still hangs, else None.

    A note of another user counts if that is root: anybody can write into the folder.
    """
    path = folder / NAME
    try:
        if path.lstat().st_uid not in (0, os.geteuid()) or not stat.S_ISREG(path.lstat().st_mode):
            return None
        pid, start = untrusted.read_text(path, most=100, follow=False).split()
    except (OSError, BadFile, ValueError):
        return None
    if not pid.isdigit() or not start.isdigit() or _start_of(int(pid)) != int(start):
        return None
    return f"driver silent: process {pid} of an earlier check hangs in it"


def _start_of(pid: int) -> int:
    """Return when a process was started, in ticks since the boot; 0 if there is none or it has ended."""
    try:
        stat_line = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return 0
    state, *fields = stat_line.rpartition(")")[2].split()
    return 0 if state in ("Z", "X") else int(fields[18])
