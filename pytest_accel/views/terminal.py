"""The table and the closing line of a run, as lines of text with a colour each. The caller writes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_accel.core.measurement import NODE
from pytest_accel.core.verdict import Status, Verdict, Waiver, show, show_margin
from pytest_accel.judging.closing import Closing, worst_first
from pytest_accel.run.phases import PHASES
from pytest_accel.views.own_tests import told_apart

COLOURS = {
    Status.FAIL: "red",
    Status.UNMEASURED: "red",
    Status.INCONCLUSIVE: "yellow",
    Status.MARGINAL: "yellow",
    Status.PASS: "green",
}
FACTS = ("inventory.", "health.")
HOST = ("host.", "host_counters.")
OF_PEAK = 3
"""Index of the column "of peak", which is left out if no row has a value in it."""
FEW = 2
"""Up to this number of devices, each has a row of its own for every metric."""
Line = tuple[str, str]
"""Text and colour; the colour may be empty."""


def table(verdicts: Sequence[Verdict], names: Mapping[str, str], *, full: bool = False) -> list[Line]:
    """Return the table, with the worst rows first, and lines with notes below it.

    "<" marks the slowest device of a metric. A verdict that fails or is marginal has a row of its own. Devices with the
    same fact share a row. More than two devices that pass the same limit share a row as well, with the weakest device
    and the range of values; unless `full` is set.
    """
    host = [verdict for verdict in verdicts if verdict.metric.startswith(HOST) and verdict.limit is None]
    verdicts = told_apart([verdict for verdict in verdicts if verdict not in host])
    shown = [verdict for verdict in verdicts if verdict.information or verdict.status is not Status.NOT_APPLICABLE]
    if not shown:
        return _host(host)
    slowest = _slowest(shown)
    devices = len({verdict.subject for verdict in verdicts} - {NODE})
    several = not full and devices > FEW
    expected = [verdict for verdict in shown if several and _as_expected(verdict)]
    shown = [verdict for verdict in shown if verdict not in expected]
    rows: list[tuple[str, ...]] = [("device", "metric", "value", "of peak", "limit", "margin", "status")]
    groups = _alike(worst_first(shown), several=several)
    rows += [_row(group, _named(group, names, devices), group[0] in slowest) for group in groups]
    if not any(row[OF_PEAK] for row in rows[1:]):
        rows = [row[:OF_PEAK] + row[OF_PEAK + 1 :] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [("  ".join(cell.ljust(width) for cell, width in zip(rows[0], widths, strict=True)).rstrip(), "bold")]
    for row, (verdict, *_) in zip(rows[1:], groups, strict=True):
        cells = [
            cell.rjust(width) if 2 <= column < len(row) - 1 else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  ".join(cells).rstrip(), "yellow" if verdict.waiver else COLOURS.get(verdict.status, "")))
    lines += [
        (f"marginal: {names.get(verdict.subject, verdict.subject)} {verdict.metric}: {verdict.sentence}", "yellow")
        for verdict in worst_first(shown)
        if verdict.status is Status.MARGINAL
    ]
    lines += [
        (f"waived: {names.get(verdict.subject, verdict.subject)} {verdict.metric}: {_waiver(verdict.waiver)}", "yellow")
        for verdict in worst_first(shown)
        if verdict.waiver
    ]
    if any(verdict.next_run for verdict in shown):
        lines.append(("+-: the next run on the same device differs by at most this much in 95 % of cases", ""))
    silent = [verdict for verdict in verdicts if verdict not in shown and verdict not in expected]
    return lines + _expected(expected, devices) + not_applicable(silent) + _host(host)


def _waiver(waiver: Waiver) -> str:
    """Return a waiver's reason, who granted it, its last day and its place in the file."""
    return f"{waiver.reason} (by {waiver.by}, until {waiver.until}, {waiver.origin})"


def _as_expected(verdict: Verdict) -> bool:
    """Return True for a fact of a device that passes without a waiver."""
    return verdict.metric.startswith(FACTS) and verdict.status is Status.PASS and not verdict.waiver


def _expected(verdicts: Sequence[Verdict], devices: int) -> list[Line]:
    """Return one line for all facts that pass, since there are dozens."""
    facts = len({verdict.metric for verdict in verdicts})
    text = f"inventory and health: {facts} facts are as expected on {devices} devices (-v lists them)"
    return [(text, COLOURS[Status.PASS])] if verdicts else []


def _host(verdicts: Sequence[Verdict]) -> list[Line]:
    """Return one line for all facts of the host that have no limit, since there are many."""
    known = sum(verdict.information for verdict in verdicts)
    hidden = f", {len(verdicts) - known} do not exist here or cannot be read" if known < len(verdicts) else ""
    text = f"host: {known} facts without a limit are in the record{hidden} (pytest-accel discover shows them)"
    return [(text, "")] if verdicts else []


def not_applicable(verdicts: Sequence[Verdict]) -> list[Line]:
    """Return one line for each reason why metrics are not applicable, with these metrics."""
    why = {verdict.metric: verdict.sentence for verdict in reversed(verdicts)}
    reasons: dict[str, list[str]] = {}
    for metric in dict.fromkeys(verdict.metric for verdict in verdicts):
        reasons.setdefault(why[metric], []).append(metric)
    return [(f"not applicable: {', '.join(metrics)}: {reason}", "") for reason, metrics in reasons.items()]


def _alike(verdicts: Sequence[Verdict], *, several: bool) -> list[list[Verdict]]:
    """Return the verdicts in groups that share a row.

    A group holds equal facts or, if there are `several` devices, verdicts on one limit that pass or have no limit.
    """
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in verdicts:
        fine = (verdict.status is Status.PASS or verdict.information) and not verdict.waiver
        fact = verdict.metric.startswith(FACTS) and not verdict.status.fails
        own: tuple[object, ...] = (str(verdict.value), str(verdict.expected))
        if fine and several:
            own = (verdict.limit.origin if verdict.limit else "", *(() if _is_figure(verdict) else own))
        elif not fact:
            own = (*own, verdict.key)
        groups.setdefault((verdict.metric, verdict.status, *own), []).append(verdict)
    return list(groups.values())


def _is_figure(verdict: Verdict) -> bool:
    """Return True for a measured number, False for a fact."""
    number = isinstance(verdict.value, int | float) and not isinstance(verdict.value, bool)
    return number and verdict.expected is None and not verdict.metric.startswith(FACTS)


def _named(group: Sequence[Verdict], names: Mapping[str, str], devices: int) -> str:
    """Return the text of the column "device" for a group: "gpu3", "gpu0, gpu1", "all 8, gpu3 <" or "5 of 8"."""
    members = [names.get(verdict.subject, verdict.subject) for verdict in group]
    if len(group) > 1 and _is_figure(group[0]):
        weakest = f", {members[0]} <" if group[0].margin is not None else ""
        return f"{'all' if len(group) == devices else f'{len(group)} of'} {devices}{weakest}"
    if 1 < devices == len(group):
        return f"all {devices}"
    return ", ".join(members) if len(members) <= FEW or group[0].status.fails else f"{len(members)} of {devices}"


def _row(group: Sequence[Verdict], name: str, slowest: bool) -> tuple[str, ...]:
    """Return the cells of a group's row."""
    verdict = group[0]
    status = "info" if verdict.information else verdict.status.value + (" waived" if verdict.waiver else "")
    return (
        name + (" <" if slowest and len(group) == 1 else ""),
        verdict.metric,
        _values(group),
        _shares(group),
        limit_of(verdict),
        "" if verdict.margin is None else show_margin(verdict.margin),
        status,
    )


def _next_run(verdict: Verdict) -> str:
    """Return how far the next run's value may lie from this one, as a share of it: " +-1.2%"."""
    if verdict.next_run is None or not verdict.value:
        return ""
    value = float(verdict.value)
    return f" +-{(verdict.next_run[1] - value) / abs(value):.1%}"  # the lower end may be cut off at 0


def _values(group: Sequence[Verdict]) -> str:
    """Return the value with its unit, or the range of values of a group."""
    first = group[0]
    if first.value is None:
        return ""
    if len(group) == 1 or not _is_figure(first):
        return show(first.value, first.unit) + _next_run(first)
    least, most = (show(pick(float(verdict.value or 0) for verdict in group), first.unit) for pick in (min, max))
    return least if least == most else f"{least.partition(' ')[0]} to {most}"


def _shares(group: Sequence[Verdict]) -> str:
    """Return the share of the peak, or the range of shares of a group; empty if there is no peak."""
    shares = [verdict.of_peak for verdict in group if verdict.of_peak is not None]
    if not shares:
        return ""
    least, most = f"{min(shares):.0%}", f"{max(shares):.0%}"
    return least if least == most else f"{least[:-1]} to {most}"


def limit_of(verdict: Verdict) -> str:
    """Return the bounds of a verdict as the table shows them; empty if it has none."""
    advises = bool(verdict.advisory or (verdict.limit and verdict.limit.severity == "warn"))
    advice = "advice " if advises else ""
    if verdict.limit and verdict.limit.version:
        return advice + verdict.limit.version
    if verdict.expected is not None:
        return f"{advice}= {verdict.expected}"
    bounds = [("floor", verdict.floor), ("ceiling", verdict.ceiling)]
    return advice + ", ".join(f"{word} {show(bound, verdict.unit)}" for word, bound in bounds if bound is not None)


def _slowest(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return, for each metric that several devices have, the verdict with the smallest margin."""
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.margin is not None:
            groups.setdefault(verdict.metric, []).append(verdict)
    return [
        min(group, key=lambda verdict: verdict.margin if verdict.margin is not None else 0.0)
        for group in groups.values()
        if len({verdict.subject for verdict in group}) > 1
    ]


def time_line(seconds: Mapping[str, float]) -> Line:
    """Return the line that shows the seconds of the run, in all and by phase."""
    parts = [f"{name.replace('_', '-')} {seconds[name]:.0f}" for name in PHASES if name in seconds]
    return f"time: {seconds['wall']:.0f} s: {', '.join(parts)}", ""


def closing_lines(closing: Closing, verdicts: Sequence[Verdict]) -> list[Line]:
    """Return the closing line in its colour: yellow for an acceptance with marginal or waived verdicts."""
    colour = "green" if closing.exit == 0 else "red"
    marginal = any(verdict.status is Status.MARGINAL or verdict.waiver for verdict in verdicts)
    return [(closing.line, "yellow" if marginal and closing.exit == 0 else colour)]


def record_lines(file: Path | None, sha256: str, instead_of: str | None = None) -> list[Line]:
    """Return where the record is and its hash; nothing if there is none.

    `instead_of` says which place could not be written, if the record had to be written to another one.
    """
    if file is None:
        return []
    return [(f"record: {file}{f' ({instead_of})' if instead_of else ''}", ""), (f"sha256: {sha256}, not signed", "")]


def first_to_repeat(verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the worst verdict that fails, which is worth repeating first; None if none fails."""
    failing = [verdict for verdict in verdicts if verdict.fails]
    return worst_first(failing)[0] if failing else None
