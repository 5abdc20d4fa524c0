"""The findings of a night as the cells of tables, with everything that a reader may ask of each."""

from __future__ import annotations

from pytest_accel.core.verdict import show
from pytest_accel.core.words import counted, listed
from pytest_accel.fleet.nights.analysis.limits import Fired
from pytest_accel.fleet.nights.analysis.offenders import Offender, RepeatedMarginal
from pytest_accel.fleet.nights.analysis.outliers import Outlier, Subject
from pytest_accel.fleet.nights.analysis.recalibration import Proposed
from pytest_accel.fleet.nights.analysis.trends import Drift, SpeedTrend
from pytest_accel.fleet.nights.analysis.updates import Update
from pytest_accel.fleet.nights.night import Doubled, EarlierRejection


def identity(subject: Subject) -> str:
    """Return the serial number of a device, else its UUID; empty for a node."""
    return "" if subject.name == "node" else subject.serial or subject.uuid


def rejected_before(one: EarlierRejection) -> tuple[str, ...]:
    """Return a rejection of an earlier night as cells: node, night, closing line."""
    return one.node, str(one.night), one.line


def doubled(one: Doubled) -> tuple[str, ...]:
    """Return a device on several nodes as cells: UUID, nodes."""
    return one.uuid, " and ".join(one.nodes)


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


def trend(one: SpeedTrend) -> tuple[str, ...]:
    """Return a trend as cells: place, identity, metric, loss, slope."""
    unit = one.kind.unit
    value = f"{show(one.first, unit)} to {show(one.last, unit)}, {one.loss:.1%} lost"
    slope = f"{one.slope:+.2%} a night over {one.nights} nights since {one.since}"
    return one.subject.shown, identity(one.subject), one.kind.metric, value, slope


def offender(one: Offender) -> tuple[str, ...]:
    """Return a repeat offender as cells: place, identity, runs, metrics, fault codes."""
    runs = f"{one.runs} runs, {one.nights[0]} to {one.nights[-1]}"
    return one.subject.shown, identity(one.subject), runs, listed(one.metrics), " ".join(one.codes)


def repeated(one: RepeatedMarginal) -> tuple[str, ...]:
    """Return a repeated MARGINAL as cells: place, identity, metric, nights."""
    return one.subject.shown, identity(one.subject), one.metric, f"{len(one.nights)} of the last {one.of} nights"


def update(one: Update) -> tuple[str, ...]:
    """Return the effect of an update as cells: SKU, metric, versions, change, certainty."""
    unit = one.kind.unit
    change = f"{show(one.before, unit)} to {show(one.after, unit)}, {one.change:+.1%}"
    spread = f"{one.in_spreads:.1f} times the spread; {counted(one.devices, 'device')} of {counted(one.nodes, 'node')}"
    return one.kind.sku, one.kind.metric, f"{one.what} {one.old} to {one.new}", change, spread


def drift(one: Drift) -> tuple[str, ...]:
    """Return a trend of the fleet as cells: SKU, metric, loss."""
    return one.kind.sku, one.kind.metric, f"{one.loss:.1%} lost over {one.nights} nights by {one.devices} devices alike"


def too_often(one: Fired) -> tuple[str, ...]:
    """Return a limit that fires on too many nodes as cells."""
    return one.sku, one.metric, bound(one), f"fires on {one.failing_nodes} of {one.nodes} nodes: doubt the limit"


def never(one: Fired) -> tuple[str, ...]:
    """Return a limit that finds nothing as cells."""
    return (
        one.sku,
        one.metric,
        bound(one),
        f"never fired; the nearest of {one.devices} devices is {one.margin or 0:.0%} away",
    )


def bound(one: Fired) -> str:
    """Return the bounds of a limit."""
    parts = (("floor", one.floor), ("ceiling", one.ceiling))
    return ", ".join(f"{name} {show(value, '')}" for name, value in parts if value is not None)


def proposal(one: Proposed) -> tuple[str, ...]:
    """Return a proposed limit as cells: SKU, metric, bounds, what it follows from."""
    found, unit = one.found, one.kind.unit
    name = "floor" if found.rate else "ceiling"
    now = f"now {show(one.present, unit)}" if one.present is not None else "no limit now"
    finds = f"centre {show(found.centre, unit)}, spread {found.spreads.total:.2%}, finds a loss of {found.finds:.1%}"
    return one.kind.sku, one.kind.metric, f"{name} {show(found.bound, unit)}, {now}", finds
