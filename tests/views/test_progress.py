"""The progress of a run: what is measured, how long it takes, and how much is left in all."""

from __future__ import annotations

import pytest

from pytest_accel.views import terminal_progress
from pytest_accel.views.terminal_progress import TerminalProgress


class Lines:
    """A terminal reporter that is no terminal: it keeps the lines."""

    isatty = False

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.lines: list[str] = []

    def write_line(self, text: str) -> None:
        self.lines.append(text)

    def flush(self) -> None: ...


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (0.0, "accel: matmul.bf16  3 of about 5 s"),
        (62.0, "accel: matmul.bf16  3 of about 5 s, at most 59 s left"),
        (243.0, "accel: matmul.bf16  3 of about 5 s, at most 4 min left"),
    ],
)
def test_the_time_that_is_left_in_all(
    left: float, told: str, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.setattr(terminal_progress, "EVERY", 0.0)
    reporter = Lines(pytestconfig)
    shown = TerminalProgress(lambda: reporter)  # type: ignore[arg-type,return-value]
    shown.expect(lambda: left)
    shown.timed("matmul.bf16", 3.0, 5.0)
    shown.step("gpu3 silent for 20 s")
    shown.done()
    assert reporter.lines == [told, "accel: gpu3 silent for 20 s"]
