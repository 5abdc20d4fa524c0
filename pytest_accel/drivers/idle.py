"""Whether a device is in use, told from its memory and its utilisation: process ids only explain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

IDLE_MEMORY_BYTES = 1 << 30
IDLE_UTILISATION = 5
"""Percent of the time that kernels ran."""
BUSY_READINGS = 3
"""Readings, half a second apart, that have to agree: without persistence mode the first shows the driver's start."""


def in_use(used: int | None, busy: Callable[[], int | None], processes: Sequence[dict[str, Any]] | None) -> str | None:
    """Why the device is not idle, or None. `used` in bytes, `busy` in percent; what cannot be read is no reason."""
    lasting = _lasting(busy)
    names = ", ".join(f"pid {each['pid']}" for each in processes or ()) or "no process that can be seen from here"
    if used is not None and used > IDLE_MEMORY_BYTES:
        return f"{used / 1e9:.1f} GB of its memory is in use ({names})"
    if lasting is not None and lasting > IDLE_UTILISATION:
        return f"it is {lasting} % busy ({names})"
    return None


def _lasting(busy: Callable[[], int | None]) -> int | None:
    """The least of a few readings."""
    least: int | None = None
    for reading in range(BUSY_READINGS):
        time.sleep(0.5 if reading else 0.0)
        now = busy()
        if now is None:
            return least
        least = now if least is None else min(now, least)
        if least <= IDLE_UTILISATION:
            break
    return least
