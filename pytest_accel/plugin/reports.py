"""Makes pytest's reports agree with the verdicts: no xfail hides a failure, no test passes without a measurement."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest

from pytest_accel.core.measurement import LEFT_OUT
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.closing.line import Errors
from pytest_accel.plugin.collection import index_of
from pytest_accel.plugin.interrupts import TIME_LIMIT
from pytest_accel.plugin.others import junit
from pytest_accel.plugin.stash import VERDICTS, has_to_measure, measures
from pytest_accel.run.session import Session

NOT_MEASURED = ("not measured", "n", ("NOT MEASURED", {"red": True}))
"""Category, letter and word with its colour, of a test that fails for a cause that an earlier test has told."""
FAILED_ALIKE = ("failed alike", "f", ("FAILED ALIKE", {"red": True}))
"""The same of a test whose own assertion fails like that of an earlier test."""
ASSERTED = (AssertionError, pytest.fail.Exception)
REPEATS = "accel_repeats"
"""The attribute of a report whose cause was told: its category."""
TOLD = "accel_told"
"""The attribute of the report of a test that fails by a verdict, which the table tells."""


class Reports:
    """A plugin object that makes reports agree with the verdicts, and keeps what the tests tell about the run."""

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
        self._first_reports: dict[tuple[object, ...], pytest.TestReport] = {}
        """The first report of each error, and of each failure without a value, by its text."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Make the report agree with the verdicts; end the session if every device is the wrong product."""
        report = yield
        if measures(item):
            self.ran.add(item)
            self._amend(item, call, report)
        elif report.outcome == "failed":
            _remember(self.other_errors, item, call)
        elif report.skipped and item.config.option.accel_with:
            self.not_run.append(item.name)
        takes_device = any(name.startswith("accel_") for name in getattr(item, "fixturenames", ()))
        if takes_device and call.when == "call" and report.passed and index_of(item) is None:
            self.own_passed.add(item)
        if call.when == "teardown" and self._session.deadline.over and item is not item.session.items[-1]:
            item.session.shouldstop = TIME_LIMIT
        if call.when == "call" and (reason := self._session.wrong_sku()):
            item.session.shouldfail = reason
        return report

    def pytest_report_teststatus(self, report: object) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Return a category of its own for a test that passed by a waiver, or that repeats a reported cause.

        pytest prints every test of the category "failed" at the end, and a device that hangs fails dozens.
        """
        if (category := getattr(report, REPEATS, None)) and report.failed:  # type: ignore[attr-defined]
            return category  # type: ignore[no-any-return]
        names = [name for name, _ in getattr(report, "user_properties", ())]
        if getattr(report, "when", "") == "call" and report.passed and "accel.waived" in names:  # type: ignore[attr-defined]
            return "waived", "w", ("WAIVED", {"yellow": True})
        return None

    def _amend(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Make the report of one phase of a measuring test agree with its verdicts."""
        session, verdicts = self._session, item.stash.get(VERDICTS, [])
        if report.skipped and not verdicts:
            self.not_run.append(item.name)
        if call.when == "call":
            for verdict in verdicts:
                self.tests[verdict.key] = item.name
                properties = junit.of_verdict(session, verdict)
                item.user_properties += properties  # junitxml reads the teardown's report, which has those of the item
                report.user_properties += properties
            failing = [verdict for verdict in verdicts if verdict.fails]
            repeats = [self._repeats(report, verdict) for verdict in failing]
            if failing and all(repeats):
                setattr(report, REPEATS, NOT_MEASURED)
            setattr(report, TOLD, bool(failing) and report.failed)
            if failing and not report.failed:
                first = failing[0]
                _fail(report, f"{session.ledger.names[first.subject]}: {first.metric} {sentence_of(first)}")
            elif not verdicts and report.outcome == "passed" and has_to_measure(item):
                hint = "the test has an accel marker or accel_check but records no measurement; call accel_check in it"
                _fail(report, hint)
                _add(self.errors.broken, item, "records no measurement")
                self._error_repeats(report, hint, NOT_MEASURED)
            if failing:
                return
        if (error := _remember(self.errors, item, call)) and call.excinfo and call.when == "call":
            self._error_repeats(report, error, FAILED_ALIKE if call.excinfo.errisinstance(ASSERTED) else NOT_MEASURED)

    def _error_repeats(self, report: pytest.TestReport, error: str, category: tuple[str, str, object]) -> None:
        """Mark a report if the same function has reported the error, with whatever numbers; the first one names it."""
        function, _, parameters = report.nodeid.partition("[")
        key = function, re.sub(r"\d+", "", error)
        if not self._is_repeat(report, *key):
            return
        setattr(report, REPEATS, category)
        first, title = self._first_reports[key], category[0]
        text = f"{parameters.rstrip(']')}{'' if error in first.longreprtext else f' ({error})'}"
        sections = dict(first.sections)
        sections[title] = ", ".join(dict.fromkeys([*filter(None, sections.get(title, "").split(", ")), text]))
        first.sections = list(sections.items())

    def _repeats(self, report: pytest.TestReport, verdict: Verdict) -> bool:
        """Return True for a failure without a value whose cause another test has reported; keep the first report."""
        if verdict.value is not None:
            return False
        subject = verdict.subject if verdict.status is Status.FAIL and verdict.event != LEFT_OUT else ""
        return self._is_repeat(report, verdict.status, sentence_of(verdict), subject) or verdict.event == LEFT_OUT

    def _is_repeat(self, report: pytest.TestReport, *key: object) -> bool:
        """Return True if another test has reported this; keep the report of the first test that does."""
        first = self._first_reports.get(key, report)
        if first.nodeid == report.nodeid or not first.failed:  # a test that is rerun shows its last report alone
            self._first_reports[key] = report
        return self._first_reports[key] is not report


def _remember(errors: Errors, item: pytest.Item, call: pytest.CallInfo[None]) -> str:
    """Add an exception of a test to `errors`: as failed if the test's own assertion failed, else as broken.

    An assertion in a fixture counts as broken: it says nothing about the hardware. Returns the error, "" without one.
    """
    if call.excinfo is None or call.excinfo.errisinstance((pytest.skip.Exception, pytest.xfail.Exception)):
        return ""
    error = f"{call.excinfo.typename}: {str(call.excinfo.value).strip().partition(chr(10))[0]}"
    asserted = call.when == "call" and call.excinfo.errisinstance(ASSERTED)
    _add(errors.failed if asserted else errors.broken, item, f"({error})")
    return error


def _add(errors: list[str], item: pytest.Item, error: str) -> None:
    """Add the error of a test, unless it has one: a rerun of it is no further failure."""
    if not any(entry.startswith(f"{item.nodeid} ") for entry in errors):
        errors.append(f"{item.nodeid} {error}")


def _fail(report: pytest.TestReport, sentence: str) -> None:
    report.outcome = "failed"
    report.longrepr = sentence
    if hasattr(report, "wasxfail"):
        del report.wasxfail
