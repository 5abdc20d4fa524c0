"""The clock that a device lost, by the throttle reasons that held meanwhile. Pure.

Each reading of the clock has the reasons that held beside it: those of its mask, or the part of the time before and
after it in which their counters ran. A least squares over all readings gives the loss by each reason while it holds,
and the loss without any.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.details import ClockLosses
from pytest_accel.judging.facts.telemetry import MASKED, has_reason

Reading = Mapping[str, Any]

SHARE = 0.01
"""Fraction of the time: a reason that held for less explains nothing."""
THROUGHOUT = 0.95
"""Fraction of the time from which on a reason held throughout: it cannot be told from what else did."""
ALIKE = 0.2
"""Fraction of the time under either of two reasons that is under one without the other. Below it the two held together
and cannot be separated."""
SWEEPS = 300
"""Sweeps of the coordinate descent: enough for six reasons that are not alike."""
JOINT = "+"
"""Joins the names of reasons that cannot be separated."""
ALWAYS = ""
"""The name of the loss without any reason."""


def losses(readings: Sequence[Reading], most_mhz: float | None) -> ClockLosses | None:
    """Return the loss of clock in the window by reasons, or None if the clock was read less than twice under load.

    It is counted from `most_mhz`, the device's highest clock, or from the highest that was read.
    """
    working = [reading for reading in readings if not int(reading.get("reasons", 0)) & ClockEvent.GPU_IDLE]
    loaded = _complete([reading for reading in working if (reading.get("clock_mhz") or 0) > 0])
    from_mhz = max([most_mhz or 0.0, *(reading["clock_mhz"] for reading in loaded)])
    if len(loaded) < 2 or loaded[-1]["at"] <= loaded[0]["at"]:
        return None
    # logarithms of the ratio of two clocks, so that the losses by several reasons add
    weights, log_losses = _weights(loaded), [math.log(from_mhz / reading["clock_mhz"]) for reading in loaded]
    presence = {name: _held(name, loaded) for name in MASKED}
    times = {name: _time(name, loaded, _mean(weights, values)) for name, values in presence.items()}
    always = [name for name, share in times.items() if share > THROUGHOUT]
    names = [name for name, share in times.items() if SHARE < share <= THROUGHOUT]
    groups = {JOINT.join(group): group for group in _joined(names, weights, presence)}
    zeros, ones = [0.0] * len(loaded), [1.0] * len(loaded)
    rows = {joint: [*map(max, *(presence[name] for name in group), zeros)] for joint, group in groups.items()}
    takes = _least_squares(weights, log_losses, {**rows, ALWAYS: ones})
    parts = {joint: takes[joint] * max(times[name] for name in group) for joint, group in groups.items()}
    by_readings = math.fsum(takes[joint] * _mean(weights, rows[joint]) for joint in parts)
    mean = _mean(weights, [reading["clock_mhz"] for reading in loaded])
    return {
        "mhz": mean * math.exp(by_readings - math.fsum(parts.values())),  # for as long as the counters say
        "from_mhz": from_mhz,
        "by_reason": {joint: part for joint, part in parts.items() if part > 0},
        "throughout": takes[ALWAYS],
        "always": always,
    }


def _complete(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings, each with every counter that any has: its last value, which never goes back."""
    names = sorted({name for reading in readings for name in reading if name in MASKED})
    complete: list[Reading] = []
    last = {name: next(reading[name] for reading in readings if name in reading) for name in names}
    total = dict(last)
    for reading in readings:
        for name in names:
            count = reading.get(name, last[name])
            total[name] += max(0.0, count - last[name])  # after a reset of the driver it starts again, and goes on here
            last[name] = count
        complete.append({**reading, **total})
    return complete


def _weights(readings: Sequence[Reading]) -> list[float]:
    """Return the share of the window that each reading stands for: half of the time to the one before and after it."""
    gaps = [0.0, *(after["at"] - before["at"] for before, after in pairwise(readings)), 0.0]
    total = 2 * math.fsum(gaps)
    return [(before + after) / total for before, after in pairwise(gaps)]


def _mean(weights: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(map(math.prod, zip(weights, values, strict=True)))


def _time(name: str, readings: Sequence[Reading], estimate: float) -> float:
    """Return the fraction of the window under a reason: by its counter, else the `estimate` by the readings."""
    if name not in readings[0]:
        return estimate
    gain = readings[-1][name] - readings[0][name]
    return float(min(1.0, gain / (readings[-1]["at"] - readings[0]["at"])))


def _held(name: str, readings: Sequence[Reading]) -> list[float]:
    """Return the part of the time beside each reading for which a reason held: by the mask, else by its counter."""
    masks = [float(has_reason(name, reading)) for reading in readings]
    if any(masks) or name not in readings[0]:
        return masks
    gains = [min(1.0, (after[name] - before[name]) / max(after["at"] - before["at"], 1e-9))
             for before, after in pairwise(readings)]  # fmt: skip
    return [(before + after) / 2 for before, after in pairwise([gains[0], *gains, gains[-1]])]


def _joined(names: Sequence[str], weights: Sequence[float], presence: Mapping[str, Sequence[float]]) -> list[list[str]]:
    """Return the reasons in groups of those that held together and cannot be separated."""
    groups: list[list[str]] = []
    for name in names:
        twin = next((group for group in groups if _alike(weights, presence[name], presence[group[0]])), None)
        if twin:
            twin.append(name)
        else:
            groups.append([name])
    return groups


def _alike(weights: Sequence[float], first: Sequence[float], second: Sequence[float]) -> bool:
    either = _mean(weights, list(map(max, first, second)))
    return either - _mean(weights, list(map(min, first, second))) < ALIKE * either


def _products(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return list(map(math.prod, zip(first, second, strict=True)))


def _least_squares(
    weights: Sequence[float], log_losses: Sequence[float], presence: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Return the loss by each reason while it holds, never negative, by coordinate descent."""
    parts = dict.fromkeys(presence, 0.0)
    targets = {name: _mean(weights, _products(log_losses, row)) for name, row in presence.items()}
    rows = presence.items()
    products = {(a, b): _mean(weights, _products(first, second)) for a, first in rows for b, second in rows}
    for _ in range(SWEEPS):
        for name in presence:
            explained = math.fsum(parts[other] * products[name, other] for other in presence if other != name)
            square = products[name, name]
            parts[name] = max(0.0, (targets[name] - explained) / square) if square else 0.0
    return parts
