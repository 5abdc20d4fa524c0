"""The plots of the blocks of every measurement, with the limit drawn in. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.verdict import Verdict, show
from pytest_accel.judging.rounds import round_of
from pytest_accel.run.record import Record
from pytest_accel.views.html.series import POINTS, rounded, thinned
from pytest_accel.views.html.words import badge, meaning, number


@dataclass(frozen=True)
class Mark:
    """A value that is drawn as a line across a plot."""

    label: str
    value: float


@dataclass(frozen=True)
class Plot:
    """One plot: a line for each device over a common axis. `table` holds the same figures as text."""

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
    head: Sequence[str] = ()
    table: Sequence[Sequence[str]] = field(default=())
    told: str = ""
    """What the plot shows, for those who cannot see it."""

    def data(self) -> dict[str, object]:
        """Return what the script draws, as JSON has it."""
        return {
            "title": self.title,
            "unit": self.unit,
            "axis": self.axis,
            "x": self.x,
            "series": [{"name": name, "values": values} for name, values in self.series],
            "marks": [{"label": mark.label, "value": rounded(mark.value)} for mark in self.marks],
            "band": [rounded(each) for each in self.band] if self.band else None,
        }


def blocks(record: Record, names: Mapping[str, str]) -> list[Plot]:
    """Return a plot for each metric and attempt that has samples, in the order of the measurements."""
    groups: dict[tuple[str, int, int, str], list[Measurement]] = {}
    counts: dict[tuple[str, str, int], int] = {}
    for each in record.measurements:
        if not each.samples:
            continue
        place = each.metric, each.subject, round_of(each)
        attempt = counts[place] = counts.get(place, 0) + 1
        groups.setdefault((each.metric, round_of(each), attempt, each.how), []).append(each)
    verdicts = _by_metric(record)
    ordered = sorted(groups, key=lambda key: list(dict.fromkeys(metric for metric, *_ in groups)).index(key[0]))
    return [_plot(place, key, groups[key], verdicts.get(key[0], []), names) for place, key in enumerate(ordered)]


def _plot(
    place: int,
    key: tuple[str, int, int, str],
    measured: Sequence[Measurement],
    verdicts: Sequence[Verdict],
    names: Mapping[str, str],
) -> Plot:
    metric, made_in, attempt, how = key
    again = (f", round {made_in}" if made_in > 1 else "") + (f", attempt {attempt}" if attempt > 1 else "")
    alone = ", alone" if how == "alone" else ""
    unit = measured[0].unit
    x, columns = _columns([each.samples for each in measured])
    series = [(names.get(each.subject, each.subject), column) for each, column in zip(measured, columns, strict=True)]
    marks = _marks(verdicts, unit)
    limit = "; ".join(f"{mark.label} {show(mark.value, unit)}" for mark in marks) or "no limit"
    return Plot(
        f"blocks-{place}",
        f"{metric}{again}{alone}",
        unit,
        "block",
        x,
        series,
        marks,
        _band(verdicts, unit),
        meaning(metric),
        ("Device", "Blocks", "Value", "Lowest", "Highest", "Variation", "Remark"),
        [_row(each, names, verdicts) for each in measured],
        f"{metric}{again}{alone}: the rate of every block of {len(series)} devices; {limit}.",
    )


def rounds(record: Record, names: Mapping[str, str]) -> list[Plot]:
    """Return a plot for each metric of a long run, with the value of every round."""
    verdicts = _by_metric(record)
    plots = []
    for place, (metric, entry) in enumerate(record.rounds.get("series", {}).items()):
        values = {subject: series for subject, series in entry["values"].items() if series}
        if not values:
            continue
        x, columns = _columns(list(values.values()))
        series = [(names.get(subject, subject), column) for subject, column in zip(values, columns, strict=True)]
        marks = _marks(verdicts.get(metric, []), entry["unit"])
        told = f"{metric}: the value in every round of {len(series)} devices."
        band = _band(verdicts.get(metric, []), entry["unit"])
        plots.append(
            Plot(f"rounds-{place}", metric, entry["unit"], "round", x, series, marks, band, meaning(metric), told=told)
        )
    return plots


def _by_metric(record: Record) -> dict[str, list[Verdict]]:
    found: dict[str, list[Verdict]] = {}
    for verdict in record.verdicts:
        found.setdefault(verdict.metric, []).append(verdict)
    return found


def _columns(samples: Sequence[Sequence[float | None]]) -> tuple[list[int], list[list[float | int | None]]]:
    """Return the numbers of the blocks, and the samples of each device at these; thinned where there are many."""
    most = max(map(len, samples))
    if most <= POINTS:
        padded = [
            [None if each is None else rounded(each) for each in one] + [None] * (most - len(one)) for one in samples
        ]
        return list(range(1, most + 1)), padded
    columns: list[list[float | int | None]] = []
    for one in samples:
        _, kept = thinned(one)
        shortened = [None if each is None else rounded(each) for each in kept]
        columns.append(shortened + [None] * (POINTS - len(shortened)))
    return [1 + part * most // POINTS for part in range(POINTS)], columns


def _marks(verdicts: Sequence[Verdict], unit: str) -> list[Mark]:
    """Return the bounds of the verdicts in the unit of the samples, each once."""
    found: dict[tuple[str, float], Mark] = {}
    for each in verdicts:
        if each.unit != unit:
            continue
        word = "advice " if each.advisory or (each.limit and each.limit.severity == "warn") else ""
        for label, value in ((f"{word}floor", each.floor), (f"{word}ceiling", each.ceiling)):
            if value is not None and number(value) is not None:
                found[label, value] = Mark(label, value)
    return list(found.values())[:4]


def _band(verdicts: Sequence[Verdict], unit: str) -> tuple[float, float] | None:
    """Return the range of healthy figures of the limit, None if it has none in this unit."""
    for each in verdicts:
        if each.limit and each.limit.healthy and each.limit.unit == unit:
            return each.limit.healthy
    return None


def _row(one: Measurement, names: Mapping[str, str], verdicts: Sequence[Verdict]) -> list[str]:
    mean = fmean(one.samples)
    spread = f"{pstdev(one.samples) / mean:.1%}" if len(one.samples) > 1 and mean else ""
    status = next((badge(each).word for each in verdicts if each.subject == one.subject), "")
    remarks = [one.trouble.reason if one.trouble else "", one.disturbance or "", status]
    return [
        names.get(one.subject, one.subject),
        str(len(one.samples)),
        show(one.value, one.unit),
        show(min(one.samples), one.unit),
        show(max(one.samples), one.unit),
        spread,
        "; ".join(filter(None, remarks)),
    ]
