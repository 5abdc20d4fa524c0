"""The progress of a run: what is measured, how long it takes, and how much is left in all."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from _pytest._io import TerminalWriter

from pytest_accel.views import terminal_progress
from pytest_accel.views.terminal_progress import TerminalProgress


class Reporter:
    """A terminal reporter that is no terminal, and has written the dots of `-q`."""

    isatty = False

    def __init__(self) -> None:
        self.file = io.StringIO()
        writer = TerminalWriter(self.file)
        writer.write("..s")
        manager = SimpleNamespace(getplugin=lambda name: None)
        self.config = SimpleNamespace(get_terminal_writer=lambda: writer, pluginmanager=manager)
        self.write_line, self.flush = writer.line, writer.flush


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (0.0, "accel: matmul.bf16  3 of about 5 s"),
        (62.0, "accel: matmul.bf16  3 of about 5 s, at most 59 s left"),
        (243.0, "accel: matmul.bf16  3 of about 5 s, at most 4 min left"),
    ],
)
def test_the_time_that_is_left_in_all(left: float, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In lines of its own: behind the dots of the tests, pytest itself begins none."""
    monkeypatch.setattr(terminal_progress, "EVERY", 0.0)
    reporter = Reporter()
    shown = TerminalProgress(lambda: reporter)  # type: ignore[arg-type,return-value]
    shown.expect(lambda: left)
    shown.timed("matmul.bf16", 3.0, 5.0)
    shown.step("gpu3 silent for 20 s")
    shown.done()
    assert reporter.file.getvalue().splitlines() == ["..s", told, "accel: gpu3 silent for 20 s"]
