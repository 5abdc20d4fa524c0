"""Verdicts of two records that differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.core.measurement import LEFT_OUT
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import DeclaredBy
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict, show
from pytest_accel.judging.difference import Difference, Direction, SubjectKind, Subjects
from pytest_accel.judging.history import ACCEPTING, kept
from pytest_accel.judging.state_differences import direction_of
from pytest_accel.probes.declare import finder_of

OF_SOFTWARE = ("inventory.driver_version", "inventory.cuda_version", "inventory.rocm_version", "inventory.gsp_firmware")
"""Metrics of what is installed on the host. Other software is not worse hardware."""
STATES = ("inventory.", "health.", "counters.", "host.", "host_counters.")
OTHER_LIMIT = "the limit is another one"

Place = tuple[str, str, str]
"""Metric, subject of the last record, and the marker that declares the limit."""


def verdicts(first: Run, last: Run, shared: Subjects) -> list[Difference]:
    """Return the verdicts that got worse or better, and the result of the run if it did."""
    then_of = shared.then_of()
    now_of = {then: now for now, then in then_of.items()}
    before = {_place(each, now_of[each.subject]): each for each in first.verdicts if each.subject in now_of}
    after = {_place(each, each.subject): each for each in last.verdicts if each.subject in then_of}
    rates = {(each.metric, each.subject) for each in last.measurements if kept(each)}
    gone = broken(last)
    found = [
        difference(shared.names[place[1]], before[place], now, rate=place[:2] in rates, gone=now.subject in gone)
        for place, now in after.items()
        if place in before and before[place].status is not now.status
    ]
    return [*found, *_result(first, last)]


def _place(verdict: Verdict, subject: str) -> Place:
    marker = verdict.limit is not None and verdict.limit.declared_by is DeclaredBy.MARKER
    return verdict.metric, subject, verdict.limit.origin if marker and verdict.limit else ""


def broken(last: Run) -> set[str]:
    """Return the subjects that were lost, hung or crashed during the run."""
    return {each.subject for each in last.verdicts if _broke_off(each)}


def _broke_off(verdict: Verdict) -> bool:
    return verdict.fault and verdict.event not in ("", LEFT_OUT)


def difference(where: str, then: Verdict, now: Verdict, *, rate: bool, gone: bool = False) -> Difference:
    """Return the difference between two verdicts of other status.

    A figure that is compared itself (`rate`) counts as a figure, where it is known what two runs differ by. `gone` is
    True if the subject was lost, hung or crashed: this comes first, and what it left without a value is joined to it.
    """
    direction = _direction(then.status, now.status)
    other_limit = (then.floor, then.ceiling, then.expected) != (now.floor, now.ceiling, now.expected)
    worse = direction is Direction.WORSE
    counts = worse and (now.fault or (not rate and not other_limit and _of_hardware(then, now)))
    notes = [OTHER_LIMIT] if other_limit and then.value == now.value else []
    notes += [sentence_of(now)] if worse and now.status.fails and now.reasons else []
    rank = 10 * WORST_FIRST.index(now.status) + _distance(now)
    return Difference(
        SubjectKind.VERDICT,
        (where,),
        now.metric,
        said(then),
        said(now),
        direction,
        counts,
        "; ".join(notes),
        rank=rank,
        broken=where if gone and now.fault and (now.value is None or _broke_off(now)) else "",
    )


def said(verdict: Verdict) -> str:
    """Return the status and the value of a verdict."""
    return f"{verdict.status.value} {show(verdict.value, verdict.unit) if verdict.value is not None else ''}".strip()


def _distance(now: Verdict) -> int:
    """Return how far a verdict is from the cause: what broke off is one, and of its metrics the probe's main one."""
    if _broke_off(now):
        declared = finder_of(now.metric)
        return 1 if declared and now.metric in declared.also else 0
    return 2 if now.metric.startswith(STATES) else 3


def _direction(then: Status, now: Status) -> Direction:
    if Status.NOT_APPLICABLE in (then, now) and not now.fails:
        return Direction.OTHER
    worse = WORST_FIRST.index(now) < WORST_FIRST.index(then)
    return Direction.WORSE if worse else Direction.BETTER


def _of_hardware(then: Verdict, now: Verdict) -> bool:
    """Return whether a verdict that got worse shows another state of the hardware, by the same limit."""
    if now.status is not Status.FAIL or now.value is None or then.value == now.value or now.metric in OF_SOFTWARE:
        return False
    if now.metric.startswith("host."):
        return direction_of(now.metric, then.value, now.value) is Direction.WORSE
    return True


def _result(first: Run, last: Run) -> Iterable[Difference]:
    if first.word == last.word or not (first.word and last.word):
        return
    held = [word in ACCEPTING for word in (first.word, last.word)]
    direction = Direction.OTHER if held[0] == held[1] else Direction.BETTER if held[1] else Direction.WORSE
    yield Difference(SubjectKind.VERDICT, ("run",), "result", first.word, last.word, direction, rank=4)
