"""What is being measured now: on the terminal itself, so that nothing of it stays; a line a minute elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TextIO

import pytest

EVERY = 60.0
"""Seconds between lines where there is no terminal."""


class Progress:
    """Called a few times a second with what is measured, the seconds spent and the seconds expected.

    `reporter` is asked when there is something to show: pytest makes it later than us.
    """

    def __init__(self, reporter: Callable[[], pytest.TerminalReporter | None]) -> None:
        self._reporter = reporter
        self._shown = 0
        self._next = time.monotonic() + EVERY
        self._terminal: TextIO | None = None

    def __call__(self, what: str, spent: float, expected: float) -> None:
        reporter = self._reporter()
        if reporter is None:
            return
        text = f" {what}" if what else ""
        if what and expected:
            text += f"  {spent:.0f} of about {expected:.0f} s"
        if reporter.isatty and self._open():
            self._overwrite(text)
        elif what and time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            reporter.write_line(f"accel:{text}")

    def _open(self) -> bool:
        if self._terminal is None:
            try:
                self._terminal = open("/dev/tty", "w", encoding="utf-8")
            except OSError:
                return False
        return True

    def _overwrite(self, text: str) -> None:
        """Replace what stands behind the cursor, and leave the cursor where it was."""
        assert self._terminal
        text = text[:60]
        self._terminal.write(text + " " * (self._shown - len(text)) + "\b" * max(len(text), self._shown))
        self._terminal.flush()
        self._shown = len(text)
