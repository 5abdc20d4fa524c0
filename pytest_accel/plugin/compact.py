"""Keeps the terminal of an acceptance run short: no dot for every test, and no section for every broken limit.

The table and the closing line tell both, worst first. -v shows everything as pytest does.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_accel.plugin.stash import VERDICTS

TOLD = "accel_told"
"""The attribute of the report of a test that fails by a verdict, which the table tells."""


def wanted(config: pytest.Config, *, own_paths: bool) -> bool:
    """Return True if only the packaged suite runs, and the user asked neither for more nor for tracebacks."""
    given = [str(word) for word in config.invocation_params.args]
    return not own_paths and config.option.verbose == 0 and not any(word.startswith("--tb") for word in given)


class Compact:
    """A plugin object for the terminal of a run of the packaged suite."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Leave the names of the files out."""
        reporter: pytest.TerminalReporter | None = session.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            reporter.showfspath = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Mark the report of a test that fails by a verdict, not by an error."""
        report = yield
        failing = [verdict for verdict in item.stash.get(VERDICTS, []) if verdict.fails]
        setattr(report, TOLD, report.when == "call" and report.failed and bool(failing))
        return report

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self) -> Generator[None, Any, Any]:
        """Show no letter; the count of the last line stays."""
        status = yield
        return (status[0], "", status[2]) if status else status

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, None, None]:
        """Write no section for a failure that the table tells."""
        failed = terminalreporter.stats.get("failed", [])
        shown = [report for report in failed if not getattr(report, TOLD, False)]
        if failed:
            terminalreporter.stats["failed"] = shown
        try:
            yield
        finally:
            if failed:
                terminalreporter.stats["failed"] = failed
