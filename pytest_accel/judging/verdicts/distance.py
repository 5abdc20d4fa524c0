"""The distance of a value behind a reference, what the distance means, and how a repeat confirms it. Pure.

A value is compared with one of the `ReferenceKind`s. `distance` returns how much speed is lost, `RULES` has the losses
from which on one counts and fails, and `confirm` joins the rounds of a run. Every comparison of speeds is made here:
that of a run, of records, of the nights of a fleet, and of the devices of a calibration.
docs/verdicts.md has the table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pytest_accel.core.measurement import is_time, speed_share
from pytest_accel.core.reasons import Note
from pytest_accel.core.stats import student_above, student_tail
from pytest_accel.core.verdict import WORST_FIRST, Status

ReferenceKind = Literal["neighbours", "elsewhere", "past", "fleet", "known good"]
"""The like devices in the same place of the node; those of the whole
node; an earlier run of the same device, or its figure in another record; the like devices of a fleet in one night; the
devices that a calibration takes for healthy."""
Family = Literal[
    "memory", "host link", "peer links", "matmul", "matmul at the clock", "collectives", "other", "power",
    "latency", "fact",
]  # fmt: skip
"""The kind of metric, by what sets its value. Rates of memory and links follow clock and width, so that healthy devices
hardly differ: eight H200 lie within 0.2 % of each other over the host link (stas00/ml-engineering, network/README.md).
Products follow power and temperature; at the clock that a device held they do not."""

OF_MEDIAN = 1.57
"""The variance of the median of n normally distributed values is pi / 2 of that of their mean (H. A. David, Order
Statistics)."""
FAR = 0.5
"""The loss behind like devices from which on a device fails although it was seen once: no two healthy devices of one
product differ so much."""
OF_WIDTH, OF_RAW_WIDTH = 2.0, 3.0
"""A product fails this many times the widest published range inside a healthy node behind the others: the range at one
clock for a product at its clock, that at any clock for one as it is."""
OF_ONE_NODE = 1.5
"""The factor on the loss that counts behind like devices, where another tool showed the spread on one node or on
another product: products of eight MI100 lie 1.4 times as far apart as those of eight H200 (superbench-results v0.2.1).
"""
ALIKE: tuple[ReferenceKind, ...] = ("neighbours", "elsewhere")
"""The references that are like devices of the same run."""


class FailLosses(NamedTuple):
    """The losses from which on a device fails, by what is known of the spread."""

    own_probe: float = math.inf
    """Our own probe showed it on this product."""
    other_source: float = math.inf
    """Another tool or another product showed it."""
    no_spread: float = math.inf
    """None is known, or the noise is not."""


@dataclass(frozen=True)
class Rule:
    """The losses of speed from which on one counts, and from which on it fails, as fractions; `inf` is never.

    With a known spread a loss counts from `sigmas` standard deviations of the distance on, at least from `min_loss`;
    without one from `no_spread` on, plus what the like devices lost since the same earlier run, at most `no_spread`
    again. It fails from `fail_sigmas` on, at least from the `fail_losses` of the spread.
    """

    sigmas: float
    min_loss: float
    no_spread: float = math.inf
    fail_sigmas: float = 0.0
    fail_losses: FailLosses = FailLosses()  # noqa: RUF009  immutable


_LINKS = Rule(4.0, 0.01, math.inf, 6.0, FailLosses(0.02, 0.05, 0.08))
_WIDE, _LATENCY = Rule(math.inf, 0.0, 0.15), Rule(math.inf, 0.0)


def _by_part(sigmas: float, unknown: float = math.inf, unknown_other: float = math.inf) -> Mapping[Family, Rule]:
    """Return the same rule for all families: a loss counts from 1 % where clock and width fix the rate, else 2 %."""
    fixed: tuple[Family, ...] = ("memory", "host link", "peer links", "collectives")
    return {**dict.fromkeys(fixed, Rule(sigmas, 0.01, unknown)), "other": Rule(sigmas, 0.02, unknown_other)}


RULES: Mapping[ReferenceKind, Mapping[Family, Rule]] = {
    "neighbours": {
        "memory": Rule(4.0, 0.01, math.inf, 6.0, FailLosses(0.02, 0.03, 0.03)),
        "host link": _LINKS,
        "peer links": _LINKS,
        # 22 % is the widest range that was published over whole clusters (arXiv 2208.11035v3, abstract); 25 % is found
        "matmul": Rule(4.0, 0.02, 0.15, 0.0, FailLosses(0.24, 0.24, 0.24)),
        # 4.7 % is the widest range at one clock in 42 nodes of V100 (tests/real/series)
        "matmul at the clock": Rule(4.0, 0.02, 0.15, 0.0, FailLosses(0.12, 0.12, 0.12)),
        "other": Rule(4.0, 0.02, 0.15),
        "power": _WIDE,
        # latencies depend on the socket and the switch of a device by more than rates do
        "latency": _LATENCY,
    },
    "elsewhere": {"other": _WIDE, "latency": _LATENCY},
    # products of one H200 differed by up to 2.9 % over five goes (stas00/ml-engineering, fast-mamf, 082816f)
    "past": _by_part(4.0, 0.02, 0.055),
    "fleet": {
        **_by_part(6.0),
        **dict.fromkeys(("memory", "host link", "peer links"), Rule(6.0, 0.01, math.inf, 6.0, FailLosses(0.02))),
        "matmul": Rule(6.0, 0.02, math.inf, 6.0, FailLosses(0.24)),
    },
    "known good": _by_part(5.0),
}
"""The one table: what a distance means, by reference and family. A family that a reference does not name is "other"."""


@dataclass(frozen=True)
class Reference:
    """The value or median that a value is compared with.

    `middle` is the median of `count` values in the unit of the metric, or one earlier value. `spread` is the standard
    deviation between the values of healthy devices as a fraction, None where it is not known, and `noise` that of one
    value from go to go, as far as it is known. Values of the reference are as noisy as the own one.
    """

    kind: ReferenceKind
    middle: float
    count: int = 1
    spread: float | None = None
    noise: float = 0.0
    own_probe: bool = True
    """False if another tool or another product showed the spread."""
    one_node: bool = False
    """True if no more than one node, or another product, showed the spread."""
    freedom: float = math.inf
    """The degrees of freedom of a spread that is estimated from few values: Student's t takes the place of sigmas."""
    width: float | None = None
    """The widest range of products at one clock that was published inside healthy nodes of the class, as a fraction."""
    raw_width: float | None = None
    """The widest range at any clock."""
    shared_loss: float = 0.0
    """The loss since an earlier run that the other like devices show too (their median), as a fraction."""

    @property
    def deviation(self) -> float:
        """The standard deviation of a healthy device's distance to the middle, as a fraction."""
        of_middle = math.sqrt(1 + (OF_MEDIAN if self.count > 1 else 1.0) / self.count)  # the middle has an error too
        return math.hypot(self.spread or 0.0, self.noise) * of_middle


@dataclass(frozen=True)
class Distance:
    """The distance of a value behind its reference: `loss` is a share of speed, negative for a faster one.

    It counts above `allowed_loss` and fails above `fails_from`, which is infinite where no distance fails.
    """

    loss: float
    allowed_loss: float
    fails_from: float
    reference: Reference
    family: Family

    @property
    def status(self) -> Status:
        """FAIL, MARGINAL, or PASS if the distance does not count."""
        if self.loss > self.fails_from or self.beyond_noise:
            return Status.FAIL
        return Status.MARGINAL if self.loss > self.allowed_loss else Status.PASS

    @property
    def beyond_noise(self) -> bool:
        """True for a distance to like devices that no noise explains, so that it counts although it was seen once."""
        return self.reference.kind in ALIKE and self.loss > FAR

    @property
    def threshold(self) -> float:
        """The loss from which on the status is what it is."""
        return min(self.fails_from, FAR) if self.status is Status.FAIL else self.allowed_loss

    @property
    def at_clock(self) -> bool:
        """True if the rates are compared at the clock that each device held."""
        return self.family == "matmul at the clock"


def distance(value: float, unit: str, family: Family, reference: Reference) -> Distance | None:
    """Return the distance of a value in `unit` behind a reference; None where the two cannot be compared."""
    if reference.middle <= 0 or (is_time(unit) and value <= 0):
        return None
    lost = 1 - speed_share(value, reference.middle, unit)
    return Distance(lost, *loss_bounds(family, reference), reference, family)


def loss_bounds(family: Family, reference: Reference) -> tuple[float, float]:
    """Return the losses from which on a value counts as behind, and from which on it fails (`RULES`)."""
    rules = RULES[reference.kind]
    rule, deviation = rules.get(family) or rules["other"], reference.deviation
    spread_known = reference.spread is not None and math.isfinite(rule.sigmas) and math.isfinite(deviation)
    counts_from = rule.no_spread + max(0.0, min(reference.shared_loss, rule.no_spread))
    fails_from = rule.fail_losses.no_spread
    if spread_known:  # behind like devices it never finds less than an unknown one, so that is the upper bound
        upper, factor = counts_from if reference.kind in ALIKE else math.inf, OF_ONE_NODE if reference.one_node else 1.0
        counts_from = min(factor * max(_sigmas(rule.sigmas, reference) * deviation, rule.min_loss), upper)
        lower = rule.fail_losses.own_probe if reference.own_probe else rule.fail_losses.other_source
        fails_from = min(max(_sigmas(rule.fail_sigmas, reference) * deviation, lower), fails_from)
    if family == "matmul at the clock":
        fails_from = min(max(fails_from, reference.raw_width or 0.0), OF_WIDTH * (reference.width or math.inf))
    elif family == "matmul":
        fails_from = min(fails_from, OF_RAW_WIDTH * (reference.raw_width or math.inf))
    return min(counts_from, fails_from), fails_from


def _sigmas(sigmas: float, reference: Reference) -> float:
    """Return a number of standard deviations, as Student's t for a spread that is estimated from few values."""
    freedom = reference.freedom
    return sigmas if math.isinf(freedom) else student_above(student_tail(sigmas, math.inf), freedom)


@dataclass(frozen=True)
class Confirmation:
    """The conclusion from the rounds of a run: the status, the distance that is told, and the doubts about the repeat.

    `cleared` says that the repeat does not show the distance any more.
    """

    status: Status
    distance: Distance
    cleared: bool = False
    doubt: tuple[Note, ...] = ()


def confirm(rounds: Sequence[Distance | None], not_repeated: str = "") -> Confirmation | None:
    """Return the conclusion from the distances of all rounds, oldest first; None if they show no loss.

    A round that could not be compared is None. The mildest round decides: a loss counts if every round shows it.
    One that would FAIL and that another round does not show is MARGINAL; one that no other round could confirm, or that
    there was no time to repeat (`not_repeated` says why), is INCONCLUSIVE. Beyond `FAR` one round is enough.
    """
    distances = [distance for distance in rounds if distance]
    doubt = tuple(unconfirmed(rounds, not_repeated))
    if beyond_noise := [distance for distance in distances if distance.beyond_noise]:
        cleared = not distances[-1].beyond_noise
        return Confirmation(Status.FAIL, beyond_noise[-1], cleared, (Note("beyond_noise"),) if cleared else doubt)
    by_status = sorted(distances, key=lambda distance: WORST_FIRST.index(distance.status))
    if not distances or by_status[0].status is Status.PASS:
        return None
    mildest, last = by_status[-1].status, distances[-1]
    if mildest is not Status.PASS:
        status = Status.INCONCLUSIVE if doubt and mildest is Status.FAIL else mildest
        return Confirmation(status, last, doubt=doubt)
    if by_status[0].status is not Status.FAIL:
        return None
    cleared = last.status is Status.PASS
    return Confirmation(Status.MARGINAL, by_status[0] if cleared else last, cleared)


def unconfirmed(rounds: Sequence[object | None], not_repeated: str = "") -> list[Note]:
    """Return the reason why a repeat does not confirm what it did not clear: no time for it, or nothing to compare."""
    if not_repeated:
        return [Note("repeat_without_time", not_repeated)]
    return [Note("one_round")] if len(rounds) > 1 and sum(distance is not None for distance in rounds) == 1 else []
