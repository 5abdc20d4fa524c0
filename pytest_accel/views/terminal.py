"""The table and the closing line, as plain lines with a colour each. Text only: pytest does the writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_accel.core.measurement import NODE
from pytest_accel.core.verdict import Status, Verdict, Waiver, show, show_margin
from pytest_accel.judging.closing import Closing, worst_first
from pytest_accel.run.phases import PHASES

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
"""The column of shares of a peak, which is left out where nothing has one."""
FEW = 2
"""So many devices have a row each for every metric."""
Line = tuple[str, str]
"""Text and colour; the colour may be empty."""


def table(verdicts: Sequence[Verdict], names: Mapping[str, str], *, full: bool = False) -> list[Line]:
    """Rows worst first; "<" marks the slowest device of a metric.

    Whatever fails or is marginal has a row of its own. Devices that state the same fact share one; so do more than
    two that hold the same limit, with the weakest named and the range of values, unless `full`.
    """
    host = [each for each in verdicts if each.metric.startswith(HOST) and each.limit is None]
    verdicts = [each for each in verdicts if each not in host]
    shown = [each for each in verdicts if each.information or each.status is not Status.NOT_APPLICABLE]
    if not shown:
        return _host(host)
    slowest = _slowest(shown)
    devices = len({each.subject for each in verdicts} - {NODE})
    several = not full and devices > FEW
    expected = [each for each in shown if several and _as_expected(each)]
    shown = [each for each in shown if each not in expected]
    rows: list[tuple[str, ...]] = [("device", "metric", "value", "of peak", "limit", "margin", "status")]
    groups = _alike(worst_first(shown), several=several)
    rows += [_row(each, _named(each, names, devices), each[0] in slowest) for each in groups]
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
    notes = [each for each in worst_first(shown) if each.status is Status.MARGINAL]
    lines += [
        (f"marginal: {names.get(each.subject, each.subject)} {each.metric}: {each.sentence}", "yellow")
        for each in notes
    ]
    lines += [
        (f"waived: {names.get(each.subject, each.subject)} {each.metric}: {_waiver(each.waiver)}", "yellow")
        for each in worst_first(shown)
        if each.waiver
    ]
    if any(each.next_run for each in shown):
        lines.append(("+-: how far the next run of the same device lies from this one at most, in 95 % of cases", ""))
    silent = [each for each in verdicts if each not in shown and each not in expected]
    return lines + _expected(expected, devices) + not_applicable(silent) + _host(host)


def _waiver(waiver: Waiver) -> str:
    return f"{waiver.reason} (by {waiver.by}, until {waiver.until}, {waiver.origin})"


def _as_expected(verdict: Verdict) -> bool:
    return verdict.metric.startswith(FACTS) and verdict.status is Status.PASS and not verdict.waiver


def _expected(verdicts: Sequence[Verdict], devices: int) -> list[Line]:
    """The facts that are as they have to be: dozens, and one line."""
    facts = len({each.metric for each in verdicts})
    text = f"inventory and health: {facts} facts are as expected on {devices} devices (-v lists them)"
    return [(text, COLOURS[Status.PASS])] if verdicts else []


def _host(verdicts: Sequence[Verdict]) -> list[Line]:
    """Facts of the host that no limit judges are many, and one line."""
    known = sum(each.information for each in verdicts)
    hidden = f", {len(verdicts) - known} are not there or not visible" if known < len(verdicts) else ""
    text = f"host: {known} facts without a limit are in the record{hidden} (pytest-accel discover shows them)"
    return [(text, "")] if verdicts else []


def not_applicable(verdicts: Sequence[Verdict]) -> list[Line]:
    """What was not measured because it cannot exist here, one line for each reason."""
    why = {each.metric: each.sentence for each in reversed(verdicts)}
    reasons: dict[str, list[str]] = {}
    for metric in dict.fromkeys(each.metric for each in verdicts):
        reasons.setdefault(why[metric], []).append(metric)
    return [(f"not applicable: {', '.join(metrics)}: {reason}", "") for reason, metrics in reasons.items()]


def _alike(verdicts: Sequence[Verdict], *, several: bool) -> list[list[Verdict]]:
    """The verdicts that share a row: equal facts and, of `several` devices, whatever holds or only informs."""
    groups: dict[tuple[object, ...], list[Verdict]] = {}
    for each in verdicts:
        fine = (each.status is Status.PASS or each.information) and not each.waiver
        fact = each.metric.startswith(FACTS) and not each.status.fails
        own: tuple[object, ...] = (str(each.value), str(each.expected))
        if fine and several:
            own = (each.limit.origin if each.limit else "", *(() if _is_figure(each) else own))
        elif not fact:
            own = (*own, each.key)
        groups.setdefault((each.metric, each.status, *own), []).append(each)
    return list(groups.values())


def _is_figure(verdict: Verdict) -> bool:
    """True for a measured number; facts are told apart by what they state."""
    number = isinstance(verdict.value, int | float) and not isinstance(verdict.value, bool)
    return number and verdict.expected is None and not verdict.metric.startswith(FACTS)


def _named(group: Sequence[Verdict], names: Mapping[str, str], devices: int) -> str:
    found = [names.get(each.subject, each.subject) for each in group]
    if len(group) > 1 and _is_figure(group[0]):
        weakest = f", {found[0]} <" if group[0].margin is not None else ""
        return f"{'all' if len(group) == devices else f'{len(group)} of'} {devices}{weakest}"
    if 1 < devices == len(group):
        return f"all {devices}"
    return ", ".join(found) if len(found) <= FEW or group[0].status.fails else f"{len(found)} of {devices}"


def _row(group: Sequence[Verdict], name: str, slowest: bool) -> tuple[str, ...]:
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
    """Half of the interval that the next run's value lies in, as a share of this one's."""
    if verdict.next_run is None or not verdict.value:
        return ""
    low, high = verdict.next_run
    return f" +-{(high - low) / 2 / abs(float(verdict.value)):.1%}"


def _values(group: Sequence[Verdict]) -> str:
    """The value; of several figures the least and the most."""
    first = group[0]
    if first.value is None:
        return ""
    if len(group) == 1 or not _is_figure(first):
        return show(first.value, first.unit) + _next_run(first)
    least, most = (show(pick(float(each.value or 0) for each in group), first.unit) for pick in (min, max))
    return least if least == most else f"{least.partition(' ')[0]} to {most}"


def _shares(group: Sequence[Verdict]) -> str:
    """The share of the peak; of several figures the least and the most."""
    found = [each.of_peak for each in group if each.of_peak is not None]
    if not found:
        return ""
    least, most = f"{min(found):.0%}", f"{max(found):.0%}"
    return least if least == most else f"{least[:-1]} to {most}"


def limit_of(verdict: Verdict) -> str:
    """The bounds of a verdict as the table shows them; empty where there are none."""
    advice = "advice " if verdict.limit and verdict.limit.severity == "warn" else ""
    if verdict.limit and verdict.limit.version:
        return advice + verdict.limit.version
    if verdict.expected is not None:
        return f"{advice}= {verdict.expected}"
    bounds = [("floor", verdict.floor), ("ceiling", verdict.ceiling)]
    return advice + ", ".join(f"{word} {show(bound, verdict.unit)}" for word, bound in bounds if bound is not None)


def _slowest(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Of each metric that several devices share, the one with the least margin."""
    groups: dict[str, list[Verdict]] = {}
    for each in verdicts:
        if each.margin is not None:
            groups.setdefault(each.metric, []).append(each)
    return [
        min(group, key=lambda each: each.margin if each.margin is not None else 0.0)
        for group in groups.values()
        if len({each.subject for each in group}) > 1
    ]


def time_line(seconds: Mapping[str, float]) -> Line:
    """Where the time of the run went, in seconds."""
    parts = [f"{name.replace('_', '-')} {seconds[name]:.0f}" for name in PHASES if name in seconds]
    return f"time: {seconds['wall']:.0f} s: {', '.join(parts)}", ""


def closing_lines(closing: Closing, verdicts: Sequence[Verdict]) -> list[Line]:
    """The closing line in its colour."""
    colour = "green" if closing.exit == 0 else "red"
    marginal = any(each.status is Status.MARGINAL or each.waiver for each in verdicts)
    return [(closing.line, "yellow" if marginal and closing.exit == 0 else colour)]


def first_to_repeat(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The verdict that one would want to see again first."""
    bad = [each for each in verdicts if each.fails]
    return worst_first(bad)[0] if bad else None
