"""Attributes the clock that a device lost to the throttle reasons that held meanwhile. Pure.

Losses are logarithms of the ratio of two clocks, so that those of several reasons add. Each reading of the clock has
the reasons that held beside it: those of its mask, or the part of the time before and after it in which their counters
ran. A least squares over all readings, without negative losses, tells what each reason takes while it holds, and what
is lost without any. Its counter says how long each reason held.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.details import ClockLosses
from pytest_accel.judging.facts.telemetry import MASKED, masked

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
"""The name of what is lost without any reason."""


def losses(readings: Sequence[Reading], most_mhz: float | None) -> ClockLosses | None:
    """Return the loss of clock in the window by reasons, or None if the clock was read less than twice under load.

    It is counted from `most_mhz`, the device's highest clock, or from the highest that was read.
    """
    working = [each for each in readings if not int(each.get("reasons", 0)) & ClockEvent.GPU_IDLE]
    loaded = _complete([each for each in working if (each.get("clock_mhz") or 0) > 0])
    from_mhz = max([most_mhz or 0.0, *(each["clock_mhz"] for each in loaded)])
    if len(loaded) < 2 or loaded[-1]["at"] <= loaded[0]["at"]:
        return None
    weights, lost = _weights(loaded), [math.log(from_mhz / each["clock_mhz"]) for each in loaded]
    held = {name: _held(name, loaded) for name in MASKED}
    times = {name: _time(name, loaded, _mean(weights, beside)) for name, beside in held.items()}
    always = [name for name, share in times.items() if share > THROUGHOUT]
    names = [name for name, share in times.items() if SHARE < share <= THROUGHOUT]
    groups = _joined(names, weights, held)
    rows = {JOINT.join(group): [*map(max, *(held[name] for name in group), [0.0] * len(lost))] for group in groups}
    takes = _least_squares(weights, lost, {**rows, ALWAYS: [1.0] * len(lost)})
    parts = {JOINT.join(group): takes[JOINT.join(group)] * max(times[name] for name in group) for group in groups}
    seen = math.fsum(takes[joint] * _mean(weights, rows[joint]) for joint in parts)
    mean = _mean(weights, [each["clock_mhz"] for each in loaded])
    return {
        "mhz": mean * math.exp(seen - math.fsum(parts.values())),  # for as long as the counters say
        "from_mhz": from_mhz,
        "by_reason": {joint: part for joint, part in parts.items() if part > 0},
        "throughout": takes[ALWAYS],
        "always": always,
    }


def _complete(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings with a counter in each where any has it: the last one known, which never goes back.

    A counter that starts again, as after a reset of the driver, goes on from where it was.
    """
    names = sorted({name for each in readings for name in each if name in MASKED})
    found: list[Reading] = []
    last = {name: next(each[name] for each in readings if name in each) for name in names}
    total = dict(last)
    for each in readings:
        for name in names:
            now = each.get(name, last[name])
            total[name] += max(0.0, now - last[name])
            last[name] = now
        found.append({**each, **total})
    return found


def _weights(readings: Sequence[Reading]) -> list[float]:
    """Return the share of the window that each reading stands for: half of the time to the one before and after it."""
    gaps = [0.0, *(after["at"] - before["at"] for before, after in pairwise(readings)), 0.0]
    whole = 2 * math.fsum(gaps)
    return [(before + after) / whole for before, after in pairwise(gaps)]


def _mean(weights: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(map(math.prod, zip(weights, values, strict=True)))


def _time(name: str, readings: Sequence[Reading], seen: float) -> float:
    """Return the fraction of the window under a reason: by its counter, else what the readings have `seen` of it."""
    if name not in readings[0]:
        return seen
    moved = readings[-1][name] - readings[0][name]
    return float(min(1.0, moved / (readings[-1]["at"] - readings[0]["at"])))


def _held(name: str, readings: Sequence[Reading]) -> list[float]:
    """Return for which part of the time beside each reading a reason held: by the mask, else by its counter."""
    masks = [float(masked(name, each)) for each in readings]
    if any(masks) or name not in readings[0]:
        return masks
    moved = [min(1.0, (after[name] - before[name]) / max(after["at"] - before["at"], 1e-9))
             for before, after in pairwise(readings)]  # fmt: skip
    return [(before + after) / 2 for before, after in pairwise([moved[0], *moved, moved[-1]])]


def _joined(names: Sequence[str], weights: Sequence[float], held: Mapping[str, Sequence[float]]) -> list[list[str]]:
    """Return the reasons in groups of those that held together and cannot be separated."""
    groups: list[list[str]] = []
    for name in names:
        twin = next((group for group in groups if _alike(weights, held[name], held[group[0]])), None)
        if twin:
            twin.append(name)
        else:
            groups.append([name])
    return groups


def _alike(weights: Sequence[float], one: Sequence[float], other: Sequence[float]) -> bool:
    either = _mean(weights, list(map(max, one, other)))
    return either - _mean(weights, list(map(min, one, other))) < ALIKE * either


def _least_squares(
    weights: Sequence[float], lost: Sequence[float], held: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """Return what each reason takes while it holds, never less than nothing."""
    found = dict.fromkeys(held, 0.0)
    wanted = {name: _mean(weights, list(map(math.prod, zip(lost, each, strict=True)))) for name, each in held.items()}
    products = {
        (one, other): _mean(weights, list(map(math.prod, zip(held[one], held[other], strict=True))))
        for one in held
        for other in held
    }
    for _ in range(SWEEPS):
        for name in held:
            rest = math.fsum(found[other] * products[name, other] for other in held if other != name)
            alone = products[name, name]
            found[name] = max(0.0, (wanted[name] - rest) / alone) if alone else 0.0
    return found
