"""The part of the plugin that every pytest run loads: options, markers and fixtures.

Everything else is imported only with --accel-sku or --accel-simulate.
"""

from __future__ import annotations

import inspect
import sys
import traceback
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_accel.core import exits, output
from pytest_accel.plugin.markers import MARKERS, BadMarker, limits_from_marks, registration
from pytest_accel.plugin.stash import LIMITS, OWN_PATHS, SESSION, SUBJECT, measures
from pytest_accel.plugin.unasked_benchmark import UnaskedBenchmark
from pytest_accel.run import options

if TYPE_CHECKING:
    from pytest_accel.core.sku_types import Limit

pytest_plugins = ("pytest_accel.plugin.fixtures", "pytest_accel.plugin.series_main")

SUITE = "pytest_accel.suite"
ASKING = ("--accel-sku", "--accel-simulate")
"""Options that ask for an acceptance run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the group `accel`."""
    options.add_options(parser)


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    """Declare the hooks of this plugin."""
    from pytest_accel.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> Generator[None]:
    """Take options from the ini file, and collect the packaged suite if a SKU and no path is given.

    An error of another plugin ends pytest with 3 instead of 1, and so does an output that cannot be written to. This is
    the outermost wrapper: the capture of pytest, another one, keeps the streams that it finds.
    """
    options_read = early_config.known_args_namespace
    if any(word.partition("=")[0] == "--sku" for word in args) and not hasattr(options_read, "sku"):
        raise pytest.UsageError("--sku is an option of pytest-accel; in pytest it is --accel-sku")
    early_config.stash[OWN_PATHS] = bool(options_read.file_or_dir)
    args[:0] = options.ini_words(early_config, args)
    options_read.accel_sku = options_read.accel_sku or early_config.getini("accel_sku") or None
    if not options.is_acceptance_run(options_read):
        return (yield)
    output.protect()
    if options_read.file_or_dir:
        args[:] = map(_packaged, args)
    else:
        options_read.file_or_dir += [str(path.absolute()) for path in options_read.accel_with]
        args += ["--pyargs", SUITE, *options_read.file_or_dir]
    try:
        return (yield)
    except BaseException as error:
        if _has_status(error):
            raise
        traceback.print_exc()
        raise SystemExit(int(pytest.ExitCode.INTERNAL_ERROR)) from None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, int | None, int | None]:
    """Return the exit status of the closing line, whatever happens after it. Status 1 comes from nothing else."""
    words = [str(word) for word in config.invocation_params.args]  # --help ends the parsing, before our options
    if not options.is_acceptance_run(config.option) and not any(word.startswith(ASKING) for word in words):
        return (yield)
    status: int | None
    try:
        status = yield
    except BaseException as error:
        after_closing = isinstance(error, KeyboardInterrupt) and _of_closing(config) is not None  # Ctrl-C once more
        if _has_status(error) and not after_closing:
            raise
        if not after_closing:
            traceback.print_exc()
        status = int(pytest.ExitCode.INTERNAL_ERROR)
    unasked = options.shows_only(config.option) and not options.shows_by_command(config.invocation_params.args)
    if status == pytest.ExitCode.OK and unasked:  # every run would be green
        reason = "the ini file or PYTEST_ADDOPTS makes pytest only print something about itself"
        sys.stderr.write(f"nothing was measured: {reason}\n")
        return exits.NOT_JUDGED
    return status if options.is_series(config.option) else exit_status(status, _of_closing(config))


def _packaged(word: str) -> str:
    """Return the path of a packaged test that is named as --collect-only shows it, "test_stream.py::test_triad"."""
    from pytest_accel import suite

    name, colons, test = word.partition("::")
    if colons and name.removesuffix(".py") in suite.ORDER and not Path(name).exists():
        return f"{Path(suite.__file__).with_name(name)}::{test}"
    return word


def _of_closing(config: pytest.Config) -> int | None:
    """Return the exit status of the closing line; None where the run was not closed.

    That of rank 0 of a network run is the one of the network, unless its own node is worse.
    """
    session = config.stash.get(SESSION, None)
    status = session.ledger.record.closing.exit if session else -1
    if session and session.network.result and status in (exits.HOLDS, exits.NOT_JUDGED):
        statuses = status, session.network.result.conclusion.closing.exit
        status = exits.REJECTED if exits.REJECTED in statuses else max(statuses)
    return status if status >= 0 else None


def _has_status(error: BaseException) -> bool:
    """Return True for an error that ends the process with a status of its own: pytest's errors of use, and Ctrl-C."""
    of_use = isinstance(error, (pytest.UsageError, KeyboardInterrupt))
    return of_use or type(error).__module__.startswith("_pytest.config")


def exit_status(of_pytest: int | None, of_closing: int | None) -> int | None:
    """Return the exit status of an acceptance run: that of its closing line if there is one.

    Without a closing line nothing was judged, so a 1 of pytest or of another plugin is an internal error.
    """
    if of_closing is not None:
        return of_closing
    return int(pytest.ExitCode.INTERNAL_ERROR) if of_pytest == pytest.ExitCode.TESTS_FAILED else of_pytest


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and, for an acceptance run, the plugin that conducts it. Raises pytest.UsageError."""
    names = [f"accel_{name}" for name in (*options.INI, "required")]
    # A misspelt option makes no acceptance run, and pytest would only warn. Its public interface tells no such option.
    for key in (key for key in getattr(config, "_get_unknown_ini_keys", tuple)() if key.startswith("accel_")):
        from pytest_accel.core.words import did_you_mean

        raise pytest.UsageError(f"{config.inipath or 'pytest'}: there is no option {key}{did_you_mean(key, names)}")
    for name in MARKERS:
        config.addinivalue_line("markers", registration(name))
    if not any(word.startswith("--benchmark") for word in options.option_words(config)):
        config.pluginmanager.register(UnaskedBenchmark(), "accel-unasked-benchmark")
    if options.is_acceptance_run(config.option) and not options.shows_only(config.option):
        from pytest_accel.plugin import compact
        from pytest_accel.plugin.hooks import Acceptance

        if config.pluginmanager.is_blocked("accel-acceptance"):
            raise pytest.UsageError("-p no:accel-acceptance cannot be combined with --accel-sku or --accel-simulate")
        own_paths = config.stash.get(OWN_PATHS, True)
        config.pluginmanager.register(Acceptance(config, own_paths), "accel-acceptance")
        if compact.is_compact(config, own_paths=own_paths):
            config.pluginmanager.register(compact.Compact(), "accel-compact")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Check the markers of a test, also in a run that measures nothing: a wrong one is a collection error."""
    _limits(metafunc.definition)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the limits of a test's markers; skip the test if this is not an acceptance run.

    Raises pytest.UsageError for a wrong one of a test that pytest does not generate, such as that of a TestCase.
    """
    try:
        item.stash[LIMITS] = _limits(item)
    except pytest.fail.Exception as error:
        raise pytest.UsageError(str(error)) from None
    if item.stash[LIMITS] and not options.is_acceptance_run(item.config.option):
        item.add_marker(pytest.mark.skip(reason="needs --accel-sku=NAME"))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Raise pytest.UsageError if the ini option accel_required is set and tests would be skipped for want of a SKU."""
    config, option = session.config, session.config.option
    if not config.getini("accel_required") or options.is_acceptance_run(option) or options.plans_only(option):
        return
    if measuring := [item for item in session.items if measures(item)]:
        tests = f"{len(measuring)} test{'s' * (len(measuring) > 1)}"
        raise pytest.UsageError(
            f"accel_required is set, and without --accel-sku=NAME {tests} would measure nothing, "
            f"such as {measuring[0].nodeid}"
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say that options of this plugin have no effect without --accel-sku."""
    words = (str(word).partition("=")[0] for word in config.invocation_params.args)
    option = next((word for word in words if word.startswith("--accel-")), "")
    if option and not options.is_acceptance_run(config.option):
        terminalreporter.write_line(f"{option} has no effect without --accel-sku=NAME", yellow=True)


def _limits(item: pytest.Item) -> list[Limit]:
    """Return the limits of a test's markers.

    Raises pytest.fail.Exception, without a traceback, for a wrong marker and for a test that can take no fixture.
    """
    try:
        limits = limits_from_marks(item.iter_markers(), item.nodeid)
    except BadMarker as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    if limits or SUBJECT in getattr(item, "fixturenames", ()):
        function = getattr(item, "obj", None)
        kind = "a method of unittest.TestCase" if type(item).__name__ == "TestCaseFunction" else ""
        kind = "an async function" if inspect.iscoroutinefunction(function) else kind
        if kind:
            reason = f"{item.nodeid} is {kind}, which cannot measure; write a plain function: def test(accel_check)"
            raise pytest.fail.Exception(reason, pytrace=False)
    return limits
