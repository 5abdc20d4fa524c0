"""Comparison of a measurement with neighbours, its own past (both by `distance`) and other nodes. Pure.

A limit says what a product has to reach; the neighbours say what this device does under the same load, power and
cooling. Where no limit decides they are all that can tell a slow device, and far behind them no limit clears it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from pytest_accel.core.measurement import Measurement, speed_share
from pytest_accel.core.network_run import short_rails
from pytest_accel.core.reasons import AllAlike, Alone, BehindNeighbours, BehindNodes, BehindPast, Note
from pytest_accel.core.run import EarlierFigure, Past
from pytest_accel.core.sku_types import Spread
from pytest_accel.core.stats import ENOUGH_ALIKE
from pytest_accel.core.verdict import WORST_FIRST, Comparison, Since, Status, Verdict
from pytest_accel.judging.verdicts.background import Background, between_runs
from pytest_accel.judging.verdicts.distance import Distance, Family, Reference, ReferenceKind, confirm, distance
from pytest_accel.judging.verdicts.history import is_baseline
from pytest_accel.judging.verdicts.like_devices import (
    Attempts,
    family_of,
    held_clock,
    is_comparable,
    together,
    usable,
    value_of,
    was_slowed,
)


def compare_with_references(verdict: Verdict, attempts: Attempts, background: Background) -> Verdict:
    """Return the verdict on a device or node, compared with its neighbours, its own past and other nodes."""
    verdict = _against_neighbours(verdict, attempts, background)
    return _among_nodes(_against_past(verdict, attempts, background), attempts)


# -- like devices


def _against_neighbours(verdict: Verdict, attempts: Attempts, background: Background) -> Verdict:
    rounds = _rounds(attempts, background)
    confirmed = confirm(rounds, background.not_repeated)
    distance = confirmed.distance if confirmed else next((distance for distance in reversed(rounds) if distance), None)
    if distance is None:
        return _shared(verdict, attempts, background)
    reference = distance.reference
    fields = distance.loss, distance.threshold, reference.middle, reference.count, reference.spread, distance.at_clock
    neighbours = Comparison(*fields)
    if verdict.status is Status.FAIL or confirmed is None:
        verdict = replace(verdict, neighbours=neighbours)
        return _shared(verdict, attempts, background) if confirmed is None or distance.loss <= 0 else verdict
    if confirmed.status is Status.FAIL and any(attempt.note("load") for attempt in attempts):
        confirmed = replace(confirmed, status=Status.MARGINAL)
    alone = [] if background.not_repeated else _alone(attempts)
    worse = verdict.worsened(confirmed.status, BehindNeighbours(), *alone, *confirmed.doubt)
    return replace(worse, neighbours=replace(neighbours, status=confirmed.status, at_first=confirmed.cleared))


def _rounds(attempts: Attempts, background: Background) -> list[Distance | None]:
    """Return the clearest distance of each attempt on all devices together behind the like devices in that round."""
    neighbours, like_devices = _all_together(background.neighbours), _all_together(background.like_devices)
    return [
        behind(measurement, _in_round(neighbours, index), _in_round(like_devices, index), background.spread)
        for index, measurement in enumerate(together(attempts))
        if neighbours or like_devices
    ]


def _all_together(devices: Sequence[Attempts]) -> list[Attempts]:
    """Return the attempts of each device that were made on all devices together, without devices that have none."""
    return [rounds for rounds in map(together, devices) if rounds]


def _in_round(devices: Sequence[Attempts], index: int) -> list[Measurement]:
    """Return the attempt of each device in a round; the last one of a device that made fewer attempts."""
    return [attempts[min(index, len(attempts) - 1)] for attempts in devices]


def behind(
    measurement: Measurement,
    neighbours: Sequence[Measurement],
    like_devices: Sequence[Measurement] = (),
    spread: Spread | None = None,
) -> Distance | None:
    """Return the clearest distance of a device behind like ones; None if it cannot be compared.

    `neighbours` are those in the same place of the node, `like_devices` those of the whole node. A product is compared
    as it is, and at the clock that each device held.
    """
    distances = to_neighbours(measurement, neighbours, spread)
    if len(like_devices) > len(neighbours):
        family = family_of(measurement.metric, measurement.unit)
        distances.append(_to_others(measurement, like_devices, family, kind="elsewhere"))
    return min(filter(None, distances), key=lambda distance: WORST_FIRST.index(distance.status), default=None)


def to_neighbours(
    measurement: Measurement, neighbours: Sequence[Measurement], spread: Spread | None = None
) -> list[Distance | None]:
    """Return the distances of a device behind its neighbours: as it is, and for a product also at the clock held.

    None stands for what cannot be compared.
    """
    families = [family_of(measurement.metric, measurement.unit)]
    if families == ["matmul"]:
        families.append("matmul at the clock")
    return [_to_others(measurement, neighbours, family, spread) for family in families]


def _to_others(
    measurement: Measurement,
    measurements: Sequence[Measurement],
    family: Family,
    spread: Spread | None = None,
    *,
    kind: ReferenceKind = "neighbours",
) -> Distance | None:
    """Return the distance to the median of the other devices that have a figure in this family."""
    at_clock = family == "matmul at the clock"
    clock = (held_clock(measurement) or 0.0) if at_clock else None
    figures = [figure(other, clock) for other in measurements if other.subject != measurement.subject]
    value, values = figure(measurement, clock), [number for number in figures if number is not None]
    if len(values) < ENOUGH_ALIKE - 1 or value is None or not is_comparable(measurement):
        return None
    reference = Reference(kind, median(values), len(values), noise=measurement.noise)
    if spread:
        reference = replace(
            reference,
            spread=spread.at_clock if at_clock else spread.between_devices,
            noise=math.hypot(measurement.noise, spread.between_runs or 0.0),
            own_probe=spread.own_probe,
            one_node=spread.one_node,
            width=spread.widest,
            raw_width=None if family == "matmul" and was_slowed(measurement) else spread.widest_raw or spread.widest,
        )
    return distance(value, measurement.unit, family, reference)


def figure(measurement: Measurement, clock: float | None = None) -> float | None:
    """Return the value of a measurement, as a rate at `clock` (MHz) if one is given.

    It is None where the value is not usable, or the clock that the device held was not read.
    """
    if not usable(measurement) or clock is None:
        return value_of(measurement) if usable(measurement) else None
    return value_of(measurement) * clock / held_mhz if (held_mhz := held_clock(measurement)) else None


def _shared(verdict: Verdict, attempts: Attempts, background: Background) -> Verdict:
    """Return the verdict, with a note if all neighbours break its limit alike."""
    neighbours = [rounds[-1] for rounds in _all_together(background.neighbours)]
    values = [value_of(measurement) for measurement in neighbours if usable(measurement)]
    if verdict.margin is None or verdict.margin >= 0 or len(values) < ENOUGH_ALIKE:
        return verdict
    all_break = is_comparable(attempts[-1]) and all(map(verdict.breaks, values))
    return verdict.because(AllAlike(len(values))) if all_break else verdict


# -- the own past


@dataclass(frozen=True)
class Drop:
    """The distance of a figure behind an earlier one of the same device."""

    distance: Distance
    figure: EarlierFigure
    since: Since


SharedSince = Callable[[EarlierFigure], float]
"""A function that returns what the other like devices lost since the run of an earlier figure."""


def drop(
    measurement: Measurement, past: Past, spread: Spread | None, shared_since: SharedSince = lambda _: 0.0
) -> Drop | None:
    """Return the clearer of the losses since the first accepted and the last run; None if nothing can be compared."""
    runs: tuple[tuple[Since, EarlierFigure | None], ...] = ("first accepted", past.first), ("last", past.last)
    unit, drops = measurement.unit, []
    for since, earlier in runs if is_baseline(measurement) else ():
        if earlier is None:
            continue
        value = value_of(measurement)
        reference = Reference("past", earlier.value, 1, between_runs(past, spread), measurement.noise)
        loss = distance(value, unit, family_of(measurement.metric, unit), reference)
        if loss and loss.status is not Status.PASS:  # only then, since it takes the past of all like devices
            loss = distance(value, unit, loss.family, replace(reference, shared_loss=shared_since(earlier)))
        if loss:
            drops.append(Drop(loss, earlier, since))
    return max(drops, key=lambda drop: drop.distance.loss - drop.distance.allowed_loss, default=None)


def _against_past(verdict: Verdict, attempts: Attempts, background: Background) -> Verdict:
    drops = [_drop(measurement, background, index) for index, measurement in enumerate(together(attempts))]
    confirmed = confirm([drop.distance if drop else None for drop in drops], background.not_repeated)
    comparable = [drop for drop in drops if drop and (not confirmed or drop.distance is confirmed.distance)]
    if not comparable:
        return verdict
    last, earlier = comparable[-1], comparable[-1].figure
    losses = last.distance.loss, last.distance.allowed_loss
    past = Comparison(*losses, earlier.value, since=last.since, day=earlier.day, differs=earlier.differs)
    if verdict.status is Status.FAIL or confirmed is None:
        return replace(verdict, past=past)
    last_drops = [_drop(attempts[-1], background, len(attempts)) for attempts in background.neighbours]
    lossy = [drop for drop in last_drops if drop and drop.distance.status is not Status.PASS]
    notes = [AllAlike(len(lossy))] if len(lossy) == len(last_drops) >= ENOUGH_ALIKE else []
    worse = verdict.worsened(confirmed.status, BehindPast(), *notes, *confirmed.doubt)
    return replace(worse, past=replace(past, status=confirmed.status, at_first=confirmed.cleared))


def _drop(measurement: Measurement, background: Background, index: int) -> Drop | None:
    """Return the drop of a device in a round, with the loss that the other like devices share with it by then."""
    past = background.past_of(measurement)
    like_devices = _in_round(_all_together(background.like_devices), index)

    def shared_since(figure: EarlierFigure) -> float:
        others = [device for device in like_devices if device.subject != measurement.subject and is_baseline(device)]
        pasts = [(other, other_past.of(figure.record)) for other in others if (other_past := background.past_of(other))]
        losses = [1 - speed_share(value_of(other), earlier.value, other.unit) for other, earlier in pasts if earlier]
        return median(losses) if len(losses) >= ENOUGH_ALIKE - 1 else 0.0

    return drop(measurement, past, background.spread, shared_since) if past and not measurement.trouble else None


# -- the other nodes of a network run


def _among_nodes(verdict: Verdict, attempts: Attempts) -> Verdict:
    """Return the verdict on a node by what a network run concluded of it, which other troubles of it have said already.

    A node that is short and not named is not rejected, by a limit either: the network between nodes is to blame.
    """
    part = attempts[-1].details.get("network")
    if part is None or attempts[-1].trouble:
        return verdict
    if part.found == "slow" and part.median:
        lost, unit = 1 - (part.score or 0.0) / part.median, attempts[-1].unit
        reason = BehindNodes(lost, part.median, unit, part.nodes, part.partners, short_rails(part.rails))
        return verdict.worsened(Status.FAIL, reason)
    if (island := part.found == "island") or part.found == "unclear":
        note = Note("island" if island else "nobody_named", part.text)
        return replace(verdict.worsened(Status.INCONCLUSIVE, note), status=Status.INCONCLUSIVE)
    return verdict


def _alone(attempts: Attempts) -> list[Alone]:
    """Return the value of a device alone, if it was measured alone."""
    alone = [attempt for attempt in attempts if attempt.how == "alone" and usable(attempt)]
    return [Alone(alone[-1].value, alone[-1].unit)] if alone else []
