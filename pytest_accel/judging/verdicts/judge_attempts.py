"""The verdict on the attempts at one metric of one subject: by a limit, like devices and earlier runs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_accel.core.floor import NOTHING_KNOWN
from pytest_accel.core.measurement import Measurement, Trouble
from pytest_accel.core.metric_name import OF_COUNTERS
from pytest_accel.core.reasons import Alone, Cause, Note, Repeated, WrongData
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict
from pytest_accel.judging.verdicts.allowance import beyond_allowance
from pytest_accel.judging.verdicts.background import NOTHING_ELSE, Background
from pytest_accel.judging.verdicts.excuses import apply_doubts, apply_excuses
from pytest_accel.judging.verdicts.like_devices import Attempts, together, usable, value_of
from pytest_accel.judging.verdicts.limit import compare, information
from pytest_accel.judging.verdicts.references import compare_with_references

STATUS_OF_TROUBLE = {
    "device": Status.FAIL,
    "need": Status.UNMEASURED,
    "external": Status.INCONCLUSIVE,
    "not_applicable": Status.NOT_APPLICABLE,
    "bug": Status.UNMEASURED,
}

Explain = Callable[[Measurement, "Limit | None", Sequence[Attempts]], "Cause | None"]
"""A function that returns the cause of a shortfall of a measurement, or None. It is given the limit that was broken, if
there is one, and the attempts of the like devices, the measurement's own included."""


def stored_cause(measurement: Measurement, *_: object) -> Cause | None:
    """Return the cause that the measurement itself notes, or None."""
    noted = measurement.note("cause")
    return Cause(noted) if noted else None


def judge(
    attempts: Sequence[Measurement],
    limit: Limit | None,
    software: Mapping[str, Any] = NOTHING_KNOWN,
    explain: Explain = stored_cause,
    background: Background = NOTHING_ELSE,
) -> Verdict:
    """Return the verdict on the attempts at one metric of one subject, oldest first.

    The last attempt made on all devices together decides; an attempt made alone explains a failure and never clears
    it. A metric that holds only on the repeat is marginal, and fails if it was far off before. A trouble of the device
    in any attempt stays a failure, and a bug UNMEASURED. A shortfall whose repeat broke off fails, unless something
    from outside stopped it. A shortfall that there was no time to repeat is INCONCLUSIVE, unless it is far off.
    `software` maps names to the versions in use, by which `core.floor.floor_in_force` gives the floor. `explain` is
    called for the cause of a shortfall only.
    """
    if len(attempts) > 1 and attempts[-1].metric.startswith(OF_COUNTERS):  # each reading counts from the first probe on
        return replace(judge(attempts[-1:], limit, software, explain, background), attempts=len(attempts))
    check = _LimitCheck(limit, software, explain, background.neighbours)
    if len(attempts) > 1 and not attempts[-1].trouble:  # this subject was measured again before the time was over
        background = replace(background, not_repeated="")
    verdict = _by_limit(attempts, check, background.not_repeated)
    compared = compare_with_references(verdict, attempts, background)  # neighbours, the own past, other nodes
    if verdict.status is Status.FAIL or compared.status is not Status.FAIL:
        return compared  # a failure by the limit has its cause already
    cause = check.cause(fallen_short(attempts, compared))
    return compared.because(*(note for note in cause if note not in compared.reasons))


@dataclass(frozen=True)
class _LimitCheck:
    """Judges measurements by the limit alone, and has the cause of a shortfall explained."""

    limit: Limit | None
    software: Mapping[str, Any]
    explain: Explain
    neighbours: Sequence[Attempts]

    def verdict_on_last(self, measurements: Sequence[Measurement], rounds_made: int) -> Verdict:
        """Return the verdict on the last of the measurements: the limit compared, the cause, what excuses it."""
        assert self.limit
        verdict = compare(measurements[-1], self.limit, rounds_made, self.software)
        if verdict.status is Status.FAIL and verdict.margin is not None:
            verdict = verdict.because(*self.cause([measurements[-1], *fallen_short(measurements[:-1], verdict)]))
        return apply_excuses(verdict, measurements[-1])

    def cause(self, measurements: Sequence[Measurement]) -> list[Cause]:
        """Return the cause by the first measurement that shows one; if not by the one judged, the cause says so."""
        for index, measurement in enumerate(measurements):
            if cause := self.explain(measurement, self.limit, self.neighbours):
                return [replace(cause, before=index > 0)]
        return []

    def holds(self, measurement: Measurement) -> bool:
        """Return True if the limit is not broken, whatever would excuse that."""
        assert self.limit
        return not measurement.trouble and compare(measurement, self.limit, 1, self.software).status is not Status.FAIL


def fallen_short(attempts: Sequence[Measurement], verdict: Verdict) -> list[Measurement]:
    """Return the attempts on all devices together that fell short as the verdict says, the newest first.

    These are those that broke its limit. If none did, they are all, or the first alone, behind neighbours or the past.
    """
    rounds = [attempt for attempt in reversed(together(attempts)) if usable(attempt)]
    breaking = [attempt for attempt in rounds if verdict.breaks(value_of(attempt))]
    at_first = any(comparison.at_first for comparison in verdict.comparisons)
    return breaking or ((rounds[-1:] if at_first else rounds) if verdict.behind else [])


def _by_limit(attempts: Sequence[Measurement], check: _LimitCheck, not_repeated: str) -> Verdict:
    """Return the verdict on the attempts by the limit alone.

    A fact that changed during the run is judged by its worst value, and is marginal at least.
    """
    if changes := [note for attempt in attempts for note in attempt.notes if note.kind == "changed"]:
        values = [attempt for attempt in reversed(attempts) if not attempt.trouble]
        values = [replace(value, notes=tuple(note for note in value.notes if note not in changes)) for value in values]
        verdicts = [_by_limit([value], check, "") for value in values]
        verdict = min(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.status))
        status = min(verdict.status, Status.MARGINAL, key=WORST_FIRST.index)
        verdict = replace(verdict, reasons=verdict.reasons if check.limit else (), attempts=len(attempts))
        return verdict.because(*changes, status=status)
    verdict = apply_doubts(_of_rounds(attempts, check, not_repeated), attempts[-1].notes)
    unjudged = verdict.status in (Status.UNMEASURED, Status.INCONCLUSIVE)
    return verdict.because(status=Status.NOT_APPLICABLE) if check.limit and check.limit.warns and unjudged else verdict


def _of_rounds(attempts: Sequence[Measurement], check: _LimitCheck, not_repeated: str) -> Verdict:
    """Return the verdict by the last attempt that was measured; one that could not be repeated counts all the same.

    A shortfall that there was no time to repeat fails if it is far beyond the allowance of its limit, or if the limit
    has none because it demands one value; else it is INCONCLUSIVE.
    """
    # the attempts made on all devices together; all attempts if there is none
    limit, rounds = check.limit, together(attempts) or list(attempts)
    for attempt in attempts:  # a trouble of the device or a bug stays, whatever a later attempt shows
        if attempt.trouble and attempt.trouble.kind in ("device", "bug"):
            return _troubled(attempt, attempt.trouble, limit, len(rounds))
    last, measurements = rounds[-1], [attempt for attempt in rounds if not attempt.trouble]
    verdict = check.verdict_on_last(measurements, len(rounds)) if limit and measurements else None
    if verdict and limit and verdict.status is Status.FAIL and not_repeated:
        status = Status.FAIL if beyond_allowance(verdict, limit) else Status.INCONCLUSIVE
        return verdict.because(Note("repeat_without_time", not_repeated), status=status)
    if verdict and verdict.status is Status.FAIL and last.trouble:
        # somebody else may have stopped the repeat, such as a timeout of another plugin
        status = Status.INCONCLUSIVE if last.trouble.kind == "external" else Status.FAIL
        return verdict.because(Note("repeat_failed", last.trouble.reason), status=status)
    if last.trouble and last.trouble.kind == "not_applicable" and limit and limit.required:
        needed = Trouble("need", last.trouble.reason)
        return _troubled(last, needed, limit, len(rounds)).because(Note("required"))
    if last.trouble:
        return _troubled(last, last.trouble, limit, len(rounds))
    if verdict is None:
        return information(last)
    alone = [attempt for attempt in attempts if attempt.how == "alone" and not attempt.trouble]
    if verdict.status is Status.FAIL and alone:  # it explains the failure, and never clears it
        return verdict.because(Alone(alone[-1].value, alone[-1].unit, holds=check.holds(alone[-1])))
    return _seen_before(verdict, rounds, check) if verdict.status.holds else verdict


def _seen_before(verdict: Verdict, rounds: Sequence[Measurement], check: _LimitCheck) -> Verdict:
    """Return the verdict on a metric that holds on the repeat, which the attempts before it may worsen.

    A shortfall far beyond noise fails although it was seen once, unless something from outside excuses it.
    """
    for attempt in (attempt for attempt in rounds[:-1] if not attempt.trouble):
        earlier = check.verdict_on_last([attempt], len(rounds))
        if earlier.status is Status.FAIL and check.limit and beyond_allowance(earlier, check.limit, once=True):
            return earlier.because(Repeated(verdict.value, verdict.unit, fails=True))
    first = rounds[0]
    if len(rounds) > 1 and verdict.status is Status.PASS and not check.holds(first):
        missed = Note("first_failed", first.trouble.reason) if first.trouble else Repeated(first.value, first.unit)
        return verdict.because(missed, status=Status.MARGINAL)
    return verdict


def _troubled(measurement: Measurement, trouble: Trouble, limit: Limit | None, rounds_made: int) -> Verdict:
    """Return the verdict on a measurement that broke off, without a value: a part of it judges nothing."""
    note = Note("left_out" if trouble.untried else "trouble", trouble.reason)
    note = Note("probe_failed") if trouble.kind == "bug" else note  # which says nothing of the device
    return Verdict(
        metric=measurement.metric,
        subject=measurement.subject,
        status=STATUS_OF_TROUBLE[trouble.kind],
        reasons=(WrongData(trouble.reason) if trouble.wrong else note,),
        unit=measurement.unit,
        limit=limit,
        attempts=rounds_made,
        device_failed=trouble.kind == "device",
        event=trouble.event,
        blamed=trouble.blamed,
        floor=None if limit is None or limit.relative else limit.floor,
        ceiling=None if limit is None or limit.relative else limit.ceiling,
    )


def worse(old: Verdict | None, new: Verdict) -> Verdict:
    """Return the worse verdict; on a tie the newer. A failure that is not waived is worse than any other verdict."""
    return new if old is None or new.rank <= old.rank else old
