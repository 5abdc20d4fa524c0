"""Decides by memory and utilisation whether a device is in use; process ids serve only as an explanation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

IDLE_MEMORY_BYTES = 1 << 30
IDLE_UTILISATION = 5
"""Percentage of the time that kernels ran, up to which a device counts as idle."""
BUSY_READINGS = 3
"""The number of readings, half a second apart, that must all be busy: without persistence mode the first one shows the
start of the driver."""


def in_use(used: int | None, busy: Callable[[], int | None], processes: Sequence[dict[str, Any]] | None) -> str | None:
    """Return why the device is not idle, or None if it is.

    `used` is in bytes, `busy` returns percent. A value that cannot be read (None) does not count against the device.
    """
    lasting = _lasting(busy)
    names = ", ".join(f"pid {user['pid']}" for user in processes or ()) or "by a process that is not visible from here"
    if used is not None and used > IDLE_MEMORY_BYTES:
        return f"{used / 1e9:.1f} GB of its memory is in use ({names})"
    if lasting is not None and lasting > IDLE_UTILISATION:
        return f"it is {lasting} % busy ({names})"
    return None


def _lasting(busy: Callable[[], int | None]) -> int | None:
    """Return the lowest of up to BUSY_READINGS readings in percent, None if the first cannot be read."""
    lowest: int | None = None
    for reading in range(BUSY_READINGS):
        time.sleep(0.5 if reading else 0.0)
        percent = busy()
        if percent is None:
            return lowest
        lowest = percent if lowest is None else min(percent, lowest)
        if lowest <= IDLE_UTILISATION:
            break
    return lowest
