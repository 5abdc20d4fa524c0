"""What tests of runs in this process share."""

from __future__ import annotations

from collections.abc import Iterator

import in_process
import pytest


@pytest.fixture
def fast() -> Iterator[None]:
    """Simulated time runs as fast as it can."""
    pytest.importorskip("torch")
    with in_process.fast():
        yield
