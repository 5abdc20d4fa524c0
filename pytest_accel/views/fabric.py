"""What was measured between nodes, as lines: the load of the ports behind a bus bandwidth."""

from __future__ import annotations

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.sku import Platform
from pytest_accel.skus import fabric
from pytest_accel.views.terminal import Line, folded


def port_lines(measured: Measurement, platform: Platform, width: int | None = None) -> list[Line]:
    """Return what the busbw of an all-reduce over several nodes is for the ports, and what healthy ones give.

    Nothing for another measurement.
    """
    nodes, ranks, busbw = measured.conditions.get("nodes"), measured.conditions.get("ranks"), measured.value
    if not (isinstance(nodes, int) and isinstance(ranks, int) and isinstance(busbw, float) and 1 < nodes <= ranks):
        return []
    size = measured.conditions.get("size")
    lines = _ports(busbw, nodes, ranks, f"{nodes} nodes{f', {size}' if size else ''}", platform)
    return folded(lines, width) if width else lines


def _ports(busbw: float, nodes: int, ranks: int, what: str, platform: Platform) -> list[Line]:
    ring, tree = fabric.ring_load(busbw, nodes, ranks), fabric.port_load(busbw, nodes, ranks)
    load = f"{what}: a port carries {ring:.1f} GB/s by rings, {tree:.1f} by trees (nodes reduce first)"
    rate, known = fabric.port_rate(platform), fabric.expected(platform, nodes, ranks)
    if rate is None:
        why = f"platform {platform.name} states no NICs; name one that does, or state them in a file of your own"
        return [(load, ""), (f"not compared with a wire rate: {why} (fabric)", "yellow")]
    share = (
        f"{ring / rate:.0%} by rings, {tree / rate:.0%} by trees" if ring <= rate else f"{tree / rate:.0%}, by trees"
    )
    wire = f"wire rate of a port: {rate:g} GB/s; used: {share}"
    (low, high), (least, most) = known["ring"], known["tree"]
    trees = f"up to {most:.0f}" if least == most else f"{least:.0f} to {most:.0f}"
    return [(load, ""), (wire, ""), (f"healthy: {low:.0f} to {high:.0f} GB/s by rings, {trees} by trees", "")]
