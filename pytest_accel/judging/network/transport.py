"""The connections between ranks of different nodes, by the account of NCCL or RCCL, against the platform's network."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pytest_accel.core.sku_types import Platform
from pytest_accel.core.words import counted

RDMA = ("infiniband", "roce", "efa", "slingshot")
"""Kinds of network whose NICs write into the memory of devices; sockets copy through the host."""
C2C = "nvlink-c2c"
_NET = re.compile(r"NET/(?P<plugin>[^/]+)/(?P<nic>\d+)(?:\(\d+\))?(?P<more>\S*)")
"""A connection between nodes: "NET/IB/3/GDRDMA", "NET/IB/3(1)/GDRDMA(PCI)/Shared"."""
INDIRECT = ("", "/Shared")
"""The texts behind the NIC of a connection without GPUDirect RDMA (NCCL 2.30, src/transport/net.cc)."""


def wrong_transport(connections: Mapping[str, int], platform: Platform, devices: int) -> str:
    """Return a sentence on what is wrong with the connections of a node's ranks to other nodes; empty if nothing is.

    `connections` counts them by kind, as `Rank.connections` does. Where no source states the network of the `platform`,
    nothing is expected. NICs are counted where each of the `devices` has its own.
    """
    network = platform.network
    matches = {kind: match for kind in connections if (match := _NET.match(kind))}
    if network.get("link") not in RDMA or not matches:
        return ""
    link, number = network["link"], sum(connections[kind] for kind in matches)
    sockets = sum(connections[kind] for kind, match in matches.items() if match["plugin"] == "Socket")
    if sockets:
        return f"{sockets} of {counted(number, 'connection')} to other nodes use sockets and not {link}"
    indirect = sum(connections[kind] for kind, match in matches.items() if match["more"] in INDIRECT)
    # where devices reach their processor by NVLink-C2C, GPUDirect RDMA through it is the choice of the library: up to
    # 2.25 it has none, in 2.26 it is off by default, since 2.27 on (NCCL_NET_GDR_C2C; src/graph/paths.cc)
    if indirect and platform.host_link.get("type") != C2C:
        return f"{indirect} of {counted(number, 'connection')} to other nodes do without GPUDirect RDMA"
    nics = {(match["plugin"], match["nic"]) for match in matches.values()}
    if network.get("nics") == devices and len(nics) < devices:
        return f"{len(nics)} of {devices} NICs are used"
    return ""
