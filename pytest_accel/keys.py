"""What is kept on pytest's config and items, under typed keys. A module of its own: pytest rewrites fixtures.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_accel.closing import Closing
    from pytest_accel.run import Run
    from pytest_accel.sku import Limit
    from pytest_accel.verdict import Verdict
    from pytest_accel.views.benchmark import Replay

SUBJECT = "_accel_subject"
"""The private fixture that is parametrized with the devices, behind the public ones."""

# of the config
RUN: pytest.StashKey[Run] = pytest.StashKey()
CLOSING: pytest.StashKey[Closing] = pytest.StashKey()
OWN_PATHS: pytest.StashKey[bool] = pytest.StashKey()
STOPPED_BY: pytest.StashKey[str] = pytest.StashKey()
COLLECTED: pytest.StashKey[Sequence[pytest.Item]] = pytest.StashKey()
COUNT: pytest.StashKey[int] = pytest.StashKey()
HANDLERS: pytest.StashKey[dict[int, Any]] = pytest.StashKey()

# of an item
VERDICTS: pytest.StashKey[list[Verdict]] = pytest.StashKey()
LIMITS: pytest.StashKey[list[Limit]] = pytest.StashKey()
REPLAY: pytest.StashKey[Replay] = pytest.StashKey()
PLACE: pytest.StashKey[int] = pytest.StashKey()
