"""The hooks that a conftest.py or another plugin can implement, to send results to a system of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_accel.core.run import Run
    from pytest_accel.core.verdict import Closing, Verdict


@pytest.hookspec
def pytest_accel_verdict(verdict: Verdict, item: pytest.Item) -> None:
    """Take a copy of a verdict of a test as soon as it is given; a repeat may still replace it.

    An exception fails the test as an error of its own: the run is BROKEN, unless a device is rejected.
    """


@pytest.hookspec
def pytest_accel_closing(record: Run, closing: Closing) -> None:
    """Take copies of the record and the result of a run, after it was written: `closing.line`, `.result` and `.exit`.

    An exception is told in the closing line: the run is BROKEN, unless a device is rejected.
    """
