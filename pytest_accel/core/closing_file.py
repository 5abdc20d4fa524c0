"""The file that a container's runtime shows as its last message, for the closing line of a run."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

VARIABLE = "PYTEST_ACCEL_CLOSING_FILE"
"""The environment variable that names the file; without it none is written."""
MOST_BYTES = 4096
"""Bytes that Kubernetes shows of such a message."""


def write(line: str) -> None:
    """Write the closing line into the file that the environment names, if any. A failure changes no verdict.

    Only a regular file is written: root may have inherited the variable, a link leads anywhere, and a pipe would block.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    if path := os.environ.get(VARIABLE):
        with suppress(OSError), open(os.open(path, flags, 0o666), "wb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                file.truncate(0)
                file.write(line.encode(errors="backslashreplace")[:MOST_BYTES])
