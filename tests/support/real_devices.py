"""Accelerators of this machine: where there are any, the package refuses to simulate others."""

from __future__ import annotations

from functools import cache

WHY = "the package does not simulate on a machine that has accelerators"


@cache
def _are_here() -> bool:
    from pytest_accel.drivers.host.hints import hints  # an acceptance run reads conftest.py, too

    return bool(hints())


def refused(said: str) -> bool:
    """Return True if a command, an error or a report says that nothing is simulated here, and that is so."""
    return "this machine has accelerators" in said and _are_here()
