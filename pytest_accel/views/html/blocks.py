"""The plots of the blocks of every measurement, with the limit drawn in; long series are shortened. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from statistics import fmean, median, pstdev

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Measurement, Names, finite
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import Basis
from pytest_accel.core.verdict import Verdict, show
from pytest_accel.views.html.report_words import meaning

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
    middle = median([value for value in values if value is not None] or [0.0])
    points = []
    for part in range(count):
        chunk = values[part * len(values) // count : (part + 1) * len(values) // count]
        points.append(max(chunk, key=lambda value: -1.0 if value is None else abs(value - middle)))
    return [None if value is None else rounded(value) for value in points]


def spans(active: Iterable[bool]) -> list[tuple[int, int]]:
    """Return the begin and the end of every stretch of True, the end excluded."""
    runs = ([index for index, _ in run] for flag, run in groupby(enumerate(active), key=itemgetter(1)) if flag)
    return [(run[0], run[-1] + 1) for run in runs]


Mark = tuple[str, float]
"""A value that is drawn as a line across a plot: label and value."""


@dataclass(frozen=True)
class Plot:
    """One plot: a line for each device over a common axis. `measured` has what it was made from."""

    anchor: str
    title: str
    unit: str
    axis: str
    x: Sequence[float | int]
    series: Sequence[tuple[str, Sequence[float | int | None]]]
    marks: Sequence[Mark] = ()
    band: tuple[float, float] | None = None
    """The range of healthy figures."""
    meaning: str = ""
    measured: Sequence[Measurement] = ()
    text: str = ""
    """The content of the plot as text, for those who cannot see it."""

    def data(self) -> dict[str, object]:
        """Return the data that the script draws, for JSON."""
        return {
            "title": self.title,
            "unit": self.unit,
            "axis": self.axis,
            "x": self.x,
            "series": [{"name": name, "values": values} for name, values in self.series],
            "marks": [{"label": label, "value": rounded(value)} for label, value in self.marks],
            "band": [rounded(value) for value in self.band] if self.band else None,
        }


def blocks(record: Run, names: Names) -> list[Plot]:
    """Return a plot for each metric and attempt that has samples, in the order of the measurements."""
    counts: Counter[tuple[str, str]] = Counter()
    keys = []
    sampled = [measurement for measurement in record.measurements if measurement.samples]
    for measurement in sampled:
        key = measurement.metric, measurement.subject
        counts[key] += 1
        keys.append((measurement.metric, counts[key], measurement.how))
    groups = grouped(zip(keys, sampled, strict=True), itemgetter(0))
    metrics = list(dict.fromkeys(measurement.metric for measurement in sampled))
    verdicts = grouped(record.verdicts, lambda verdict: verdict.metric)
    return [
        _plot(index, key, [measurement for _, measurement in groups[key]], verdicts.get(key[0], []), names)
        for index, key in enumerate(sorted(groups, key=lambda key: metrics.index(key[0])))
    ]


def _plot(
    index: int,
    key: tuple[str, int, str],
    measurements: Sequence[Measurement],
    verdicts: Sequence[Verdict],
    names: Names,
) -> Plot:
    metric, attempt, how = key
    suffix = f", attempt {attempt}" if attempt > 1 else ""
    alone = ", alone" if how == "alone" else ""
    unit = measurements[0].unit
    x, columns = _columns([measurement.samples for measurement in measurements])
    series = [(names[measurement.subject], column) for measurement, column in zip(measurements, columns, strict=True)]
    marks = _marks(verdicts, unit)
    limit = "; ".join(f"{label} {show(value, unit)}" for label, value in marks) or "no limit"
    return Plot(
        f"blocks-{index}",
        f"{metric}{suffix}{alone}",
        unit,
        "block",
        x,
        series,
        marks,
        _band(verdicts, unit),
        meaning(metric),
        measurements,
        f"{metric}{suffix}{alone}: the rate of every block of {len(series)} devices; {limit}.",
    )


def _columns(samples: Sequence[Sequence[float | None]]) -> tuple[list[int], list[list[float | int | None]]]:
    """Return the numbers of the blocks, and the samples of each device at these; thinned where there are many."""
    longest = max(map(len, samples))
    points = min(longest, POINTS)
    columns = [[*values, *[None] * (points - len(values))] for values in map(thinned, samples)]
    return [1 + part * longest // points for part in range(points)], columns


def _marks(verdicts: Sequence[Verdict], unit: str) -> list[Mark]:
    """Return the bounds of the verdicts in the unit of the samples, each once."""
    marks: dict[Mark, None] = {}
    for verdict in verdicts:
        if verdict.unit != unit:
            continue
        word = "class " if verdict.basis is Basis.CLASS else ""
        bounds = ((f"{word}floor", finite(verdict.floor)), ("ceiling", finite(verdict.ceiling)))
        marks.update({(label, bound): None for label, bound in bounds if bound is not None})
    return list(marks)[:4]


def _band(verdicts: Sequence[Verdict], unit: str) -> tuple[float, float] | None:
    """Return the range of healthy figures of the limit, or that of others, None if there is none in this unit."""
    for limit in (verdict.limit for verdict in verdicts if verdict.limit and verdict.unit == unit):
        if limit.healthy and not limit.relative:
            return limit.healthy
        if limit.published and limit.published.highest is not None:
            return limit.published.lowest, limit.published.highest
    return None


def variation(samples: Sequence[float]) -> str:
    """Return the standard deviation of samples as a share of their mean; empty for one sample."""
    mean = fmean(samples)
    return f"{pstdev(samples) / mean:.1%}" if len(samples) > 1 and mean else ""
