"""Comparison of one measurement with one limit, and the rates that no device can reach. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_accel.core import versions
from pytest_accel.core.floor import MARGINAL_WITHIN, Floor, floor_in_force
from pytest_accel.core.measurement import NODE, Measurement, Peak, Value, finite, is_rate
from pytest_accel.core.reasons import (
    BelowPublished,
    Close,
    Compared,
    Expected,
    FewSamples,
    Implausible,
    Interval,
    Majority,
    NoMajority,
    Note,
    OtherAlgorithm,
    OtherRanks,
    OtherUnit,
    PastWarning,
    Reason,
    Side,
)
from pytest_accel.core.sku_types import DELIVERY, Basis, Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.probes.declare import declaration_of

FAR, CLEARLY = 0.15, 0.05
"""A value that holds by this fraction of its limit or more passes, with a note if its interval includes the limit. The
second holds below `ENOUGH_TO_LEAVE_OUT` samples, whose interval is wider than healthy goes differ: that of three spans
36 of their deviations."""

ENOUGH_SAMPLES = 3
"""Fewer samples give no confidence interval: a mean that holds is then marginal."""

ENOUGH_TO_LEAVE_OUT = 8
"""From so many samples on the slowest is left out of the interval (not of the value)."""


def compare(measurement: Measurement, limit: Limit, rounds_made: int, software: Mapping[str, Any]) -> Verdict:
    """Return the verdict on one measurement that has no trouble, by the floor in force.

    `rounds_made` is the number of times that the metric had been measured by then, `software` maps names to versions.
    """
    floor = floor_in_force(limit, software, measurement.conditions)
    verdict = _compared(measurement, limit, floor, rounds_made)
    value, published = finite(verdict.value), floor.bound.published
    if verdict.status is Status.FAIL:
        excuses = (reason for reason, low in floor.excuses if math.isinf(low) or (value is not None and value >= low))
        excuse = next(excuses, None)
        verdict = verdict.because(excuse, status=Status.INCONCLUSIVE) if excuse else verdict.because(*floor.unknowns)
    if verdict.status is Status.FAIL and limit.warns:
        verdict = verdict.because(Note("warns"), status=Status.MARGINAL)
    if published and published.unit == verdict.unit in RATES and value is not None and value < published.lowest:
        verdict = verdict.because(BelowPublished(published.lowest, published.source.by, published.differs))
    return verdict


def _compared(measurement: Measurement, limit: Limit, floor: Floor, rounds_made: int) -> Verdict:
    """Return the verdict on a measurement by the bounds in force of a limit."""
    bound = floor.bound
    base = replace(information(measurement, limit, rounds_made), status=Status.FAIL, reasons=(), basis=floor.basis)
    if reason := _incomparable(measurement, bound):
        return base.because(reason, status=Status.UNMEASURED)
    if not bound.bounded:
        return information(measurement, limit, rounds_made)
    if bound.equals is not None or bound.one_of:
        return _compare_fact(base, bound.one_of or (bound.equals,))
    if bound.version is not None:
        return _compare_version(base, bound.version)
    if bound.same_on_all == DELIVERY and measurement.subject == NODE:
        return information(measurement, limit, rounds_made)
    if bound.same_on_all:
        return _compare_with_all(base, measurement, bound)
    if finite(measurement.value) is None:
        return base.because(Note("not_finite"))
    verdict = _compare_number(base, measurement, floor)
    # a value that holds, holds by any algorithm
    return verdict.because(*_by_other_algorithm(measurement, bound)) if verdict.status is Status.FAIL else verdict


def information(measurement: Measurement, limit: Limit | None = None, rounds_made: int = 1) -> Verdict:
    """Return the verdict on a metric that nothing bounds: its value, if there is one."""
    value = measurement.value
    missing = value is None or (isinstance(value, float) and not math.isfinite(value))
    return Verdict(
        metric=measurement.metric,
        subject=measurement.subject,
        status=Status.UNMEASURED if missing else Status.NOT_APPLICABLE,
        reasons=(Note("not_a_value" if missing else "no_limit"),),
        unit=measurement.unit,
        value=value,
        next_run=measurement.next_run,
        of_peak=measurement.of_peak.mean if measurement.of_peak else None,
        limit=limit,
        attempts=rounds_made,
    )


def _by_other_algorithm(measurement: Measurement, limit: Limit) -> list[Reason]:
    """Return the cause of a shortfall, if it is that a collective used another algorithm than the limit's reference.

    A library that finds all parts in order chooses the fastest algorithm.
    """
    algorithm, expected = measurement.conditions.get("algorithm"), limit.conditions.get("algorithm")
    if not (algorithm and expected) or str(algorithm).lower() == str(expected).lower():
        return []
    library = "NCCL" if measurement.conditions.get("backend") == "nccl" else "the collective"
    without_nvls = measurement.details.get("account", {}).get("without_nvls")
    return [OtherAlgorithm(library, str(algorithm), str(expected), without_nvls or "")]


def _incomparable(measurement: Measurement, limit: Limit) -> Reason | None:
    """Return the reason why the limit does not apply to the measurement, or None if it does."""
    ranks = measurement.conditions.get("ranks")
    bounds = [bound for bound in (limit.floor, limit.ceiling) if bound is not None]
    if measurement.value is None:
        return Note("no_value")
    if not limit.bounded:
        return implausible(measurement, limit)
    if limit.conditions.get("ranks", ranks) != ranks:
        return OtherRanks(limit.conditions["ranks"], ranks)
    if limit.equals is not None or limit.one_of or limit.version is not None or limit.same_on_all:
        return None
    if any(finite(bound) is None for bound in bounds):
        return Note("no_bound")
    peak = measurement.peak
    if limit.relative and not (peak and all((finite(value) or 0) > 0 for value in (peak.value, *peak.samples))):
        return Note("no_peak")
    unit = limit.of_unit if limit.relative else limit.unit
    if unit is not None and unit != measurement.unit:
        return OtherUnit(unit)
    return implausible(measurement, limit)


def _compare_fact(base: Verdict, accepted: Sequence[Value | None]) -> Verdict:
    """Return the verdict on a value that has to be one of those accepted."""
    accepts = base.value in accepted
    expected = accepted[0] if len(accepted) == 1 else " or ".join(map(str, accepted))
    status = Status.PASS if accepts else Status.FAIL
    return replace(base, expected=expected, status=status, reasons=(Expected(said=not accepts),))


def _compare_version(base: Verdict, expected: str) -> Verdict:
    holds = versions.parse(expected).holds(str(base.value))
    if holds is None:
        return base.because(Note("not_a_version"), status=Status.UNMEASURED)
    return replace(base, expected=expected, status=Status.PASS if holds else Status.FAIL, reasons=(Expected(),))


def _compare_with_all(base: Verdict, measurement: Measurement, limit: Limit) -> Verdict:
    """Return the verdict on a value by that of the majority.

    A limit that has a floor besides fails what lies below it, whatever the others have.
    """
    on_all = measurement.on_all
    if limit.floor is not None and finite(base.value) is not None:
        verdict = _compare_number(base, measurement, Floor(limit))
        if verdict.status is Status.FAIL:
            return verdict
    if base.value not in on_all.values():
        return base.because(Note("others_unknown"), status=Status.UNMEASURED)
    (majority, count), *_ = Counter(on_all.values()).most_common(1)
    if 2 * count <= len(on_all):  # nobody can tell which devices are the odd ones, so all fail
        names = {value: ", ".join(name for name in on_all if on_all[name] == value) for value in on_all.values()}
        return base.because(NoMajority(tuple(names.items())))
    status = Status.PASS if base.value == majority else Status.FAIL
    return replace(base, expected=majority, status=status, reasons=(Majority(count, len(on_all)),))


def _compare_number(base: Verdict, measurement: Measurement, in_force: Floor) -> Verdict:
    limit = in_force.bound
    scale = _scale(measurement, limit)
    floor = None if limit.floor is None else limit.floor * scale
    ceiling = None if limit.ceiling is None else limit.ceiling * scale
    value = float(measurement.value)  # type: ignore[arg-type]
    sides: tuple[tuple[float | None, int, Side], ...] = (floor, 1, "floor"), (ceiling, -1, "ceiling")
    margin, side = min(_margin(sign * (value - bound), bound, side) for bound, sign, side in sides if bound is not None)
    status = Status.PASS if margin >= 0 else Status.FAIL
    declaration = declaration_of(measurement.metric)
    # a fact does not scatter, a limit that only warns has no margin to note, and nothing is close to a bound of 0
    noisy = (floor if side == "floor" else ceiling) and not (limit.warns or (declaration and declaration.fact))
    low, high = _interval(measurement, limit, scale)
    doubt: Reason | None = None
    warming = limit.warn_per_kelvin * max(0.0, measurement.details.get("warmed_k", UNREAD_K))
    warn = None if limit.warn is None else (limit.warn + warming) * scale
    if status is Status.FAIL:
        pass
    elif warn is not None and (value < warn if ceiling is None else value > warn):
        doubt = PastWarning(warn)
    elif noisy and margin < MARGINAL_WITHIN:
        doubt = Close(MARGINAL_WITHIN, side)
    elif 0 < len(measurement.samples) < ENOUGH_SAMPLES:
        doubt = FewSamples(len(measurement.samples), ENOUGH_SAMPLES)
    elif (floor is not None and low < floor) or (ceiling is not None and high > ceiling):
        doubt = Interval(low, high, side)
    # a wide interval alone does not make a value marginal that is this far from its bound
    clear_margin = CLEARLY if len(measurement.samples) < ENOUGH_TO_LEAVE_OUT else FAR
    clearly_holds = isinstance(doubt, Interval) and margin >= clear_margin
    status = Status.MARGINAL if doubt and not clearly_holds else status
    reasons = (_bound(side, measurement, in_force), *([doubt] if doubt else []))
    return replace(base, floor=floor, ceiling=ceiling, margin=margin, status=status, reasons=reasons)


def _margin(room: float, bound: float, side: Side) -> tuple[float, Side]:
    """Return the distance to a bound as a share of it, infinite for a bound of 0, to which nothing is close."""
    return room / abs(bound) if bound else math.copysign(math.inf, room) if room else 0.0, side


def _scale(measurement: Measurement, limit: Limit) -> float:
    """Return the factor that converts the limit to the unit of the value: the peak for a relative limit, else 1."""
    if not limit.relative or measurement.peak is None:
        return 1.0
    fraction = measurement.of_peak
    if fraction is None or not fraction.mean:
        return measurement.peak.value
    return float(measurement.value) / fraction.mean  # type: ignore[arg-type]


UNREAD_K = 15.0
"""The rise that is assumed where temperatures were not read: a droop of 0.035 is warned of then, which none of 1,128
published series shows (tests/real/series)."""


def _interval(measurement: Measurement, limit: Limit, scale: float) -> tuple[float, float]:
    """Return the confidence interval to compare with the limit, in the unit of the value.

    Of a rate the slowest of `ENOUGH_TO_LEAVE_OUT` samples is left out; the value itself keeps it.
    """
    estimate = measurement.of_peak if limit.relative else measurement.estimate
    samples = measurement.samples
    if not limit.relative and is_rate(measurement.unit) and len(samples) >= ENOUGH_TO_LEAVE_OUT:
        # one slow block widens the interval of a healthy device beyond allowance; a slow device is slow in all blocks
        slowest = min(range(len(samples)), key=samples.__getitem__)
        estimate = replace(measurement, samples=samples[:slowest] + samples[slowest + 1 :]).estimate
    if estimate is None or not math.isfinite(estimate.low):
        return math.inf, -math.inf  # the empty interval: of a fact, or too few samples, the value alone decides
    return estimate.low * scale, estimate.high * scale


def _bound(side: Side, measurement: Measurement, in_force: Floor) -> Compared:
    """Return the bound that a value is compared with, and the figure that it is a share of."""
    limit = in_force.bound
    if in_force.basis is Basis.CLASS and limit.class_floor:
        return Compared(side, limit.class_floor.share, limit.class_floor.of)
    if limit.relative and limit.floor is not None and measurement.peak is not None:
        return Compared(side, limit.floor, measurement.peak.source)
    if limit.of_reference is not None:
        base = ("the lowest healthy", limit.healthy[0]) if limit.healthy else ("reference", limit.reference)
        return Compared(side, limit.of_reference, *base)
    return Compared(side)


RATES = ("TFLOPS", "TOPS", "GB/s")
MOST_OF_PEAK = 1.5
"""Boards that boost above their published clock reach 1.28 of the datasheet (RTX 5090); sparse figures reach 2."""
MOST_OF_REFERENCE = 2.0
"""Applies if no peak is known: no software has doubled the rate of a healthy part at the same size."""


def implausible(measurement: Measurement, limit: Limit) -> Implausible | None:
    """Return the reason why a rate is too high to be believed, or None."""
    value = measurement.value
    if measurement.unit not in RATES or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    base, multiple, label = _yardstick(measurement.peak, limit)
    return Implausible(value / base, label) if base and value > multiple * base else None


def _yardstick(peak: Peak | None, limit: Limit) -> tuple[float, float, str]:
    """Return (base, largest plausible multiple, label) for a rate; a base of 0 means no bound."""
    if peak is None:
        return (0.0 if limit.relative else limit.reference or 0.0), MOST_OF_REFERENCE, "healthy reference"
    # a peak with samples was measured in the same run, and may be as wrong as the value
    return (0.0 if peak.samples else peak.value), MOST_OF_PEAK, peak.source
