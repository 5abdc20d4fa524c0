"""The tables of the report: every measured metric of every device, facts, and what does not apply. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict, Waiver, margin_of, show
from pytest_accel.judging.history import EarlierFigure, Past, terms_of
from pytest_accel.judging.like_devices import AllAttempts, kind_of, like
from pytest_accel.judging.neighbours import standing
from pytest_accel.judging.ranking import worst_first
from pytest_accel.run.baseline import kept_in
from pytest_accel.run.record import Record
from pytest_accel.views.html.limits import advises, bounds_of
from pytest_accel.views.html.words import Badge, badge, change, is_fact, meaning, number, together


@dataclass(frozen=True)
class Figure:
    """One text of a table, with the number that the column is sorted by; None where there is none."""

    text: str = ""
    sort: float | None = None
    note: str = ""
    """A second line in smaller letters."""


@dataclass(frozen=True)
class Row:
    """The verdict on one measured metric of one device, with everything that the value can be compared with."""

    anchor: str
    badge: Badge
    rank: int
    device: str
    metric: str
    meaning: str
    value: Figure
    of_peak: Figure
    limit: Figure
    limit_place: int | None
    """The place of the limit in the list of all limits."""
    margin: Figure
    healthy: Figure
    neighbours: Figure
    last: Figure
    sentence: str
    attempts: int
    waiver: Waiver | None


@dataclass(frozen=True)
class FactRow:
    """One fact with the devices that have the same value and verdict."""

    anchor: str
    badge: Badge
    rank: int
    devices: str
    metric: str
    meaning: str
    value: str
    limit: str
    limit_place: int | None
    sentence: str


def anchors(verdicts: Sequence[Verdict]) -> dict[int, str]:
    """Return the name of the row of every verdict, by the identity of the object."""
    return {id(each): f"v{place}" for place, each in enumerate(verdicts)}


def rows(record: Record, names: Mapping[str, str], places: Mapping[int, int]) -> list[Row]:
    """Return the rows of everything that was measured or should have been, worst first.

    `places` are the places of the limits, by the identity of the verdict.
    """
    attempts: dict[tuple[str, str], list[Measurement]] = {}
    for each in record.measurements:
        attempts.setdefault((each.metric, each.subject), []).append(each)
    kinds = {device.uuid: kind_of(device) for device in record.devices}
    run, anchor = record.run, anchors(record.verdicts)
    past_of = kept_in(record.baseline, terms_of(run.get("level", ""), run.get("platform", ""), record.software))
    shown = [
        each for each in record.verdicts
        if not is_fact(each.metric) and (each.information or each.status is not Status.NOT_APPLICABLE)
    ]  # fmt: skip
    return [
        Row(
            anchor[id(each)],
            badge(each),
            _rank(each),
            names.get(each.subject, each.subject),
            each.metric,
            meaning(each.metric),
            _value(each),
            Figure("" if each.of_peak is None else f"{each.of_peak:.1%}", number(each.of_peak)),
            _limit(each),
            places.get(id(each)),
            Figure(margin_of(each), number(each.warned[1] if each.warned else each.margin)),
            _healthy(each.limit),
            _neighbours(each, attempts, lambda one: like(attempts, kinds, one.metric, one.subject)),
            _last(each, attempts, past_of),
            each.sentence if each.status is not Status.PASS and not each.information else "",
            each.attempts,
            each.waiver,
        )
        for each in worst_first(shown)
    ]


def _rank(verdict: Verdict) -> int:
    return WORST_FIRST.index(verdict.status)


def _value(verdict: Verdict) -> Figure:
    if verdict.value is None:
        return Figure("no value")
    value = number(verdict.value)
    if value and verdict.next_run:
        note = f"next run within {(verdict.next_run[1] - value) / abs(value):.1%}"
        return Figure(show(verdict.value, verdict.unit), value, note)
    return Figure(show(verdict.value, verdict.unit), value)


def _limit(verdict: Verdict) -> Figure:
    """Return the bounds of a verdict in the unit of its value, which stands beside them."""
    text = bounds_of(verdict)
    if verdict.unit:
        text = text.replace(f" {verdict.unit}", "")
    bound = verdict.floor if verdict.floor is not None else verdict.ceiling
    return Figure(text, number(bound), "advises" if text and advises(verdict) else "")


def _healthy(limit: Limit | None) -> Figure:
    """Return the range of healthy figures, or the reference where no range is known."""
    if limit is None:
        return Figure()
    if limit.healthy:
        low, high = limit.healthy
        unit = " of peak" if limit.relative else ""
        text = show(high, "") if low == high else f"{show(low, '')} to {show(high, '')}"
        return Figure(text + unit, number(high))
    return Figure() if limit.reference is None else Figure(show(limit.reference, ""), limit.reference)


def _neighbours(
    verdict: Verdict, attempts: AllAttempts, likes: Callable[[Measurement], Sequence[Sequence[Measurement]]]
) -> Figure:
    """Return the median of the like devices, and how far the device is from it."""
    own = attempts.get((verdict.metric, verdict.subject))
    if not own or number(verdict.value) is None:
        return Figure()
    among = standing(own[-1], [each[-1] for each in likes(own[-1])])
    if among is None:
        return Figure()
    away = change(float(verdict.value or 0), among.middle)
    return Figure(away, float(verdict.value or 0) / among.middle - 1, f"median {show(among.middle, '')}")


def _last(verdict: Verdict, attempts: AllAttempts, past_of: Callable[[Measurement], Past | None]) -> Figure:
    """Return how far the value is from that of the last comparable run, and of the first accepted one."""
    own, value = attempts.get((verdict.metric, verdict.subject)), number(verdict.value)
    past = past_of(own[-1]) if own else None
    if past is None or value is None:
        return Figure()
    last = past.last or past.first
    if last is None:
        return Figure()
    note = _on(last, verdict.unit)
    if past.first and past.first != last:
        note += f"; first accepted {_on(past.first, verdict.unit)}"
    return Figure(change(value, last.value), value / last.value - 1 if last.value else None, note)


def _on(figure: EarlierFigure, unit: str) -> str:
    differs = "".join(f", {name} was {then}" for name, (then, _) in figure.differs.items())
    return f"{show(figure.value, unit)} on {figure.day}{differs}"


def fact_rows(record: Record, names: Mapping[str, str], places: Mapping[int, int]) -> list[FactRow]:
    """Return the rows of facts and counters, worst first; devices with the same value and verdict share a row."""
    anchor, everybody = anchors(record.verdicts), len({device.uuid for device in record.devices})
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for each in worst_first([each for each in record.verdicts if is_fact(each.metric)]):
        if each.information or each.status is not Status.NOT_APPLICABLE:
            told = each.sentence if _needs_sentence(each) else ""
            key = (each.metric, badge(each), str(each.value), bounds_of(each), told)
            groups.setdefault(key, []).append(each)
    return [
        FactRow(
            anchor[id(group[0])],
            badge(group[0]),
            _rank(group[0]),
            together([names.get(each.subject, each.subject) for each in group], everybody),
            group[0].metric,
            meaning(group[0].metric),
            "no value" if group[0].value is None else show(group[0].value, group[0].unit),
            bounds_of(group[0]) + (", advises" if advises(group[0]) else ""),
            places.get(id(group[0])),
            group[0].sentence if _needs_sentence(group[0]) else "",
        )
        for group in groups.values()
    ]


def _needs_sentence(verdict: Verdict) -> bool:
    """Return True for a fact that value and limit do not explain by themselves."""
    return verdict.status is not Status.PASS and not verdict.information


def not_applicable(record: Record, names: Mapping[str, str]) -> list[tuple[str, list[str], str]]:
    """Return each reason why metrics do not apply, with these metrics and the devices."""
    everybody = len(record.devices)
    reasons: dict[str, list[Verdict]] = {}
    for each in record.verdicts:
        if each.status is Status.NOT_APPLICABLE and not each.information:
            reasons.setdefault(each.sentence, []).append(each)
    return [
        (
            reason,
            list(dict.fromkeys(each.metric for each in group)),
            together([names.get(each.subject, each.subject) for each in group], everybody),
        )
        for reason, group in reasons.items()
    ]
