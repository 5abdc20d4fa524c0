"""How a device says that it is: judged like anything measured."""

from __future__ import annotations

from typing import Any

from pytest_accel.probes.declare import probe


@probe("health.{fact}", runs="facts")
def health(device: Any, *, fact: str) -> None:
    """One fact of the health, such as remap_pending. Answered by the run itself, not by a worker."""
    raise NotImplementedError("facts are answered by the run")
