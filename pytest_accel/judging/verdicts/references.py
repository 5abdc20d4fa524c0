"""Holds a measurement against neighbours and its own past by one comparison (`distance`), and other nodes. Pure.

A limit says what a product has to reach; the neighbours say what this device does under the same load, power and
cooling. Where no limit decides they are all that can tell a slow device, and far behind them no limit clears it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pytest_accel.core.fabric import short_rails
from pytest_accel.core.measurement import Measurement, speed_share
from pytest_accel.core.reasons import AllAlike, Alone, BehindNeighbours, BehindNodes, BehindPast, Note
from pytest_accel.core.run import EarlierFigure, Past
from pytest_accel.core.sku import Spread
from pytest_accel.core.stats import ENOUGH_ALIKE
from pytest_accel.core.verdict import WORST_FIRST, Comparison, Since, Status, Verdict
from pytest_accel.judging.verdicts.background import Background, between_runs
from pytest_accel.judging.verdicts.distance import Distance, Family, Reference, ReferenceKind, confirm, distance
from pytest_accel.judging.verdicts.history import kept
from pytest_accel.judging.verdicts.like_devices import (
    Attempts,
    compared,
    family_of,
    held_clock,
    slowed,
    together,
    usable,
    value_of,
)


def beside_references(verdict: Verdict, attempts: Attempts, background: Background) -> Verdict:
    """Return the verdict on a device or node after it was held against its neighbours, its own past and other nodes."""
    return _among_nodes(_against_past(_beside(verdict, attempts, background), attempts, background), attempts)


# -- like devices


def _beside(verdict: Verdict, attempts: Attempts, background: Background) -> Verdict:
    rounds = _rounds(attempts, background)
    found = confirm(rounds, background.not_repeated)
    behind = found.distance if found else next((each for each in reversed(rounds) if each), None)
    if behind:
        reference = behind.reference
        told = behind.lost, behind.crossed, reference.middle, reference.count, reference.spread, behind.at_clock
        verdict = replace(verdict, neighbours=Comparison(*told))
    if verdict.status is Status.FAIL or found is None:
        return _shared(verdict, attempts, background) if found is None or found.distance.lost <= 0 else verdict
    if found.status is Status.FAIL and any(attempt.noted("load") for attempt in attempts):
        found = replace(found, status=Status.MARGINAL)
    assert verdict.neighbours
    neighbours = replace(verdict.neighbours, status=found.status, at_first=found.at_first)
    alone = [] if background.not_repeated else _alone(attempts)
    worse = verdict.worsened(found.status, BehindNeighbours(), *alone, *found.doubt)
    return replace(worse, neighbours=neighbours)


def _rounds(attempts: Attempts, background: Background) -> list[Distance | None]:
    """Return the clearest distance of each attempt on all devices together to the others in that round."""
    own, spread = together(attempts), background.spread
    near, others = ([each for each in map(together, some) if each] for some in (background.near, background.others))
    return [
        behind(one, _in_round(near, place), _in_round(others, place), spread)
        for place, one in enumerate(own)
        if near or others
    ]


def _in_round(others: Sequence[Attempts], place: int) -> list[Measurement]:
    """Return the attempt of each device in a round; of others that made fewer attempts the last one counts."""
    return [each[min(place, len(each) - 1)] for each in others]


def behind(
    own: Measurement, near: Sequence[Measurement], others: Sequence[Measurement] = (), spread: Spread | None = None
) -> Distance | None:
    """Return the clearest distance of a device behind like ones; None if it cannot be compared.

    `near` are those in the same place of the node, `others` those of the whole node. A product is compared as it is,
    and at the clock that each device held.
    """
    found = to_neighbours(own, near, spread)
    if len(others) > len(near):
        found.append(_to_others(own, others, family_of(own.metric, own.unit), kind="elsewhere"))
    return min((each for each in found if each), key=lambda each: WORST_FIRST.index(each.status), default=None)


def to_neighbours(own: Measurement, near: Sequence[Measurement], spread: Spread | None = None) -> list[Distance | None]:
    """Return the distances of a device behind those in the same place, None for what cannot be compared.

    It is compared as it is, and a product at the clock that each device held.
    """
    family = family_of(own.metric, own.unit)
    found = [_to_others(own, near, family, spread)]
    return [*found, _to_others(own, near, "matmul at the clock", spread)] if family == "matmul" else found


def _to_others(
    own: Measurement,
    alike: Sequence[Measurement],
    family: Family,
    spread: Spread | None = None,
    *,
    kind: ReferenceKind = "neighbours",
) -> Distance | None:
    """Return the distance to the median of the others; those whose figure in this family is not known are left out."""
    at_clock = family == "matmul at the clock"
    clock = (held_clock(own) or 0.0) if at_clock else None
    others = [figure(each, clock) for each in alike if each.subject != own.subject]
    value, values = figure(own, clock), [known for known in others if known is not None]
    if len(values) < ENOUGH_ALIKE - 1 or value is None or not compared(own.metric, own.subject, own.unit):
        return None
    reference = Reference(kind, median(values), len(values), noise=own.noise)
    if spread:
        reference = replace(
            reference,
            spread=spread.at_clock if at_clock else spread.between_devices,
            noise=math.hypot(own.noise, spread.between_runs or 0.0),
            ours=spread.ours,
            one_node=spread.one_node,
            width=spread.widest,
            raw_width=None if family == "matmul" and slowed(own) else spread.widest_raw or spread.widest,
        )
    return distance(value, own.unit, family, reference)


def figure(one: Measurement, clock: float | None = None) -> float | None:
    """Return the value of a measurement, as a rate at `clock` (MHz) if one is given.

    It is None where the value is not usable, or the clock that the device held was not read.
    """
    if not usable(one) or clock is None:
        return value_of(one) if usable(one) else None
    held = held_clock(one)
    return value_of(one) * clock / held if held else None


def _shared(verdict: Verdict, attempts: Attempts, background: Background) -> Verdict:
    """Return the verdict on a broken limit with the note that all like devices break it alike, if they do."""
    near = [each[-1] for each in map(together, background.near) if each]
    every = [value_of(each) for each in near if usable(each)]
    if verdict.margin is None or verdict.margin >= 0 or len(every) < ENOUGH_ALIKE:
        return verdict
    alike = compared(verdict.metric, verdict.subject, attempts[-1].unit) and all(map(verdict.breaks, every))
    return verdict.because(AllAlike(len(every))) if alike else verdict


# -- the own past


@dataclass(frozen=True)
class Drop:
    """The distance of a figure behind an earlier one of the same device."""

    distance: Distance
    figure: EarlierFigure
    since: Since


def drop(
    own: Measurement, past: Past, spread: Spread | None, shared_since: Callable[[EarlierFigure], float] = lambda _: 0.0
) -> Drop | None:
    """Return the clearer of the losses since the first accepted and the last run; None if nothing can be compared.

    `shared_since` returns what the other like devices lost since the run of an earlier figure.
    """
    runs: tuple[tuple[Since, EarlierFigure | None], ...] = ("first accepted", past.first), ("last", past.last)
    family, drops = family_of(own.metric, own.unit), []
    for since, figure in runs if kept(own) else ():
        if figure is None:
            continue
        reference = Reference("past", figure.value, 1, between_runs(past, spread), own.noise)
        lost = distance(value_of(own), own.unit, family, reference)
        if lost and lost.status is not Status.PASS:
            lost = distance(value_of(own), own.unit, family, replace(reference, shared=shared_since(figure)))
        if lost:
            drops.append(Drop(lost, figure, since))
    return max(drops, key=lambda each: each.distance.lost - each.distance.allowed, default=None)


def _against_past(verdict: Verdict, attempts: Attempts, background: Background) -> Verdict:
    drops = [_drop(each, background, place) for place, each in enumerate(together(attempts))]
    found = confirm([each.distance if each else None for each in drops], background.not_repeated)
    told = found.distance if found else next((each.distance for each in reversed(drops) if each), None)
    now = next((each for each in reversed(drops) if each and each.distance is told), None)
    if now is None:
        return verdict
    lost, then = now.distance, now.figure
    past = Comparison(lost.lost, lost.allowed, then.value, since=now.since, day=then.day, differs=then.differs)
    if verdict.status is Status.FAIL or found is None:
        return replace(verdict, past=past)
    last = [_drop(each[-1], background, len(each)) for each in background.near]
    alike = len(last) >= ENOUGH_ALIKE and all(each and each.distance.status is not Status.PASS for each in last)
    worse = verdict.worsened(found.status, BehindPast(), *([AllAlike(len(last))] if alike else []), *found.doubt)
    return replace(worse, past=replace(past, status=found.status, at_first=found.at_first))


def _drop(own: Measurement, background: Background, place: int) -> Drop | None:
    """Return the drop of a device in a round, beside what the other like devices lost by then."""
    past = background.past_of(own)
    others = _in_round([each for each in map(together, background.others) if each], place)

    def shared_since(figure: EarlierFigure) -> float:
        known = [each for each in others if each.subject != own.subject and kept(each)]
        pasts = [(each, its.of(figure.record)) for each in known if (its := background.past_of(each))]
        losses = [1 - speed_share(value_of(each), then.value, each.unit) for each, then in pasts if then]
        return median(losses) if len(losses) >= ENOUGH_ALIKE - 1 else 0.0

    return drop(own, past, background.spread, shared_since) if past and not own.trouble else None


# -- the other nodes of a fabric run


def _among_nodes(verdict: Verdict, attempts: Attempts) -> Verdict:
    """Return the verdict on a node by what a fabric run concluded of it, which other troubles of it have said already.

    A node that is short and not named is not rejected, by a limit either: the network between nodes is to blame.
    """
    part = attempts[-1].details.get("fabric")
    if part is None or attempts[-1].trouble:
        return verdict
    if part.found == "slow" and part.median:
        lost, unit = 1 - (part.score or 0.0) / part.median, attempts[-1].unit
        reason = BehindNodes(lost, part.median, unit, part.nodes, part.partners, short_rails(part.rails))
        return verdict.worsened(Status.FAIL, reason)
    if (island := part.found == "island") or part.found == "unclear":
        why = Note("island" if island else "nobody_named", part.text)
        return replace(verdict.worsened(Status.INCONCLUSIVE, why), status=Status.INCONCLUSIVE)
    return verdict


def _alone(attempts: Attempts) -> list[Alone]:
    """Return what a device that was found behind does alone, if it was measured so instead of not at all."""
    alone = [each for each in attempts if each.how == "alone" and usable(each)]
    return [Alone(alone[-1].value, alone[-1].unit)] if alone else []
