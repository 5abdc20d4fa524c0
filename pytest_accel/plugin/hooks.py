"""The pytest plugin that conducts an acceptance run. It is registered only with --accel-sku or --accel-simulate."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from functools import partial

import pytest

from pytest_accel.core import paths
from pytest_accel.core.exits import WrongUse
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Objection
from pytest_accel.core.words import counted
from pytest_accel.plugin import interrupts, page_file, pytest_terminal
from pytest_accel.plugin.closing import JUDGED, PYTEST_FAILED, ClosingPlugin, Planning
from pytest_accel.plugin.collection import Collection
from pytest_accel.plugin.others import benchmark, github, html
from pytest_accel.plugin.others.junit import JUnit
from pytest_accel.plugin.reports import Reports
from pytest_accel.plugin.stash import SESSION
from pytest_accel.run import signature
from pytest_accel.run.deadline import Deadline
from pytest_accel.run.launcher import launch_of
from pytest_accel.run.options import Options, Refused, option_words, options_of, plans_only, too_few_files
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.session import Session
from pytest_accel.views.terminal_progress import TerminalProgress

FILTERS = {
    "keyword": "-k",
    "markexpr": "-m",
    "lf": "--lf",
    "stepwise": "--sw",
    "deselect": "--deselect",
    "ignore": "--ignore",
    "ignore_glob": "--ignore-glob",
}


class Acceptance:
    """A plugin object that opens and ends one acceptance run, and registers those of collecting and running.

    It is made in pytest_configure, which checks the options. Processes, locks and the record begin in
    pytest_sessionstart.
    """

    def __init__(self, config: pytest.Config, own_paths: bool) -> None:
        """Check the options that need no device. Raises pytest.UsageError (exit status 4)."""
        option = config.option
        if refusal := _refusal(config, own_paths):
            raise pytest.UsageError(refusal)
        self._config, self._options = config, options_from(config, own_paths)
        self._deadline = Deadline(self._options.time_limit)
        self._interrupts = interrupts.Interrupts(self._deadline)
        config.pluginmanager.register(self._interrupts)
        self._plans = plans_only(option)
        self._closing: ClosingPlugin | None = None
        if not own_paths and not any(re.match(r"-[vqxsl]*r", word) for word in option_words(config)):
            option.reportchars = ""  # only the packaged suite runs, and the table shows its results, worst first

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionstart(self) -> Generator[None, None, None]:
        """Open the run before pytest prints the header. Raises pytest.UsageError (exit status 4).

        Another plugin that ends the session here cannot choose an exit status that stands for a verdict.
        """
        if not self._plans:
            self._interrupts.begin()
        try:
            self._open()
        except Refused as refusal:
            raise pytest.UsageError(str(refusal)) from None
        except OSError as error:
            if not error.filename:
                raise
            raise pytest.UsageError(printable(paths.refusal(error))) from None
        try:
            return (yield)
        except pytest.exit.Exception as stop:
            if stop.returncode in JUDGED:
                stop.returncode = int(pytest.ExitCode.INTERRUPTED)
            raise
        except pytest.Session.Failed as failure:
            raise pytest.exit.Exception(str(failure), returncode=int(pytest.ExitCode.INTERNAL_ERROR)) from failure

    def _open(self) -> None:
        """Open the session, and register the plugins of its collection, tests and end."""
        config, progress = self._config, TerminalProgress(partial(pytest_terminal.reporter, self._config))
        pool = WorkerPool(SensorClient(self._options.patience, self._deadline), progress)
        session = config.stash[SESSION] = Session.open(self._options, pool, plan_only=self._plans)
        collection, reports = Collection(session, progress), Reports(session)
        self._closing = ClosingPlugin(config, collection, reports, self._interrupts)
        closing = [Planning(collection)] if self._plans else [JUnit(config), self._closing, github]
        # Of two wrappers, the later one is around the other. Objects without a name cannot be left out by -p no:NAME.
        for plugin in (collection, reports, benchmark, html, *closing):
            config.pluginmanager.register(plugin)
        if not self._plans:
            session.begin()

    @pytest.hookimpl(tryfirst=True)
    def pytest_unconfigure(self) -> None:
        """End processes and locks, and finish a record that is still open, however the session ended."""
        session, stopped_by = self._config.stash.get(SESSION, None), self._interrupts.reason
        self._interrupts.no_timer()
        try:
            # The record is still open if another plugin's pytest_sessionstart failed, or after a signal.
            if self._closing and session and session.ledger.begun and not session.finished:
                self._closing.finish(stopped_by or PYTEST_FAILED, exit_status=2 if stopped_by else 3)
        finally:
            if session:
                session.stop()
            self._interrupts.restore()

    def pytest_report_header(self) -> list[str]:
        """Return a line with the devices and their SKU, and one more if these devices were measured before."""
        session = self._config.stash[SESSION]
        node, terms, devices = session.inputs.simulated_node, session.target.terms, session.target.devices
        models = sorted({device.product for device in devices})
        listing = f"{len(devices)} x {', '.join(models)}" if models else "no device"
        sku = terms.sku.name if terms.sku else "no SKU"
        simulated = f"SIMULATED by {node.source}: " if node else ""
        lines = [f"accel: {simulated}{sku}, platform {terms.platform.name}, level {terms.level}: {listing}"]
        if earlier := session.ledger.record.earlier_attempts:
            end = (earlier[-1]["line"] or earlier[-1]["state"] or "").partition(" (")[0].partition(": ")[0]
            lines.append(f"accel: {counted(len(earlier), 'earlier record')} of these devices; the last one: {end}")
        return [printable(line) for line in lines]


def options_from(config: pytest.Config, own_tests: bool) -> Options:
    """Return the options of a run from those that pytest has read."""
    filters = (option for name, option in FILTERS.items() if getattr(config.option, name, None))
    objections = [Objection("filter", f"filtered by {option}") for option in filters]
    if own_tests:
        objections.append(Objection("tests", "tests were named on the command line"))
    return options_of(
        config.option,
        command=("pytest", *config.invocation_params.args),
        objections=tuple(objections),
        launch=launch_of(os.environ),
    )


def _refusal(config: pytest.Config, own_paths: bool) -> str | None:
    """Return the reason why a run with these options cannot begin, or None. It needs no device."""
    option, launch = config.option, launch_of(os.environ)
    if reason := too_few_files() or (launch and launch.refusal) or interrupts.ends_pytest(config):
        return reason
    if getattr(option, "numprocesses", None) or getattr(option, "tx", None) or hasattr(config, "workerinput"):
        return "--accel-sku measures all devices of the node from one pytest process; remove -n (pytest-xdist)"
    if own_paths and option.accel_with:
        return "--accel-with adds tests to the packaged suite; name tests alone without it"
    tests = option.file_or_dir if own_paths and not option.pyargs else option.accel_with
    for path in (str(name).partition("::")[0] for name in tests):
        if not (config.invocation_params.dir / path).exists():
            return f"file or directory not found: {path}"
    if option.accel_report and (reason := page_file.refusal(option.accel_report)):
        return f"--accel-report: {reason}"
    try:
        if option.accel_sign:
            signature.demand_key(option.accel_sign)
    except WrongUse as error:
        return f"--accel-sign: {error}"
    arguments = [str(arg) for arg in config.invocation_params.args]
    if option.accel_simulate and not any(arg.startswith("--accel-simulate") for arg in arguments):
        hint = "remove it from the configuration file and from PYTEST_ADDOPTS"
        return f"--accel-simulate must be given on the command line; {hint}"
    return None
