"""The time of a run: seconds since the epoch that do not jump when somebody sets the clock, in all of its processes.

A node that was just handed over has its clock set while it is measured (NTP, a virtual machine that goes on): what was
counted in a minute would have been counted in an hour. So the wall clock is read once, and CLOCK_MONOTONIC, which all
processes of a machine share, goes on from there.
"""

from __future__ import annotations

import time

_epoch = time.time() - time.monotonic()


def epoch() -> float:
    """What the wall clock showed when the monotonic one was at zero, as this run takes it."""
    return _epoch


def adopt(other: float) -> None:
    """Take the epoch of the process that began the run."""
    global _epoch  # noqa: PLW0603  one clock a process
    _epoch = other


def now() -> float:
    return _epoch + time.monotonic()
