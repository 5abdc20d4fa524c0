"""What is kept on pytest's config and items, under typed keys. A module of its own: pytest rewrites fixtures.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_accel.core.sku import Limit
    from pytest_accel.core.verdict import Verdict
    from pytest_accel.run.session import Session
    from pytest_accel.views.benchmark import Replay

SUBJECT = "_accel_subject"
"""The private fixture that is parametrized with the devices, behind the public ones."""

# of the config
RUN: pytest.StashKey[Session] = pytest.StashKey()
OWN_PATHS: pytest.StashKey[bool] = pytest.StashKey()
"""True if tests were named on the command line."""

# of an item
VERDICTS: pytest.StashKey[list[Verdict]] = pytest.StashKey()
LIMITS: pytest.StashKey[list[Limit]] = pytest.StashKey()
REPLAY: pytest.StashKey[Replay] = pytest.StashKey()
