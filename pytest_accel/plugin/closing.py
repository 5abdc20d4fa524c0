"""Closes a run: judges it by pytest's account of its end, and writes table, closing line, page and signature.

A run that measures nothing shows its plan instead.
"""

from __future__ import annotations

import argparse
import copy
import shlex
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import pytest

from pytest_accel.core import closing_file, exits
from pytest_accel.core.exits import WrongUse
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Circumstances
from pytest_accel.core.verdict import Closing, Status
from pytest_accel.core.words import counted, listed
from pytest_accel.judging.closing.line import Errors
from pytest_accel.plugin import page_file, pytest_terminal
from pytest_accel.plugin.collection import Collection, index_of, note_on_skipped
from pytest_accel.plugin.interrupts import TIME_LIMIT, Interrupts
from pytest_accel.plugin.loaded import loaded
from pytest_accel.plugin.reports import Reports
from pytest_accel.plugin.stash import SESSION, measures
from pytest_accel.run import signature
from pytest_accel.run.record import findings_of, locations_of
from pytest_accel.run.session import Session
from pytest_accel.views import network_table, plan, terminal
from pytest_accel.views.next_steps import next_steps
from pytest_accel.views.table import table

JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
"""Exit statuses of pytest that the verdicts replace."""

TEST_NOT_FOUND = "a test that was named was not found"
PYTEST_FAILED = "an internal error of pytest"
"""The reason why a run ended early, if no other is known."""
Tests = Mapping[tuple[str, str, str], str]
"""Name of the test that asked for a verdict, by the key of the verdict."""


class ClosingPlugin:
    """A plugin object that closes a run which measures."""

    def __init__(self, config: pytest.Config, collection: Collection, reports: Reports, interrupts: Interrupts) -> None:
        self._config = config
        self._session = config.stash[SESSION]
        self._collection = collection
        self._reports = reports
        self._interrupts = interrupts
        self._errors = reports.errors
        """The tests that ended badly without a verdict, as far as they count."""
        self._loaded: Sequence[tuple[str, str]] = ()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
        """Judge the run before any summary is written, and write the closing line after all summaries."""
        self._interrupts.no_timer()
        session.exitstatus = self._conclude(exitstatus).exit
        ledger = self._session.ledger
        try:
            yield
            if (hook := self._config.hook.pytest_accel_closing).get_hookimpls():
                record = copy.deepcopy(ledger.record)  # whatever a hook does to it
                hook(record=record, closing=record.closing)
        except (Exception, SystemExit, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001
            failure = f"a plugin at the end of the session ({type(error).__name__}: {error})"
            self._session.broken_after(failure)
        closing = ledger.checked_closing()  # a plugin that ran since may have reached the verdicts
        session.exitstatus = closing.exit  # whatever another plugin has set
        closing_file.write(closing.line)
        width, full = pytest_terminal.folding_width(self._config), self._config.getoption("verbose", 0) > 0
        lines = _last_lines(self._session, self._reports.tests, closing, width, full=full)
        options, file = self._session.inputs.options, ledger.folder.file
        if options.report and file:
            lines.append(page_file.write(ledger.record, file.parent, options.report))
        if options.sign and file:
            lines.append(_signed(file.parent, options.sign))
        pytest_terminal.write(self._config, lines, bold=True)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, config: pytest.Config) -> None:
        """Write the table."""
        ledger, full = self._session.ledger, config.option.verbose > 0
        findings, width = findings_of(ledger.record), pytest_terminal.width(config)
        _write_section(config, table(ledger.verdicts, ledger.names, findings, full=full, width=width))

    def _conclude(self, exitstatus: int) -> Closing:
        """Close the run by the exit status of pytest, and return its closing line and exit status.

        A run that reached its time limit is judged by its measurements until then.

        If tests failed, and neither a verdict nor an error of a measuring test explains it, the errors of other tests
        and of the collection are counted.
        """
        reports, collection, stopped_by = self._reports, self._collection, self._interrupts.reason
        self._loaded = loaded(self._config)  # after plugins and tests have loaded all they need
        if skipped := len(reports.not_run):
            self._session.add_objection("run", f"{counted(skipped, 'test')} skipped before measuring anything")
        errors = self._errors
        explained = errors.broken or errors.failed or any(verdict.fails for verdict in self._session.ledger.verdicts)
        if exitstatus == pytest.ExitCode.TESTS_FAILED and not explained:
            self._errors = Errors([*collection.broken, *reports.other_errors.broken], reports.other_errors.failed)
            if self._errors == Errors():
                self._errors.broken.append("pytest reports a failure that belongs to no test")
        if stopped_by == TIME_LIMIT:
            self._session.add_objection("time", self._session.deadline.end_sentence)
            return self.finish()
        if exitstatus in JUDGED and not stopped_by:
            missing = [item for item in collection.items if measures(item) and item not in reports.ran]
            collection.note_missing(missing, "never run")
            return self.finish()
        if exitstatus in JUDGED:  # pytest.exit() with such a status, before every test was run
            exitstatus = pytest.ExitCode.INTERRUPTED
        reason = stopped_by or (TEST_NOT_FOUND if exitstatus == pytest.ExitCode.USAGE_ERROR else PYTEST_FAILED)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            reason = "no test was collected"
        return self.finish(reason, exit_status=int(exitstatus))

    def finish(self, interrupted: str | None = None, exit_status: int = 2) -> Closing:
        """Give the session pytest's account of the run, and close it: see `Session.finish`."""
        passed, tests = len(self._reports.own_passed), self._config.option.accel_with or self._config.option.file_or_dir
        own_tests = f"{counted(passed, 'test')} of {listed([str(path) for path in tests])}" if passed else ""
        broken, failed = self._errors.broken, self._errors.failed
        end = Circumstances(
            broken_tests=broken, failed_tests=failed, own_tests=own_tests, interrupted=interrupted, ended=exit_status
        )
        return self._session.finish(end, self._loaded)


class Planning:
    """A plugin object for a run that measures nothing: with --collect-only, --setup-plan and --setup-only."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    @pytest.hookimpl(trylast=True)
    def pytest_report_collectionfinish(self, config: pytest.Config, items: list[pytest.Item]) -> str | None:
        """Take the packaged tests out of the list, which pytest prints next, unless -v or -q was given."""
        if not items or not config.option.collectonly or config.option.verbose:
            return None
        items[0].session.items = [item for item in items if index_of(item) is None]
        return "the plan is below; -v or -q lists the packaged tests"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
        """Set the exit status: 0 for --collect-only on the command line alone."""
        session.items = self._collection.items  # complete for other plugins, too
        yield
        arguments = {str(arg) for arg in session.config.invocation_params.args}
        if exitstatus == pytest.ExitCode.TESTS_FAILED:  # a fixture under --setup-only; 1 is kept for REJECTED
            exitstatus = pytest.ExitCode.INTERNAL_ERROR
        # In a configuration file or PYTEST_ADDOPTS it would make every nightly run pass; --setup-plan and --setup-only
        # look like a run.
        elif exitstatus == pytest.ExitCode.OK and not {"--collect-only", "--collectonly", "--co"} & arguments:
            text = "nothing was measured: --collect-only, --setup-plan and --setup-only do not run the tests"
            pytest_terminal.write(session.config, [(text, "yellow")])
            exitstatus = exits.NOT_JUDGED
        session.exitstatus = exitstatus

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, config: pytest.Config) -> None:
        """Write the plan."""
        session = config.stash[SESSION]
        _write_section(config, plan.lines(session.target, self._collection.items, session.objections))


def _write_section(config: pytest.Config, lines: list[terminal.Line]) -> None:
    """Write lines and the notes of the run, if there are any, below a title that names SKU and level."""
    session, reporter = config.stash[SESSION], pytest_terminal.reporter(config)
    terms = session.target.terms
    lines += [(f"note: {note}", "yellow") for note in (*session.ledger.record.notes, *note_on_skipped(config))]
    if network := session.network.result:  # on the node of rank 0 alone
        lines += network_table.lines(network)
    if lines and reporter:
        simulated = "SIMULATED " if session.inputs.simulated_node else ""
        title = f"accel: {simulated}{terms.sku.name if terms.sku else 'no SKU'}, {terms.level}"
        reporter.section(title, sep="=", bold=True)
        pytest_terminal.write(config, terminal.folded(lines, pytest_terminal.folding_width(config)))


def _signed(folder: Path, key: Path) -> terminal.Line:
    """Sign a record; return a line for the terminal. The verdict does not depend on it."""
    try:
        return f"signed: {signature.sign(folder, key, ask=False)}", ""
    except (WrongUse, OSError) as error:
        later = shlex.join(["pytest-accel", "sign", str(folder), "--key", str(key)])
        return f"not signed: {printable(str(error))}; later: {later}", "yellow"


def _last_lines(
    session: Session, tests: Tests, closing: Closing, width: int | None, *, full: bool
) -> list[terminal.Line]:
    """Return the closing line and the lines below it, as far as there are any.

    They are folded to `width` columns where a person reads them; None is for a file, in which whatever belongs together
    stays in one line. With `full`, every finding has its next step, and the time and the hash of the record are shown.
    """
    ledger, folder = session.ledger, session.ledger.folder
    run, together = ledger.record.info, session.inputs.options.network  # no node leads on by itself from a network run
    took = [terminal.time_line(run["seconds"])] if full and "seconds" in run else []
    took += [terminal.sampling_line(run["sampling"])] if full and "sampling" in run else []
    findings, locations = findings_of(ledger.record), locations_of(ledger.record)
    steps = next_steps(findings, ledger.verdicts, ledger.names, locations, full=full)
    return [
        *terminal.closing_lines(closing, ledger.verdicts, width),
        *terminal.why_lines(closing, ledger.names, width, full=full),
        *terminal.folded(steps, width),
        *([] if together else [*terminal.next_lines(closing, width), *_repeated(session, tests, closing)]),
        *terminal.sensitivity_lines(closing, ledger.verdicts, width, full=full),
        *terminal.folded(took, width),
        *terminal.record_lines(folder.file, folder.instead_of, lost=bool(folder.loss)),
        *(terminal.hash_lines(ledger.record.sha256, width) if full and folder.file and not folder.loss else ()),
    ]


def _repeated(session: Session, tests: Tests, closing: Closing) -> list[terminal.Line]:
    """Return the command that repeats the tests which the closing line names; the page of the first run stays."""
    keys = [verdict.key for verdict in closing.verdicts if verdict.status is not Status.UNMEASURED]
    if not (names := [tests[key] for key in keys if key in tests]):
        return []
    command = [word for word in session.inputs.options.command if word.partition("=")[0] != "--accel-report"]
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for option in ("-k", "--accel-output", "--accel-hours"):  # the options to leave out
        parser.add_argument(option)
    words = [*parser.parse_known_args(command)[1], "-k", " or ".join(dict.fromkeys(names))]
    return [(f"again: {shlex.join(words)}", "")]
