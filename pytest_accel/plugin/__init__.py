"""The part of the plugin that every pytest run loads: options, markers and fixtures.

Everything else is imported only with --accel-sku or --accel-simulate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_accel.plugin.markers import MARKERS, BadMarker, limits_from_marks, registration
from pytest_accel.plugin.stash import LIMITS, OWN_PATHS
from pytest_accel.run.options import add_options, is_acceptance_run, shows_only

if TYPE_CHECKING:
    from pytest_accel.core.sku import Limit

pytest_plugins = ("pytest_accel.plugin.fixtures",)

SUITE = "pytest_accel.suite"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the group `accel`."""
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """Collect the packaged suite if a SKU and no path is given."""
    known = early_config.known_args_namespace
    if is_acceptance_run(known) and not known.file_or_dir:
        args += ["--pyargs", SUITE]
    early_config.stash[OWN_PATHS] = bool(known.file_or_dir)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the markers and, for an acceptance run, the plugin that conducts it. Raises pytest.UsageError."""
    for name in MARKERS:
        config.addinivalue_line("markers", registration(name))
    if is_acceptance_run(config.option) and not shows_only(config.option):
        from pytest_accel.plugin.hooks import Acceptance

        if config.pluginmanager.is_blocked("accel-acceptance"):
            raise pytest.UsageError("-p no:accel-acceptance cannot be combined with --accel-sku or --accel-simulate")
        config.pluginmanager.register(Acceptance(config, config.stash.get(OWN_PATHS, True)), "accel-acceptance")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Check the markers of a test, also in a run that measures nothing: a wrong one is a collection error."""
    _limits(metafunc.definition)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep the limits of a test's markers; skip the test if this is not an acceptance run."""
    item.stash[LIMITS] = _limits(item)
    if item.stash[LIMITS] and not is_acceptance_run(item.config.option):
        item.add_marker(pytest.mark.skip(reason="needs --accel-sku=NAME"))


def _limits(item: pytest.Item) -> list[Limit]:
    """Return the limits of a test's markers. Raises pytest.fail.Exception, without a traceback, for a wrong marker."""
    try:
        return limits_from_marks(item.iter_markers(), item.nodeid)
    except BadMarker as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
