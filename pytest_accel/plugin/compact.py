"""Keeps the terminal of an acceptance run short: no dot for every test, and no section for every broken limit.

The table and the closing line tell both, worst first. -v shows everything as pytest does.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_accel.plugin import pytest_terminal
from pytest_accel.plugin.reports import TOLD


def is_compact(config: pytest.Config, *, own_paths: bool) -> bool:
    """Return True if only the packaged suite runs, and the user asked neither for more nor for tracebacks."""
    words = [str(word) for word in config.invocation_params.args]
    return not own_paths and config.getoption("verbose", 0) == 0 and not any(word.startswith("--tb") for word in words)


class Compact:
    """A plugin object for the terminal of a run of the packaged suite."""

    def __init__(self) -> None:
        self._failed: list[pytest.TestReport] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Leave the names of the files out."""
        if reporter := pytest_terminal.reporter(session.config):
            reporter.showfspath = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self) -> Generator[None, Any, Any]:
        """Show no letter; the count of the last line stays."""
        status = yield
        return (status[0], "", status[2]) if status else status

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Take failures that the table tells out of the sections that pytest writes next."""
        if (reporter := pytest_terminal.reporter(session.config)) and "failed" in reporter.stats:
            self._failed = reporter.stats["failed"]
            reporter.stats["failed"] = [report for report in self._failed if not getattr(report, TOLD, False)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Put the failures back for the short summary and the counts."""
        if self._failed:  # the sections are written by now
            terminalreporter.stats["failed"] = self._failed
