"""The chances that healthy devices are rejected and that slow ones are accepted. Pure.

A healthy device reaches c (1 + D + G) of a limit's healthy figure c. D is constant over the goes of a run, G is drawn
anew for each; both are normal. A device that is slow by a loss L reaches 1 - L of that. A shortfall counts if the
repeat shows it too, so the chance is that of two normal values with the correlation D^2 / (D^2 + G^2)
(`stats.both_below`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Union

from pytest_accel.core.measurement import NODE, Measurement, is_time
from pytest_accel.core.sku import Limit, Spread
from pytest_accel.core.stats import both_below
from pytest_accel.core.verdict import ErrorRates
from pytest_accel.judging.allowance import BEYOND_NOISE, allowance, doubtful_from
from pytest_accel.judging.background import Background, between_runs
from pytest_accel.judging.compare import MARGINAL_WITHIN
from pytest_accel.judging.distance import Distance
from pytest_accel.judging.like_devices import is_speed, together
from pytest_accel.judging.references import drop, to_neighbours
from pytest_accel.probes.declare import declaration_of, finder_of
from pytest_accel.skus import requirements

SHORT = (0.05, 0.10)
"""The losses for which the chance of being accepted is stated."""
IN_RANGE = 33
"""The figures of a published healthy range over which a chance is averaged: a node lies anywhere in it."""
FOUND = 0.95
"""The chance of being found that the smallest loss is stated for."""
MOST_LOSS = 0.9
"""The largest loss that is looked for."""
DIGITS = 3
"""Significant digits of a chance, or of its difference from one."""
LEAST_CHANCE = 1e-9
"""The smallest chance that is stated, and the smallest difference from one: nobody knows how normal tails are there."""


@dataclass(frozen=True)
class Noise:
    """Standard deviations of the speed of healthy devices, as fractions: constant in a run, and of each go."""

    constant: float
    go: float

    @property
    def total(self) -> float:
        """The deviation of one go of any device."""
        return math.hypot(self.constant, self.go)

    def below(self, share: float) -> float:
        """Return the chance that a device is below 1 + `share` of its mean in one go."""
        return NormalDist().cdf(_over(share, self.total))

    def both_below(self, share: float, other: float) -> float:
        """Return the chance that it is below 1 + `share` in one go and below 1 + `other` in another."""
        total = self.total
        correlation = (self.constant / total) ** 2 if total else 1.0
        return both_below(_over(share, total), _over(other, total), correlation)


def _over(share: float, deviation: float) -> float:
    """Return a distance in standard deviations; without any deviation it is infinite."""
    return share / deviation if deviation else math.copysign(math.inf, share)


@dataclass(frozen=True)
class ByLimit:
    """The floor of a rate, or the ceiling of a time.

    `bounds` are the bound as a speed, as shares of every healthy figure that a node may have. `marginal`, `doubtful`
    and `far` are the factors of the bound below which a device is MARGINAL, INCONCLUSIVE by an advisory limit, and
    FAIL although the repeat holds; 0 where there is no such bound.
    """

    bounds: Sequence[float]
    noise: Noise
    marginal: float
    doubtful: float
    far: float
    rejects: bool
    name: str = "floor"

    @property
    def stops(self) -> bool:
        """True if a shortfall may be FAIL or INCONCLUSIVE."""
        return self.rejects or self.doubtful > 0

    def found(self, loss: float) -> float:
        """Return the chance that the first go is below the bound, or too close to it."""
        return fmean(self.noise.below(self.marginal * each / (1 - loss) - 1) for each in self.bounds)

    def rejected(self, loss: float) -> float:
        """Return the chance that both goes are below the bound, or the first one by far."""
        return self._twice(1.0, loss) if self.rejects else 0.0

    def stopped(self, loss: float) -> float:
        """Return the same, for an advisory limit the chance of INCONCLUSIVE."""
        if self.rejects:
            return self.rejected(loss)
        return self._twice(self.doubtful, loss) if self.doubtful else 0.0

    def _twice(self, factor: float, loss: float) -> float:
        every = []
        for each in self.bounds:
            short, far = factor * each / (1 - loss) - 1, self.far * each / (1 - loss) - 1
            once = self.noise.below(far) - self.noise.both_below(far, short) if self.rejects and self.far else 0.0
            every.append(self.noise.both_below(short, short) + max(0.0, once))
        return fmean(every)


@dataclass(frozen=True)
class ByNeighbours:
    """The like devices of the node: the distance to their median has to be long in both goes."""

    distance: Distance
    name: str = "neighbours"

    @property
    def rejects(self) -> bool:
        """True if a distance may fail."""
        return math.isfinite(self.distance.fails_from)

    stops = rejects

    def found(self, loss: float) -> float:
        """Return the chance that both goes show a finding, or one of them one that fails."""
        wide, fails = self._share(self.distance.allowed, loss), self._share(self.distance.fails_from, loss)
        once = 2 * (self._noise.below(fails) - self._noise.both_below(fails, wide)) if fails > -1 else 0.0
        return min(1.0, self._noise.both_below(wide, wide) + max(0.0, once))

    def rejected(self, loss: float) -> float:
        """Return the chance that both goes show a distance that fails."""
        fails = self._share(self.distance.fails_from, loss)
        return self._noise.both_below(fails, fails) if fails > -1 else 0.0

    stopped = rejected

    @property
    def _noise(self) -> Noise:
        of = self.distance.reference
        return Noise((of.spread or 0.0) * of.of_middle, of.noise * of.of_middle)

    def _share(self, from_: float, loss: float) -> float:
        """Return the deviation from the median, but for the loss, at which a device is just behind by `from_`."""
        return (1 - from_) / (1 - loss) - 1 if from_ < 1 else -1.0


@dataclass(frozen=True)
class ByPast:
    """The last run of the same device: two runs differ by at most `allowed`."""

    allowed: float
    go: float
    rejects: bool
    """True if the user wants a drop to fail."""
    name: str = "last run"

    @property
    def stops(self) -> bool:
        """True if a drop fails."""
        return self.rejects

    def found(self, loss: float) -> float:
        """Return the chance that both goes are short of the last run."""
        share = (1 - self.allowed) / (1 - loss) - 1
        return Noise(self.go, self.go).both_below(share, share)

    def rejected(self, loss: float) -> float:
        """Return the same where the user wants a drop to fail."""
        return self.found(loss) if self.rejects else 0.0

    stopped = rejected


Way = Union[ByLimit, ByNeighbours, ByPast]  # noqa: UP007  Python 3.10 evaluates it
"""A way by which a verdict finds a slow device."""


def of_speed(own: Measurement) -> bool:
    """Return True for a measured rate or time, which has error rates."""
    declared = declaration_of(own.metric)
    return not (declared and declared.fact) and is_speed(own.metric, own.unit)


def error_rates(
    own: Measurement, limit: Limit | None, background: Background, *, advises: bool = False
) -> ErrorRates | None:
    """Return the error rates of the verdict on a measurement by a limit; None if it is no speed, or nothing bounds it.

    `advises` says that the limit advises under the conditions of the run, although its file does not say so.
    """
    if limit is None or not of_speed(own) or bound_of(limit, own.unit) is None:
        return None
    by_limit, words = by_limit_of(own, limit, background, advises=advises)
    if by_limit is None:
        return ErrorRates(0.0 if advises or limit.advises else None, None, None, words)
    others = (by_neighbours(own, background), by_past(own, background))
    return _rates([by_limit, *(each for each in others if each)], words)


def rates_of_limit(limit: Limit, spread: Spread | None) -> ErrorRates | None:
    """Return the error rates of a limit by itself, before anything is measured; None if it bounds no speed."""
    return error_rates(_planned(limit), limit, Background(spread=spread))


def smallest_loss_of_limit(limit: Limit, spread: Spread | None) -> float | None:
    """Return the smallest loss that a limit finds by itself with the chance `FOUND`; None where it is not known."""
    by_limit, _ = by_limit_of(_planned(limit), limit, Background(spread=spread), advises=False)
    return smallest(by_limit.found) if by_limit else None


def accepted(limit: Limit, spread: Spread | None, loss: float) -> float | None:
    """Return the chance that a limit by itself accepts a device with a loss; None where it is not known."""
    by_limit, _ = by_limit_of(_planned(limit), limit, Background(spread=spread), advises=False)
    return rounded(1 - by_limit.stopped(loss)) if by_limit else None


def _planned(limit: Limit) -> Measurement:
    """Return a measurement of the limit's metric that was not made. A fraction of a peak has the metric's unit."""
    declared = finder_of(limit.metric)
    unit = (limit.of_unit or (declared.unit_of(limit.metric) if declared else None)) if limit.relative else limit.unit
    return Measurement(limit.metric, "", unit or limit.unit, None)


def smallest(chance: Callable[[float], float]) -> float | None:
    """Return the smallest loss of which the chance is `FOUND`, None above `MOST_LOSS`. By bisection."""
    low, high = 0.0, MOST_LOSS
    if chance(high) < FOUND:
        return None
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) >= FOUND else (middle, high)
    return high


def _rates(ways: Sequence[Way], words: str) -> ErrorRates:
    """Return the error rates of several ways together, each bounded from above.

    A healthy device is rejected by any of them, and a slow one is accepted at most where the strongest misses it.
    """
    healthy = rounded(sum(each.rejected(0.0) for each in ways)) if any(each.rejects for each in ways) else 0.0
    stopping = [each for each in ways if each.stops]
    five, ten = (rounded(1 - max(each.stopped(loss) for each in stopping)) if stopping else 1.0 for loss in SHORT)
    return ErrorRates(healthy, five, ten, words)


def rounded(chance: float) -> float:
    """Return a chance with `DIGITS` significant digits, near one with so many of its difference from one.

    It is at least `LEAST_CHANCE` away from either.
    """
    if chance > 0.5:
        return round(1 - float(f"{max(LEAST_CHANCE, 1 - chance):.{DIGITS}g}"), 12)
    return float(f"{max(LEAST_CHANCE, chance):.{DIGITS}g}")


# -- the ways of one measurement


def bound_of(limit: Limit, unit: str) -> float | None:
    """Return the bound of a limit on the side of slow devices, None if it has none."""
    bound = limit.ceiling if is_time(unit) else limit.floor
    return bound if bound and bound > 0 else None


def by_limit_of(own: Measurement, limit: Limit, background: Background, *, advises: bool) -> tuple[ByLimit | None, str]:
    """Return the way of a limit and the deviations that it is known by, or None and the reason."""
    time, bound = is_time(own.unit), bound_of(limit, own.unit)
    figures = _healthy(limit)
    noise, words = _noise_of(own, background)
    if noise is None or not figures or not bound:
        return None, words if noise is None else "not known: the limit states no healthy figure"

    def factor(share: float) -> float:
        """Return the bound that is `share` further than that of the limit, as a multiple of it, for a speed."""
        return 1 / (1 + share) if time else max(0.0, 1 - share)

    differs = advises or bool(limit.differs)
    warned = (bound / limit.warn if time else limit.warn / bound) if limit.warn else 0.0
    return ByLimit(
        bounds=[each / bound if time else bound / each for each in figures],
        noise=noise,
        marginal=1.0 if differs else max(warned, factor(-MARGINAL_WITHIN)),
        doubtful=factor(1 - doubtful_from(limit)) if differs and not limit.only_warns else 0.0,
        far=factor(BEYOND_NOISE * allowance(limit)),
        rejects=not (advises or limit.advises),
        name="ceiling" if time else "floor",
    ), words


def _healthy(limit: Limit) -> list[float]:
    """Return the figures that a healthy node may have.

    They lie anywhere in a published range. The range of a calibrated limit is that of single devices in single runs,
    whose deviations are stated, so that its centre counts.
    """
    calibrated = limit.source is not None and limit.source.kind == "measured"
    if limit.healthy and not (calibrated and limit.reference):
        low, high = limit.healthy
        width = (high - low) / IN_RANGE
        return [low + width * (place + 0.5) for place in range(IN_RANGE)] if width else [low]
    return [limit.reference] if limit.reference else []


def _noise_of(own: Measurement, background: Background) -> tuple[Noise | None, str]:
    """Return the noise of a measured metric with its words, or None and why it is not known."""
    spread, past = background.spread, background.past_of(own)
    of_node = own.subject == NODE or requirements.of_node(own.metric)
    if spread is None:
        return None, "not known: no spread is stated"
    between = spread.between_nodes if of_node else spread.between_devices
    if between is None:
        return None, f"not known: no spread between {'nodes' if of_node else 'devices'} is stated"
    runs = between_runs(past, spread)
    error = own.noise
    if not math.isfinite(error):
        return None, "not known: too few samples for the error within the run"
    nodes = 0.0 if of_node else spread.between_nodes or 0.0
    parts = [f"{100 * between:.2g}% between {'nodes' if of_node else 'devices'}"]
    parts += [f"{100 * nodes:.2g}% between nodes"] if nodes else []
    parts.append("runs not stated" if runs is None else f"{100 * runs:.2g}% between runs")
    parts += [f"{100 * error:.1g}% within the run"] if error else []
    whose = "" if spread.ours else f"; of another tool or product ({spread.source.by})"
    return Noise(math.hypot(between, nodes), math.hypot(runs or 0.0, error)), f"{', '.join(parts)}{whose}"


def by_neighbours(own: Measurement, background: Background) -> ByNeighbours | None:
    """Return the way of the like devices, whatever slows one of them down; None if they are too few."""
    last = [each[-1] for each in map(together, background.near) if each]
    found = to_neighbours(own, last, background.spread)
    return ByNeighbours(found) if found and math.isfinite(found.reference.deviation) else None


def by_past(own: Measurement, background: Background) -> ByPast | None:
    """Return the way of the earlier runs; None without one, and where nobody knows how much two runs differ."""
    past = background.past_of(own)
    found = drop(own, past, background.spread) if past else None
    if past is None or found is None or found.distance.reference.spread is None:
        return None
    of = found.distance.reference
    go = math.hypot(of.spread or 0.0, of.noise)
    return ByPast(found.distance.allowed, go, past.fails) if math.isfinite(go) else None
