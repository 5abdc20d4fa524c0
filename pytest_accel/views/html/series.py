"""Long series of numbers shortened for a plot, so that no dip is lost. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import median

POINTS = 400
"""The largest number of points of a series in a plot."""


def rounded(value: float, digits: int = 5) -> float | int | None:
    """Return a number to so many significant digits; None for one that is not finite."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short


def thinned(values: Sequence[float | None]) -> list[float | int | None]:
    """Return at most POINTS of the values, rounded: of each part the one farthest from the median of all."""
    count = min(len(values), POINTS)
    middle = median([each for each in values if each is not None] or [0.0])
    kept = []
    for part in range(count):
        some = values[part * len(values) // count : (part + 1) * len(values) // count]
        kept.append(max(some, key=lambda each: -1.0 if each is None else abs(each - middle)))
    return [None if each is None else rounded(each) for each in kept]


def spans(active: Iterable[bool]) -> list[tuple[int, int]]:
    """Return the begin and the end of every stretch of True, the end excluded."""
    runs = ([place for place, _ in run] for on, run in groupby(enumerate(active), key=itemgetter(1)) if on)
    return [(run[0], run[-1] + 1) for run in runs]
