"""The file that a container's runtime shows as its last message, for the closing line of a run."""

from __future__ import annotations

import os
from contextlib import suppress

VARIABLE = "PYTEST_ACCEL_CLOSING_FILE"
"""The environment variable that names the file; without it none is written."""
MOST_BYTES = 4096
"""Bytes that Kubernetes shows of such a message."""


def write(line: str) -> None:
    """Write the closing line into the file that the environment names, if any. A failure changes no verdict."""
    path = os.environ.get(VARIABLE)
    if path:
        with suppress(OSError), open(path, "wb") as file:
            file.write(line.encode(errors="backslashreplace")[:MOST_BYTES])
