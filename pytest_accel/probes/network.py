"""The network between nodes: what each port carries, measured by an all-reduce between equal devices of two nodes."""

from __future__ import annotations

from pytest_accel.probes.collectives import collective
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.torch_device import Compute, ProbeResult


@probe(
    "network.pairs",
    runs="nodes",
    unit="GB/s",
    suite=["network.pairs"],
    also={"network.all_reduce": "GB/s"},
    method=lambda: {"operation": "all_reduce", "dtype": "fp32", "ranks": 2, "statistic": "mean"},
    stresses=["link"],
    peak="port",
    budgets={"quick": 2.0, "standard": 4.0, "long": 10.0},
    verifies="sums",
    cost=Cost("link", share=0.1),
    small={"size": "64KiB"},
)
def network_pairs(device: Compute, *, size: str = "1GiB") -> ProbeResult:
    """Measure the GB/s that a device sends to, and at the same time receives from, the equal device of another node.

    Each device forms a process group with its equal of the other node, and all these groups of two work at once. So
    every port of both nodes is loaded in both directions, and no link within a node. In a group of two ranks the busbw
    of an all-reduce is `size` / time, and each rank sends and receives as much as that (nccl-tests,
    doc/PERFORMANCE.md). Of a node the slowest device counts. An exchange by send and receive would load the ports
    alike, but the library of CPUs, gloo, sends one way at a time.

    Raises NotApplicable for a single rank, WrongResult for a wrong sum.
    """
    result = collective(device, size=size)
    result.metric = "network.pairs"
    if kinds := device.connections():
        result.details["account"] = {"connections": dict(kinds)}
    return result
