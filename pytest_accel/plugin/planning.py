"""Shows the plan of a run that measures nothing: with --collect-only, --setup-plan and --setup-only."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from pytest_accel.core import exits
from pytest_accel.plugin import screen
from pytest_accel.plugin.collection import Collection
from pytest_accel.plugin.stash import SESSION
from pytest_accel.views import plan


class Planning:
    """A plugin object for a run that measures nothing, in the place of the one that closes a run."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> Generator[None, None, None]:
        """Set the exit status.

        0 is for --collect-only on the command line alone. In a configuration file or PYTEST_ADDOPTS it would make every
        nightly run pass, and --setup-plan and --setup-only look like a run.
        """
        yield
        given = {str(arg) for arg in session.config.invocation_params.args}
        if exitstatus == pytest.ExitCode.TESTS_FAILED:  # a fixture under --setup-only; 1 is kept for REJECTED
            exitstatus = pytest.ExitCode.INTERNAL_ERROR
        elif exitstatus == pytest.ExitCode.OK and not {"--collect-only", "--collectonly", "--co"} & given:
            text = "nothing was measured: --collect-only, --setup-plan and --setup-only do not run the tests"
            screen.write(session.config, [(text, "yellow")])
            exitstatus = exits.NOT_JUDGED
        session.exitstatus = exitstatus

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, config: pytest.Config) -> None:
        """Write the plan."""
        screen.write_section(config, plan.lines(config.stash[SESSION].setup, self._collection.items))
