"""Standard output that cannot break a run: once a write fails, the rest is dropped."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any, TextIO


class Unbreakable:
    """A text stream whose `write` and `flush` never raise OSError. Everything else is that of `stream`."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost: str | None = None
        """The reason why text was lost, such as a full disk; None if none was, or if the reader of a pipe has ended."""

    def __getattr__(self, name: str) -> Any:
        """Return the attribute of the stream."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write `text`, or drop it if the stream cannot be written to. Raises UnicodeError as every text stream."""
        # The reader of a pipe (`| head -1`) may end, a disk may be full, the descriptor may be closed (`>&-`). Python
        # would end with status 1, which says that hardware was rejected.
        try:
            return self._stream.write(text)
        except UnicodeError:
            raise
        except (OSError, ValueError) as error:  # ValueError: the stream is closed
            self._give_up(error)
            return len(text)

    def flush(self) -> None:
        """Flush the stream, or drop its buffer."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Point the descriptor of the stream to /dev/null: its buffer is flushed once more when Python ends."""
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            self.lost = self.lost or error.strerror or str(error)
        with contextlib.suppress(OSError, ValueError, io.UnsupportedOperation):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())
            os.close(null)


def loss() -> str | None:
    """Flush standard output, and return the reason why text for it was lost; None if none was."""
    if not isinstance(sys.stdout, Unbreakable):
        return None
    sys.stdout.flush()
    return sys.stdout.lost


def protect() -> None:
    """Make sys.stdout and sys.stderr unbreakable, for the rest of the process. It may be called twice."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the descriptor was closed before Python started
            stream = open(os.devnull, "w", encoding="utf-8")
        if not isinstance(stream, Unbreakable):
            setattr(sys, name, Unbreakable(stream))
