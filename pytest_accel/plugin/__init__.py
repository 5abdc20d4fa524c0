"""What every pytest run loads: options and markers. The rest is imported with --accel-sku or --accel-simulate alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_accel.plugin.markers import MARKERS, BadMarker, limits_of, registration
from pytest_accel.plugin.stash import LIMITS, OWN_PATHS
from pytest_accel.run.options import add_options, asked, shows_only

if TYPE_CHECKING:
    from pytest_accel.core.sku import Limit

pytest_plugins = ("pytest_accel.plugin.fixtures",)

SUITE = "pytest_accel.suite"


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config, args: list[str]) -> None:
    """With a SKU and no paths, collect the packaged suite."""
    known = early_config.known_args_namespace
    if asked(known) and not known.file_or_dir:
        args += ["--pyargs", SUITE]
    early_config.stash[OWN_PATHS] = bool(known.file_or_dir)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    for name in MARKERS:
        config.addinivalue_line("markers", registration(name))
    if asked(config.option) and not shows_only(config.option):
        from pytest_accel.plugin.hooks import Acceptance

        if config.pluginmanager.is_blocked("accel-acceptance"):
            raise pytest.UsageError("-p no:accel-acceptance and --accel-sku exclude each other")
        config.pluginmanager.register(Acceptance(config, config.stash.get(OWN_PATHS, True)), "accel-acceptance")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A wrong marker is an error of the collection, also in a run that measures nothing."""
    _limits(metafunc.definition)


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    item.stash[LIMITS] = _limits(item)
    if item.stash[LIMITS] and not asked(item.config.option):
        item.add_marker(pytest.mark.skip(reason="needs --accel-sku=NAME"))


def _limits(item: pytest.Item) -> list[Limit]:
    """The limits of a test's markers; a wrong marker fails the collection with its sentence alone."""
    try:
        return limits_of(item.iter_markers(), item.nodeid)
    except BadMarker as bad:
        raise pytest.fail.Exception(str(bad), pytrace=False) from None
