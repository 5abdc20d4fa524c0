"""The progress of a run: overwritten in place on a terminal, one line per minute elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable

import pytest

from pytest_accel.core.output import Unbreakable
from pytest_accel.core.printable import printable
from pytest_accel.run.progress import Progress

EVERY = 60.0
"""Seconds between two lines where there is no terminal."""

MINUTES = 90.0
"""From so many seconds on, the time that is left is shown in minutes."""


class TerminalProgress(Progress):
    """Shows progress on pytest's terminal. `reporter` returns its reporter, which is made later than this object."""

    def __init__(self, reporter: Callable[[], pytest.TerminalReporter | None]) -> None:
        self._reporter = reporter
        self._shown = 0
        self._next = time.monotonic() + EVERY
        self._terminal: Unbreakable | None = None
        self._left: Callable[[], float] = lambda: 0.0

    def expect(self, left: Callable[[], float]) -> None:
        """Have `left` return the seconds that the measurements may still take in all, at most; 0 if not known."""
        self._left = left

    def step(self, message: str) -> None:
        """Show a step of the run."""
        self._show(f" {printable(message)}")

    def timed(self, activity: str, elapsed: float, expected: float) -> None:
        """Show an activity, the seconds elapsed and expected, and those that are left in all."""
        self._show(f" {printable(activity)}  {elapsed:.0f} of about {expected:.0f} s{self._in_all(elapsed)}")

    def done(self) -> None:
        """Clear what is shown on a terminal."""
        self._show("")

    def _show(self, text: str) -> None:
        """Overwrite the text on a terminal, or write a line if EVERY seconds have passed since the last."""
        reporter = self._reporter()
        if reporter is None:
            return
        if reporter.isatty and self._open():
            self._overwrite(text)
        elif text and time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY
            _write_line(reporter, f"accel:{text}")

    def _in_all(self, spent: float) -> str:
        """Return the time that is left in all, after `spent` seconds of the measurement under way."""
        seconds = self._left() - spent
        if seconds <= 0:
            return ""
        return f", at most {seconds / 60:.0f} min left" if seconds >= MINUTES else f", at most {seconds:.0f} s left"

    def _open(self) -> bool:
        """Open the terminal itself. Return False if there is none."""
        if self._terminal is None:
            try:
                # /dev/tty, since pytest captures stdout. It may go away while an interrupt is handled, which an error
                # of a write would replace.
                self._terminal = Unbreakable(open("/dev/tty", "w", encoding="utf-8"))
            except OSError:
                return False
        return True

    def _overwrite(self, text: str) -> None:
        """Replace the text behind the cursor, and move the cursor back."""
        assert self._terminal
        text = text[:60]
        self._terminal.write(text + " " * (self._shown - len(text)) + "\b" * max(len(text), self._shown))
        self._terminal.flush()
        self._shown = len(text)


def _write_line(reporter: pytest.TerminalReporter, text: str) -> None:
    """Write a line while a test runs, whose output pytest captures."""
    capture = reporter.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        reporter.ensure_newline()
        writer = reporter.config.get_terminal_writer()
        if writer.width_of_current_line:  # the dots of -q, behind which pytest would go on
            writer.line()
        reporter.write_line(text)
        reporter.flush()
