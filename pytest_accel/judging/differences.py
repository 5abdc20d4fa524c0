"""Compares the contents of two records, and the figures of the records between them. Pure.

What differs is in order, most important first. Two records are comparable if they judged the same SKU, and neither or
both of them a simulated node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pytest_accel.core import exits
from pytest_accel.core.device_facts import DEVICE_FACTS, IDENTITY
from pytest_accel.core.measurement import NODE
from pytest_accel.core.run import Run
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict
from pytest_accel.core.words import listed
from pytest_accel.judging import figure_differences, state_differences, verdict_differences
from pytest_accel.judging.difference import Difference, Direction, SubjectKind, Subjects, ordered, subjects
from pytest_accel.judging.figure_differences import MetricTrend, SpreadOf
from pytest_accel.judging.history import kept


@dataclass(frozen=True)
class Comparison:
    """The differences between two records, most important first. `other` says why they are not comparable."""

    first: Run
    last: Run
    same_devices: bool = True
    """False if the records share no device: two nodes, which are compared by the medians of their devices."""
    differences: Sequence[Difference] = ()
    compared: int = 0
    """The number of figures that were compared."""
    not_compared: Mapping[str, int] = field(default_factory=Counter)
    """How many figures were not compared, by reason."""
    trends: Sequence[MetricTrend] = ()
    other: str = ""
    left_out: str = ""
    """The oldest or the newest record with its result, if another one was compared in its place, and why."""

    @property
    def exit(self) -> int:
        """The exit status: 1 if hardware is worse by more than two runs differ by, else 6 if not all was compared."""
        if any(each.counts for each in self.differences):
            return exits.REJECTED
        return exits.NOT_JUDGED if self.other or self.left_out else exits.HOLDS


def compare(first: Run, last: Run, spread_of: SpreadOf, runs: Sequence[Summary] = ()) -> Comparison:
    """Return the differences between two records.

    `spread_of` returns the variation of a metric among healthy devices. `runs` are the figures of all records that are
    compared, oldest first, with those of the first and the last; from eight on, they tell what two runs differ by.
    """
    why = not_comparable(first, last)
    if why:
        return Comparison(first, last, other=why)
    shared = subjects(first, last)
    if not shared.pairs:
        return _nodes(first, last, spread_of)
    judged = verdict_differences.verdicts(first, last, shared)
    found = figure_differences.figures(first, last, shared, runs[:-1], spread_of)
    several = runs if len(runs) > 2 else ()
    differences = [
        *state_differences.devices(first, last, shared),
        *judged,
        *_not_told(state_differences.facts(first, last, shared), judged),
        *state_differences.software(first, last),
        *state_differences.limits(first, last),
        *found.differences,
    ]
    trends = figure_differences.trends(last, several, shared, spread_of) if several else []
    return Comparison(first, last, True, ordered(differences), found.compared, found.not_compared, trends)


def not_comparable(first: Run, last: Run) -> str:
    """Return why two records cannot be compared; empty if they can."""
    if first.simulated != last.simulated:
        return "one record is of a simulated node, the other one of hardware"
    then, now = (each.sku.get("name", "") for each in (first, last))
    if then != now:
        return f"other SKU: {then or 'none'} and {now or 'none'}"
    if not first.devices or not last.devices:
        return "a record without devices"
    models = [{device.model for device in each.devices} for each in (first, last)]
    if not now and models[0] != models[1]:
        return f"other products: {listed(sorted(models[0]), 8)} and {listed(sorted(models[1]), 8)}"
    return ""


def _not_told(facts: Sequence[Difference], judged: Sequence[Difference]) -> list[Difference]:
    """Return the facts that no verdict tells already: one that counts, or is better, says what its fact was and is."""
    told = {
        (each.what, name) for each in judged if each.counts or each.direction is Direction.BETTER for name in each.where
    }
    return [
        each
        for each in facts
        if not any((metric, name) in told for metric in state_differences.metrics_of(each.what) for name in each.where)
    ]


# -- two nodes


def _nodes(first: Run, last: Run, spread_of: SpreadOf) -> Comparison:
    """Compare two nodes with other devices: counts, verdicts by metric, facts, and the medians of the figures."""
    found = figure_differences.of_nodes(first, last, spread_of)
    none = Subjects((), whole=False)
    differences = [
        *_count(first, last),
        *_worst(first, last),
        *_facts(first, last),
        *state_differences.facts(first, last, none),
        *state_differences.software(first, last),
        *state_differences.limits(first, last),
        *found.differences,
    ]
    return Comparison(first, last, False, ordered(differences), found.compared, found.not_compared)


def _count(first: Run, last: Run) -> list[Difference]:
    then, now = len(first.devices), len(last.devices)
    fewer = now < then
    direction = Direction.WORSE if fewer else Direction.BETTER
    return [Difference(SubjectKind.DEVICE, (), "devices", str(then), str(now), direction, fewer)] if then != now else []


def _worst(first: Run, last: Run) -> list[Difference]:
    """Return the metrics whose worst verdict on a node is another one than on the other node, with both devices."""
    then, now = _worst_of(first), _worst_of(last)
    rates = {each.metric for each in last.measurements if kept(each)}
    gone = verdict_differences.broken(last)
    found = []
    for metric, verdict in now.items():
        if metric in then and then[metric].status is not verdict.status:
            name, broke = _name(last, verdict), verdict.subject in gone
            one = verdict_differences.difference(name, then[metric], verdict, rate=metric in rates, gone=broke)
            found.append(replace(one, where=(), then=_said(first, then[metric]), now=_said(last, verdict)))
    return found


def _said(contents: Run, worst: Verdict) -> str:
    """Return the worst verdict on a metric with its device. If that passes, all devices do."""
    name, text = _name(contents, worst), verdict_differences.said(worst)
    if name == NODE:
        return text
    return f"all {Status.PASS.value}" if worst.status is Status.PASS else f"{name} {text}"


def _worst_of(contents: Run) -> dict[str, Verdict]:
    found: dict[str, Verdict] = {}
    for each in contents.verdicts:
        old = found.get(each.metric)
        if old is None or WORST_FIRST.index(each.status) < WORST_FIRST.index(old.status):
            found[each.metric] = each
    return {metric: each for metric, each in found.items() if each.status is not Status.NOT_APPLICABLE}


def _name(contents: Run, verdict: Verdict) -> str:
    return next((each.name for each in contents.devices if each.uuid == verdict.subject), NODE)


def _facts(first: Run, last: Run) -> list[Difference]:
    """Return the facts that the devices of each node share, and that differ between the nodes.

    What names a part or its place differs by itself.
    """
    found = []
    for name, fact in DEVICE_FACTS.items():
        if name in IDENTITY or name in state_differences.NOT_COMPARED or name.startswith("fabric_c"):
            continue
        values = [[device.facts.get(name) for device in each.devices] for each in (first, last)]
        (then, *others), (now, *more) = values
        alike = all(each == then for each in others) and all(each == now for each in more)
        if alike and then is not None and now is not None and then != now:
            found.append(state_differences.fact(f"all {len(last.devices)}", name, then, now, fact.unit))
    return found
