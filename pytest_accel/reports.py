"""pytest's reports say what the verdicts say: no xfail hides a failure, no test passes without a measurement."""

from __future__ import annotations

import pytest

from pytest_accel.keys import VERDICTS
from pytest_accel.run import Run
from pytest_accel.verdict import Verdict


def amend(run: Run, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Bring the report of one phase of a measuring test in line with its verdicts, and remember its errors."""
    verdicts = item.stash.get(VERDICTS, [])
    if call.when == "call":
        for verdict in verdicts:
            run.tests[verdict.key] = item.name
            _properties(report, verdict)
        bad = [each for each in verdicts if each.status.fails]
        if bad and report.outcome != "failed":
            _fail(report, f"{run.names.get(bad[0].subject, bad[0].subject)}: {bad[0].metric} {bad[0].sentence}")
        elif not verdicts and report.outcome == "passed":
            _fail(report, "the test has an accel marker or fixture and records no measurement: it cannot fail")
            run.failed_tests.append(f"{item.nodeid} records no measurement")
        if bad:
            return
    _remember(run, item, call)


def _remember(run: Run, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Tell apart a test's own assertion, which is a verdict, and an error, which is none."""
    if call.excinfo is None or call.excinfo.errisinstance(pytest.skip.Exception):
        return
    text = f"{item.nodeid} ({call.excinfo.typename}: {str(call.excinfo.value).strip().partition(chr(10))[0]})"
    if call.excinfo.errisinstance((AssertionError, pytest.fail.Exception)):
        run.failed_tests.append(text)
    else:
        run.broken_tests.append(text)


def _fail(report: pytest.TestReport, sentence: str) -> None:
    report.outcome = "failed"
    report.longrepr = sentence
    if hasattr(report, "wasxfail"):
        del report.wasxfail


def _properties(report: pytest.TestReport, verdict: Verdict) -> None:
    """JUnit properties, flat: value, unit, limit and status of each verdict."""
    pairs = {
        "metric": verdict.metric,
        "device": verdict.subject,
        "value": verdict.value,
        "unit": verdict.unit,
        "floor": verdict.floor,
        "ceiling": verdict.ceiling,
        "expected": verdict.expected,
        "margin": verdict.margin,
        "status": verdict.status.value,
        "limit_from": verdict.limit.origin if verdict.limit else None,
    }
    report.user_properties += [(f"accel.{key}", str(value)) for key, value in pairs.items() if value is not None]
