"""The order of verdicts, worst first, and causes before consequences. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pytest_accel.core.measurement import LEFT_OUT
from pytest_accel.core.verdict import WORST_FIRST, Verdict

ERRORS = ("counters.xid_hardware", "counters.log_hardware", "counters.recovery_asked")
"""Counters of errors that the device or its driver reports, which explain what fell short beside them."""


def worst_first(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts sorted by status, worst first.

    Within a status, verdicts on limits come first; of these, causes precede consequences: a device that hung, crashed
    or was lost; other faults such as a wrong result; errors that the device reports; broken limits, by margin; and at
    last the metrics not tried because of an earlier failure. The closing line, the table and the command that repeats
    the run all begin with the same verdict.
    """
    return sorted(verdicts, key=_rank)


def _rank(verdict: Verdict) -> tuple[int, bool, int, float]:
    default = -math.inf if verdict.status.fails else math.inf
    margin = default if verdict.margin is None else verdict.margin
    return WORST_FIRST.index(verdict.status), verdict.limit is None, _distance(verdict), margin


def _distance(verdict: Verdict) -> int:
    """Return the distance of a verdict from the cause, 0 for a cause."""
    if verdict.event == LEFT_OUT:
        return 4
    if verdict.device_failed:
        return 0 if verdict.event else 1
    return 2 if verdict.metric in ERRORS and verdict.status.fails else 3
