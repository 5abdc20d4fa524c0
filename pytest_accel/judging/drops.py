"""Compares a figure of a device with those of its own earlier runs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_accel.core.measurement import Measurement, speed_share
from pytest_accel.core.reasons import AllAlike, BehindPast, Reason, Since
from pytest_accel.core.run import EarlierFigure, Past
from pytest_accel.core.sku import Spread
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.background import PastOf, between_runs
from pytest_accel.judging.gaps import FAILS_AT, FOUND_AT, LEAST, LEAST_FAILING, SMALL_SPREAD
from pytest_accel.judging.history import kept
from pytest_accel.judging.like_devices import ENOUGH, Attempt, part_of, together, value_of
from pytest_accel.judging.repeats import unconfirmed

UNKNOWN = {"memory": 0.02, "host": 0.02, "link": 0.02, "compute": 0.05}
"""The drop that is a finding where nobody knows how much two runs differ, by the part that a probe stresses: products
of one H200 differed by up to 2.9 % over five goes (stas00/ml-engineering, branch fast-mamf, 082816f)."""


@dataclass(frozen=True)
class Drop:
    """The share that a device has lost since an earlier run, and the share `allowed` that two runs may differ by."""

    share: float
    allowed: float
    since: EarlierFigure
    which: Since
    """Which run that was: an earlier one, or the first round of this one."""

    @property
    def found(self) -> bool:
        """True if the device lost more than two runs differ by."""
        return self.share > self.allowed

    def reason(self, unit: str) -> BehindPast:
        """Return the drop as a reason."""
        then = self.since
        return BehindPast(self.share, self.allowed, then.value, unit, self.which, then.day, then.differs)


def drop(own: Measurement, past: Past, spread: Spread | None) -> Drop | None:
    """Return the clearer of the drops since the first accepted and the last run; None if nothing can be compared."""
    allowed = allowed_drop(own, past, spread)
    first: Since = "first round" if past.of_this_run else "first accepted"
    runs: tuple[tuple[Since, EarlierFigure | None], ...] = (first, past.first), ("last", past.last)
    drops = [
        Drop(share, allowed, figure, which)
        for which, figure in runs
        if figure and (share := lost(value_of(own), figure.value, own.unit)) is not None
    ]
    return max(drops, key=lambda each: each.share, default=None) if kept(own) else None


def allowed_drop(own: Measurement, past: Past, spread: Spread | None) -> float:
    """Return the share by which two runs of a healthy device may differ.

    Both deviate from the long-run value by the deviation between runs and by the standard error within the run. The
    former is known from earlier runs, or else from the SKU's file; without either the drop has to be large.
    """
    part = part_of(own.metric)
    between = between_runs(past, spread)
    if between is None:
        return UNKNOWN[part]
    return max(FOUND_AT * math.sqrt(2 * (between**2 + own.noise**2)), LEAST[part])


def lost(now: float, then: float, unit: str) -> float | None:
    """Return the share of speed lost between two values in `unit`, negative for a gain; None if either is not above 0.

    Of a rate it is 1 - now / then, of a time 1 - then / now.
    """
    if now <= 0 or then <= 0:
        return None
    return 1 - speed_share(now, then, unit)


def against(
    verdict: Verdict,
    attempts: Attempt,
    past_of: PastOf,
    near: Sequence[Attempt] = (),
    spread: Spread | None = None,
) -> Verdict:
    """Return the verdict on a device after the comparison with its own past.

    `near` are the attempts of the like devices of this run. A drop that every attempt shows that can be compared is
    marginal, or fails where the user wants that; INCONCLUSIVE if only one of several attempts can be compared. Since
    the first round of the same run, a drop fails where a device so far behind its neighbours fails.
    """
    rounds = together(attempts)
    pasts = [past_of(each) for each in rounds]
    found = [_drop(each, past, spread) for each, past in zip(rounds, pasts, strict=True)]
    drops = [(one, past, each) for one, past, each in zip(rounds, pasts, found, strict=True) if past and each]
    if verdict.status is Status.FAIL or not drops or not all(each.found for *_, each in drops):
        return verdict
    own, past, now = drops[-1]
    fails = past.fails or (past.of_this_run and all(each.share > _fails_from(own, each) for *_, each in drops))
    doubt = unconfirmed(attempts, found)
    status = Status.MARGINAL if not fails else Status.INCONCLUSIVE if doubt else Status.FAIL
    reasons = now.reason(own.unit), *_shared(past_of, near, spread), *doubt
    return replace(verdict.worsened(status, *reasons), behind=True)


def _fails_from(own: Measurement, found: Drop) -> float:
    """Return the share lost within a run that fails; none does of a part whose rate follows power and heat."""
    small = part_of(own.metric) in SMALL_SPREAD
    return max(found.allowed * FAILS_AT / FOUND_AT, LEAST_FAILING) if small else math.inf


def _drop(own: Measurement, past: Past | None, spread: Spread | None) -> Drop | None:
    return drop(own, past, spread) if past and not own.trouble else None


def _shared(past_of: PastOf, near: Sequence[Attempt], spread: Spread | None) -> list[Reason]:
    """Return that all devices of the node dropped alike, or nothing."""
    last = [each[-1] for each in near]
    drops = [_drop(each, past_of(each), spread) for each in last]
    return [AllAlike(len(last))] if len(drops) >= ENOUGH and all(each and each.found for each in drops) else []
