"""Copies between the device and pinned memory of another NUMA node: what a process on the wrong socket gets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_accel.drivers.host import cpus_of
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.torch_device import Compute, ProbeResult
from pytest_accel.probes.host_copy import method, timed_copies

NODES = Path("/sys/devices/system/node")
FAR = {"memory": "pinned, of another NUMA node", "devices": "one at a time"}
"""What the method has otherwise than that of `host_copy`."""


@probe(
    "host_copy_far.{direction}",
    runs="in_turn",
    unit="GB/s",
    method=lambda direction, mib: {**method(direction, mib), **FAR},
    stresses=["host"],
    variants={"direction": ("d2h", "h2d")},
    budgets={"quick": 0.0, "standard": 0.5, "long": 1.0},
    verifies="copies",
    cost=Cost("host_copy.{direction}", share=0.8),
    small={"mib": 1},
)
def host_copy_far(device: Compute, *, direction: str = "h2d", mib: int = 512) -> ProbeResult:
    """Measure the bandwidth in GB/s of copies whose host memory is on the NUMA node farthest from the device.

    The figure is information: it shows what a process on the wrong socket gets, beside `host_copy`. The copying thread
    runs on processors of that node, where the kernel places the memory that it allocates (Linux,
    Documentation/admin-guide/mm/numa_memory_policy.rst). The memory is twice as large as what is copied, so that torch
    does not hand out again what an earlier copy had on the near node.
    """
    node, cpus = farthest(device.devices[0].numa_node)
    with processors(cpus, node):
        where = {"numa": "farthest", "numa_node": device.devices[0].numa_node, "memory_node": node}
        return timed_copies(device, f"host_copy_far.{direction}", direction, mib, where=where, room=2)


def farthest(near: int | None, nodes: Path = NODES) -> tuple[int, set[int]]:
    """Return the NUMA node with processors that is farthest from the node `near`, and its processors.

    Raises NotApplicable if there is none.
    """
    if near is None or near < 0:
        raise NotApplicable("the NUMA node of the device is not known")
    try:
        distances = [int(each) for each in (nodes / f"node{near}/distance").read_text(encoding="ascii").split()]
        numbers = sorted(int(each.name.removeprefix("node")) for each in nodes.glob("node[0-9]*"))
        listed = {number: (nodes / f"node{number}/cpulist").read_text(encoding="ascii").strip() for number in numbers}
        cpus = {number: cpus_of(each) for number, each in listed.items() if each}
    except (OSError, ValueError):
        raise NotApplicable("the NUMA nodes of this host cannot be read") from None
    others = {number: far for number, far in zip(numbers, distances, strict=False) if number in cpus and number != near}
    if not others:
        raise NotApplicable("this host has one NUMA node")
    number = max(others, key=lambda each: (others[each], -each))
    return number, cpus[number]


@contextmanager
def processors(cpus: set[int], node: int) -> Iterator[None]:
    """Run this thread on the processors while the context lasts. Raises NotApplicable if they are not allowed."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
    except OSError:
        raise NotApplicable(f"the cpuset excludes every CPU of NUMA node {node}") from None
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
