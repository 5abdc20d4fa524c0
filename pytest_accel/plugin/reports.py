"""Makes pytest's reports agree with the verdicts: no xfail hides a failure, no test passes without a measurement."""

from __future__ import annotations

import pytest

from pytest_accel.core.measurement import LEFT_OUT
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.causes.findings import findings
from pytest_accel.judging.closing.line import Errors
from pytest_accel.plugin import junit_properties
from pytest_accel.plugin.collection import place
from pytest_accel.plugin.stash import VERDICTS, has_to_measure, measures
from pytest_accel.run.session import Session

NOT_MEASURED = ("not measured", "n", ("NOT MEASURED", {"red": True}))
"""Category, letter and word with its colour, of a test that fails for a cause that an earlier test has told."""
REPEATS = "accel_repeats"
"""The attribute of a report whose cause was told."""


class TestReports:
    """Makes the reports of measuring tests agree with their verdicts, and keeps what the tests tell about the run."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.tests: dict[tuple[str, str, str], str] = {}
        """Name of the test that asked for a verdict, by the key of the verdict."""
        self.not_run: list[str] = []
        """Names of tests that were skipped before they measured."""
        self.ran: set[pytest.Item] = set()
        """The measuring tests that pytest ran."""
        self.own_passed: set[pytest.Item] = set()
        """The user's own tests that took a device and passed."""
        self.errors = Errors()
        """Errors of measuring tests."""
        self.other_errors = Errors()
        """Errors of tests that measure nothing."""
        self._told: dict[tuple[object, ...], str] = {}
        """What a failure without a value or an error says, to the node id of the first test whose report tells it."""

    def amend(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Make the report of one phase of a test agree with its verdicts, and remember how the test ended."""
        if measures(item):
            self.ran.add(item)
            self._amend(item, call, report)
        elif report.outcome == "failed":
            _remember(self.other_errors, item, call)
        elif report.skipped and item.config.option.accel_with:
            self.not_run.append(item.name)
        takes_device = any(name.startswith("accel_") for name in getattr(item, "fixturenames", ()))
        if takes_device and call.when == "call" and report.passed and place(item) is None:
            self.own_passed.add(item)

    def _amend(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Make the report of one phase of a measuring test agree with its verdicts."""
        session, verdicts = self._session, item.stash.get(VERDICTS, [])
        if report.skipped and not verdicts:
            self.not_run.append(item.name)
        if call.when == "call":
            for verdict in verdicts:
                self.tests[verdict.key] = item.name
                _properties(session, item, report, verdict)
            failing = [verdict for verdict in verdicts if verdict.fails]
            repeats = [self._repeats(item, verdict) for verdict in failing]
            if failing and all(repeats):
                setattr(report, REPEATS, True)
            if failing and report.outcome != "failed":
                first = failing[0]
                _fail(report, f"{session.ledger.names[first.subject]}: {first.metric} {sentence_of(first)}")
            elif not verdicts and report.outcome == "passed" and has_to_measure(item):
                _fail(
                    report,
                    "the test has an accel marker or accel_check but records no measurement; call accel_check in it",
                )
                self.errors.broken.append(f"{item.nodeid} records no measurement")
            if failing:
                return
        broken = _remember(self.errors, item, call)
        if broken and call.when == "call" and self._told_before(item, item.nodeid.partition("[")[0], broken):
            setattr(report, REPEATS, True)

    def _repeats(self, item: pytest.Item, verdict: Verdict) -> bool:
        """Return True for a failure without a value whose cause another test has told; remember who tells it first."""
        if verdict.value is not None:
            return False
        whose = verdict.subject if verdict.status is Status.FAIL and verdict.event != LEFT_OUT else ""
        return self._told_before(item, verdict.status, sentence_of(verdict), whose) or verdict.event == LEFT_OUT

    def _told_before(self, item: pytest.Item, *what: object) -> bool:
        """Return True if another test has told this; remember the first test that does."""
        return self._told.setdefault(what, item.nodeid) != item.nodeid


def _remember(errors: Errors, item: pytest.Item, call: pytest.CallInfo[None]) -> str:
    """Add an exception of a test to `errors`: as failed if the test's own assertion failed, else as broken.

    An assertion in a fixture counts as broken: it says nothing about the hardware. Returns the error of a broken test.
    """
    if call.excinfo is None or call.excinfo.errisinstance((pytest.skip.Exception, pytest.xfail.Exception)):
        return ""
    error = f"{call.excinfo.typename}: {str(call.excinfo.value).strip().partition(chr(10))[0]}"
    if call.when == "call" and call.excinfo.errisinstance((AssertionError, pytest.fail.Exception)):
        errors.failed.append(f"{item.nodeid} ({error})")
        return ""
    errors.broken.append(f"{item.nodeid} ({error})")
    return error


def _fail(report: pytest.TestReport, sentence: str) -> None:
    report.outcome = "failed"
    report.longrepr = sentence
    if hasattr(report, "wasxfail"):
        del report.wasxfail


def _properties(session: Session, item: pytest.Item, report: pytest.TestReport, verdict: Verdict) -> None:
    """Add a verdict to the JUnit properties of its test, one property for each field that is set."""
    serial = next((each.serial for each in session.setup.devices if each.uuid == verdict.subject), None)
    finding = findings([verdict], session.ledger.record.measurements, session.setup.devices).get(verdict.key)
    simulated = {"simulated": session.setup.node.source if session.setup.node else None}
    properties = junit_properties.pairs({**simulated, **junit_properties.of_verdict(verdict, serial, finding)})
    item.user_properties += properties  # junitxml reads the teardown's report, whose properties come from the item
    report.user_properties += properties
