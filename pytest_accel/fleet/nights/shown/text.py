"""A night of a fleet on a terminal: at most sixty lines, the worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pytest_accel.core.printable import printable
from pytest_accel.core.verdict import show
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.nights.analysis.limits import Fired
from pytest_accel.fleet.nights.analysis.offenders import Offender, Repeated
from pytest_accel.fleet.nights.analysis.outliers import Outlier, Subject
from pytest_accel.fleet.nights.analysis.recalibration import Proposed
from pytest_accel.fleet.nights.analysis.trends import Drift, Trend
from pytest_accel.fleet.nights.analysis.updates import Update
from pytest_accel.fleet.nights.night import REJECTED, Night, Run, left_out

Rows = list[tuple[str, ...]]
LINES: Final = 60
"""Most lines of the text."""


def text(night: Night) -> str:
    """Return a night as text."""
    rejected = [each for each in night.runs if each.exit == REJECTED]
    other = [each for each in night.runs if each.exit not in (0, REJECTED)]
    sections: list[tuple[str, Sequence[Any], Callable[[Any], tuple[str, ...]], int]] = [
        ("rejected", rejected, _run, 6),
        ("not judged, or not ended", other, _run, 3),
        ("far behind their like tonight", night.outliers, outlier, 8),
        ("losing speed from night to night", night.trends, trend, 6),
        ("failed again and again", night.offenders, offender, 4),
        ("MARGINAL in the same metric again", night.repeated, repeated, 3),
        ("changed with an update", night.updates, update, 3),
        ("the whole fleet is getting slower", night.drifts, drift, 2),
        ("limits that fire on too many nodes", night.too_often, too_often, 2),
        ("limits that find nothing", night.never, never, 2),
        ("limits that the fleet proposes", by_change(night.proposals), proposal, 3),
    ]
    lines = head(night)
    for title, found, shown, most in sections:
        if found:
            more = f", the first {most}" if len(found) > most else ""
            lines += [f"{title} ({len(found)}{more})", *table([shown(each) for each in found[:most]])]
    nothing = [title for title, found, _, _ in sections if not found]
    if nothing:
        lines.append(f"nothing: {'; '.join(nothing)}")
    return "\n".join(map(printable, lines[:LINES])) + "\n"


def head(night: Night) -> list[str]:
    """Return the first lines: the night, the results, the statuses, and nights that were left out."""
    simulated = "SIMULATED " if night.simulated else ""
    count = counted(len({each.node for each in night.runs}), "node")
    words = ", ".join(f"{number} {word}" for word, number in night.words.items())
    nights = "one night" if night.nights == 1 else f"beside {counted(night.nights - 1, 'night')} since {night.first}"
    verdicts = ", ".join(f"{number} {status}" for status, number in sorted(night.verdicts.items()))
    lines = [f"{simulated}{night.night}, {nights}: {count}, {counted(night.devices, 'device')}", words, verdicts]
    return [*lines, left_out(night.left_out)] if night.left_out else lines


def table(rows: Rows) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def identity(subject: Subject) -> str:
    """Return the serial number of a device, else its UUID; empty for a node."""
    return "" if subject.name == "node" else subject.serial or subject.uuid


def _run(run: Run) -> tuple[str, ...]:
    return run.node, run.word, run.line[:100]


def outlier(one: Outlier) -> tuple[str, ...]:
    """Return an outlier as cells: place, identity, metric, value, status, what it is beside."""
    kind, among = one.kind, f"{one.devices} devices"
    where = f"{kind.sku} {kind.level}" + (f", driver {one.driver}" if one.driver else "")
    also = f"also {listed(one.also, 2)}" if one.also else ""
    beside = f"{one.of_node} of this node" if one.of_node > 1 else ""
    told = "; ".join(
        filter(None, (f"median of {among} {show(one.middle, kind.unit)}, spread {one.spread:.2%}", also, beside))
    )
    value = f"{show(one.value, kind.unit)}, {one.behind:.1%} behind"
    return one.subject.shown, identity(one.subject), kind.metric, value, one.status, f"{told} ({where})"


def trend(one: Trend) -> tuple[str, ...]:
    """Return a trend as cells: place, identity, metric, loss, slope."""
    unit = one.kind.unit
    value = f"{show(one.first, unit)} to {show(one.last, unit)}, {one.loss:.1%} lost"
    slope = f"{one.slope:+.2%} a night over {one.nights} nights since {one.since}"
    return one.subject.shown, identity(one.subject), one.kind.metric, value, slope


def offender(one: Offender) -> tuple[str, ...]:
    """Return a repeat offender as cells: place, identity, runs, metrics, fault codes."""
    runs = f"{one.runs} runs, {one.nights[0]} to {one.nights[-1]}"
    return one.subject.shown, identity(one.subject), runs, listed(one.metrics), " ".join(one.codes)


def repeated(one: Repeated) -> tuple[str, ...]:
    """Return a repeated MARGINAL as cells: place, identity, metric, nights."""
    return one.subject.shown, identity(one.subject), one.metric, f"{len(one.nights)} of the last {one.of} nights"


def update(one: Update) -> tuple[str, ...]:
    """Return the effect of an update as cells: SKU, metric, versions, change, certainty."""
    unit = one.kind.unit
    change = f"{show(one.before, unit)} to {show(one.after, unit)}, {one.change:+.1%}"
    spread = f"{one.in_spreads:.1f} spreads, {counted(one.devices, 'device')} of {counted(one.nodes, 'node')}"
    return one.kind.sku, one.kind.metric, f"{one.what} {one.old} to {one.new}", change, spread


def drift(one: Drift) -> tuple[str, ...]:
    """Return a trend of the fleet as cells: SKU, metric, loss."""
    return one.kind.sku, one.kind.metric, f"{one.loss:.1%} lost over {one.nights} nights by {one.devices} devices alike"


def too_often(one: Fired) -> tuple[str, ...]:
    """Return a limit that fires on too many nodes as cells."""
    return one.sku, one.metric, _bound(one), f"fires on {one.failing_nodes} of {one.nodes} nodes: doubt the limit"


def never(one: Fired) -> tuple[str, ...]:
    """Return a limit that finds nothing as cells."""
    return (
        one.sku,
        one.metric,
        _bound(one),
        f"never fired; the worst of {one.devices} devices holds by {one.margin or 0:.0%}",
    )


def _bound(one: Fired) -> str:
    parts = (("floor", one.floor), ("ceiling", one.ceiling))
    return ", ".join(f"{name} {show(value, '')}" for name, value in parts if value is not None)


def by_change(found: Iterable[Proposed]) -> list[Proposed]:
    """Return proposals, those that differ most from the present limit first."""
    return sorted(found, key=lambda one: (one.change is None, -abs(one.change or 0.0)))


def proposal(one: Proposed) -> tuple[str, ...]:
    """Return a proposed limit as cells: SKU, metric, bounds, what it follows from."""
    found, unit = one.found, one.kind.unit
    name = "floor" if found.rate else "ceiling"
    now = f"now {show(one.present, unit)}" if one.present is not None else "no limit now"
    finds = f"centre {show(found.centre, unit)}, spread {found.spreads.total:.2%}, finds a loss of {found.finds:.1%}"
    return one.kind.sku, one.kind.metric, f"{name} {show(found.bound, unit)}, {now}", finds
