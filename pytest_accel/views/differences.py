"""A comparison of two records as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_accel.core.groups import grouped
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.verdict import Result
from pytest_accel.core.words import listed, more
from pytest_accel.judging.records.differences import Difference, Direction, RecordComparison, SubjectKind
from pytest_accel.views.terminal import Line

COLOURS = {Direction.WORSE: "red", Direction.BETTER: "green", Direction.OTHER: ""}


def text(found: RecordComparison, notes: Sequence[str]) -> list[Line]:
    """Return the comparison of two records as lines, each with a colour."""
    head: list[Line] = [(f"{n}: {_named(one)}", "bold") for n, one in (("first", found.first), ("last", found.last))]
    figures = f"figures: {found.compared} compared, {found.not_compared} in one of the two records alone"
    tail: list[Line] = [] if found.other else [(figures, "")]
    tail += [*((note, "yellow") for note in notes), closing(found)]
    body: list[Line] = []
    for kind, some in grouped(_folded(found.differences), lambda each: each.kind).items():
        body += [(f"{kind.value}:", "bold"), *((f"  {_line(each)}", COLOURS[each.direction]) for each in some)]
    return [(printable(line), colour) for line, colour in [*head, *body, *tail]]


def changed(found: Sequence[Difference]) -> list[Line]:
    """Return a line for each difference that judging a record again made."""
    return [(f"changed: {_line(each)}", COLOURS[each.direction]) for each in found] or [("changed: nothing", "")]


def _named(one: Run) -> str:
    began, sku = one.started[:16].replace("T", " "), one.sku.get("name", "") or "no SKU"
    simulated, again = "SIMULATED " * one.simulated, ", judged again" * bool(one.judged_from)
    told = f"{simulated}{Result.words(one.result, 'not ended')}{again}"
    return f"{one.path}: {began}, {one.host}, {len(one.devices)} x {sku}: {told}"


def _folded(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences; verdicts with the same note are one, as those that a lost device left without a value."""
    groups = grouped(
        enumerate(differences),
        lambda pair: (pair[1].where, (pair[1].kind is SubjectKind.VERDICT and pair[1].note) or pair[0]),
    )
    return [
        replace(first, what=f"{first.what} and {len(others)} more") if others else first
        for (_, first), *others in groups.values()
    ]


def _line(each: Difference) -> str:
    change = ""
    if each.lost is not None and each.allowed is not None:
        lost = f"{abs(each.lost):.1%} {'slower' if each.lost > 0 else 'faster'}"
        change = f" ({lost}; two runs differ by up to {each.allowed:.1%})"
    return f"{_place(each)}: {each.then} -> {each.now}{change}{each.note and f' [{each.note}]'}"


def _place(each: Difference) -> str:
    return f"{listed(each.where, 8)} {each.what}" if each.where else each.what


def closing(found: RecordComparison) -> Line:
    """Return the last line: what follows from the comparison."""
    if found.other:
        return f"NOT COMPARABLE {found.other}", "yellow"
    if counts := _folded([each for each in found.differences if each.counts]):
        first = counts[0]
        return f"WORSE {_place(first)}: {first.then} -> {first.now}{more(counts)}", "red"
    kinds = Counter(each.kind.value for each in found.differences)
    parts = [f"differences: {', '.join(f'{kind} {count}' for kind, count in kinds.items())}"] if kinds else []
    figures = f"{found.compared} figures" if found.compared else "no figure"
    said = f"NOTHING WORSE in what was compared: {figures}, the states of {len(found.last.devices)} devices"
    return "; ".join([said, *parts]), "green" if found.compared else "yellow"
