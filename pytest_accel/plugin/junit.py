"""Adds properties of the run to the JUnit file, and marks limits that could not be judged as <error>.

pytest offers its writer of JUnit files to no plugin, so that it is found by its methods. Where a later pytest has
others, the file is written as pytest writes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from pytest_accel.core.verdict import Status

NOT_JUDGED = (Status.UNMEASURED.value, Status.INCONCLUSIVE.value)
"""Statuses that say nothing about the hardware: <error> in JUnit, where <failure> is a verdict."""


def _writer(config: pytest.Config) -> Any:
    """Return pytest's writer of JUnit files, None without --junitxml."""
    wanted = ("add_global_property", "node_reporter")
    plugins = config.pluginmanager.get_plugins()
    return next((each for each in plugins if all(callable(getattr(each, name, None)) for name in wanted)), None)


def add_properties(config: pytest.Config, properties: Mapping[str, object]) -> None:
    """Add properties of the whole run, those that are not None, before pytest writes the file."""
    writer = _writer(config)
    for name, value in properties.items() if writer else ():
        if value is not None:
            writer.add_global_property(f"accel.{name}", str(value))


def mark_not_judged(config: pytest.Config, report: pytest.TestReport) -> None:
    """Make the <failure> of a test whose limit could not be judged an <error>, after pytest has noted the report."""
    statuses = [value for name, value in report.user_properties if name == "accel.status"]
    status = next((each for each in statuses if each in NOT_JUDGED), None)
    wanted = report.when == "call" and report.failed and status and Status.FAIL.value not in statuses
    writer = _writer(config) if wanted else None
    for node in getattr(writer and writer.node_reporter(report), "nodes", ()):
        if node.tag == "failure":
            node.tag = "error"
            node.set("type", str(status))
            stats = getattr(writer, "stats", None)
            if isinstance(stats, dict) and {"failure", "error"} <= set(stats):
                stats["failure"] -= 1
                stats["error"] += 1
