"""The pytest hooks. Loaded by every pytest run: without --accel-sku it costs nothing and says nothing."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from pytest_accel import acceptance
from pytest_accel.keys import COLLECTED, LIMITS, OWN_PATHS, REPLAY, RUN, SUBJECT
from pytest_accel.marks import MARKERS, BadMarker, limits_of, registration

pytest_plugins = ("pytest_accel.fixtures",)

SUITE = "pytest_accel.suite"


def pytest_addoption(parser: pytest.Parser) -> None:
    acceptance.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """With a SKU and no paths, collect the packaged suite."""
    known = early_config.known_args_namespace
    if known.accel_sku and not known.file_or_dir:
        args += ["--pyargs", SUITE]
    elif known.accel_sku:
        early_config.stash[OWN_PATHS] = True


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for name in MARKERS:
        config.addinivalue_line("markers", registration(name))
    if config.option.accel_sku and not config.option.help and not config.option.version:
        acceptance.begin(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if RUN in config.stash:
        acceptance.end(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    return acceptance.header(config.stash[RUN]) if RUN in config.stash else []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once per device, or once for the node if it asks for all devices."""
    _limits(metafunc.definition)
    run = metafunc.config.stash.get(RUN, None)
    if run is not None and SUBJECT in metafunc.fixturenames:
        subjects = acceptance.subjects(run, metafunc.fixturenames)
        metafunc.parametrize(SUBJECT, list(subjects), ids=list(subjects.values()), indirect=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    item.stash[LIMITS] = _limits(item)
    acceptance.number(item)
    if RUN not in item.config.stash:
        if item.stash[LIMITS]:
            item.add_marker(pytest.mark.skip(reason="needs --accel-sku=NAME"))
    elif acceptance.is_ours(item) and item.config.pluginmanager.hasplugin("benchmark"):
        from pytest_accel.views.benchmark import Replay

        item.stash[REPLAY] = Replay()
        item.add_marker(pytest.mark.benchmark(timer=item.stash[REPLAY]), append=False)


def _limits(item: Any) -> Any:
    """The limits of a test's markers; a wrong marker fails the collection with its sentence alone."""
    try:
        return limits_of(item.iter_markers(), item.nodeid)
    except BadMarker as bad:
        raise pytest.fail.Exception(str(bad), pytrace=False) from None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if RUN in config.stash:
        acceptance.keep_order(items, SUITE)
        config.stash[COLLECTED] = items


def pytest_deselected(items: list[pytest.Item]) -> None:
    if items and RUN in items[0].config.stash:
        acceptance.deselected(items[0].config.stash[RUN], len(items))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if RUN in item.config.stash and acceptance.is_ours(item):
        acceptance.amend(item.config.stash[RUN], item, call, report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
    """Judge the run before any summary is written, and say so after all of them."""
    if RUN not in session.config.stash or session.config.option.collectonly:
        return (yield)
    acceptance.finish(session, exitstatus)
    yield
    acceptance.write_closing(session.config)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if RUN in config.stash and COLLECTED in config.stash:
        acceptance.write_summary(terminalreporter, config)
