"""The pytest plugin that conducts an acceptance run. It is registered only with --accel-sku or --accel-simulate."""

from __future__ import annotations

import argparse
import copy
import html
import os
import re
import shlex
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.core import closing_file, exits, paths
from pytest_accel.core.exits import WrongUse
from pytest_accel.core.printable import printable
from pytest_accel.core.verdict import Closing
from pytest_accel.core.words import counted, listed
from pytest_accel.judging.closing.line import Errors
from pytest_accel.plugin import closing_lines, interrupts, junit_properties, page_file, reports
from pytest_accel.plugin.interrupts import TIME_LIMIT, Interrupts, give_lines
from pytest_accel.plugin.loaded import loaded
from pytest_accel.plugin.stash import REPLAY, SESSION, SUBJECT, measures
from pytest_accel.run import signature
from pytest_accel.run.launcher import launch_of
from pytest_accel.run.options import Options, Refused, option_words, options_of, plans_only, too_few_files
from pytest_accel.run.record import findings_of
from pytest_accel.run.session import Session
from pytest_accel.suite import IN_FABRIC, LAST, ORDER, functions
from pytest_accel.views import fabric, plan, terminal
from pytest_accel.views.benchmark import Replay, is_replay
from pytest_accel.views.progress import TerminalProgress
from pytest_accel.views.table import table

LIMITED = ("inventory", "health", "host", "counters", "delivery")
"""Probes of facts that have a fixture accel_PROBE: one item is made for each fact that the SKU limits."""

FILTERS = {
    "keyword": "-k",
    "markexpr": "-m",
    "lf": "--lf",
    "stepwise": "--sw",
    "deselect": "--deselect",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
}
TABLE_OPTIONS = tuple(f"--benchmark-{name}" for name in ("verbose", "sort", "columns", "group-by", "name", "compare"))
"""Options by which a user asks for the table of pytest-benchmark."""
Groups = list[tuple[str | None, list[dict[str, Any]]]]
"""The groups of pytest-benchmark: the name of each and its benchmarks."""

HTML_COLUMNS = ("status", "value", "unit", "floor", "margin")
"""The columns that the table of pytest-html gets."""
JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
"""Exit statuses of pytest that the verdicts replace."""

PYTEST_FAILED = "an internal error of pytest"
"""The reason why a run ended early, if no other is known."""
NOT_FOUND = "a test that was named was not found"


def _demand_outputs(option: argparse.Namespace) -> None:
    """Raise pytest.UsageError if the page or the signature that is asked for cannot be made at the end of the run."""
    if option.accel_report and (why := page_file.refused(option.accel_report)):
        raise pytest.UsageError(f"--accel-report: {why}")
    try:
        if option.accel_sign:
            signature.demand_key(option.accel_sign)
    except WrongUse as wrong:
        raise pytest.UsageError(f"--accel-sign: {wrong}") from None


def _signed(folder: Path, key: Path) -> terminal.Line:
    """Sign a record; return a line for the terminal. The verdict does not depend on it."""
    try:
        return f"signed: {signature.sign(folder, key, ask=False)}", ""
    except (WrongUse, OSError) as error:
        later = shlex.join(["pytest-accel", "sign", str(folder), "--key", str(key)])
        return f"not signed: {printable(str(error))}; later: {later}", "yellow"


class Acceptance:
    """A plugin object for one acceptance run: its methods are the hooks.

    It is made in pytest_configure, which checks the options. Processes, locks and the record begin in
    pytest_sessionstart.
    """

    def __init__(self, config: pytest.Config, own_paths: bool) -> None:
        """Check the options that need no device. Raises pytest.UsageError (exit status 4)."""
        option = config.option
        if few := too_few_files():
            raise pytest.UsageError(few)
        if getattr(option, "numprocesses", None) or getattr(option, "tx", None) or hasattr(config, "workerinput"):
            raise pytest.UsageError(
                "--accel-sku measures all devices of the node from one pytest process; remove -n (pytest-xdist)"
            )
        if (launch := launch_of(os.environ)) and launch.refused:
            raise pytest.UsageError(launch.refused)
        if why := interrupts.ends_pytest(config):
            raise pytest.UsageError(why)
        if own_paths and option.accel_with:
            raise pytest.UsageError("--accel-with adds tests to the packaged suite; name tests alone without it")
        named = option.file_or_dir if own_paths and not option.pyargs else option.accel_with
        for path in (str(each).partition("::")[0] for each in named):
            if not (config.invocation_params.dir / path).exists():
                raise pytest.UsageError(f"file or directory not found: {path}")
        _demand_outputs(option)
        given = [str(arg) for arg in config.invocation_params.args]
        if option.accel_simulate and not any(arg.startswith("--accel-simulate") for arg in given):
            raise pytest.UsageError(
                "--accel-simulate must be given on the command line; "
                "remove it from the configuration file and from PYTEST_ADDOPTS"
            )
        self._config = config
        self._ran: set[pytest.Item] = set()
        """The measuring tests that pytest ran."""
        self._items: list[pytest.Item] = []
        self._found: set[tuple[int, str]] = set()
        """The functions of the packaged suite that pytest made tests of."""
        self._own_passed: set[pytest.Item] = set()
        """The user's own tests that took a device and passed."""
        self._other_errors = Errors()
        """Errors of tests that measure nothing, and of the collection."""
        self._progress = TerminalProgress(self._reporter)
        self.accel_session = Session(options_from(config, own_paths), self._progress)
        self._reports = reports.TestReports(self.accel_session)
        self._interrupts = Interrupts(self.accel_session.deadline)
        config.stash[SESSION] = self.accel_session
        self._plans = plans_only(option)
        words = option_words(config)
        self._table_wanted = any(word.startswith(TABLE_OPTIONS) for word in words)
        if not own_paths and not any(re.match(r"-[vqxsl]*r", word) for word in words):
            option.reportchars = ""  # only the packaged suite runs, and the table shows its results, worst first

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionstart(self) -> Generator[None, None, None]:
        """Open the run before pytest prints the header. Raises pytest.UsageError (exit status 4).

        Another plugin that ends the session here cannot choose an exit status that stands for a verdict.
        """
        if not self._plans:
            self._interrupts.begin()
        try:
            self.accel_session.open(measuring=not self._plans)
            if self._plans:
                self.accel_session.setup.plan_without_devices()
        except Refused as refused:
            raise pytest.UsageError(str(refused)) from None
        except OSError as error:
            if not error.filename:
                raise
            raise pytest.UsageError(printable(paths.refused(error))) from None
        try:
            return (yield)
        except pytest.exit.Exception as stop:
            if stop.returncode in JUDGED:
                stop.returncode = int(pytest.ExitCode.INTERRUPTED)
            raise
        except pytest.Session.Failed as failed:
            raise pytest.exit.Exception(str(failed), returncode=int(pytest.ExitCode.INTERNAL_ERROR)) from failed

    def _reporter(self) -> pytest.TerminalReporter | None:
        """Return pytest's terminal reporter, None before pytest has made it."""
        reporter: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return reporter

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """End processes and locks, and finish a record that is still open, however the session ended."""
        accel_session, stopped_by = self.accel_session, self._interrupts.reason
        self._interrupts.no_timer()
        try:
            # The record is still open if another plugin's pytest_sessionstart failed, or after a signal.
            if accel_session.ledger.begun and not accel_session.finished:
                accel_session.finish(stopped_by or PYTEST_FAILED, ended=2 if stopped_by else 3)
        finally:
            accel_session.stop()
            self._interrupts.restore()

    def pytest_report_header(self) -> list[str]:
        """Return a line that says what is measured and as what, and one more if these devices were measured before."""
        setup, terms = self.accel_session.setup, self.accel_session.setup.terms
        models = sorted({device.product for device in setup.devices})
        devices = f"{len(setup.devices)} x {', '.join(models)}" if models else "no device"
        sku = terms.sku.name if terms.sku else "no SKU"
        simulated = f"SIMULATED by {setup.node.source}: " if setup.node else ""
        lines = [f"accel: {simulated}{sku}, platform {terms.platform.name}, level {terms.level}: {devices}"]
        earlier = self.accel_session.ledger.record.earlier_attempts
        if earlier:
            ended = (earlier[-1]["line"] or earlier[-1]["state"] or "").partition(": ")[0]
            lines.append(f"accel: {counted(len(earlier), 'earlier record')} of these devices; the last one: {ended}")
        return [printable(line) for line in lines]

    # -- collecting

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test once per device, or once for the node if it asks for all devices."""
        names = metafunc.fixturenames
        for probe in LIMITED:
            if f"accel_{probe}" in names:
                facts = self.accel_session.setup.limited_facts(probe)
                metafunc.parametrize(f"accel_{probe}", facts or [None], indirect=True)
        if "accel_size" in names:
            pairs = self.accel_session.setup.collectives()
            metafunc.parametrize(("accel_operation", "accel_size"), pairs, indirect=True)
        if SUBJECT not in names:
            return
        subjects = {device.uuid: device.name for device in self.accel_session.setup.devices}
        if "accel_devices" in names and "accel_device" not in names:
            subjects = {"node": "node"}
        metafunc.parametrize(SUBJECT, list(subjects), ids=list(subjects.values()), indirect=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self) -> Generator[None, object, object]:
        """Leave out tests over the limited facts of a SKU that limits none."""
        made = yield
        if not isinstance(made, list):
            return made
        functions = [item for item in made if isinstance(item, pytest.Function)]
        self._found |= {(place, item.originalname) for item in functions if (place := _place(item)) is not None}
        return [item for item in made if self._belongs(item)]

    def _belongs(self, item: object) -> bool:
        """Return False for a packaged test over no fact, or of another kind of run: between nodes, or of one."""
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if any(given.get(f"accel_{probe}", "") is None for probe in LIMITED):
            return False
        place = _place(item) if isinstance(item, pytest.Item) else None
        if place is None:
            return True
        return ORDER[place] in IN_FABRIC if self.accel_session.setup.options.fabric else ORDER[place] != "test_fabric"

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember the order of collection, and set a timer for pytest-benchmark that replays our samples.

        Raises pytest.UsageError for a marker by which pytest-timeout would end pytest itself.
        """
        if why := interrupts.marker_ends_pytest(item):
            raise pytest.UsageError(why)
        self._items.append(item)
        if measures(item) and item.config.pluginmanager.hasplugin("benchmark"):
            item.stash[REPLAY] = Replay()
            item.add_marker(pytest.mark.benchmark(timer=item.stash[REPLAY]), append=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Restore the order of the packaged suite after --ff, --nf or a user's hook has changed it.

        Links are measured before collectives, then the user's own tests and the soak run; error counters are read last,
        since they cover only what ran before them.
        """
        # Not in pytest_collection_modifyitems: --ff and --nf reorder in wrappers, after every implementation of it.
        collected = {item: place for place, item in enumerate(self._items)}
        kept = set(session.items)
        taken_out = [item for item in collected if item not in kept]
        self._note_missing(taken_out, "taken out by a plugin or a conftest.py")
        lacking = [name for _, name in sorted(functions() - self._found)]
        if lacking and not self.accel_session.setup.filtered:  # by an ini file or a hook
            self.accel_session.setup.rule_out(f"the packaged suite was collected without {', '.join(lacking)}")
        own = [item for item in session.items if _place(item) is None]
        for path in map(str, self._config.option.accel_with):
            folder = Path(path.partition("::")[0]).resolve()
            if not any(item.path.resolve().is_relative_to(folder) for item in own):
                self.accel_session.setup.rule_out(f"--accel-with {path} has no test")
        places = {item: (float(_place(item) or 0), collected[item]) for item in session.items}
        places |= {item: (ORDER.index(LAST[0]) - 0.5, place) for place, item in enumerate(own)}
        session.items.sort(key=places.__getitem__)
        self._items = list(session.items)  # a hook may take tests out of the session's own list later
        if not self._plans:
            ours_left = plan.time_left(self.accel_session.setup, self.accel_session.measuring, self._items)
            self._progress.expect(ours_left)

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Note that tests were taken out, unless an option that does so is noted already."""
        if items and not self.accel_session.setup.filtered:
            self.accel_session.setup.narrow(f"{len(items)} tests were deselected")

    def _note_missing(self, items: Sequence[pytest.Item], how: str) -> None:
        """Note tests that a hook took out or over without telling pytest, unless some are known to be missing."""
        if items and not self.accel_session.setup.filtered:
            count = "1 test was" if len(items) == 1 else f"{len(items)} tests were"
            self.accel_session.setup.rule_out(f"{count} {how}")

    # -- running

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Make the report agree with the verdicts; end the session if every device is the wrong product."""
        report = yield
        if measures(item):
            self._ran.add(item)
            self._reports.amend(item, call, report)
        elif report.outcome == "failed":
            reports.remember(self._other_errors, item, call)
        elif report.skipped and self._config.option.accel_with:
            self._reports.not_run.append(item.name)
        ours = any(name.startswith("accel_") for name in getattr(item, "fixturenames", ()))
        if ours and call.when == "call" and report.passed and _place(item) is None:
            self._own_passed.add(item)
        if call.when == "teardown" and self.accel_session.deadline.over and item is not item.session.items[-1]:
            item.session.shouldstop = TIME_LIMIT
        if call.when == "call" and (why := self.accel_session.wrong_sku()):
            item.session.shouldfail = why
        return report

    def pytest_report_teststatus(self, report: object) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Return a category of its own for a test that passed by a waiver, or that repeats a cause that was told.

        pytest prints every test of the category "failed" at the end, and a device that hangs fails dozens.
        """
        if getattr(report, reports.REPEATS, False):
            return reports.NOT_MEASURED
        names = [name for name, _ in getattr(report, "user_properties", ())]
        if getattr(report, "when", "") == "call" and report.passed and "accel.waived" in names:  # type: ignore[attr-defined]
            return "waived", "w", ("WAIVED", {"yellow": True})
        return None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, None, None]:
        """Let the JUnit file tell a limit that could not be judged from one that is broken."""
        yield
        reports.mark_not_judged(self._config, report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that could not be collected, or that skips itself: nothing in it was measured."""
        if report.failed:
            self._other_errors.broken.append(f"{report.nodeid} could not be collected")
        elif report.skipped:
            self.accel_session.setup.rule_out(f"{report.nodeid} was skipped")

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Note why the session was interrupted, unless a signal handler has noted it.

        An error of the collection comes as an interrupt too, with a text. An internal error is no
        interrupt.
        """
        give_lines(excinfo)
        if getattr(excinfo.value, "returncode", None) == pytest.ExitCode.INTERNAL_ERROR:
            return
        self._interrupts.reason = self._interrupts.reason or str(excinfo.value) or "Ctrl-C"

    # -- closing

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
        """Judge the run before any summary is written, and write the closing line after all of them."""
        if self._plans:
            yield
            session.exitstatus = self._planned(exitstatus)
            return
        self._interrupts.no_timer()
        closing = self._close(exitstatus)
        session.exitstatus = closing.exit
        reports.add_properties(self._config, junit_properties.of_run(self.accel_session))
        try:
            yield
            if (hook := self._config.hook.pytest_accel_closing).get_hookimpls():
                told = copy.deepcopy(self.accel_session.ledger.record)  # whatever a hook does to it
                hook(record=told, closing=told.closing)
        except (Exception, SystemExit, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001
            failure = f"a plugin at the end of the session ({type(error).__name__}: {error})"
            self.accel_session.broken_after(failure)
        closing = self.accel_session.ledger.believed()  # what ran since may have reached what was judged
        session.exitstatus = closing.exit  # whatever another plugin made of it
        closing_file.write(closing.line)
        width = self._width() if self._is_terminal() else None
        full = self._config.getoption("verbose", 0) > 0
        lines = closing_lines.lines(self.accel_session, self._reports.tests, closing, width, full=full)
        self._write([*lines, *self._report_lines()], bold=True)
        if os.environ.get("GITHUB_ACTIONS") == "true" and closing.exit:
            kind, line = ("error", "warning")[closing.exit == exits.NOT_JUDGED], closing.line.replace("%", "%25")
            self._write([(f"::{kind} title={closing.word}::{line}", "")])

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: list[str]) -> None:
        """Add the columns of a verdict to the table of pytest-html."""
        cells[2:2] = [f"<th>{name.capitalize()}</th>" for name in HTML_COLUMNS]

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: pytest.TestReport, cells: list[str]) -> None:
        """Fill the columns of a verdict, which are those of the JUnit properties."""
        found = {name: str(value) for name, value in getattr(report, "user_properties", ())}
        cells[2:2] = [f"<td>{html.escape(found.get(f'accel.{name}', ''))}</td>" for name in HTML_COLUMNS]

    def _report_lines(self) -> list[terminal.Line]:
        """Write the HTML page and sign the record if that was asked for; return the lines that say where they are."""
        ledger, options = self.accel_session.ledger, self.accel_session.setup.options
        file, lines = ledger.folder.file, []
        if options.report and file:
            lines.append(page_file.write(ledger.record, file.parent, options.report))
        if options.sign and file:
            lines.append(_signed(file.parent, options.sign))
        return lines

    def _planned(self, exitstatus: int) -> int:
        """Return the exit status of a run that measured nothing.

        0 is for --collect-only on the command line alone. In a configuration file or PYTEST_ADDOPTS it would make every
        nightly run pass, and --setup-plan and --setup-only look like a run.
        """
        if exitstatus == pytest.ExitCode.TESTS_FAILED:  # a fixture under --setup-only; 1 is kept for REJECTED
            return pytest.ExitCode.INTERNAL_ERROR
        given = {str(arg) for arg in self._config.invocation_params.args}
        if {"--collect-only", "--collectonly", "--co"} & given or exitstatus != pytest.ExitCode.OK:
            return exitstatus
        text = "nothing was measured: --collect-only, --setup-plan and --setup-only do not run the tests"
        self._write([(text, "yellow")])
        return exits.NOT_JUDGED

    def _close(self, exitstatus: int) -> Closing:
        """Close the run, and return its closing line and exit status.

        A run that reached its time limit is judged by what it measured.

        If tests failed, and neither a verdict nor an error of a measuring test explains it, the errors of other tests
        and of the collection are counted.
        """
        accel_session, errors, others = self.accel_session, self.accel_session.errors, self._other_errors
        accel_session.loaded = loaded(self._config)  # now that plugins and tests have loaded all they need
        if skipped := len(self._reports.not_run):
            accel_session.setup.rule_out(f"{counted(skipped, 'test')} skipped before measuring anything")
        if passed := len(self._own_passed):
            paths = self._config.option.accel_with or self._config.option.file_or_dir
            accel_session.own_tests = f"{counted(passed, 'test')} of {listed([str(each) for each in paths])}"
        stopped_by = self._interrupts.reason
        explained = errors.broken or errors.failed or any(verdict.fails for verdict in accel_session.ledger.verdicts)
        if exitstatus == pytest.ExitCode.TESTS_FAILED and not explained:
            errors.failed += others.failed
            errors.broken += others.broken
            if not (others.failed or others.broken):
                errors.broken.append("pytest reports a failure that belongs to no test")
        if stopped_by == TIME_LIMIT:
            return accel_session.finish(cut_short=True)
        if exitstatus in JUDGED and not stopped_by:
            never = [item for item in self._items if measures(item) and item not in self._ran]
            self._note_missing(never, "never run")
            return accel_session.finish()
        if exitstatus in JUDGED:  # pytest.exit() with such a status, before every test was run
            exitstatus = pytest.ExitCode.INTERRUPTED
        why = stopped_by or (NOT_FOUND if exitstatus == pytest.ExitCode.USAGE_ERROR else PYTEST_FAILED)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            why = "no test was collected"
        return accel_session.finish(why, ended=int(exitstatus))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the table; where nothing is measured (--collect-only, --setup-plan, --setup-only), the plan."""
        setup, ledger = self.accel_session.setup, self.accel_session.ledger
        full = self._config.option.verbose > 0
        if self._plans:
            lines = plan.lines(setup, self._items)
        else:
            lines = table(ledger.verdicts, ledger.names, findings_of(ledger.record), full=full, width=self._width())
        lines += [(f"note: {note}", "yellow") for note in ledger.record.notes]
        if between := self.accel_session.fabric.fabric:  # which the node of rank 0 alone knows
            lines += fabric.lines(between)
        if lines:
            simulated = "SIMULATED " if setup.node else ""
            title = f"accel: {simulated}{setup.terms.sku.name if setup.terms.sku else 'no SKU'}, {setup.terms.level}"
            terminalreporter.section(title, sep="=", bold=True)
            self._write(terminal.folded(lines, self._width()) if self._is_terminal() else lines)

    def _width(self) -> int:
        """Return the columns of the terminal, or those that pytest assumes where there is none."""
        return int(self._config.get_terminal_writer().fullwidth)

    def _is_terminal(self) -> bool:
        """Return True if a person reads the output. In a file, whatever belongs together stays in one line."""
        reporter = self._reporter()
        return reporter is not None and bool(reporter.isatty)

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_benchmark_group_stats(self) -> Generator[None, Groups, Groups]:
        """Leave our samples out of pytest-benchmark's table, unless one of its options asks for the table.

        The table of this plugin shows them already. pytest-benchmark still saves and compares them, and shows the
        user's own benchmarks, which --benchmark-quiet would hide as well.
        """
        groups = yield
        if self._table_wanted:
            return groups
        kept = [(name, [entry for entry in entries if not is_replay(entry)]) for name, entries in groups]
        return [(name, entries) for name, entries in kept if entries]

    def _write(self, lines: Sequence[terminal.Line], *, bold: bool = False) -> None:
        reporter = self._reporter()
        if reporter is not None:
            writer = self._config.get_terminal_writer()
            if writer.width_of_current_line:  # "[100%]", where pytest writes no summary
                writer.line()
            for text, colour in lines:
                reporter.write_line(printable(text), **({colour: True, "bold": bold} if colour else {}))


def options_from(config: pytest.Config, own_tests: bool) -> Options:
    """Return the options of a run as pytest has read them."""
    filtered = [f"filtered by {shown}" for name, shown in FILTERS.items() if getattr(config.option, name, None)]
    if own_tests:
        filtered.append("tests were named on the command line")
    return options_of(
        config.option,
        command=("pytest", *config.invocation_params.args),
        filtered=tuple(filtered),
        own_tests=own_tests,
        launch=launch_of(os.environ),
    )


def _place(item: pytest.Item) -> int | None:
    """Return the position of an item's module in the packaged suite, None for any other item."""
    module = getattr(getattr(item, "module", None), "__name__", "")
    package, _, name = module.rpartition(".")
    return ORDER.index(name) if package == "pytest_accel.suite" and name in ORDER else None
