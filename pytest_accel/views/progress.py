"""What is being measured now: on the terminal itself, so that nothing of it stays; a line a minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

EVERY = 60.0
"""Seconds between lines where there is no terminal."""


class Progress:
    """Called a few times a second with what is measured, the seconds spent and the seconds expected."""

    def __init__(self, on_terminal: bool, write_line: Callable[[str], object] | None) -> None:
        self._write_line = write_line
        self._shown = 0
        self._next = time.monotonic() + EVERY
        self._terminal: TextIO | None = None
        if on_terminal:
            try:
                self._terminal = open("/dev/tty", "w", encoding="utf-8")
            except OSError:
                self._terminal = None

    def __call__(self, what: str, spent: float, expected: float) -> None:
        text = f" {what}" if what else ""
        if what and expected:
            text += f"  {spent:.0f} of about {expected:.0f} s"
        if self._terminal:
            self._overwrite(text)
        elif what and self._write_line and time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            self._write_line(f"accel:{text}")

    def _overwrite(self, text: str) -> None:
        """Replace what stands behind the cursor, and leave the cursor where it was."""
        assert self._terminal
        text = text[:60]
        self._terminal.write(text + " " * (self._shown - len(text)) + "\b" * max(len(text), self._shown))
        self._terminal.flush()
        self._shown = len(text)
