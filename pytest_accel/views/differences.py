"""A comparison of records, as text, Markdown or JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.core.groups import grouped
from pytest_accel.core.printable import printable, printable_data
from pytest_accel.core.run import Run
from pytest_accel.core.verdict import show
from pytest_accel.core.words import listed
from pytest_accel.judging.difference import Difference, Direction, SubjectKind
from pytest_accel.judging.differences import Comparison
from pytest_accel.judging.figure_differences import MetricTrend
from pytest_accel.views.markdown import table
from pytest_accel.views.terminal import Line

MOST_LINES = 60
"""Lines of the text."""
MOST_TRENDS = 12
MOST_OTHERS = 5
NOTE = 110
"""Characters of a note in the text; the JSON has all of it."""
COLOURS = {Direction.WORSE: "red", Direction.BETTER: "green", Direction.OTHER: ""}


@dataclass(frozen=True)
class Beside:
    """What there is to say besides the comparison.

    `between` are the records between the first and the last. `others` are records that were not compared, each with
    the reason, and `notes` sentences.
    """

    between: int = 0
    others: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


def text(found: Comparison, beside: Beside) -> list[Line]:
    """Return the comparison as at most `MOST_LINES` lines, each with a colour."""
    head, tail = _head(found), _tail(found, beside)
    trends = _trends(found)
    body = _body(found.differences)
    room = MOST_LINES - len(head) - len(tail) - len(trends)
    if len(body) > room:
        kept = body[: room - 1]
        count = sum(colour != "bold" for _, colour in body[room - 1 :])
        body = [*kept, (f"and {count} more; --format json has all", "yellow")]
    return [(printable(line), colour) for line, colour in [*head, *body, *trends, *tail]]


def _head(found: Comparison) -> list[Line]:
    return [(f"{name}: {_named(one)}", "bold") for name, one in (("first", found.first), ("last", found.last))]


def _named(one: Run) -> str:
    began, sku = one.started[:16].replace("T", " "), one.sku.get("name", "") or "no SKU"
    known = f"{one.path}: {began}, {one.host}, {len(one.devices)} x {sku}"
    simulated = "SIMULATED " if one.simulated else ""
    again = ", judged again" if one.judged_from else ""
    return f"{known}: {simulated}{one.word or 'not ended'}{again}"


def _body(differences: Sequence[Difference]) -> list[Line]:
    lines: list[Line] = []
    for kind, some in grouped(_folded(differences), lambda each: each.kind).items():
        lines.append((f"{kind.value}:", "bold"))
        lines += [(f"  {_line(each)}", COLOURS[each.direction]) for each in some]
    return lines


def _folded(differences: Sequence[Difference]) -> list[Difference]:
    """Return the differences; what a lost device left without a value is one of them."""
    groups = grouped(enumerate(differences), lambda pair: (pair[1].kind, pair[1].where, pair[1].broken or pair[0]))
    return [
        replace(first, what=f"{first.what} and {len(others)} more") if others else first
        for (_, first), *others in groups.values()
    ]


def _line(each: Difference) -> str:
    if each.kind is SubjectKind.LIMIT and each.note:
        return f"{_place(each)}: {each.note}"
    change, note = _change(each), each.note if len(each.note) <= NOTE else f"{each.note[: NOTE - 3]}..."
    return f"{_place(each)}: {each.then} -> {each.now}{change and f' ({change})'}{note and f' [{note}]'}"


def _place(each: Difference) -> str:
    return f"{listed(each.where, 8)} {each.what}" if each.where else each.what


def _change(each: Difference) -> str:
    if each.lost is None or each.allowed is None:
        return ""
    lost = f"{each.lost:.1%} slower" if each.lost > 0 else f"{-each.lost:.1%} faster"
    return f"{lost}; two runs differ by up to {each.allowed:.1%}"


def _trends(found: Comparison) -> list[Line]:
    """Return the figures that are worse at the end of the trend, and how many are not."""
    worse = [each for each in found.trends if each.since]
    if not found.trends:
        return []
    lines: list[Line] = [("trend:", "bold")]
    lines += [(f"  {_trend(each)}", "red") for each in worse[:MOST_TRENDS]]
    if len(worse) > MOST_TRENDS:
        lines.append((f"  and {len(worse) - MOST_TRENDS} more; --format json has all", "yellow"))
    stayed = len(found.trends) - len(worse)
    return [*lines, (f"  {stayed} figures are not worse at the end", "")] if stayed else lines


def _trend(each: MetricTrend) -> str:
    first, last, middle = (show(value, each.unit) for value in (each.first, each.last, each.median))
    said = f"{each.where} {each.metric}: first {first}, last {last}, median {middle} of {each.runs}"
    return f"{said}; worse from {each.day} on ({each.since})"


def _tail(found: Comparison, beside: Beside) -> list[Line]:
    lines: list[Line] = []
    if not found.other:
        most_first = sorted(found.not_compared.items(), key=lambda each: -each[1])
        reasons = "; ".join(f"{count} {reason}" for reason, count in most_first)
        lines.append((f"figures: {found.compared} compared{f'; not compared: {reasons}' if reasons else ''}", ""))
    if not found.same_devices:
        lines.append(("the devices are different: the nodes are compared by the medians of their devices", "yellow"))
    if beside.between:
        lines.append((f"{beside.between} records between the first and the last give the trend", ""))
    others = [f"not comparable: {path}: {why}" for path, why in beside.others.items()]
    lines += [(each, "yellow") for each in others[:MOST_OTHERS]]
    if len(others) > MOST_OTHERS:
        lines.append((f"and {len(others) - MOST_OTHERS} more records that are not comparable", "yellow"))
    lines += [(each, "yellow") for each in beside.notes]
    return [*lines, closing(found)]


def closing(found: Comparison) -> Line:
    """Return the last line: what follows from the comparison."""
    if found.other:
        return f"NOT COMPARABLE {found.other}", "yellow"
    left_out = f"; not compared: {found.left_out}" if found.left_out else ""
    counts = _folded([each for each in found.differences if each.counts])
    if counts:
        first = counts[0]
        more = f" (and {len(counts) - 1} more)" if len(counts) > 1 else ""
        return f"WORSE {_place(first)}: {first.then} -> {first.now}{more}{left_out}", "red"
    if found.left_out:
        return f"NOT COMPARABLE {found.left_out}; nothing is worse in the others", "yellow"
    better = sum(each.direction is Direction.BETTER for each in found.differences)
    kinds = Counter(each.kind.value for each in found.differences if each.direction is not Direction.BETTER)
    differs = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
    parts = [*([f"better: {better}"] if better else []), *([f"other differences: {differs}"] if differs else [])]
    figures = "no figure" if not found.compared else f"{found.compared} figures"
    devices = f"the states of {len(found.last.devices)} devices"
    colour = "green" if found.compared else "yellow"
    return "; ".join([f"NOTHING WORSE in what was compared: {figures}, {devices}", *parts]), colour


def markdown(found: Comparison, beside: Beside) -> str:
    """Return the comparison as Markdown: a table of differences, one of the trend, and the sentences of the text."""
    lines = ["# Comparison", "", *(f"- {_cell(line)}" for line, _ in _head(found)), ""]
    rows: list[tuple[str, ...]] = []
    for each in _folded(found.differences):
        change = _change(each) or each.direction.value
        rows.append((each.kind.value, listed(each.where, 8), each.what, each.then, each.now, change, each.note))
    if rows:
        lines += table(("about", "where", "what", "first", "last", "change", "note"), _cells(rows))
    rows = []
    for one in found.trends:
        values = (show(value, one.unit) for value in (one.first, one.last, one.median))
        if one.since:
            rows.append((one.where, one.metric, *values, str(one.runs), f"{one.day} ({one.since})"))
    if rows:
        lines += ["", *table(("where", "metric", "first", "last", "median", "records", "worse from"), _cells(rows))]
    return "\n".join([*lines, "", *(f"- {_cell(line)}" for line, _ in _tail(found, beside))]) + "\n"


def _cells(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    return [list(map(_cell, row)) for row in rows]


def _cell(value: str) -> str:
    escaped = printable(value).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return escaped.replace("`", "\\`").replace("[", "\\[")


def as_json(found: Comparison, beside: Beside) -> str:
    """Return the comparison as JSON, with everything that the text may leave out."""
    content = {
        "exit": found.exit,
        "line": closing(found)[0],
        "first": _one(found.first),
        "last": _one(found.last),
        "same_devices": found.same_devices,
        "differences": [_difference(each) for each in found.differences],
        "trends": [_plain(vars(each)) for each in found.trends],
        "figures_compared": found.compared,
        "figures_not_compared": dict(found.not_compared),
        "records_between": beside.between,
        "not_comparable": dict(beside.others),
        "left_out": found.left_out,
        "notes": list(beside.notes),
    }
    return json.dumps(printable_data(content), indent=2)


def _one(one: Run) -> dict[str, Any]:
    return {
        "record": str(one.path),
        "started": one.started,
        "host": one.host,
        "word": one.word,
        "line": one.closing.get("line", ""),
        "sku": one.sku.get("name", ""),
        "simulated": one.simulated,
        "judged_again": bool(one.judged_from),
    }


def _difference(each: Difference) -> dict[str, Any]:
    kept = {name: value for name, value in vars(each).items() if name != "rank"}
    return _plain({**kept, "kind": each.kind.value, "direction": each.direction.value, "where": list(each.where)})


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON has them: an infinite number is null."""
    return {name: None if isinstance(one, float) and not math.isfinite(one) else one for name, one in values.items()}
