"""A comparison of two records as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_accel.core.groups import grouped
from pytest_accel.core.printable import printable
from pytest_accel.core.run import Run
from pytest_accel.core.verdict import Result
from pytest_accel.core.words import and_more, listed
from pytest_accel.judging.records.differences import Difference, Direction, RecordComparison, SubjectKind
from pytest_accel.views.terminal import Line

COLOURS = {Direction.WORSE: "red", Direction.BETTER: "green", Direction.OTHER: ""}


def text(comparison: RecordComparison, notes: Sequence[str]) -> list[Line]:
    """Return the comparison of two records as lines, each with a colour."""
    head: list[Line] = [(f"first: {_title(comparison.first)}", "bold"), (f"last: {_title(comparison.last)}", "bold")]
    figures = f"figures: {comparison.count} compared, {comparison.not_compared} in one of the two records alone"
    tail: list[Line] = [] if comparison.obstacle else [(figures, "")]
    tail += [*((note, "yellow") for note in notes), closing(comparison)]
    body: list[Line] = []
    for kind, group in grouped(_folded(comparison.differences), lambda diff: diff.kind).items():
        body += [(f"{kind.value}:", "bold"), *((f"  {_line(diff)}", COLOURS[diff.direction]) for diff in group)]
    return [(printable(line), colour) for line, colour in [*head, *body, *tail]]


def changed(differences: Sequence[Difference]) -> list[Line]:
    """Return a line for each difference that judging a record again made."""
    return [(f"changed: {_line(diff)}", COLOURS[diff.direction]) for diff in differences] or [("changed: nothing", "")]


def _title(run: Run) -> str:
    start, sku = run.started[:16].replace("T", " "), run.sku.get("name", "") or "no SKU"
    simulated, suffix = "SIMULATED " * run.simulated, ", judged again" * bool(run.judged_from)
    result = f"{simulated}{Result.words(run.result, 'not ended')}{suffix}"
    return f"{run.path}: {start}, {run.host}, {len(run.devices)} x {sku}: {result}"


def _folded(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences; verdicts with the same note are one, as those that a lost device left without a value."""
    groups = grouped(
        enumerate(differences),
        lambda pair: (pair[1].names, (pair[1].kind is SubjectKind.VERDICT and pair[1].note) or pair[0]),
    )
    return [
        replace(first, item=f"{first.item} and {len(others)} more") if others else first
        for (_, first), *others in groups.values()
    ]


def _line(diff: Difference) -> str:
    change = ""
    if diff.loss is not None and diff.allowed_loss is not None:
        loss = f"{abs(diff.loss):.1%} {'slower' if diff.loss > 0 else 'faster'}"
        change = f" ({loss}; two runs differ by up to {diff.allowed_loss:.1%})"
    return f"{_subject(diff)}: {diff.before} -> {diff.after}{change}{diff.note and f' [{diff.note}]'}"


def _subject(diff: Difference) -> str:
    return f"{listed(diff.names, 8)} {diff.item}" if diff.names else diff.item


def closing(comparison: RecordComparison) -> Line:
    """Return the last line: what follows from the comparison."""
    if comparison.obstacle:
        return f"NOT COMPARABLE {comparison.obstacle}", "yellow"
    if counts := _folded([diff for diff in comparison.differences if diff.counts]):
        first = counts[0]
        return f"WORSE {_subject(first)}: {first.before} -> {first.after}{and_more(counts)}", "red"
    kinds = Counter(diff.kind.value for diff in comparison.differences)
    parts = [f"differences: {', '.join(f'{kind} {count}' for kind, count in kinds.items())}"] if kinds else []
    figures = f"{comparison.count} figures" if comparison.count else "no figure"
    summary = f"NOTHING WORSE in what was compared: {figures}, the states of {len(comparison.last.devices)} devices"
    return "; ".join([summary, *parts]), "green" if comparison.count else "yellow"
