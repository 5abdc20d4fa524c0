"""What a bus bandwidth over several nodes means for the NICs of a node, and what healthy NICs give. Pure.

Of an all-reduce over k nodes and n ranks with one port for each rank, a port sends and receives `busbw k / n` if one
ring after another crosses it, and `busbw (k - 1) / (n - 1)` if the devices of a node reduce before the network, as
NCCL's trees do, with or without NVLink SHARP. An output does not say which of them it was; NVIDIA advises
NCCL_ALGO=RING to measure the network of two nodes (NVIDIA/nccl-tests issue 290).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pytest_accel.core.sku import Platform
from pytest_accel.skus import classes, loader
from pytest_accel.skus.peaks import ALL_NODES

HEALTHY: Final = (0.92, 0.96)
"""Shares of its wire rate that a port sends, and receives at the same time: 46 to 48 GB/s of 400 Gbit/s (NVIDIA's
maintainer of NCCL in NVIDIA/nccl-tests issue 290), 24 GB/s of 200 Gbit/s (another one in issue 119)."""

INSIDE: Final = "all_reduce.busbw@8GiB"
"""The metric of the devices of one node by themselves."""


def port_rate(platform: Platform) -> float | None:
    """Return the wire rate in GB/s per direction that each device of a node has; None if the file states no NICs."""
    wire = platform.wire_gb_per_s
    return wire / platform.devices if wire and platform.devices else None


def ring_load(busbw: float, nodes: int, ranks: int) -> float:
    """Return the GB/s that each rank's port sends, and receives at the same time, in rings over all ranks."""
    return busbw * nodes / ranks


def port_load(busbw: float, nodes: int, ranks: int) -> float:
    """Return the GB/s that each rank's port sends, and receives, if the ranks of a node reduce before the network.

    Zero for one node, which needs no network.
    """
    return busbw * (nodes - 1) / (ranks - 1) if ranks > 1 else 0.0


def expected(platform: Platform, nodes: int, ranks: int) -> Mapping[str, tuple[float, float]]:
    """Return the busbw in GB/s that healthy ports give an all-reduce of large messages, from and to, by algorithm.

    "ring": that of rings. "tree": if the devices of a node reduce first; at few nodes the node bounds it, by what its
    devices reach among themselves (`INSIDE`). Empty if the file of the platform states no NICs.
    """
    rate = port_rate(platform)
    if rate is None or nodes < 2 or ranks < nodes:
        return {}
    inside = platform.limits.get(INSIDE)
    own, of_node = (inside.reference if inside else None) or float("inf"), max(2, ranks // nodes)
    most = own * of_node / (of_node - 1) * (ranks - 1) / ranks  # at most the algbw of a node by itself
    ring, tree = ranks / nodes, (ranks - 1) / (nodes - 1)
    low, high = (share * rate for share in HEALTHY)
    return {"ring": (low * ring, high * ring), "tree": (min(most, low * tree), min(most, high * tree))}


def published(sku: str, nodes: int) -> Sequence[Mapping[str, Any]]:
    """Return the published busbw of an all-reduce over several nodes of a product, the nearest number of nodes first.

    They are figures of the class floor: sku, value in GB/s, nodes, by, conditions.
    """
    rows = classes.read(loader.SHIPPED / classes.FILE).rows
    figures = [each for row in rows if ALL_NODES in row.metrics for each in row.figures]
    known = [each for each in figures if each["sku"] == sku and "nodes" in each]
    return sorted(known, key=lambda each: abs(each["nodes"] - nodes))
