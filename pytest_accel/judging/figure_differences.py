"""Figures of two records that differ by more than two runs do, and the trend over several records. Pure.

A figure is compared with one of the same method and conditions alone (`history.key`). What two runs may differ by is
the rule of `distance`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pytest_accel.core.measurement import NODE, Measurement, speed_share
from pytest_accel.core.run import EarlierFigure, Past, Run
from pytest_accel.core.sku import Spread
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import show
from pytest_accel.drivers import registry
from pytest_accel.judging.difference import Difference, Direction, SubjectKind, Subjects
from pytest_accel.judging.distance import OF_MEDIAN
from pytest_accel.judging.history import History, kept, key
from pytest_accel.judging.like_devices import LATENCY, POWER, usable, value_of
from pytest_accel.judging.references import Drop, drop

OTHER_METHOD = "measured by another method or under other conditions"
ONE_ALONE = "in one of the two records alone"
UNUSABLE = "disturbed, or not measured"
NOT_OF_DEVICE = "latencies and powers, which depend on more than the device"
PROCESSOR = "other work slows a processor down, too"

Place = tuple[str, str]
"""Key of a figure (see `history.key`), and subject."""
SpreadOf = Callable[[str], "Spread | None"]


@dataclass(frozen=True)
class MetricTrend:
    """One metric of one device over several records. Values are in `unit`.

    `since` is the record from which on all figures are worse than the first by more than two runs differ by, and
    `day` its day; both are empty if there is none.
    """

    where: str
    metric: str
    unit: str
    runs: int
    first: float
    last: float
    median: float
    lost: float
    allowed: float
    since: str = ""
    day: str = ""


@dataclass
class FigureDifferences:
    """The figures of two records that differ, how many were compared, and how many were not for which reason."""

    differences: list[Difference]
    compared: int
    not_compared: Counter[str]


def figures(
    first: Run, last: Run, shared: Subjects, earlier: Sequence[Summary], spread_of: SpreadOf
) -> FigureDifferences:
    """Return the figures that differ by device and metric. `earlier` are the runs before the last one."""
    then_of, names = shared.then_of(), shared.names
    before, after = latest(first), latest(last)
    history = History(earlier, [pair.now for pair in shared.pairs], dict)
    found = FigureDifferences([], 0, Counter())
    for (name, subject), now in after.items():
        then = before.get((name, then_of.get(subject, "")))
        if then is None or (subject == NODE and not shared.whole):
            continue
        found.compared += 1
        change = since(now, EarlierFigure(value_of(then), first.started[:10], str(first.path)), history, spread_of)
        if change is not None and abs(change.distance.lost) > change.distance.allowed:
            found.differences.append(_difference(names[subject], then, now, change, last))
    found.not_compared = _not_compared(first, last, shared)
    return found


def since(now: Measurement, then: EarlierFigure, history: History, spread_of: SpreadOf) -> Drop | None:
    """Return what a figure lost since an earlier one, and what two runs may differ by; None if it cannot be told."""
    past = history.past(now)
    between, runs = (past.between_runs, past.runs) if past else (None, 0)
    return drop(now, Past(None, then, between, runs), spread_of(now.metric))


def latest(contents: Run) -> dict[Place, Measurement]:
    """Return the figures of a record that are compared; of several attempts the last one counts."""
    return {(key(each), each.subject): each for each in contents.measurements if kept(each)}


def _difference(where: str, then: Measurement, now: Measurement, change: Drop, last: Run) -> Difference:
    processor = not any(registry.vendor(device.driver).accelerator for device in last.devices)
    worse = Direction.OTHER if processor else Direction.WORSE if change.distance.lost > 0 else Direction.BETTER
    return Difference(
        SubjectKind.FIGURE,
        (where,),
        now.metric,
        show(then.value, then.unit),
        show(now.value, now.unit),
        worse,
        counts=worse is Direction.WORSE,
        note=PROCESSOR if processor else "",
        lost=change.distance.lost,
        allowed=change.distance.allowed,
    )


def _not_compared(first: Run, last: Run, shared: Subjects) -> Counter[str]:
    """Return how many figures of the shared devices were not compared, by reason."""
    now_of = {then: now for now, then in shared.then_of().items()}
    then, now = (
        ({}, {}) if not shared.pairs else (_tried(first, now_of), _tried(last, {now: now for now in now_of.values()}))
    )
    reasons: Counter[str] = Counter()
    for place in dict.fromkeys([*then, *now]):
        one, other = then.get(place, []), now.get(place, [])
        if any(each.unit in (LATENCY, POWER) for each in [*one, *other]):
            reasons[NOT_OF_DEVICE] += 1
        elif not one or not other:
            reasons[ONE_ALONE] += 1
        elif not any(map(kept, one)) or not any(map(kept, other)):
            reasons[UNUSABLE] += 1
        elif not {key(each) for each in one if kept(each)} & {key(each) for each in other if kept(each)}:
            reasons[OTHER_METHOD] += 1
    return reasons


def _tried(contents: Run, now_of: Mapping[str, str]) -> dict[Place, list[Measurement]]:
    """Return the attempts at figures by metric and subject. What cannot exist here is none."""
    found: dict[Place, list[Measurement]] = {}
    for each in contents.measurements:
        figure = kept(replace(each, value=1.0, trouble=None, disturbance=None, details={})) or (
            each.unit in (LATENCY, POWER) and usable(each)
        )
        absent = each.trouble is not None and each.trouble.kind == "not_applicable"
        if each.subject in now_of and each.how == "together" and figure and not absent:
            found.setdefault((each.metric, now_of[each.subject]), []).append(each)
    return found


def of_nodes(first: Run, last: Run, spread_of: SpreadOf) -> FigureDifferences:
    """Return the metrics whose median over the devices differs between two nodes with other devices."""
    before, after = _by_key(first), _by_key(last)
    found = FigureDifferences([], 0, Counter())
    for name, now in after.items():
        then = before.get(name)
        if not then:
            continue
        found.compared += 1
        own, old = (replace(each[0], value=median(map(value_of, each)), samples=()) for each in (now, then))
        past = Past(None, EarlierFigure(value_of(old), first.started[:10], str(first.path)))
        change = drop(own, past, _of_medians(spread_of(own.metric), min(len(then), len(now))))
        if change and abs(change.distance.lost) > change.distance.allowed:
            where = NODE if own.subject == NODE else f"median of {len(now)}"
            found.differences.append(_difference(where, old, own, change, last))
    then_metrics, now_metrics = ({each[0].metric for each in one.values()} for one in (before, after))
    other = sum(each[0].metric in then_metrics for name, each in after.items() if name not in before)
    alone = len(then_metrics ^ now_metrics)
    found.not_compared = +Counter({OTHER_METHOD: other, ONE_ALONE: alone})
    return found


def _by_key(contents: Run) -> dict[str, list[Measurement]]:
    found: dict[str, list[Measurement]] = {}
    for (name, _), each in latest(contents).items():
        found.setdefault(name, []).append(each)
    return found


def _of_medians(spread: Spread | None, devices: int) -> Spread | None:
    """Return the spread of the median of some devices, which is another one with other devices, as one between runs.

    The variance of the median is `OF_MEDIAN` times that of the mean.
    """
    if spread is None or spread.between_runs is None or spread.between_devices is None:
        return None
    of_devices = spread.between_devices * math.sqrt(OF_MEDIAN / devices)
    return replace(spread, between_runs=math.hypot(spread.between_runs, of_devices))


def trends(last: Run, runs: Sequence[Summary], shared: Subjects, spread_of: SpreadOf) -> list[MetricTrend]:
    """Return the trend of each figure of the last record over `runs`, oldest first, the largest loss first.

    The last of `runs` is the last record. Values of a device count that the runs know by the same UUID and serial.
    """
    history = History(runs[:-1], last.devices, dict)

    def since_first(now: Measurement, first: float) -> Drop | None:
        return since(now, EarlierFigure(first, runs[0].day, str(runs[0].path)), history, spread_of)

    found = [_trend(now, place, runs, shared, since_first) for place, now in latest(last).items()]
    return sorted((each for each in found if each), key=lambda each: (-each.lost / each.allowed, each.metric))


def _trend(
    now: Measurement,
    place: Place,
    runs: Sequence[Summary],
    shared: Subjects,
    since_first: Callable[[Measurement, float], Drop | None],
) -> MetricTrend | None:
    name, subject = place
    values = list(_values(runs, name, subject, {pair.now.uuid: pair.now.serial for pair in shared.pairs}))
    if len(values) < 2 or subject not in shared.names:
        return None
    first = values[0][1]
    change = since_first(now, first)
    if change is None:
        return None
    begun = None
    for run, value in reversed(values):
        if first <= 0 or value <= 0 or 1 - speed_share(value, first, now.unit) <= change.distance.allowed:
            break
        begun = run
    return MetricTrend(
        shared.names[subject],
        now.metric,
        now.unit,
        len(values),
        first,
        value_of(now),
        median(value for _, value in values),
        change.distance.lost,
        change.distance.allowed,
        str(begun.path) if begun else "",
        begun.day if begun else "",
    )


def _values(
    runs: Iterable[Summary], name: str, subject: str, serials: Mapping[str, str | None]
) -> Iterable[tuple[Summary, float]]:
    for run in runs:
        known = run.by_uuid.get(subject)
        serial = serials.get(subject)
        same = subject == NODE or (known is not None and (not known.serial or not serial or known.serial == serial))
        if same and subject in run.figures.get(name, {}):
            yield run, run.figures[name][subject]
