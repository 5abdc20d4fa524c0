"""pytest's reports say what the verdicts say: no xfail hides a failure, no test passes without a measurement."""

from __future__ import annotations

import pytest

from pytest_accel.core.verdict import Verdict
from pytest_accel.judging.closing import Errors
from pytest_accel.plugin.stash import VERDICTS
from pytest_accel.run.session import Session


def amend(run: Session, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Bring the report of one phase of a measuring test in line with its verdicts, and remember its errors."""
    verdicts = item.stash.get(VERDICTS, [])
    if report.skipped and not verdicts:
        run.not_run.append(item.name)
    if call.when == "call":
        for verdict in verdicts:
            run.tests[verdict.key] = item.name
            _properties(item, report, verdict, simulated=run.node.source if run.node else None)
        bad = [each for each in verdicts if each.fails]
        if bad and report.outcome != "failed":
            _fail(report, f"{run.names.get(bad[0].subject, bad[0].subject)}: {bad[0].metric} {bad[0].sentence}")
        elif not verdicts and report.outcome == "passed":
            _fail(report, "the test has an accel marker or fixture and records no measurement: it cannot fail")
            run.errors.broken.append(f"{item.nodeid} records no measurement")
        if bad:
            return
    remember(run.errors, item, call)


def remember(errors: Errors, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Tell apart a test's own assertion, which is a verdict, and an error, which is none: so is one of a fixture."""
    if call.excinfo is None or call.excinfo.errisinstance((pytest.skip.Exception, pytest.xfail.Exception)):
        return
    text = f"{item.nodeid} ({call.excinfo.typename}: {str(call.excinfo.value).strip().partition(chr(10))[0]})"
    if call.when == "call" and call.excinfo.errisinstance((AssertionError, pytest.fail.Exception)):
        errors.failed.append(text)
    else:
        errors.broken.append(text)


def _fail(report: pytest.TestReport, sentence: str) -> None:
    report.outcome = "failed"
    report.longrepr = sentence
    if hasattr(report, "wasxfail"):
        del report.wasxfail


def _properties(item: pytest.Item, report: pytest.TestReport, verdict: Verdict, simulated: str | None) -> None:
    """JUnit properties, flat: value, unit, limit and status of each verdict; of a rehearsal, that it is one."""
    pairs = {
        "simulated": simulated,
        "metric": verdict.metric,
        "device": verdict.subject,
        "value": verdict.value,
        "unit": verdict.unit,
        "floor": verdict.floor,
        "ceiling": verdict.ceiling,
        "expected": verdict.expected,
        "of_peak": verdict.of_peak,
        "margin": verdict.margin,
        "status": verdict.status.value,
        "waived": verdict.waiver.reason if verdict.waiver else None,
        "limit_from": verdict.limit.origin if verdict.limit else None,
    }
    found = [(f"accel.{key}", str(value)) for key, value in pairs.items() if value is not None]
    item.user_properties += found  # junitxml takes those of the teardown's report, which is made from the item
    report.user_properties += found
