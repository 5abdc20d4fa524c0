"""The rounds of a long run: the values of every round, and how a later one compares with the first. Pure.

A round is one pass through all measurements. The first round is judged as any run is; of the later ones the record
keeps the values, and whole measurements only where a verdict became worse.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.reasons import InRound
from pytest_accel.core.run import EarlierFigure, FoundEntry, Past, SeriesEntry
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.history import ENOUGH_RUNS, deviation_of_runs

DIGITS = 6
"""Significant digits of a value."""
OPEN = (Status.INCONCLUSIVE, Status.UNMEASURED)
"""Statuses of a round that says nothing about the device: a later round that holds takes their place."""


Series = Mapping[str, SeriesEntry]
Key = tuple[str, str, str]
"""Metric, subject and origin of the limit of a verdict (`Verdict.key`)."""


def value_in(attempts: Sequence[Measurement]) -> float | None:
    """Return the value of a round: that of the last attempt on all devices together that is a number, or None."""
    for each in reversed(attempts):
        number = isinstance(each.value, int | float) and not isinstance(each.value, bool)
        if each.how == "together" and number and not each.trouble and math.isfinite(float(each.value or 0)):
            return float(f"{each.value:.{DIGITS}g}")
    return None


def enter(
    series: dict[str, SeriesEntry], attempts: Mapping[tuple[str, str], Sequence[Measurement]], place: int
) -> None:
    """Enter the values of round number `place` of the metrics of one probe, by metric and subject.

    A subject that was not measured in a round has null there, so that all values of a round are at one place.
    """
    found = {place: value_in(measured) for place, measured in attempts.items()}
    metrics = {metric for metric, _ in found}
    for metric, subject in found:
        unit = next((each.unit for each in attempts[metric, subject] if each.unit), "")
        entry = series.setdefault(metric, {"unit": unit, "values": {}})
        entry["values"].setdefault(subject, [])
    for metric in metrics:
        for subject, values in series[metric]["values"].items():
            values.extend([None] * (place - 1 - len(values)))
            values.append(found.get((metric, subject)))


def length(series: Series, metrics: Collection[str]) -> int:
    """Return the number of rounds in which the metrics of one probe were measured."""
    every = [len(values) for metric in metrics if metric in series for values in series[metric]["values"].values()]
    return max(every, default=0)


class FirstRound:
    """The first round as the past that later rounds are compared with."""

    def __init__(self, series: Series, subjects: Collection[str], day: str) -> None:
        """`subjects` are those that are compared; of a processor other work changes the speed. `day` is ISO 8601."""
        self._series, self._subjects, self._day = series, subjects, day

    def past_of(self, measurement: Measurement) -> Past | None:
        """Return the value of the first round as the past of a measurement, None if there is none to compare with."""
        entry, subject = self._series.get(measurement.metric), measurement.subject
        values = entry["values"].get(subject) if entry and subject in self._subjects else None
        if not entry or not values or values[0] is None or entry["unit"] != measurement.unit:
            return None
        between = self._between_rounds(entry)
        return Past(EarlierFigure(values[0], self._day, ""), None, between, len(values), of_this_run=True)

    def _between_rounds(self, entry: SeriesEntry) -> float | None:
        """Return the deviation from round to round over all devices; None if there were too few rounds."""
        series = [[each for each in values if each is not None] for values in entry["values"].values()]
        enough = [values for values in series if len(values) >= ENOUGH_RUNS]
        return deviation_of_runs(enough) if enough else None


VALUE_ALONE = "of later rounds the record holds the values alone"
"""Why a value of a later round was not measured again, if it falls short of a limit that the run was not judged by."""


def extreme_rounds(entry: SeriesEntry, subject: str) -> set[int]:
    """Return the later rounds in which the value of a subject was lowest and highest."""
    values = entry["values"].get(subject, [])[1:]
    known = [(value, place) for place, value in enumerate(values, start=2) if value is not None]
    return {min(known)[1], max(known)[1]} if known else set()


def in_round(
    kept: Sequence[Measurement],
    first: Mapping[tuple[str, str], Sequence[Measurement]],
    entry: SeriesEntry | None,
    metric: str,
    place: int,
) -> dict[tuple[str, str], list[Measurement]]:
    """Return what a record holds of a later round of one metric, by metric and subject.

    That are the whole measurements of the round, and for all other subjects its value under the conditions of the
    `first` round.
    """
    found: dict[tuple[str, str], list[Measurement]] = {}
    for each in kept:
        if each.metric == metric and round_of(each) == place:
            found.setdefault((metric, each.subject), []).append(each)
    for subject, values in (entry["values"] if entry else {}).items():
        value, before = values[place - 1] if len(values) >= place else None, first.get((metric, subject))
        if (metric, subject) not in found and value is not None and before and entry:
            bare = Measurement(metric, subject, entry["unit"], value, conditions=before[0].conditions)
            found[metric, subject] = [
                replace(marked(bare, place), details={"not_repeated": VALUE_ALONE, "round": place})
            ]
    return found


class Later:
    """The worst verdicts of the rounds after the first, by `Verdict.key`, each with its round."""

    def __init__(self) -> None:
        self.found: dict[Key, tuple[int, Verdict]] = {}

    def keep(self, first: Verdict | None, verdict: Verdict, place: int) -> Verdict | None:
        """Keep the verdict of a round if it is worse than that of the `first` round and of all others.

        Returns the verdict that was kept for it before, if that is dropped: one that said nothing about the device,
        while this round holds. Returns the verdict itself if it was kept, None if nothing changed.
        """
        kept = self.found.get(verdict.key)
        before = kept[1] if kept else first
        if before is None or verdict.rank < before.rank:
            self.found[verdict.key] = place, verdict
            return verdict
        if kept and kept[1].status in OPEN and verdict.status.holds:
            del self.found[verdict.key]
            return kept[1]
        return None

    def merged(self, first: Mapping[Key, Verdict], rounds: int) -> list[Verdict]:
        """Return the verdicts of the `first` round with those of later rounds in their places, which say the round."""
        told = {
            key: replace(verdict, reasons=(InRound(place, max(place, rounds)), *verdict.reasons))
            for key, (place, verdict) in self.found.items()
        }
        return [told[key] if key in told and told[key].rank < each.rank else each for key, each in first.items()] + [
            each for key, each in told.items() if key not in first
        ]

    def entries(self) -> list[FoundEntry]:
        """Return what the record holds of them beside the verdicts."""
        return [
            {"metric": metric, "subject": subject, "limit": origin, "round": place}
            for (metric, subject, origin), (place, _) in self.found.items()
        ]

    def restore(self, entries: Sequence[FoundEntry], verdicts: Mapping[Key, Verdict]) -> None:
        """Take them over from a record: its entries and its verdicts."""
        for entry in entries:
            key = entry["metric"], entry["subject"], entry["limit"]
            if key in verdicts:
                bare = tuple(each for each in verdicts[key].reasons if not isinstance(each, InRound))
                self.found[key] = entry["round"], replace(verdicts[key], reasons=bare)


def marked(measurement: Measurement, place: int) -> Measurement:
    """Return a measurement with the round that it was made in."""
    return replace(measurement, details={**measurement.details, "round": place})


def round_of(measurement: Measurement) -> int:
    """Return the round that a measurement was made in; those of the first round state none."""
    return measurement.details.get("round", 1)
