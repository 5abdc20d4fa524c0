"""The progress of a run: what is measured, how long it takes, and how much is left in all."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from _pytest._io import TerminalWriter

from pytest_accel.views import terminal_progress
from pytest_accel.views.terminal_progress import TerminalProgress


class Reporter:
    """A terminal reporter that is no terminal, and has written some dots, behind the name of their file or not."""

    isatty = False

    def __init__(self, named: bool) -> None:
        self.file = io.StringIO()
        self.writer = TerminalWriter(self.file)
        self.flush, self.currentfspath = self.writer.flush, named
        self.writer.write("test_a.py ..s" if named else "..s")
        manager = SimpleNamespace(getplugin=lambda name: None)
        self.config = SimpleNamespace(get_terminal_writer=lambda: self.writer, pluginmanager=manager)

    def ensure_newline(self) -> None:
        """End the line that names a file, as pytest's own does (9.0, terminal.py); -q names none."""
        if self.currentfspath:
            self.writer.line()
            self.currentfspath = False

    def write_line(self, text: str) -> None:
        self.ensure_newline()
        self.writer.line(text)


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (0.0, "accel: matmul.bf16  3 of about 5 s"),
        (62.0, "accel: matmul.bf16  3 of about 5 s, at most 59 s left"),
        (243.0, "accel: matmul.bf16  3 of about 5 s, at most 4 min left"),
    ],
)
@pytest.mark.parametrize(("named", "dots"), [(False, "..s"), (True, "test_a.py ..s")])
def test_the_time_that_is_left_in_all(
    left: float, told: str, named: bool, dots: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In lines of its own, and no empty one between: behind the dots of -q pytest itself begins none."""
    monkeypatch.setattr(terminal_progress, "EVERY", 0.0)
    reporter = Reporter(named)
    shown = TerminalProgress(lambda: reporter)  # type: ignore[arg-type,return-value]
    shown.expect(lambda: left)
    shown.timed("matmul.bf16", 3.0, 5.0)
    shown.step("gpu3 silent for 20 s")
    shown.done()
    assert reporter.file.getvalue().splitlines() == [dots, told, "accel: gpu3 silent for 20 s"]
