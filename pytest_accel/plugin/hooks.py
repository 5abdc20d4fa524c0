"""The plugin of a run with --accel-sku: registered only then, between pytest and the Session."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.judging.closing import NOT_JUDGED, Closing, Errors
from pytest_accel.plugin import reports
from pytest_accel.plugin.stash import LIMITS, REPLAY, RUN, SUBJECT
from pytest_accel.run.options import Options, Refused, plans_only, written
from pytest_accel.run.session import Session
from pytest_accel.suite import ORDER
from pytest_accel.views import plan, terminal
from pytest_accel.views.benchmark import Replay, is_replay
from pytest_accel.views.progress import Progress

LIMITED = ("inventory", "health", "counters")
"""Probes of facts: one item for each that the SKU limits, from the fixture accel_PROBE."""

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
"""Options that ask pytest-benchmark for its table."""
Groups = list[tuple[str | None, list[dict[str, Any]]]]
"""pytest-benchmark's: the name of each group and its benchmarks."""

JUDGED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
"""Exit statuses of pytest that the verdicts replace."""


class Acceptance:
    """One acceptance run as pytest sees it: its methods are the hooks of the run.

    Made in pytest_configure, where options are checked. Processes, locks and the record begin in pytest_sessionstart.
    """

    def __init__(self, config: pytest.Config, own_paths: bool) -> None:
        """Check the options that need no device. Raises pytest.UsageError: one sentence and exit status 4."""
        option = config.option
        if getattr(option, "numprocesses", None) or getattr(option, "tx", None) or hasattr(config, "workerinput"):
            raise pytest.UsageError(
                "--accel-sku measures the node as a whole, in parallel already: leave -n (xdist) out"
            )
        given = [str(arg) for arg in config.invocation_params.args]
        if option.accel_simulate and not any(arg.startswith("--accel-simulate") for arg in given):
            raise pytest.UsageError(
                "--accel-simulate is for the command line alone: take it out of the configuration and PYTEST_ADDOPTS"
            )
        self._config = config
        self._handlers: dict[int, Any] = {}
        self._stopped_by = ""
        self._items: list[pytest.Item] = []
        self._beside = Errors()
        self.run = Session(_options(config), Progress(self._reporter))
        config.stash[RUN] = self.run
        self._plans = plans_only(option)
        words = written(config)
        self._table_wanted = any(word.startswith(TABLE_OPTIONS) for word in words)
        for name, shown in FILTERS.items():
            if getattr(option, name, None):
                self.run.filtered.append(f"filtered by {shown}")
        if own_paths:
            self.run.filtered.append("tests were named on the command line")
        elif not any(re.match(r"-[vqxsl]*r", word) for word in words):
            option.reportchars = ""  # every test is ours, and the table says it, worst first

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionstart(self) -> Generator[None, None, None]:
        """Open the run, before pytest prints the header. Raises pytest.UsageError: one sentence and exit status 4.

        Another plugin that ends the session here cannot choose an exit status that stands for a verdict.
        """
        if not self._plans:
            self._handle_signals()
        try:
            self.run.open(measuring=not self._plans)
        except Refused as refused:
            raise pytest.UsageError(str(refused)) from None
        try:
            return (yield)
        except pytest.exit.Exception as stop:
            if stop.returncode in JUDGED:
                stop.returncode = int(pytest.ExitCode.INTERRUPTED)
            raise
        except pytest.Session.Failed as failed:
            raise pytest.exit.Exception(str(failed), returncode=int(pytest.ExitCode.INTERNAL_ERROR)) from failed

    def _handle_signals(self) -> None:
        """SIGTERM and SIGHUP end the run as Ctrl-C does: with its record. A second signal finds it ending already."""

        def stop(number: int, _frame: object) -> None:
            if not self._stopped_by:
                self._stopped_by = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
                raise KeyboardInterrupt

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means it
                self._handlers[number] = signal.signal(number, stop)

    def _reporter(self) -> pytest.TerminalReporter | None:
        """pytest's own, which it makes later than us."""
        found: pytest.TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return found

    def pytest_unconfigure(self) -> None:
        """Leave nothing behind, whatever happened: no process, no lock, no record of a run that seems to go on."""
        try:
            if (
                self.run.begun and not self.run.finished
            ):  # another plugin's pytest_sessionstart failed, or a signal came
                self.run.finish(self._stopped_by or "an error of pytest itself", ended=2 if self._stopped_by else 3)
        finally:
            self.run.stop()
            for number, handler in self._handlers.items():
                signal.signal(number, handler)
            self._handlers = {}

    def pytest_report_header(self) -> list[str]:
        """One line, and one more if these devices were measured before."""
        run = self.run
        models = sorted({device.product for device in run.devices})
        count = f"{len(run.devices)} x " if run.devices else "no device"
        sku = run.sku.name if run.sku else "no SKU"
        simulated = f"SIMULATED by {run.node.source}: " if run.node else ""
        lines = [
            f"accel: {simulated}{sku}, platform {run.platform.name}, {run.options.level}: {count}{', '.join(models)}"
        ]
        if run.record.earlier_attempts:
            last = run.record.earlier_attempts[-1]
            said = last["line"] or last["state"]
            lines.append(f"accel: measured {len(run.record.earlier_attempts)} times before, last: {said}")
        return lines

    # -- collecting

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run a test once per device, or once for the node if it asks for all devices."""
        names = metafunc.fixturenames
        for probe in LIMITED:
            if f"accel_{probe}" in names:
                facts = self.run.limited_facts(probe)
                metafunc.parametrize(f"accel_{probe}", facts or [None], indirect=True)
        if SUBJECT not in names:
            return
        subjects = {device.uuid: device.name for device in self.run.devices}
        if "accel_devices" in names and "accel_device" not in names:
            subjects = {"node": "node"}
        metafunc.parametrize(SUBJECT, list(subjects), ids=list(subjects.values()), indirect=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makeitem(self) -> Generator[None, object, object]:
        """Make no test for the facts of a SKU that limits none."""
        made = yield
        return [each for each in made if not _limits_nothing(each)] if isinstance(made, list) else made

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Remember the order of collection, and lend pytest-benchmark a timer that reads our samples back."""
        self._items.append(item)
        if _is_ours(item) and item.config.pluginmanager.hasplugin("benchmark"):
            item.stash[REPLAY] = Replay()
            item.add_marker(pytest.mark.benchmark(timer=item.stash[REPLAY]), append=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """The packaged suite keeps its order whatever shuffles tests (--ff, --nf, a hook of the user's).

        Links come before collectives, the soak after them, and last what was counted: it says nothing of what follows.
        """
        # Not in pytest_collection_modifyitems: --ff and --nf reorder in wrappers, after every implementation of it.
        collected = {item: place for place, item in enumerate(self._items)}
        ours = sorted(
            (item for item in session.items if _place(item) is not None),
            key=lambda item: (_place(item), collected[item]),
        )
        ordered = iter(ours)
        session.items[:] = [item if _place(item) is None else next(ordered) for item in session.items]
        self._items = session.items

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        """Tests were taken out: by an option that has been named already, or by something else."""
        if items and not self.run.filtered:
            self.run.filtered.append(f"{len(items)} tests were deselected")

    # -- running

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if _is_ours(item):
            reports.amend(self.run, item, call, report)
        elif report.outcome == "failed":
            reports.remember(self._beside, item, call)
        if call.when == "call" and (wrong := self.run.wrong_sku()):
            item.session.shouldfail = wrong
        return report

    def pytest_report_teststatus(self, report: object) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """A test that passed by a waiver is counted and shown as such."""
        names = [name for name, _ in getattr(report, "user_properties", ())]
        if getattr(report, "when", "") == "call" and report.passed and "accel.waived" in names:  # type: ignore[attr-defined]
            return "waived", "w", ("WAIVED", {"yellow": True})
        return None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported measures nothing."""
        if report.failed:
            self._beside.broken.append(f"{report.nodeid} could not be collected")

    @pytest.hookimpl(tryfirst=True)
    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """A signal has said so already; errors while collecting come as an interrupt too, with a text."""
        self._stopped_by = self._stopped_by or str(excinfo.value) or "Ctrl-C"

    # -- closing

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
        """Judge the run before any summary is written, and say so after all of them."""
        if self._plans:
            yield
            session.exitstatus = self._planned(exitstatus)
            return
        closing = self._close(exitstatus)
        session.exitstatus = closing.exit
        try:
            yield
        except Exception as error:  # noqa: BLE001  another plugin may raise anything, pytest.exit() included
            closing = self.run.broken_after(f"a plugin at the end of the session ({type(error).__name__}: {error})")
        session.exitstatus = closing.exit  # whatever another plugin made of it
        self._write(self._closing_lines(closing), bold=True)

    def _planned(self, exitstatus: int) -> int:
        """Return the exit status of a run that measured nothing.

        0 is for --collect-only on the command line alone. In a configuration file or PYTEST_ADDOPTS it would make every
        nightly run pass, and --setup-plan and --setup-only look like a run.
        """
        if exitstatus == pytest.ExitCode.TESTS_FAILED:  # a fixture under --setup-only; 1 is kept for REJECTED
            return pytest.ExitCode.INTERNAL_ERROR
        asked = {"--collect-only", "--collectonly", "--co"} & {str(arg) for arg in self._config.invocation_params.args}
        if asked or exitstatus != pytest.ExitCode.OK:
            return exitstatus
        self._write([("nothing was measured: --collect-only, --setup-plan and --setup-only call no test", "yellow")])
        return NOT_JUDGED

    def _close(self, exitstatus: int) -> Closing:
        """Close the run. A failure that no verdict explains is that of a test beside ours, or of the collection."""
        run, beside = self.run, self._beside
        said = run.errors.broken or run.errors.failed or any(each.fails for each in run.verdicts)
        if exitstatus == pytest.ExitCode.TESTS_FAILED and not said:
            run.errors.failed += beside.failed
            run.errors.broken += beside.broken
            if not (beside.failed or beside.broken):
                run.errors.broken.append("something failed that measures nothing")
        if exitstatus in JUDGED:
            return run.finish()
        why = self._stopped_by or "an error of pytest itself"
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            why = "no test was collected"
        return run.finish(why, ended=int(exitstatus))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """The table; where nothing is measured (--collect-only, --setup-plan, --setup-only), the plan."""
        run = self.run
        full = self._config.option.verbose > 0
        lines = plan.lines(run, self._items) if self._plans else terminal.table(run.verdicts, run.names, full=full)
        lines += [(f"note: {note}", "yellow") for note in run.record.notes]
        if lines:
            title = (
                f"accel: {'SIMULATED ' * bool(run.node)}{run.sku.name if run.sku else 'no SKU'}, {run.options.level}"
            )
            terminalreporter.section(title, sep="=", bold=True)
            self._write(lines)

    @pytest.hookimpl(wrapper=True, optionalhook=True)
    def pytest_benchmark_group_stats(self) -> Generator[None, Groups, Groups]:
        """Keep our samples out of pytest-benchmark's table unless one of its options asks for it: ours has said it.

        They stay in what it saves and compares, and the user's own benchmarks stay in the table. Its --benchmark-quiet
        would silence those too.
        """
        groups = yield
        if self._table_wanted:
            return groups
        kept = [(name, [each for each in found if not is_replay(each)]) for name, found in groups]
        return [(name, found) for name, found in kept if found]

    def _closing_lines(self, closing: Closing) -> list[terminal.Line]:
        """The closing line, the command that runs the worst test again, and where the record is."""
        run = self.run
        lines = terminal.closing_lines(closing, run.verdicts)
        worst = terminal.first_to_repeat(run.verdicts)
        test = run.tests.get(worst.key) if worst else None
        if test:
            lines.append((f"again: {shlex.join([*_without_filters(run.options.command), '-k', test])}", ""))
        if "seconds" in run.record.run:
            lines.append(terminal.time_line(run.record.run["seconds"]))
        if run.folder.path:
            lines.append((f"record: {run.folder.path / 'record.json'}", ""))
        return lines

    def _write(self, lines: Sequence[terminal.Line], *, bold: bool = False) -> None:
        reporter = self._reporter()
        if reporter is not None:
            for text, colour in lines:
                reporter.write_line(text, **({colour: True, "bold": bold} if colour else {}))


def _options(config: pytest.Config) -> Options:
    option = config.option
    return Options(
        sku=option.accel_sku or "",
        platform=option.accel_platform,
        level=option.accel_level,
        devices=tuple(filter(None, (part.strip() for part in option.accel_devices.split(",")))),
        output=Path(option.accel_output) if option.accel_output else None,
        waivers=Path(option.accel_waivers) if option.accel_waivers else None,
        patience=option.accel_patience,
        simulate=option.accel_simulate,
        command=("pytest", *config.invocation_params.args),
    )


def _is_ours(item: pytest.Item) -> bool:
    """True for a test that measures: it asks for a device, or carries a marker of ours."""
    return SUBJECT in getattr(item, "fixturenames", ()) or bool(item.stash.get(LIMITS, []))


def _place(item: pytest.Item) -> int | None:
    """The place of an item's module in the packaged suite, None for any other item."""
    module = getattr(getattr(item, "module", None), "__name__", "")
    package, _, name = module.rpartition(".")
    return ORDER.index(name) if package == "pytest_accel.suite" and name in ORDER else None


def _limits_nothing(made: object) -> bool:
    """True for a test over the limited facts of a SKU that limits none: there is nothing to run."""
    parameters = made.callspec.params if hasattr(made, "callspec") else {}
    return any(parameters.get(f"accel_{probe}", "") is None for probe in LIMITED)


def _without_filters(command: Sequence[str]) -> list[str]:
    """The command line without an output that is taken and without the -k that another one replaces."""
    kept: list[str] = []
    skip = False
    for word in command:
        if not skip and word not in ("-k", "--accel-output") and not word.startswith(("--accel-output=", "-k")):
            kept.append(word)
        skip = word in ("-k", "--accel-output")
    return kept
