"""A plugin for pytest's JUnit file: it gets properties of the run, and limits that could not be judged are <error>.

pytest offers its writer to no plugin, so that it is found by its methods. Where a later pytest has others, the file is
as pytest writes it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_accel.core.verdict import Status
from pytest_accel.plugin import junit_properties
from pytest_accel.plugin.stash import SESSION

NOT_JUDGED = (Status.UNMEASURED.value, Status.INCONCLUSIVE.value)
"""Statuses that say nothing about the hardware: <error> in JUnit, where <failure> is a verdict."""


class JUnit:
    """A plugin object for a run that measures."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def _writer(self) -> Any:
        """Return pytest's writer of JUnit files, None without --junitxml."""
        wanted = ("add_global_property", "node_reporter")
        plugins = self._config.pluginmanager.get_plugins()
        return next((plugin for plugin in plugins if all(callable(getattr(plugin, x, None)) for x in wanted)), None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Make the <failure> of a test whose limit could not be judged an <error>, once pytest has noted it."""
        yield
        statuses = [value for name, value in report.user_properties if name == "accel.status"]
        status = next((value for value in statuses if value in NOT_JUDGED), None)
        wanted = report.when == "call" and report.failed and status and Status.FAIL.value not in statuses
        writer = self._writer() if wanted else None
        for node in getattr(writer and writer.node_reporter(report), "nodes", ()):
            if node.tag == "failure":
                node.tag = "error"
                node.set("type", str(status))
                stats = getattr(writer, "stats", None)
                if isinstance(stats, dict) and {"failure", "error"} <= set(stats):
                    stats["failure"] -= 1
                    stats["error"] += 1

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self) -> Generator[None, None, None]:
        """Add the properties of the run before pytest writes the file. The wrapper around this one has closed it."""
        if writer := self._writer():
            for name, value in junit_properties.pairs(junit_properties.of_run(self._config.stash[SESSION])):
                writer.add_global_property(name, value)
        yield
