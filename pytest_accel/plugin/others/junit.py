"""A plugin for pytest's JUnit file: it gets properties of the run and of every verdict.

Limits that could not be judged are <error> there.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

import pytest

from pytest_accel.core.printable import printable
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Result, Status, Verdict, decisive_margin
from pytest_accel.judging.causes.findings import findings
from pytest_accel.plugin.stash import SESSION
from pytest_accel.run.session import Session

NOT_JUDGED = (Status.UNMEASURED.value, Status.INCONCLUSIVE.value)
"""Statuses that say nothing about the hardware: <error> in JUnit, where <failure> is a verdict."""


class JUnit:
    """A plugin object for a run that measures."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def _writer(self) -> Any:
        """Return pytest's writer of JUnit files, None without --junitxml."""
        # pytest offers it to no plugin; where a later pytest has other methods, the file is as pytest writes it
        methods = ("add_global_property", "node_reporter")
        plugins = self._config.pluginmanager.get_plugins()
        return next((plugin for plugin in plugins if all(callable(getattr(plugin, x, None)) for x in methods)), None)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Make the <failure> of a test whose limit could not be judged an <error>, once pytest has noted it."""
        yield
        statuses = [value for name, value in report.user_properties if name == "accel.status"]
        status = next((value for value in statuses if value in NOT_JUDGED), None)
        unjudged = report.when == "call" and report.failed and status and Status.FAIL.value not in statuses
        writer = self._writer() if unjudged else None
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
        writer = self._writer()
        for name, value in of_run(self._config.stash[SESSION]) if writer else ():
            writer.add_global_property(name, value)
        yield


def of_verdict(session: Session, verdict: Verdict) -> list[tuple[str, str]]:
    """Return the properties of a verdict."""
    node, devices = session.inputs.simulated_node, session.target.devices
    serial = next((device.serial for device in devices if device.uuid == verdict.subject), None)
    finding = findings([verdict], session.ledger.record.measurements, devices).get(verdict.key)
    return _pairs({
        "simulated": node.source if node else None,
        "metric": verdict.metric,
        "device": verdict.subject,
        "serial": serial,
        "value": verdict.value,
        "unit": verdict.unit or None,
        "floor": verdict.floor,
        "ceiling": verdict.ceiling,
        "expected": verdict.expected,
        "of_peak": verdict.of_peak,
        "margin": decisive_margin(verdict),
        "status": verdict.status.value,
        "cause": sentence_of(verdict) if finding else None,
        "code": finding.code if finding else None,
        "fault": finding.fault_code.name if finding else None,
        "vendor_code": (finding.vendor or None) if finding else None,
        "severity": finding.severity.value if finding else None,
        "action": finding.action.value if finding else None,
        "next": finding.next_step if finding else None,
        "attempts": verdict.attempts if verdict.attempts > 1 else None,
        "waived": verdict.waiver.reason if verdict.waiver else None,
        "limit_from": verdict.limit.origin if verdict.limit else None,
    })  # fmt: skip


def of_run(session: Session) -> list[tuple[str, str]]:
    """Return the properties of the whole run, with the devices that were chosen."""
    node, devices, record = session.inputs.simulated_node, session.target.devices, session.ledger.record
    run, closing = record.info, record.closing
    return _pairs({
        "closing": closing.line,
        "result": Result.words(closing.result),
        "exit": closing.exit,
        "sku": record.sku.get("name"),
        "platform": run.get("platform"),
        "level": run.get("level"),
        "simulated": node.source if node else None,
        "host": run.get("host"),
        "devices": " ".join(device.uuid for device in devices) or None,
        "serials": " ".join(device.serial for device in devices if device.serial) or None,
        "record": session.ledger.folder.path,
        "record_sha256": record.sha256 or None,
    })  # fmt: skip


def _pairs(properties: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return properties as names and texts, with every character escaped that XML cannot hold; leave None out."""
    return [(f"accel.{name}", printable(str(value))) for name, value in properties.items() if value is not None]
