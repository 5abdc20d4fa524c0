"""The time of a run in seconds since the epoch, monotonic and the same in all of its processes."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from pathlib import Path


def epoch_now() -> float:
    """Return the wall-clock time at which CLOCK_MONOTONIC was zero, as the wall clock is set now."""
    return time.time() - time.monotonic()


# The wall clock of a new node may be set while it is measured (by NTP, or when a virtual machine resumes), and rates
# over the jump would be wrong. So it is read once, and CLOCK_MONOTONIC, which all processes of a machine share,
# continues from there.
_epoch = epoch_now()


def boot_id() -> str:
    """Return the id of the boot of this host, empty where it is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def epoch() -> float:
    """Return the wall-clock time at which CLOCK_MONOTONIC was zero, as this run defines it."""
    return _epoch


def adopt(run_epoch: float) -> None:
    """Use the epoch of the process that began the run."""
    global _epoch  # noqa: PLW0603  one clock a process
    _epoch = run_epoch


def now() -> float:
    """Return the time of the run in seconds since the epoch."""
    return _epoch + time.monotonic()


def iso(seconds: float) -> str:
    """Return a time in seconds since the epoch as ISO 8601, in UTC, to the second."""
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="seconds")
