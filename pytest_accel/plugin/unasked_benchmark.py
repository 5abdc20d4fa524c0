"""Keeps pytest-benchmark out of sight in a run that does not use it.

This package brings it into environments whose other tests never asked for it. There it would write a long line into the
header of every run, and leave an empty folder in the current one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.plugin.stash import measures


class UnaskedBenchmark:
    """A plugin object for a run without any option of pytest-benchmark. It is made before that one is configured."""

    def __init__(self) -> None:
        self._folder = Path(".benchmarks").absolute()
        self._was_there = os.access(self._folder, os.F_OK)
        self._header: list[Any] = []

    def pytest_plugin_registered(self, plugin_name: str) -> None:
        """Remove the folder once the session of pytest-benchmark has made it: whatever it saves makes it again."""
        if plugin_name == "pytest-benchmark" and not self._was_there:
            with contextlib.suppress(OSError):
                self._folder.rmdir()

    @pytest.hookimpl(wrapper=True)
    def pytest_report_header(self) -> Generator[None, list[Any], list[Any]]:
        """Keep the line of pytest-benchmark until it is known whether a test uses it."""
        lines = yield
        self._header = [line for line in lines if str(line).startswith("benchmark: ")]
        return [line for line in lines if line not in self._header]

    def pytest_report_collectionfinish(self, items: Sequence[pytest.Item]) -> list[Any]:
        """Show the line if a test uses it."""
        marked = (item.get_closest_marker("benchmark") and not measures(item) for item in items)  # ours hand it samples
        users = ("benchmark" in getattr(item, "fixturenames", ()) for item in items)
        return self._header if any(marked) or any(users) else []
