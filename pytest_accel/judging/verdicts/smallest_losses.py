"""The smallest losses of speed that a run would have rejected, for each part of the node. Pure.

One device of several alike is rejected by the comparison with its neighbours. Devices that are all slow alike are
rejected by floors alone, so what they have to reach is told as a share of the datasheet.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, stdev
from typing import Any

from pytest_accel.core.floor import floor_in_force
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Measurement, is_rate
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import Basis, Spread
from pytest_accel.core.stats import ENOUGH_ALIKE, student_above
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.attempts import RunAttempts
from pytest_accel.judging.verdicts.background import Background, SpreadOf
from pytest_accel.judging.verdicts.distance import FAR, OF_MEDIAN, Family
from pytest_accel.judging.verdicts.like_devices import (
    AllAttempts,
    family_of,
    held_clock,
    is_comparable,
    together,
    usable,
)
from pytest_accel.judging.verdicts.references import figure, to_neighbours
from pytest_accel.probes.declare import finder_of

FAMILIES: tuple[Family, ...] = ("matmul", "matmul at the clock", "memory", "host link", "peer links", "collectives")
"""The families of metrics, in the order in which they are told."""
FOUND = 0.95
"""The chance of being rejected that a loss is stated for."""
MISSED = 1 - math.sqrt(FOUND)
"""The chance of being missed in one of two rounds that both have to find a loss. Rounds of one device have a deviation
in common, and more often miss the same losses, so that no loss is stated too small."""
SHORT = Status.MARGINAL, Status.FAIL, Status.INCONCLUSIVE
"""The statuses of a device whose own figures do not tell how far healthy ones lie apart."""


@dataclass(frozen=True)
class RejectedLosses:
    """The losses that a run rejects with the chance `FOUND` in every metric of a family, on every device.

    `behind` is the loss of one device of `count` alike, and `below` the share of the datasheet that all have to reach;
    each is None where nothing rejects, and `behind` also where nobody knows how far healthy devices lie apart.
    `has_limit` says that a limit rejects, also one on a figure that no datasheet has.
    """

    behind: float | None = None
    count: int = 0
    below: float | None = None
    has_limit: bool = False


def smallest_losses(verdicts: Iterable[Verdict], attempts: RunAttempts) -> dict[str, RejectedLosses]:
    """Return the smallest losses that a run rejects, by family."""
    losses_by_family: dict[Family, list[RejectedLosses]] = {}
    speeds = [(verdict, speed) for verdict in verdicts if (speed := _speed(verdict, attempts.by_key))]
    for family, pairs in grouped(speeds, lambda pair: _family(pair[1])).items():
        short_subjects = {speed.subject for verdict, speed in pairs if verdict.status in SHORT}
        # what makes a device slow widens its own error, so those that fell short are left out if there are others
        short_subjects = set() if short_subjects == {speed.subject for _, speed in pairs} else short_subjects
        for verdict, speed in pairs:
            if speed.subject in short_subjects:
                continue
            background = attempts.background((speed.metric, speed.subject))
            healthy = [device for device in _last(background.neighbours) if device.subject not in short_subjects]
            count = len(_last(background.like_devices))
            count, losses = (count, _behind(speed, background, healthy)) if count >= ENOUGH_ALIKE else (0, {})
            loss, limits = losses.get(family), _below(verdict, speed, background.spread, attempts.software)
            losses_by_family.setdefault(family, []).append(RejectedLosses(loss, count, *limits))
            if family == "matmul" and loss:  # without a clock such a loss is found as any other
                at_clock = RejectedLosses(losses.get("matmul at the clock", loss), count, has_limit=True)
                losses_by_family.setdefault("matmul at the clock", []).append(at_clock)
    return {family: _weakest(losses_by_family[family]) for family in FAMILIES if family in losses_by_family}


def of_run(run: Run, spread_of: SpreadOf) -> str:
    """Return the sentence on the losses of speed that a run rejects."""
    attempts = RunAttempts.of(run.measurements, run.devices, spread_of=spread_of, software=run.software)
    return sentence(smallest_losses(run.verdicts, attempts))


def _speed(verdict: Verdict, attempts: AllAttempts) -> Measurement | None:
    """Return the last measurement of a speed of the `FAMILIES`; None for anything else."""
    rounds = together(attempts.get((verdict.metric, verdict.subject), ()))
    return rounds[-1] if rounds and usable(rounds[-1]) and _family(rounds[-1]) in FAMILIES else None


def _family(speed: Measurement) -> Family:
    declaration = finder_of(speed.metric)
    is_speed = is_rate(speed.unit) and not (declaration and declaration.fact)
    return family_of(speed.metric, speed.unit) if is_speed else "fact"


def _last(attempts: Sequence[Sequence[Measurement]]) -> list[Measurement]:
    """Return the last usable measurement of each device on all devices together."""
    return [rounds[-1] for rounds in map(together, attempts) if rounds and usable(rounds[-1])]


def _weakest(metrics: Sequence[RejectedLosses]) -> RejectedLosses:
    """Return the losses that hold for every metric and device of a family, as far as neighbours or a limit bound it."""
    losses, shares = [loss.behind for loss in metrics if loss.behind], [loss.below for loss in metrics if loss.below]
    bounded, count = any(loss.has_limit for loss in metrics), min(loss.count for loss in metrics)
    return RejectedLosses(max(losses, default=None), count, min(shares, default=None), bounded)


def _behind(speed: Measurement, background: Background, healthy: Sequence[Measurement]) -> dict[Family, float]:
    """Return the losses from which on the like devices reject a device, by family.

    The healthy devices of the run tell how far they differ. Where all have one value it is that of the node.
    """
    if not is_comparable(speed):
        return {}
    distances = filter(None, to_neighbours(speed, _last(background.neighbours), background.spread))
    fails: dict[Family, float] = {distance.family: min(distance.fails_from, FAR) for distance in distances}
    fails = fails or {_family(speed): FAR}
    losses = {}
    for family, fails_from in fails.items():
        clock = held_clock(speed) if family == "matmul at the clock" else None
        values = [value for device in healthy if (value := figure(device, clock))]
        if len(values) > 1 and (deviation := stdev(values) / median(values)):
            error = student_above(MISSED, len(values) - 1) * deviation * math.sqrt(1 + OF_MEDIAN / (len(values) - 1))
            losses[family] = 1 - (1 - fails_from) / (1 + error)
    return losses


def _below(
    verdict: Verdict, speed: Measurement, spread: Spread | None, software: Mapping[str, Any]
) -> tuple[float | None, bool]:
    """Return the share of the datasheet below which the floor in force rejects, and True if there is one that does.

    The share is None for a figure that no datasheet has, and for one whose error is not known.
    """
    floor = floor_in_force(verdict.limit, software, speed.conditions) if verdict.limit else None
    lowest = floor.rejects_below if floor else None
    if floor is None or lowest is None or math.isinf(lowest):
        return None, False
    row = None if floor.excuses else floor.bound.class_floor
    peak = 1.0 if floor.bound.relative else speed.peak.value if speed.peak and not speed.peak.samples else 0.0
    share = row.share if floor.basis is Basis.CLASS and row else lowest / peak if lowest and peak else 0.0
    middle = median(speed.samples) if len(speed.samples) > 1 else 0.0
    if not share or not middle or not speed.value:  # a forged record may hold samples of zero
        return None, bool(lowest)
    deviation = stdev(speed.samples) / middle  # that of runs, and of a median, is taken for no larger
    runs = spread.between_runs if spread and spread.between_runs is not None else deviation
    error = math.hypot(runs, speed.noise if math.isfinite(speed.noise) else deviation)
    return share / (1 + student_above(MISSED, len(speed.samples) - 1) * error), True


def sentence(losses: Mapping[str, RejectedLosses]) -> str:
    """Return the sensitivity of a run in one line, never more than it is; empty if no speed was measured."""
    # rounded so that no loss is told too small, and no share too large
    behind = [f"{loss.behind + 0.0005:.1%} in {family}" for family, loss in losses.items() if loss.behind is not None]
    below = [f"{loss.below - 0.005:.0%} in {family}" for family, loss in losses.items() if loss.below]
    unbounded = [family for family, loss in losses.items() if not loss.has_limit]
    counts = [loss.count for loss in losses.values() if loss.count]
    parts = [f"one of {min(counts)} devices that is slower than the others by {', '.join(behind)}"] if behind else []
    parts += [f"all devices if they reach less of the datasheet than {', '.join(below)}"] if below else []
    notes = [] if counts or not parts else [f"fewer than {ENOUGH_ALIKE} devices are alike, so floors alone reject"]
    notes += [f"no limit rejects all devices together in {', '.join(unbounded)}"] if unbounded else []
    head = [f"with {FOUND:.0%} probability this run rejects {'; and '.join(parts)}"] if parts else []
    return "; ".join([*head, *notes])
