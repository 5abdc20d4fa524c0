"""Typed keys for the values that the plugin keeps on pytest's config and items.

A separate module, since pytest warns if fixtures.py is imported before it is registered as a plugin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_accel.core.sku_types import Limit
    from pytest_accel.core.verdict import Verdict
    from pytest_accel.run.session import Session
    from pytest_accel.views.benchmark_replay import Replay

SUBJECT = "_accel_subject"
"""Name of the private fixture that is parametrized with the devices; the public fixtures depend on it."""

# Keys of the config.
SESSION: pytest.StashKey[Session] = pytest.StashKey()
"""The session of an acceptance run."""
OWN_PATHS: pytest.StashKey[bool] = pytest.StashKey()
"""True if tests were named on the command line, so that the packaged suite is not collected."""

# Keys of an item.
VERDICTS: pytest.StashKey[list[Verdict]] = pytest.StashKey()
"""Every verdict that `accel_check` returned to this test."""
LIMITS: pytest.StashKey[list[Limit]] = pytest.StashKey()
"""The limits that the test's markers declare."""
REPLAY: pytest.StashKey[Replay] = pytest.StashKey()
"""The timer that hands the samples of this test to pytest-benchmark."""


def measures(item: pytest.Item) -> bool:
    """Return True for a test of a device: it uses a fixture of this plugin, or has one of its markers."""
    return SUBJECT in getattr(item, "fixturenames", ()) or bool(item.stash.get(LIMITS, []))


def has_to_measure(item: pytest.Item) -> bool:
    """Return True for a test that cannot fail unless it measures: it has a marker, or takes accel_check."""
    return bool(item.stash.get(LIMITS, [])) or "accel_check" in getattr(item, "fixturenames", ())
