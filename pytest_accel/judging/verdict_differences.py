"""Verdicts of two records that differ. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.core.sku import DeclaredBy
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict, show
from pytest_accel.judging.difference import Contents, Difference, Direction, Kind, Subjects
from pytest_accel.judging.history import ACCEPTING, kept
from pytest_accel.judging.state_differences import direction_of

OF_SOFTWARE = ("inventory.driver_version", "inventory.cuda_version", "inventory.rocm_version", "inventory.gsp_firmware")
"""Metrics of what is installed on the host. Other software is not worse hardware."""
STATES = ("inventory.", "health.", "counters.", "host.", "host_counters.")
OTHER_LIMIT = "the limit is another one"

Place = tuple[str, str, str]
"""Metric, subject of the last record, and the marker that declares the limit."""


def verdicts(first: Contents, last: Contents, shared: Subjects) -> list[Difference]:
    """Return the verdicts that got worse or better, and the result of the run if it did."""
    then_of = shared.then_of()
    now_of = {then: now for now, then in then_of.items()}
    before = {_place(each, now_of[each.subject]): each for each in first.verdicts if each.subject in now_of}
    after = {_place(each, each.subject): each for each in last.verdicts if each.subject in then_of}
    rates = {(each.metric, each.subject) for each in last.measurements if kept(each)}
    found = [
        difference(shared.names[place[1]], before[place], now, rate=place[:2] in rates)
        for place, now in after.items()
        if place in before and before[place].status is not now.status
    ]
    return [*found, *_result(first, last)]


def _place(verdict: Verdict, subject: str) -> Place:
    marker = verdict.limit is not None and verdict.limit.declared_by is DeclaredBy.MARKER
    return verdict.metric, subject, verdict.limit.origin if marker and verdict.limit else ""


def difference(where: str, then: Verdict, now: Verdict, *, rate: bool) -> Difference:
    """Return the difference between two verdicts of other status.

    A figure that is compared itself (`rate`) counts as a figure, where it is known what two runs differ by.
    """
    direction = _direction(then.status, now.status)
    other_limit = (then.floor, then.ceiling, then.expected) != (now.floor, now.ceiling, now.expected)
    worse = direction is Direction.WORSE
    counts = worse and (now.fault or (not rate and not other_limit and _of_hardware(then, now)))
    notes = [OTHER_LIMIT] if other_limit and then.value == now.value else []
    notes += [now.sentence] if worse and now.status.fails and now.sentence else []
    state = now.metric.startswith(STATES)
    rank = 10 * WORST_FIRST.index(now.status) + (0 if state else 1)
    said = [
        f"{each.status.value} {show(each.value, each.unit) if each.value is not None else ''}" for each in (then, now)
    ]
    return Difference(
        Kind.VERDICT,
        (where,),
        now.metric,
        said[0].strip(),
        said[1].strip(),
        direction,
        counts,
        "; ".join(notes),
        rank=rank,
    )


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


def _result(first: Contents, last: Contents) -> Iterable[Difference]:
    if first.word == last.word or not (first.word and last.word):
        return
    held = [word in ACCEPTING for word in (first.word, last.word)]
    direction = Direction.OTHER if held[0] == held[1] else Direction.BETTER if held[1] else Direction.WORSE
    yield Difference(Kind.VERDICT, ("run",), "result", first.word, last.word, direction, rank=2)
