"""The properties that the plugin adds to pytest's own JUnit file: of every verdict, and of the whole run."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_accel.core.printable import printable
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Verdict, decisive_margin
from pytest_accel.judging.causes.findings import Finding
from pytest_accel.run.session import Session

Properties = Mapping[str, object]
"""Values by name, without the prefix `accel.`; those that are None are left out."""


def of_verdict(verdict: Verdict, serial: str | None, finding: Finding | None) -> Properties:
    """Return the properties of a verdict."""
    return {
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
        "fault": finding.fault.name if finding else None,
        "vendor_code": (finding.vendor or None) if finding else None,
        "severity": finding.severity.value if finding else None,
        "action": finding.action.value if finding else None,
        "next": finding.do if finding else None,
        "attempts": verdict.attempts if verdict.attempts > 1 else None,
        "waived": verdict.waiver.reason if verdict.waiver else None,
        "limit_from": verdict.limit.origin if verdict.limit else None,
    }


def pairs(properties: Properties) -> list[tuple[str, str]]:
    """Return properties as names and texts, with the prefix, and with every character that XML cannot hold escaped."""
    return [(f"accel.{name}", printable(str(value))) for name, value in properties.items() if value is not None]


def of_run(session: Session) -> Properties:
    """Return the properties of the whole run, with the devices that were chosen."""
    setup, record = session.setup, session.ledger.record
    run, closing = record.run, record.closing
    return {
        "closing": closing.line or None,
        "result": closing.result.value if closing.result else None,
        "exit": closing.exit if closing.result else None,
        "sku": record.sku.get("name"),
        "platform": run.get("platform"),
        "level": run.get("level"),
        "simulated": setup.node.source if setup.node else None,
        "host": run.get("host"),
        "devices": " ".join(device.uuid for device in setup.devices) or None,
        "serials": " ".join(device.serial for device in setup.devices if device.serial) or None,
        "record": session.ledger.folder.path,
        "record_sha256": record.sha256 or None,
    }
