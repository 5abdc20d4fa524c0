"""How the ranks of different nodes reach each other, by the account of NCCL or RCCL, against what the platform has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_accel.core.words import counted

RDMA = ("infiniband", "roce", "efa", "slingshot")
"""Kinds of fabric whose NICs write into the memory of devices; sockets copy through the host."""
_NET = re.compile(r"NET/(?P<plugin>[^/]+)/(?P<nic>\d+)(?P<direct>.*/GDRDMA)?")
"""A connection between nodes: "NET/IB/3/GDRDMA"."""


def wrong_transport(connections: Mapping[str, int], fabric: Mapping[str, Any], devices: int) -> str:
    """Return what is wrong with the connections of a node's ranks to other nodes, as a sentence; empty if nothing is.

    `connections` counts them by kind, as `Rank.connections` does. `fabric` is that of the platform: where no source
    states it, nothing is expected. NICs are counted where each of the `devices` has its own.
    """
    between = {kind: found for kind in connections if (found := _NET.match(kind))}
    if fabric.get("link") not in RDMA or not between:
        return ""
    link, number = fabric["link"], sum(connections[kind] for kind in between)
    sockets = sum(connections[kind] for kind, found in between.items() if found["plugin"] == "Socket")
    if sockets:
        return f"{sockets} of {counted(number, 'connection')} to other nodes use sockets and not {link}"
    indirect = sum(connections[kind] for kind, found in between.items() if not found["direct"])
    if indirect:
        return f"{indirect} of {counted(number, 'connection')} to other nodes do without GPUDirect RDMA"
    nics = {(found["plugin"], found["nic"]) for found in between.values()}
    if fabric.get("nics") == devices and len(nics) < devices:
        return f"{len(nics)} of {devices} NICs are used"
    return ""
