"""Compares a rate or a time with those of the like devices of the node. Pure.

A limit says what a product has to reach; the neighbours say what this one does under the same load, power and cooling.
Where no limit decides they are all that can tell a slow device, and far behind them no limit clears it. Where it is
known how much healthy devices differ (`core.sku.Spread`), a device is compared as narrowly as that allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from pytest_accel.core.measurement import Measurement, is_time, speed_share
from pytest_accel.core.reasons import AllAlike, Alone, BehindMedian, NeighboursHold, Note
from pytest_accel.core.sku import DeclaredBy, Limit, Spread
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict
from pytest_accel.judging.gaps import FOUND_AT, LEAST, gap
from pytest_accel.judging.like_devices import (
    ENOUGH,
    LATENCY,
    Attempt,
    compared,
    part_of,
    together,
    usable,
    value_of,
)
from pytest_accel.judging.repeats import unconfirmed

FAR = 0.5
"""A device below this share of the median fails: no two healthy devices of one product differ so much."""
BEHIND = 0.85
"""A device below this share of the median is marginal where no limit decides. Healthy devices of one product differ by
a few percent; over whole clusters 8 % on average and 22 % at most were found (arXiv 2208.11035v3, abstract)."""
ALIKE = 0.05
"""The largest distance from their median at which devices are alike, where no spread is known."""


@dataclass(frozen=True)
class AmongNeighbours:
    """A device among like ones: its speed as a share of their median (`middle`, in the metric's unit)."""

    share: float
    middle: float
    count: int

    def reason(self, unit: str, *, at_first: bool = False) -> BehindMedian:
        """Return the standing as a reason; `at_first` if the repeat does not show it."""
        return BehindMedian(self.share, self.middle, unit, self.count, at_first)


def standing(own: Measurement, alike: Sequence[Measurement]) -> AmongNeighbours | None:
    """Return where a device stands among like ones, itself included; None if it cannot be compared.

    A measurement with a trouble or a disturbance says nothing about its device.
    """
    values = [value_of(each) for each in alike if usable(each)]
    if not compared(own.metric, own.subject, own.unit) or not usable(own) or len(values) < ENOUGH:
        return None
    middle, value = median(values), value_of(own)
    if middle <= 0 or (is_time(own.unit) and value <= 0):
        return None
    return AmongNeighbours(speed_share(value, middle, own.unit), middle, len(values))


def beside(
    verdict: Verdict,
    attempts: Attempt,
    others: Sequence[Attempt],
    near: Sequence[Attempt] = (),
    spread: Spread | None = None,
) -> Verdict:
    """Return the verdict on a device after the comparison with like ones.

    `others` are the attempts of all of its kind, its own included, `near` those of them in the same place of the node.
    A device below half of the median fails. One behind by more than the `spread` explains is marginal, and fails where
    that is small (`SMALL_SPREAD`); the repeat has to confirm it.
    """
    verdict = _shared(verdict, attempts, near, spread)
    if verdict.status is Status.FAIL:
        return verdict
    wide = _wide(verdict, attempts, others)
    if wide.status is Status.FAIL:
        return wide
    narrow = _narrowly(verdict, attempts, near, spread)
    return wide if narrow is verdict else narrow


def _wide(verdict: Verdict, attempts: Attempt, others: Sequence[Attempt]) -> Verdict:
    """Return the verdict after the comparison with all devices of the kind; rounds that say nothing are left out."""
    rounds = [standing(own, alike) for own, alike in _rounds(attempts, others)]
    known = [each for each in rounds if each]
    if not known:
        return verdict
    now, before = known[-1], [each for each in known[:-1] if each.share < FAR]
    if status := _status(now, verdict):
        behind = now.reason(verdict.unit or attempts[0].unit)
        if now.share < FAR:
            return verdict.worsened(status, behind, *_alone(attempts), *unconfirmed(attempts, rounds))
        return verdict.worsened(status, behind, *unconfirmed((), rounds))
    if before:
        once = before[0].reason(verdict.unit, at_first=True)
        if any(each.details.get("excuse") for each in attempts):
            return verdict.worsened(Status.MARGINAL, once)
        return verdict.worsened(Status.FAIL, once, Note("beyond_noise"))
    return verdict


def _narrowly(verdict: Verdict, attempts: Attempt, near: Sequence[Attempt], spread: Spread | None) -> Verdict:
    """Return the verdict after the comparison by the spread of healthy devices.

    A finding of every round counts as it is. One that would fail is marginal if another round does not show it, and
    INCONCLUSIVE if no other round could be compared.
    """
    rounds = [gap(own, alike, spread) for own, alike in _rounds(attempts, near)] if spread else []
    gaps = [each for each in rounds if each]
    found = sorted(gaps, key=lambda each: WORST_FIRST.index(each.status))
    once = bool(found) and found[0].status is Status.FAIL and found[-1].status is Status.PASS
    if not found or (found[-1].status is Status.PASS and not once):
        return verdict
    status, now, unit = Status.MARGINAL if once else found[-1].status, gaps[-1], verdict.unit or attempts[0].unit
    if now.status is Status.PASS:
        return replace(verdict.worsened(status, found[0].reason(unit, at_first=True)), behind=True)
    doubt = unconfirmed(attempts, rounds)
    status = Status.INCONCLUSIVE if doubt and status is Status.FAIL else status
    return replace(verdict.worsened(status, now.reason(unit), *_alone(attempts), *doubt), behind=True)


def _shared(verdict: Verdict, attempts: Attempt, near: Sequence[Attempt], spread: Spread | None) -> Verdict:
    """Return the verdict on a broken limit with what the neighbours say: all of them are alike, or all others hold."""
    alike = next(reversed([(own, alike) for own, alike in _rounds(attempts, near)]), None)
    bounded = verdict.floor is not None or verdict.ceiling is not None
    if alike is None or not bounded or verdict.margin is None or verdict.margin >= 0:
        return verdict
    own, every = alike[0], [each for each in alike[1] if usable(each)]
    if len(every) < ENOUGH or not usable(own) or not compared(own.metric, own.subject, own.unit):
        return verdict
    short = [each for each in every if _short(each, verdict)]
    if len(short) == len(every) and _alike(every, spread):
        return verdict.because(AllAlike(len(every)))
    if verdict.advises and [each.subject for each in short] == [own.subject]:
        return replace(verdict.because(NeighboursHold(len(every) - 1)), behind=True)
    return verdict


def _short(one: Measurement, verdict: Verdict) -> bool:
    """Return whether a value breaks the bounds that the verdict was given by."""
    value = value_of(one)
    below = verdict.floor is not None and value < verdict.floor
    return below or (verdict.ceiling is not None and value > verdict.ceiling)


def _alike(every: Sequence[Measurement], spread: Spread | None) -> bool:
    """Return whether all values lie as close to their median as those of healthy devices."""
    middle = median(map(value_of, every))
    within = ALIKE
    if spread and spread.between_devices:
        within = max(FOUND_AT * spread.between_devices, LEAST[part_of(every[0].metric)])
    return middle > 0 and all(abs(value_of(each) / middle - 1) <= within for each in every)


def _rounds(attempts: Attempt, others: Sequence[Attempt]) -> list[tuple[Measurement, list[Measurement]]]:
    """Return each attempt on all devices together with those of the others in that round.

    Of others that made fewer attempts the last one counts.
    """
    own, alike = together(attempts), [each for each in map(together, others) if each]
    return [(one, [each[min(place, len(each) - 1)] for each in alike]) for place, one in enumerate(own) if alike]


def _alone(attempts: Attempt) -> list[Alone]:
    """Return what a device that was found behind does alone, if it was measured so instead of not at all."""
    alone = [each for each in attempts if each.how == "alone" and usable(each)]
    return [Alone(alone[-1].value, alone[-1].unit)] if alone and "not_repeated" not in attempts[-1].details else []


def _status(now: AmongNeighbours, verdict: Verdict) -> Status | None:
    """Return the status that a standing gives by itself, or None."""
    if now.share < FAR:
        return Status.FAIL
    behind = now.share < BEHIND and verdict.unit != LATENCY
    return Status.MARGINAL if behind and not _decided(verdict) else None


def _decided(verdict: Verdict) -> bool:
    """Return True if a limit that may reject bounds the metric on the side of slow devices.

    The floor of a class lies too far below for that.
    """
    limit: Limit | None = verdict.limit
    if limit is None or verdict.advises or limit.declared_by is DeclaredBy.CLASS:
        return False
    return limit.equals is not None or (limit.ceiling if is_time(verdict.unit) else limit.floor) is not None
