"""A night of a fleet on a terminal: at most sixty lines, the worst first, made for 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pytest_accel.core import exits
from pytest_accel.core.printable import printable
from pytest_accel.core.verdict import Status, show
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.nights.findings import (
    Drift,
    Fired,
    Offender,
    Outlier,
    RepeatedMarginal,
    SpeedTrend,
    Subject,
    Update,
)
from pytest_accel.fleet.nights.night import Doubled, EarlierRejection, Night, NodeRun

Rows = list[tuple[str, ...]]
LINES: Final = 60
"""Most lines of the text."""
NAMES: Final = {
    "outliers": "far behind the median of their like tonight",
    "trends": "losing speed from night to night",
}
"""The titles of the findings that take many devices or nights."""
GONE: Final = 8
"""Most nodes without a run that are named."""
COLUMNS: Final = 80
"""Columns of a terminal. A line is longer only if its names are."""


def text(night: Night) -> str:
    """Return a night as text."""
    rejected = [each for each in night.runs if each.exit == exits.REJECTED]
    other = [each for each in night.runs if each.exit not in (0, exits.REJECTED)]
    sections: list[tuple[str, Sequence[Any], Callable[[Any], tuple[str, ...]], int]] = [
        ("rejected", rejected, _run, 6),
        ("rejected in the nights before, and not judged since", night.rejected_before, _rejected_before, 6),
        ("not judged, or not ended", other, _run, 3),
        ("devices on several nodes in this night", night.doubled, _doubled, 6),
        (NAMES["outliers"], night.outliers, _outlier, 8),
        (NAMES["trends"], night.trends, _trend, 6),
        ("failed again", night.offenders, _offender, 4),
        ("MARGINAL in the same metric again", night.repeated, _repeated, 3),
        ("changed with an update", night.updates, _update, 3),
        ("the whole fleet is getting slower", night.drifts, _drift, 2),
        ("limits that fire on too many nodes", night.too_often, _too_often, 2),
        ("limits that find nothing", night.never, _never, 2),
    ]
    lines = _head(night)
    if night.gone:
        title = f"without a run tonight, but with one in each of the nights before ({len(night.gone)})"
        lines += _wrapped(title, (listed(night.gone, GONE),))
    for title, found, shown, most in sections:
        if found:
            more = f", the first {most}" if len(found) > most else ""
            lines += [f"{title} ({len(found)}{more})", *_table([shown(each) for each in found[:most]])]
    if night.unsought:
        lines += _wrapped(
            "not looked for", (f"{NAMES[name]} (takes {least})" for name, least in night.unsought.items())
        )
    unsought = [NAMES[name] for name in night.unsought]
    nothing = [title for title, found, _, _ in sections if not found and title not in unsought]
    if nothing:
        lines += _wrapped("nothing found", nothing)
    return "\n".join(map(printable, lines[:LINES])) + "\n"


def _wrapped(title: str, names: Iterable[str]) -> list[str]:
    return textwrap.wrap(f"{title}: {'; '.join(names)}", COLUMNS, subsequent_indent="  ")


def _head(night: Night) -> list[str]:
    """Return the first lines: the night, the results, and the statuses."""
    simulated = "SIMULATED " if night.simulated else ""
    words = ", ".join(f"{number} {word}" for word, number in night.words.items())
    verdicts = ", ".join(f"{number} {status}" for status, number in sorted(night.verdicts.items()))
    return [f"{simulated}{night.night}: {_size(night)}", f"runs: {words}", f"verdicts: {verdicts}"]


def _size(night: Night) -> str:
    """Return how much was looked at: nodes, devices and nights."""
    count = counted(night.nodes, "node")
    before = f"compared with {counted(night.nights - 1, 'night')} from {night.first} on"
    return f"{count}, {counted(night.devices, 'device')}; {before if night.nights > 1 else 'no night before it'}"


def _table(rows: Rows) -> list[str]:
    """Return rows as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _run(run: NodeRun) -> tuple[str, ...]:
    """Return node and the beginning of the closing line, which has the result."""
    line = run.line if run.word in run.line else f"{run.word} {run.line}"
    return run.node, textwrap.shorten(line, max(COLUMNS // 2, COLUMNS - len(run.node) - 4), placeholder=" ...")


def _outlier(one: Outlier) -> tuple[str, ...]:
    """Return place, identity, metric, value and median, distance, and what else there is to say."""
    value = f"{show(one.value, '')} of {show(one.middle, one.kind.unit)}"
    status = "" if one.status == Status.PASS.value else one.status
    also = f"also {listed(one.also, 2)}" if one.also else ""
    alike = f"{one.of_node} of this node" if one.of_node > 1 else ""
    told = "; ".join(filter(None, (status, also, alike)))
    return one.subject.shown, _identity(one.subject), one.kind.metric, value, f"{-one.behind:.1%}", told


def _trend(one: SpeedTrend) -> tuple[str, ...]:
    """Return place, identity, metric, and the speed that is lost."""
    value = f"{show(one.first, '')} to {show(one.last, one.kind.unit)}"
    return one.subject.shown, _identity(one.subject), one.kind.metric, value, f"{-one.loss:.1%}"


def _offender(one: Offender) -> tuple[str, ...]:
    """Return place, identity, runs, metrics and fault codes."""
    runs = f"{one.runs} runs since {one.nights[0]}"
    return one.subject.shown, _identity(one.subject), runs, listed(one.metrics, 2), " ".join(one.codes)


def _update(one: Update) -> tuple[str, ...]:
    """Return SKU, metric, versions, and the change of speed."""
    value = f"{show(one.before, '')} to {show(one.after, one.kind.unit)}"
    return one.kind.sku, one.kind.metric, f"{one.what} {one.old} to {one.new}", value, f"{one.change:+.1%}"


def _never(one: Fired) -> tuple[str, ...]:
    """Return SKU, metric, bounds, and how far from them the nearest device is."""
    nearest = f"nearest of {one.devices} devices {one.margin or 0:.0%} off"
    return one.sku, one.metric, _bound(one), nearest


def _identity(subject: Subject) -> str:
    """Return the serial number of a device, else its UUID; empty for a node."""
    return "" if subject.name == "node" else subject.serial or subject.uuid


def _rejected_before(one: EarlierRejection) -> tuple[str, ...]:
    return one.node, str(one.night), one.line


def _doubled(one: Doubled) -> tuple[str, ...]:
    return one.uuid, " and ".join(one.nodes)


def _repeated(one: RepeatedMarginal) -> tuple[str, ...]:
    return one.subject.shown, _identity(one.subject), one.metric, f"{len(one.nights)} of the last {one.of} nights"


def _drift(one: Drift) -> tuple[str, ...]:
    return one.kind.sku, one.kind.metric, f"{one.loss:.1%} lost over {one.nights} nights by {one.devices} devices alike"


def _too_often(one: Fired) -> tuple[str, ...]:
    return one.sku, one.metric, _bound(one), f"fires on {one.failing_nodes} of {one.nodes} nodes: doubt the limit"


def _bound(one: Fired) -> str:
    parts = (("floor", one.floor), ("ceiling", one.ceiling))
    return ", ".join(f"{name} {show(value, '')}" for name, value in parts if value is not None)
