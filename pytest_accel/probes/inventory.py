"""Facts that the management library knows: judged like anything measured."""

from __future__ import annotations

from typing import Any

from pytest_accel.probes.declare import probe


@probe("inventory.{fact}", runs="facts")
def inventory(device: Any, *, fact: str = "driver") -> None:
    """One fact of the inventory: driver, count, sku, vbios ... Answered by the run itself, not by a worker."""
    raise NotImplementedError("facts are answered by the run")
