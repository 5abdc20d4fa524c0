"""Attributes the clock that a device lost to the throttle reasons that held meanwhile. Pure.

Losses are logarithms of the ratio of two clocks, so that those of several reasons add. Each reading of the clock has
the reasons that held at that moment: those of its mask, or those whose counters ran before and after it. Beside an
interval in which a counter ran for a part of the time, the clock itself tells whether its reason held. The readings
under the same reasons make a state with its mean loss. The loss of a state is laid to its reasons; where there are
several, by a least squares over all states, without negative losses. Its counter says how long each reason held.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.details import ClockLosses
from pytest_accel.judging.facts.telemetry import MASKED, masked

Reading = Mapping[str, Any]

SHARE = 0.01
"""Fraction of the time: a reason that held for less explains nothing."""
THROUGHOUT = 0.95
"""Fraction of the readings from which on a reason held all the time: it cannot be told from what else did."""
ALIKE = 0.2
"""Fraction of the readings with either of two reasons that have one without the other. Below it the two held together
and cannot be separated."""
MOVED, RAN = 0.002, 0.98
"""Fractions of an interval: a counter that moved by less than the first stood still, and by more than the second it ran
all the time."""
ENOUGH = 0.05
"""Fraction of the readings that have to be free of reasons that came and went, for the loss without them to be known.
"""
SWEEPS = 300
"""Sweeps of the coordinate descent: enough for six reasons that are not alike."""
ROUNDS, STARTS = 8, (1.0, 0.7, 0.4)
"""Rounds in which the clock tells what held, and what held tells the clock; from these shares of the first guess."""
BY_COUNTER = 0.25
"""Misfit of a reason whose counter says the opposite of what is taken to hold at a reading, as a share of its loss."""
FASTER = 0.5
"""Time under a reason by its counter, as a share of the readings under it. Below it the clock that is read is a mean
over a reason that comes and goes faster than the readings, and its loss is not counted down."""
JOINT = "+"
"""Joins the names of reasons that cannot be separated."""

State = frozenset[str]
"""The reasons that hold at the same time."""


@dataclass(frozen=True)
class Sample:
    """A reading of the clock: the share of the window that it stands for, its loss, and the reasons that held."""

    weight: float
    loss: float
    held: State
    """The reasons that held, at first with all those that may have."""
    unsure: State
    """The reasons that may have held: their counters ran for a part of the time beside it."""
    beside: Mapping[str, Sequence[float]]
    """The fractions of the time before and after it for which each reason held, or by the mask one that is 0 or 1."""


@dataclass(frozen=True)
class Fit:
    """A model of the lost clock.

    `names` are the joint reasons by reason, `factors` the loss that each of them takes while it holds, `base` the loss
    without any, and `guessed` the first guess of the factors.
    """

    names: Mapping[str, str]
    factors: Mapping[str, float]
    base: float
    guessed: Mapping[str, float]

    def closest(self, sample: Sample) -> Sample:
        """Return the sample with those of its unsure reasons that fit its clock, and their counters, best."""
        unsure = sorted(sample.unsure & set(self.names))
        if not unsure:
            return sample
        some = itertools.chain.from_iterable(itertools.combinations(unsure, count) for count in range(len(unsure) + 1))
        states = [sample.held - frozenset(unsure) | frozenset(each) for each in some]
        return replace(sample, held=min(states, key=lambda state: self.misfit(sample, state)))

    def misfit(self, sample: Sample, state: State) -> float:
        """Return how far the loss of a sample is from that of a state, and the state from what the counters say."""
        names = self.names
        taken = math.fsum(self.factors.get(joint, 0.0) for joint in {names[name] for name in state if name in names})
        against = (
            self.guessed.get(names[name], 0.0) * abs((name in state) - fmean(sample.beside[name]))
            for name in sample.unsure
            if name in names
        )
        return abs(sample.loss - self.base - taken) + BY_COUNTER * math.fsum(against)


def losses(readings: Sequence[Reading], most_mhz: float | None) -> ClockLosses | None:
    """Return the loss of clock in the window by reasons, or None if the clock was read less than twice under load.

    It is counted from `most_mhz`, the device's highest clock, or from the highest that was read.
    """
    working = [each for each in readings if not int(each.get("reasons", 0)) & ClockEvent.GPU_IDLE]
    loaded = _complete([each for each in working if (each.get("clock_mhz") or 0) > 0])
    from_mhz = max([most_mhz or 0.0, *(each["clock_mhz"] for each in loaded)])
    if len(loaded) < 2 or loaded[-1]["at"] <= loaded[0]["at"]:
        return None
    times = {name: share for name in MASKED if (share := _time(name, loaded)) > SHARE}
    found = _samples(loaded, from_mhz, times)
    moving = {name: math.fsum(each.weight for each in found if min(each.beside[name]) > MOVED) for name in times}
    always = [name for name, share in moving.items() if share > THROUGHOUT]
    names = _joined([name for name in times if name not in always], found)
    known = _without(found, names)
    found = _resolved(found, names, known)
    parts, base = _separated(found, names, known)
    sampled = base + math.fsum(parts.values())
    seen = {name: math.fsum(each.weight for each in found if name in each.held) for name in times}
    parts = {joint: part * _correction(joint, times, seen) for joint, part in parts.items()}
    mean = math.fsum(each.weight * from_mhz * math.exp(-each.loss) for each in found)
    return {
        "mhz": mean * math.exp(sampled - base - math.fsum(parts.values())),
        "from_mhz": from_mhz,
        "by_reason": parts,
        "throughout": max(0.0, base),
        "always": always,
    }


def _complete(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings with a counter in each where any has it: the last one known, which never goes back.

    A counter that starts again, as after a reset of the driver, goes on from where it was.
    """
    names = sorted({name for each in readings for name in each if name in MASKED})
    found: list[Reading] = []
    last = {name: next(each[name] for each in readings if name in each) for name in names}
    total = dict(last)
    for each in readings:
        for name in names:
            now = each.get(name, last[name])
            total[name] += max(0.0, now - last[name])
            last[name] = now
        found.append({**each, **total})
    return found


def _time(name: str, readings: Sequence[Reading]) -> float:
    """Return the fraction of the window under a reason: by its counter, else by the masks."""
    counted = [each for each in readings if name in each]
    if len(counted) > 1 and counted[-1]["at"] > counted[0]["at"]:
        moved = counted[-1][name] - counted[0][name]
        return float(min(1.0, max(0.0, moved / (counted[-1]["at"] - counted[0]["at"]))))
    return math.fsum(map(math.prod, zip(_weights(readings), [masked(name, each) for each in readings], strict=True)))


def _weights(readings: Sequence[Reading]) -> list[float]:
    """Return the share of the window that each reading stands for: half of the time to the one before and after it."""
    gaps = [0.0, *(after["at"] - before["at"] for before, after in itertools.pairwise(readings)), 0.0]
    whole = 2 * math.fsum(gaps)
    return [(before + after) / whole for before, after in itertools.pairwise(gaps)]


def _samples(readings: Sequence[Reading], from_mhz: float, names: Iterable[str]) -> list[Sample]:
    beside = {name: _beside(name, readings) for name in names}
    found = []
    for place, (weight, each) in enumerate(zip(_weights(readings), readings, strict=True)):
        spans = {name: intervals[place] for name, intervals in beside.items()}
        held = frozenset(name for name, span in spans.items() if max(span) > MOVED)
        unsure = frozenset(name for name in held if min(spans[name]) < RAN)
        found.append(Sample(weight, math.log(from_mhz / each["clock_mhz"]), held, unsure, spans))
    return found


def _beside(name: str, readings: Sequence[Reading]) -> list[tuple[float, ...]]:
    """Return for which fractions a reason held at each reading: by the mask, or by the counter before and after it."""
    masks = [masked(name, each) for each in readings]
    if any(masks):
        return [(float(held),) for held in masks]
    moved = _fractions(name, readings)
    return list(itertools.pairwise([moved[0], *moved, moved[-1]]))


def _fractions(name: str, readings: Sequence[Reading]) -> list[float]:
    """Return the fraction of each interval between readings in which the counter of a reason moved."""
    return [
        min(1.0, (after.get(name, 0.0) - before.get(name, 0.0)) / max(after["at"] - before["at"], 1e-9))
        for before, after in itertools.pairwise(readings)
    ]


def _joined(names: Sequence[str], samples: Sequence[Sample]) -> dict[str, str]:
    """Return by each reason the name that it is told by: its own, or several joined that held together."""
    groups: list[list[str]] = []
    for name in names:
        twin = next((group for group in groups if _alike(name, group[0], samples)), None)
        if twin:
            twin.append(name)
        else:
            groups.append([name])
    return {name: JOINT.join(group) for group in groups for name in group}


def _alike(one: str, other: str, samples: Sequence[Sample]) -> bool:
    pairs = [(each.weight, fmean(each.beside[one]), fmean(each.beside[other])) for each in samples]
    either = math.fsum(weight * max(both) for weight, *both in pairs)
    return either - math.fsum(weight * min(both) for weight, *both in pairs) < ALIKE * either


def _resolved(samples: Sequence[Sample], names: Mapping[str, str], known: float | None) -> list[Sample]:
    """Return the samples with the unsure reasons that fit their clocks best; `known` is the loss without any.

    What a reason takes is guessed from its counter, and not beyond what was lost beside it, as where the clock that is
    read is a mean. From a guess that is too high others may follow, so that lower ones are tried as well.
    """
    unsure = [place for place, each in enumerate(samples) if each.unsure & set(names)]
    if not unsure:
        return list(samples)
    rows = [(each, _by_counters(each, names)) for each in samples]
    guessed, base = _least_squares(rows, known)
    most = {name: max([each.loss - base for each, held in rows if held[name] > MOVED], default=0.0) for name in guessed}
    guessed = {name: min(guess, most[name]) for name, guess in guessed.items()}
    found = []
    for start in STARTS:
        fit, fitted = Fit(names, {name: start * guess for name, guess in guessed.items()}, base, guessed), samples
        for _ in range(ROUNDS):
            before, fitted = fitted, [fit.closest(each) for each in fitted]
            factors, loss = _least_squares([(each, _by_state(each, names)) for each in fitted], known)
            fit = replace(fit, factors=factors, base=loss)
            if fitted == before:
                break
        found.append((math.fsum(fitted[n].weight * fit.misfit(fitted[n], fitted[n].held) for n in unsure), fitted))
    return list(min(found, key=lambda each: each[0])[1])


def _by_counters(sample: Sample, names: Mapping[str, str]) -> dict[str, float]:
    """Return the fraction of the time beside a sample for which each joint reason held."""
    found: dict[str, float] = {}
    for name, joint in names.items():
        found[joint] = max(found.get(joint, 0.0), fmean(sample.beside[name]))
    return found


def _by_state(sample: Sample, names: Mapping[str, str]) -> dict[str, float]:
    """Return 1 for each joint reason that held at a sample."""
    return {names[name]: 1.0 for name in sample.held if name in names}


def _without(samples: Sequence[Sample], names: Mapping[str, str]) -> float | None:
    """Return the mean loss of the samples without any reason that comes and goes, None if they are too few.

    Those beside one with a reason are left out if others remain: a clock may be read a moment before the counters.
    """
    free = [not each.held & set(names) for each in samples]
    inner = [place for place in range(len(free)) if all(free[max(0, place - 1) : place + 2])]
    places = inner or [place for place, without in enumerate(free) if without]
    if math.fsum(each.weight for each, without in zip(samples, free, strict=True) if without) <= ENOUGH:
        return None
    weight = math.fsum(samples[place].weight for place in places)
    return math.fsum(samples[place].weight * samples[place].loss for place in places) / weight if weight else None


def _separated(
    samples: Sequence[Sample], names: Mapping[str, str], known: float | None
) -> tuple[dict[str, float], float]:
    """Return the mean loss by each reason, and the loss without any of them, which may be known."""
    rows = [(each, _by_state(each, names)) for each in samples]
    factors, base = _least_squares(rows, known)
    parts = dict.fromkeys(factors, 0.0)
    for each, held in rows:
        whole = math.fsum(factors[name] for name in held)
        for name in held if whole else ():
            parts[name] += each.weight * (each.loss - base) * factors[name] / whole
    return {name: part for name, part in parts.items() if part > 0}, base


def _least_squares(
    rows: Sequence[tuple[Sample, Mapping[str, float]]], known: float | None
) -> tuple[dict[str, float], float]:
    """Return what each reason takes while it holds, and the loss without any: `known`, or fitted. None is negative.

    A row is a sample and for how much of its time each reason held.
    """
    factors = dict.fromkeys(sorted({name for _, held in rows for name in held}), 0.0)
    weights = dict.fromkeys(factors, 0.0)
    losses_of = dict.fromkeys(factors, 0.0)
    products = dict.fromkeys(itertools.product(factors, factors), 0.0)
    for each, held in rows:
        for name, share in held.items():
            weights[name] += each.weight * share
            losses_of[name] += each.weight * share * each.loss
            for other, beside in held.items():
                products[name, other] += each.weight * share * beside
    mean, base = math.fsum(each.weight * each.loss for each, _ in rows), known or 0.0
    for _ in range(SWEEPS):
        for name in factors:
            rest = math.fsum(factors[other] * products[name, other] for other in factors if other != name)
            alone = products[name, name]
            factors[name] = max(0.0, (losses_of[name] - base * weights[name] - rest) / alone) if alone else 0.0
        if known is None:
            base = max(0.0, mean - math.fsum(factors[name] * weights[name] for name in factors))
    return factors, base


def _correction(joint: str, times: Mapping[str, float], seen: Mapping[str, float]) -> float:
    """Return the time under a reason by its counter as a multiple of what the readings saw of it."""
    name = max(joint.split(JOINT), key=times.__getitem__)
    found = times[name] / seen[name] if seen[name] else 1.0
    return found if found > FASTER else 1.0
