"""Judges the attempts at a metric against a limit, and keeps the attempts at the metrics of one probe. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.core.details import Details
from pytest_accel.core.floor import NOTHING_KNOWN
from pytest_accel.core.measurement import Measurement, Trouble
from pytest_accel.core.reasons import Alone, Note, Repeated, WrongData
from pytest_accel.core.sku import Limit, Spread
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict
from pytest_accel.judging.verdicts.allowance import far
from pytest_accel.judging.verdicts.background import NOTHING_ELSE, Background, PastOf, background_of, no_past, no_spread
from pytest_accel.judging.verdicts.distance import unconfirmed
from pytest_accel.judging.verdicts.like_devices import Attempt, Kinds, together, usable, value_of
from pytest_accel.judging.verdicts.limit import compare, information
from pytest_accel.judging.verdicts.references import held

MOST_BY_LOAD = 0.95
"""The largest shortfall of a CPU that a load before the run explains. At a load of ten on two cores a process gets a
sixth of the time."""

_OF_TROUBLE = {
    "device": Status.FAIL,
    "need": Status.UNMEASURED,
    "external": Status.INCONCLUSIVE,
    "not_applicable": Status.NOT_APPLICABLE,
}


Explain = Callable[[Measurement, "Limit | None", Sequence[Attempt]], "str | None"]
"""A function that returns the cause of a shortfall of a measurement, or None. It is given the limit that was broken, if
there is one, and the attempts of the like devices, the measurement's own included."""
Why = Callable[[Measurement], "str | None"]
"""The same for one limit and one set of like devices."""


def stored_cause(
    measurement: Measurement,
    limit: Limit | None = None,  # noqa: ARG001  the signature of `Explain`, as the next line
    others: Sequence[Attempt] = (),  # noqa: ARG001
) -> str | None:
    """Return the cause that is stored in the measurement itself, or None."""
    return measurement.details.get("explains")


def judge(
    attempts: Sequence[Measurement],
    limit: Limit | None,
    software: Mapping[str, Any] = NOTHING_KNOWN,
    explain: Explain = stored_cause,
    background: Background = NOTHING_ELSE,
) -> Verdict:
    """Judge the attempts at one metric of one subject, oldest first, by one limit, like devices and earlier runs.

    The last attempt made on all devices together decides; an attempt made alone explains a failure and never clears
    it. A metric that holds only on the repeat is marginal, and fails if it was far off before. A trouble of the device
    in any attempt stays a failure, and so does a shortfall that could not be measured again. `software` maps names to
    the versions in use, for which `floor_in_force` gives the floor. `explain` is called for the cause of a shortfall
    only.
    """

    def explained(measurement: Measurement) -> str | None:
        return explain(measurement, limit, background.near)

    verdict = _by_limit(attempts, limit, software, explained)
    later = held(verdict, attempts, background)
    failed_beside = later.status is Status.FAIL is not verdict.status
    cause = _cause(fallen_short(attempts, later), explained) if failed_beside else []
    return later.because(*(each for each in cause if each not in later.reasons))


def _unchanged(details: Details) -> Details:
    """Return the details without the note of a change."""
    kept = details.copy()
    kept.pop("changed", None)
    return kept


def fallen_short(attempts: Sequence[Measurement], verdict: Verdict) -> list[Measurement]:
    """Return the attempts on all devices together that fell short as the verdict says, the newest first.

    These are those that broke its limit. If none did, all of them were behind the neighbours or the own past, or the
    first alone, where the verdict says so.
    """
    rounds = [each for each in reversed(together(attempts)) if usable(each)]
    broke = [each for each in rounds if verdict.breaks(value_of(each))]
    once = any(comparison.at_first for comparison in verdict.compared)
    return broke or ((rounds[-1:] if once else rounds) if verdict.behind else [])


def _by_limit(
    attempts: Sequence[Measurement], limit: Limit | None, software: Mapping[str, Any], explain: Why
) -> Verdict:
    """Judge the attempts against the limit alone.

    A fact that changed during the run is judged by its worst value, and is marginal at least.
    """
    if changes := [each.details["changed"] for each in attempts if "changed" in each.details]:
        values = [replace(each, details=_unchanged(each.details)) for each in reversed(attempts) if not each.trouble]
        verdicts = [_by_limit([each], limit, software, explain) for each in values]
        verdict = min(verdicts, key=lambda each: WORST_FIRST.index(each.status))
        status = min(verdict.status, Status.MARGINAL, key=WORST_FIRST.index)
        bare = replace(verdict, reasons=verdict.reasons if limit else (), attempts=len(attempts))
        return bare.because(*(Note("changed", each) for each in changes), status=status)
    verdict = _judge(attempts, limit, software, explain)
    details = attempts[-1].details
    if (unproven := details.get("unproven")) and verdict.status is Status.PASS:
        verdict = verdict.because(Note("unproven", unproven), status=Status.MARGINAL)
    if doubt := details.get("doubt"):
        verdict = verdict.worsened(Status.MARGINAL, Note("doubt", doubt))
    if (worst := details.get("worst")) and verdict.value is not None:
        verdict = verdict.because(Note("at", worst))
    if (during := details.get("during")) and verdict.value is not None:
        verdict = verdict.because(Note("during", during))
    unseen = verdict.status in (Status.UNMEASURED, Status.INCONCLUSIVE)
    return verdict.because(status=Status.NOT_APPLICABLE) if limit and limit.warns and unseen else verdict


def _judge(attempts: Sequence[Measurement], limit: Limit | None, software: Mapping[str, Any], explain: Why) -> Verdict:
    """Judge the attempts by the last one that was measured; one that could not be measured again counts all the same.

    A shortfall that there was no time to repeat fails if it is far beyond the allowance of its limit, or if the limit
    has none because it demands one value; else it is INCONCLUSIVE, as where somebody else stopped the repeat, such as
    a timeout of another plugin.
    """
    # the attempts made on all devices together; all attempts if there is none
    rounds = together(attempts) or list(attempts)
    for each in attempts:
        if each.trouble and each.trouble.kind == "device":
            return _troubled(each, each.trouble, limit, len(rounds))
    last, measured = rounds[-1], [each for each in rounds if not each.trouble]
    judged = None
    if limit and measured:
        judged = _excused(_explained(measured, limit, len(rounds), software, explain), measured[-1], limit)
        if judged.status is Status.FAIL and (doubt := unconfirmed((), rounds[-1].details.get("not_repeated", ""))):
            return judged.because(*doubt, status=Status.FAIL if far(judged, limit) else Status.INCONCLUSIVE)
        if judged.status is Status.FAIL and last.trouble:
            status = Status.INCONCLUSIVE if last.trouble.kind == "external" else Status.FAIL
            return judged.because(Note("repeat_failed", last.trouble.reason), status=status)
    if last.trouble and last.trouble.kind == "not_applicable" and limit and limit.required:
        needed = Trouble("need", last.trouble.reason)
        return _troubled(last, needed, limit, len(rounds)).because(Note("required"))
    if last.trouble:
        return _troubled(last, last.trouble, limit, len(rounds))
    if limit is None or judged is None:
        return information(last)
    alone = [each for each in attempts if each.how == "alone" and not each.trouble]
    if judged.status is Status.FAIL and alone:
        return judged.because(Alone(alone[-1].value, alone[-1].unit, holds=_holds(alone[-1], limit, software)))
    return _seen_before(judged, rounds, limit, software, explain) if judged.status.holds else judged


def _seen_before(
    verdict: Verdict, rounds: Sequence[Measurement], limit: Limit, software: Mapping[str, Any], explain: Why
) -> Verdict:
    """Return the verdict on a metric that holds on the repeat after the attempts before it were taken into account.

    A shortfall far beyond noise fails although it was seen once, unless something from outside excuses it.
    """
    for each in rounds[:-1]:
        if each.trouble:
            continue
        once = _excused(_explained([each], limit, len(rounds), software, explain), each, limit)
        if once.status is Status.FAIL and far(once, limit, once=True):
            return once.because(Repeated(verdict.value, verdict.unit, fails=True))
    if len(rounds) > 1 and verdict.status is Status.PASS and not _holds(rounds[0], limit, software):
        first = rounds[0]
        missed = Note("first_failed", first.trouble.reason) if first.trouble else Repeated(first.value, first.unit)
        return verdict.because(missed, status=Status.MARGINAL)
    return verdict


def _explained(
    measured: Sequence[Measurement], limit: Limit, attempts: int, software: Mapping[str, Any], explain: Why
) -> Verdict:
    """Return the verdict on the last of the measurements by itself, with the cause of a shortfall if one is known."""
    verdict = compare(measured[-1], limit, attempts, software)
    if verdict.status is not Status.FAIL or verdict.margin is None:
        return verdict
    return verdict.because(*_cause([measured[-1], *fallen_short(measured[:-1], verdict)], explain))


def _cause(measured: Sequence[Measurement], explain: Why) -> list[Note]:
    """Return the cause by the first of the measurements that shows one; if not the one judged, the cause says so."""
    for each in measured:
        if why := explain(each):
            return [Note("cause" if each is measured[0] else "cause_before", why)]
    return []


def _excused(verdict: Verdict, measurement: Measurement, limit: Limit) -> Verdict:
    """Return the verdict after taking a second sign, a load before the run and disturbances into account.

    A shortfall that the limit rejects with a second sign alone is MARGINAL without one.
    """
    if limit.second_sign and verdict.status is Status.FAIL and (single := measurement.details.get("single_sign")):
        return verdict.because(Note("single_sign", single), status=Status.MARGINAL)
    return _disturbed(_excused_by_load(verdict, measurement), measurement.disturbance)


def _excused_by_load(verdict: Verdict, measurement: Measurement) -> Verdict:
    """Make a low speed MARGINAL that a load before the run excuses. It excuses no fact and no wrong result."""
    excuse = measurement.details.get("excuse")
    if not excuse or verdict.status is not Status.FAIL or verdict.margin is None or not measurement.samples:
        return verdict
    if verdict.margin < -MOST_BY_LOAD:
        return verdict.because(Note("beyond_load", excuse))
    return verdict.because(Note("excused", excuse), status=Status.MARGINAL)


def _disturbed(verdict: Verdict, disturbance: str | None) -> Verdict:
    """Make a disturbed shortfall INCONCLUSIVE, and a disturbed value that holds MARGINAL.

    A value that has to be one value, such as a count of wrong results, passes: a disturbance does not make it right.
    """
    if disturbance is None or verdict.status not in (Status.FAIL, Status.PASS):
        return verdict
    if verdict.status is Status.PASS and verdict.margin is None:
        return verdict
    status = Status.INCONCLUSIVE if verdict.status is Status.FAIL else Status.MARGINAL
    return verdict.because(Note("disturbed", disturbance), status=status)


def _troubled(measurement: Measurement, trouble: Trouble, limit: Limit | None, attempts: int) -> Verdict:
    """Return the verdict on a measurement that broke off, without a value: a part of it judges nothing."""
    if trouble.kind == "bug":
        raise ValueError(f"{measurement.metric}: a bug in the probe cannot be judged: {trouble.reason}")
    note = Note("left_out" if trouble.untried else "trouble", trouble.reason)
    return Verdict(
        metric=measurement.metric,
        subject=measurement.subject,
        status=_OF_TROUBLE[trouble.kind],
        reasons=(WrongData(trouble.reason) if trouble.wrong else note,),
        unit=measurement.unit,
        limit=limit,
        attempts=attempts,
        fault=trouble.kind == "device",
        event=trouble.event,
        blamed=trouble.blamed,
        floor=None if limit is None or limit.relative else limit.floor,
        ceiling=None if limit is None or limit.relative else limit.ceiling,
    )


def _holds(measurement: Measurement, limit: Limit, software: Mapping[str, Any]) -> bool:
    return not measurement.trouble and compare(measurement, limit, 1, software).status is not Status.FAIL


class ProbeError(Exception):
    """A probe raised an error that says nothing about the hardware."""


@dataclass
class Attempts:
    """The attempts at the metrics of one probe under one set of conditions, by metric and subject."""

    measured: dict[tuple[str, str], list[Measurement]] = field(default_factory=dict)
    """The measurements by metric and subject, oldest first."""
    repeated: bool = False
    """True once no further attempt is made: after the repeat, or where there was no time for one."""
    rows: list[Measurement] = field(default_factory=list)
    """The rows of the peer matrix as first measured, before a device is blamed. Empty for other probes."""
    explain: Explain = stored_cause
    """Returns the cause of a shortfall."""
    kinds: Kinds = field(default_factory=dict)
    """The kind of each device (`like_devices.kind_of`)."""
    spread_of: Callable[[str], Spread | None] = no_spread
    """Returns the variation of a metric among healthy devices, None if it is not known."""
    past_of: PastOf = no_past
    """Returns the earlier figures of the metric and device of a measurement."""
    _unrecorded: list[Measurement] = field(default_factory=list)
    _verdicts: dict[tuple[str, str], list[tuple[Limit | None, dict[str, Any], Verdict]]] = field(default_factory=dict)
    """The verdicts since the last attempt, each with the limit and the software versions that it was judged with."""

    def add(self, measurement: Measurement) -> None:
        """Keep an attempt, and drop the verdicts on its metric that were given without it."""
        key = measurement.metric, measurement.subject
        self.measured.setdefault(key, []).append(measurement)
        self._unrecorded.append(measurement)
        self._verdicts = {each: given for each, given in self._verdicts.items() if each[0] != measurement.metric}

    def read(self, fact: Measurement) -> None:
        """Keep another reading of a fact, such as a counter, unless it is what the reading before it was."""
        earlier = self.measured.get((fact.metric, fact.subject))
        if not earlier or replace(fact, started=earlier[-1].started, ended=earlier[-1].ended) != earlier[-1]:
            self.add(fact)

    def add_broken(self, metric: str, subject: str) -> None:
        """Count the troubles of a subject as attempts at `metric`, if there is no other attempt at it.

        A probe that broke before it returned a metric has attempted that metric all the same: once for each run, also
        where the sensor yields several metrics of a run.
        """
        if (metric, subject) in self.measured:
            return
        every = [each for attempts in self.measured.values() for each in attempts]
        runs: dict[tuple[float, float, str], Measurement] = {}
        for each in every:
            if each.subject == subject and each.trouble:
                runs.setdefault((each.started, each.ended, each.how), each)
        for each in runs.values():
            self.add(replace(each, metric=metric, value=None))

    def take_unrecorded(self) -> list[Measurement]:
        """Return the attempts that were added since the last call, for the record."""
        taken, self._unrecorded = self._unrecorded, []
        return taken

    def judged(self, metric: str, subject: str, limit: Limit | None, software: Mapping[str, Any]) -> Verdict:
        """Return the verdict on one subject. Raises ProbeError if the probe failed by an error in its own code."""
        attempts = self.measured.get((metric, subject), [])
        if not attempts:
            return Verdict(metric, subject, Status.UNMEASURED, (Note("not_returned"),), limit=limit)
        for each in attempts:
            if each.trouble and each.trouble.kind == "bug":
                raise ProbeError(each.trouble.reason)
        return self._verdict(metric, subject, limit, software)

    def _verdict(self, metric: str, subject: str, limit: Limit | None, software: Mapping[str, Any]) -> Verdict:
        """Return the verdict on the attempts so far; each is judged once and remembered."""
        attempts, remembered = self.measured[metric, subject], self._verdicts.setdefault((metric, subject), [])
        for its_limit, its_software, verdict in remembered:
            if its_limit == limit and its_software == software:
                return verdict
        beside = background_of(self.measured, self.kinds, (metric, subject), self.spread_of(metric), self.past_of)
        verdict = judge(attempts, limit, software, self.explain, beside)
        remembered.append((limit, dict(software), verdict))
        return verdict

    def leave(self, why: str) -> None:
        """Note that the run has no time to measure again, for the reason `why`: whatever falls short was measured once.

        The note is made in the measurements that the record holds already, so that `judge RECORD` concludes the same.
        """
        self.repeated = True
        for attempts in self.measured.values():
            if len(attempts) == 1 or attempts[-1].trouble:
                attempts[-1].details["not_repeated"] = why
        self._verdicts.clear()

    def short(self, metric: str, limit: Limit | None, software: Mapping[str, Any]) -> list[Verdict]:
        """Return the verdicts that a repeat could overturn or confirm; empty after the repeat.

        These are failures, and the devices that are behind their neighbours or their own past.
        """
        if self.repeated:
            return []
        verdicts = [
            self._verdict(metric, subject, limit, software)
            for (name, subject), attempts in self.measured.items()
            if name == metric and not any(each.trouble for each in attempts)
        ]
        return [each for each in verdicts if each.behind or each.status is Status.FAIL]


def worst(old: Verdict | None, new: Verdict) -> Verdict:
    """Return the worse verdict; on a tie the newer. A failure that is not waived is worse than any other verdict."""
    return new if old is None or new.rank <= old.rank else old
