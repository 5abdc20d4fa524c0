"""How far the clock of a device swings up and down under a steady load. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

SETTLED_SECONDS, SETTLED_SHARE = 5.0, 0.2
"""Until the clock has settled: so many seconds, or this share of a shorter window."""
LEAST_READINGS = 20
"""Readings from which on a swing can be told."""
SWINGS = 3
"""How often the clock has to rise and to fall by the height. One step is no oscillation: the rate shows it."""
STEPS = 20
"""Halvings of the range in which the height is searched: to a millionth of it."""


def clock_swing(readings: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the largest height that the SM clock rose and fell by three times, as a share of its median.

    None if there are too few readings. The clock of a device at its power limit moves by a few percent all the time.
    """
    clocks = _settled([(each["at"], float(each["clock_mhz"])) for each in readings if "clock_mhz" in each])
    if len(clocks) < LEAST_READINGS or not median(clocks):
        return None
    low, high = 0.0, max(clocks) - min(clocks)
    for _ in range(STEPS):
        height = (low + high) / 2
        if _turns(clocks, height) >= 2 * SWINGS:
            low = height
        else:
            high = height
    return low / median(clocks)


def _settled(readings: Sequence[tuple[float, float]]) -> list[float]:
    """Return the clocks after the first seconds."""
    if not readings:
        return []
    begin, end = readings[0][0], readings[-1][0]
    after = begin + min(SETTLED_SECONDS, SETTLED_SHARE * (end - begin))
    return [clock for at, clock in readings if at >= after]


def _turns(values: Sequence[float], height: float) -> int:
    """Return how often the values turned by at least `height` from their last extreme."""
    low = high = values[0]
    rising: bool | None = None
    turns = 0
    for each in values:
        low, high = min(low, each), max(high, each)
        if rising is not False and high - each >= height > 0:
            turns, rising, low = turns + 1, False, each
        elif rising is not True and each - low >= height > 0:
            turns, rising, high = turns + 1, True, each
    return turns
