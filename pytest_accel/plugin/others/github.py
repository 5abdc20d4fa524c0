"""A plugin for GitHub Actions: the closing line of a run that does not hold becomes an annotation."""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

from pytest_accel.core import exits
from pytest_accel.core.verdict import Result
from pytest_accel.plugin import pytest_terminal
from pytest_accel.plugin.stash import SESSION


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """Write the annotation below the last line. This wrapper is around the one that closes the run."""
    yield
    closing = session.config.stash[SESSION].ledger.record.closing
    if os.environ.get("GITHUB_ACTIONS") == "true" and closing.exit:
        kind, line = ("error", "warning")[closing.exit == exits.NOT_JUDGED], closing.line.replace("%", "%25")
        pytest_terminal.write(session.config, [(f"::{kind} title={Result.words(closing.result)}::{line}", "")])
