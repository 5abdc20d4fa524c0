"""Attributes the clock that a device lost to the throttle reasons that held meanwhile. Pure.

Losses are logarithms of the ratio of two clocks, so that those of several reasons add. From one reading to the next
each reason held for some fraction of the time: what its counter increased by, or what the sampled masks show. Reasons
that hold at once are separated by a least squares of the loss on these fractions over all intervals, without negative
losses.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.details import ClockLosses
from pytest_accel.judging.telemetry import NAMED, REASONS

Reading = Mapping[str, Any]

MASKED: dict[str, ClockEvent] = {
    **{str(name): bit for name, bit in REASONS.items()},
    "application_clocks": ClockEvent.APPLICATION_CLOCKS,
    "sync_boost": ClockEvent.SYNC_BOOST,
}
"""Every reason with its bit. Those whose names end in `_s` may have a counter of seconds by that name."""
SHARE = 0.01
"""Fraction of the time: a reason that held for less explains nothing."""
STEADY = 0.1
"""Mean absolute deviation of a reason's fraction, relative to its mean, below which it held throughout: it cannot be
told from what lowers the clock all the time."""
ALIKE = 0.2
"""Relative difference of two reasons over all intervals below which they held together and cannot be separated."""
QUIET = 0.02
"""Fraction of an interval up to which a reason does not count as held in it."""
ENOUGH = 0.05
"""Fraction of the window that has to be free of reasons that came and went, for the loss without them to be known."""
MIXED = 0.05
"""Weight of an interval in which a reason began or ended, relative to one under the same reasons throughout."""
SWEEPS = 300
"""Sweeps of the coordinate descent: enough for six columns that are not alike."""
JOINT = "+"
"""Joins the names of reasons that cannot be separated."""


@dataclass(frozen=True)
class Interval:
    """The time between two readings: its length in seconds, the loss, and the fraction of it under each reason."""

    seconds: float
    loss: float
    held: Mapping[str, float]


def losses(readings: Sequence[Reading], most_mhz: float | None) -> ClockLosses | None:
    """Return the loss of clock in the window by reasons, or None if the clock was read less than twice.

    It is counted from `most_mhz`, the device's highest clock, or from the highest that was read.
    """
    highest = max((each["clock_mhz"] for each in readings if each.get("clock_mhz")), default=0.0)
    from_mhz = max(most_mhz or 0.0, highest)
    found = intervals(readings, from_mhz)
    whole = math.fsum(each.seconds for each in found)
    if not whole:
        return None
    columns = {name: [each.held.get(name, 0.0) for each in found] for name in MASKED}
    weights = [each.seconds / whole for each in found]
    held = {name: column for name, column in columns.items() if _mean(column, weights) > SHARE}
    always = [name for name, column in held.items() if _steady(column, weights)]
    changing = _merged({name: column for name, column in held.items() if name not in always}, weights)
    by_reason, throughout, lost = _separated(changing, [each.loss for each in found], weights)
    return {
        "mhz": from_mhz * _mean([math.exp(-each) for each in lost], weights),
        "from_mhz": from_mhz,
        "by_reason": by_reason,
        "throughout": max(0.0, throughout),
        "always": always,
    }


def intervals(readings: Sequence[Reading], from_mhz: float) -> list[Interval]:
    """Return the intervals under load between readings of the clock; the loss is the mean of those at both ends."""
    clocked = [each for each in readings if each.get("clock_mhz")]
    found = []
    for before, after in itertools.pairwise(clocked):
        seconds = after["at"] - before["at"]
        idle = (int(before.get("reasons", 0)) | int(after.get("reasons", 0))) & ClockEvent.GPU_IDLE
        if seconds > 0 and not idle:
            loss = (math.log(from_mhz / before["clock_mhz"]) + math.log(from_mhz / after["clock_mhz"])) / 2
            shares = {name: _share(name, before, after, seconds) for name in MASKED}
            found.append(Interval(seconds, loss, {name: share for name, share in shares.items() if share}))
    return found


def _share(name: str, before: Reading, after: Reading, seconds: float) -> float:
    """Return the fraction of an interval under a reason: by its counter, else by the masks at both ends."""
    if name in before and name in after:
        return float(min(1.0, max(0.0, (after[name] - before[name]) / seconds)))
    return (_masked(name, before) + _masked(name, after)) / 2


def _masked(name: str, reading: Reading) -> bool:
    """Return whether the mask of a reading has the reason; an unnamed hardware slowdown only by itself."""
    mask = int(reading.get("reasons", 0))
    return bool(mask & MASKED[name]) and not (name == "hw_slowdown_s" and mask & NAMED)


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return math.fsum(weight * value for weight, value in zip(weights, values, strict=True))


def _steady(column: Sequence[float], weights: Sequence[float]) -> bool:
    mean = _mean(column, weights)
    return _mean([abs(each - mean) for each in column], weights) < STEADY * mean


def _merged(columns: Mapping[str, Sequence[float]], weights: Sequence[float]) -> dict[str, Sequence[float]]:
    """Return the columns with those that are alike joined to one, under both names."""
    found: dict[str, Sequence[float]] = {}
    for name, column in columns.items():
        twin = next((other for other, its in found.items() if _alike(column, its, weights)), None)
        if twin:
            joined = [max(both) for both in zip(column, found.pop(twin), strict=True)]
            found[f"{twin}{JOINT}{name}"] = joined
        else:
            found[name] = column
    return found


def _alike(one: Sequence[float], other: Sequence[float], weights: Sequence[float]) -> bool:
    apart = _mean([abs(a - b) for a, b in zip(one, other, strict=True)], weights)
    return apart < ALIKE * (_mean(one, weights) + _mean(other, weights)) / 2


def _separated(
    columns: Mapping[str, Sequence[float]], loss: Sequence[float], weights: Sequence[float]
) -> tuple[dict[str, float], float, list[float]]:
    """Return the mean loss by each column, the mean loss of the intervals without any, and the loss of every interval.

    The loss of an interval is laid to the reasons that held in it, in proportion to what each takes by the least
    squares. In one in which a reason began or ended it is the fitted loss, since a clock is read at the ends only.
    """
    places = range(len(loss))
    quiet = [all(each[place] <= QUIET for each in columns.values()) for place in places]
    pure = [all(min(each[place], 1 - each[place]) <= QUIET for each in columns.values()) for place in places]
    trusted = [weight * (1.0 if clean else MIXED) for weight, clean in zip(weights, pure, strict=True)]
    free = math.fsum(weights[place] for place in places if quiet[place])
    base = fmean(loss[place] for place in places if quiet[place]) if free > ENOUGH else None
    rows = dict(columns) if base is not None else {**columns, "": [1.0] * len(loss)}
    slopes = _least_squares(rows, [each - (base or 0.0) for each in loss], trusted)
    base = slopes[""] if base is None else base
    parts, lost = dict.fromkeys(columns, 0.0), []
    for place in places:
        fitted = {name: slopes[name] * column[place] for name, column in columns.items()}
        whole = math.fsum(fitted.values())
        excess = loss[place] - base if pure[place] else whole
        for name, part in fitted.items():
            parts[name] += weights[place] * excess * part / whole if whole else 0.0
        lost.append(base + excess)
    return {name: part for name, part in parts.items() if part > 0}, base, lost


def _least_squares(
    columns: Mapping[str, Sequence[float]], values: Sequence[float], weights: Sequence[float]
) -> dict[str, float]:
    """Return the factors of the columns, none negative, whose sum is closest to the values (coordinate descent)."""
    names = list(columns)
    products = {
        (one, other): _mean([a * b for a, b in zip(columns[one], columns[other], strict=True)], weights)
        for one in names
        for other in names
    }
    targets = {name: _mean([a * b for a, b in zip(columns[name], values, strict=True)], weights) for name in names}
    factors = dict.fromkeys(names, 0.0)
    for _ in range(SWEEPS):
        for name in names:
            rest = math.fsum(products[name, other] * factors[other] for other in names if other != name)
            factors[name] = max(0.0, (targets[name] - rest) / products[name, name])
    return factors
