"""Copies between pinned host memory and the device: bandwidth, and the latency of the smallest copy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from pytest_accel.drivers.host import cpus_of
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.timing import Clock
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

if TYPE_CHECKING:
    from torch import Tensor

DIRECTIONS = ("d2h", "h2d", "both")
"""In the order of the packaged suite: on one version of ROCm a copy to the host fell from 56 to 48 GB/s if one to the
device had come before it (ROCm/rocm-systems, pull request 4035)."""

CHECKED_AT_ONCE = 2**22
"""Elements that are compared at a time: 16 MiB."""


def method(direction: str, mib: int) -> dict[str, Any]:
    """Return the method of the copies: that of nvbandwidth's host_to_device_memcpy_ce and device_to_host_memcpy_ce."""
    stated = {"engine": "copy engine", "memory": "pinned", "size": f"{mib} MiB", "statistic": "median"}
    return {**stated, "counted": "both, until the slower ends"} if direction == "both" else stated


@probe(
    "host_copy.{direction}",
    runs="in_turn",
    unit="GB/s",
    method=lambda direction, mib: {**method(direction, mib), "devices": "one at a time"},
    stresses=["host"],
    variants={"direction": DIRECTIONS},
    also={"host_copy.pcie_gen": "count", "host_copy.pcie_width": "count"},
    budgets={"quick": 0.5, "standard": 1.0, "long": 3.0},
    budgets_of={"both": {"quick": 0.0, "standard": 1.0, "long": 3.0}},
    peak="host_link",
    derived_floor=0.95,
    required="host link",
    verifies="copies",
    cost=Cost("peak", share=0.82),
    small={"mib": 1},
)
def host_copy(device: Compute, *, direction: str = "h2d", mib: int = 512) -> ProbeResult:
    """Measure the bandwidth of the host link in GB/s with one device copying at a time.

    `direction` is "h2d", "d2h" or "both" (both at once: the bytes of both until the slower one ends); `mib` is the size
    of a transfer in MiB. The copies are those of nvbandwidth's tests by copy engine: pinned memory near the device, and
    several copies back to back in a sample. The value is the median of the samples.
    """
    return timed_copies(device, f"host_copy.{direction}", direction, mib, where=memory_place(device))


@probe(
    "host_copy_all.{direction}",
    unit="GB/s",
    method=lambda direction, mib: {**method(direction, mib), "devices": "all at once"},
    stresses=["host"],
    variants={"direction": DIRECTIONS},
    budgets={"quick": 0.0, "standard": 2.0, "long": 5.0},
    peak="host_link",
    derived_floor=0.95,
    verifies="copies",
    cost=Cost("peak", share=0.82),
    small={"mib": 1},
)
def host_copy_all(device: Compute, *, direction: str = "h2d", mib: int = 512) -> ProbeResult:
    """Measure the host link bandwidth of each device in GB/s, with all devices copying at once.

    Shared PCIe switches, host memory or the processor may limit it. The conditions are those of `host_copy`.
    """
    return timed_copies(device, f"host_copy_all.{direction}", direction, mib, where=memory_place(device))


def timed_copies(
    device: Compute, metric: str, direction: str, mib: int, *, where: Mapping[str, Any], room: int = 1
) -> ProbeResult:
    """Time copies of `mib` MiB, then compare what arrived with what was sent.

    `where` are the conditions of the host memory (`memory_place`), which is `room` times as large as what is copied.
    Raises WrongResult for data that arrived changed.
    """
    torch, pinned = device.torch, not device.is_cpu
    n = mib * 2**20 // 4
    ways = [way for way in ("h2d", "d2h") if direction in (way, "both")]
    device.require_memory(4 * n * (len(ways) + 1))
    pairs = [_ends(device, way, n, room) for way in ways]
    earlier = list(device.host_copies)
    device.host_copies.update(dict.fromkeys(ways))
    work, streams = _work(device, pairs)
    result = device.sample(
        work,
        amount=len(pairs) * n * 4 / 1e9,
        unit="GB/s",
        metric=metric,
        conditions={
            "direction": direction,
            "mib": mib,
            "pinned": pinned,
            "earlier_copies": ", ".join(earlier) or "none",
            **where,
        },
        streams=streams,
        statistic="median",
    )
    device.synchronize()
    for way, (_, target) in zip(ways, pairs, strict=True):
        if not _arrived(torch, target):
            raise WrongResult(f"the data that arrived ({way}) differ from the data that were sent")
    return result


def _arrived(torch: Any, target: Tensor) -> bool:
    """Return whether a target holds what is sent. It is compared where it lies, without the link."""
    parts, equal = torch.split(target, CHECKED_AT_ONCE), True
    expected = torch.empty_like(parts[0])
    for number, part in enumerate(parts):
        begin = number * CHECKED_AT_ONCE
        torch.arange(begin, begin + part.numel(), out=expected[: part.numel()])
        equal &= torch.equal(part, expected[: part.numel()])
    return equal


def _ends(device: Compute, way: str, n: int, room: int) -> tuple[Tensor, Tensor]:
    """Return source and target of the copies in one direction, in fresh memory.

    What is sent is made where it lies: nothing is copied before the first copy that counts.
    """
    torch = device.torch
    host = device.host_memory(room * n, torch.int32)[:n]
    on_device = torch.empty(n, dtype=torch.int32, device=device.torch_device)
    source, target = (host, on_device) if way == "h2d" else (on_device, host)
    torch.arange(0, n, out=source)
    target.zero_()
    return source, target


def memory_place(device: Compute) -> dict[str, Any]:
    """Return the conditions that say where the host memory of a copy lies.

    `numa` is "near" if the worker runs on CPUs of the device's NUMA node, "far" if the cpuset excludes those, or
    "unknown"; `numa_node` is the number of the node. The worker is bound to CPUs near the device before it allocates,
    so its memory lies there too. Empty for a CPU.
    """
    if device.is_cpu:
        return {}
    node = device.devices[0].numa_node
    try:
        near = cpus_of(Path(f"/sys/devices/system/node/node{node}/cpulist").read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return {"numa": "unknown"}
    return {"numa": "near" if os.sched_getaffinity(0) <= set(near) else "far", "numa_node": node}


def _work(device: Compute, pairs: list[tuple[Tensor, Tensor]]) -> tuple[Callable[[], Any], list[Any]]:
    """Return a call that starts one copy of each pair without waiting, and the streams that they run on.

    Each of several directions has a stream of its own, which waits for the other at the end of a block and not after
    every copy. A single direction uses the current stream.
    """
    apart = len(pairs) > 1 and not device.is_cpu
    streams = [device.backend.new_stream(device.torch_device) for _ in pairs] if apart else []

    def call() -> None:
        for number, (source, target) in enumerate(pairs):
            with device.backend.stream(streams[number]) if streams else nullcontext():
                target.copy_(source, non_blocking=True)

    return call, streams


LATENCY_COPIES = 1000
LATENCY_WARM_UP = 100
"""Copies that are timed, and copies before them that are not."""


@probe(
    "host_copy.latency",
    runs="in_turn",
    unit="us",
    stresses=["host"],
    also={"host_copy.latency_p99": "us"},
    budgets={"quick": 0.0, "standard": 0.2, "long": 0.5},
    derived_floor=0.95,
)
def host_latency(device: Compute) -> Iterator[ProbeResult]:
    """Measure the latency of a 4-byte copy from pinned memory in us: median and 99th percentile of 1000 copies.

    The host's clock is read before the copy is queued and after the device has synchronised, so launch and wake-up are
    included. 5 to 15 us are usual for a GPU behind PCIe; a high `latency_p99` points to power states of the link or to
    the IOMMU. Each copy moves another element, and all of them are compared afterwards.
    """
    torch, clock = device.torch, device.clock
    host = device.host_memory(LATENCY_COPIES, torch.int32).copy_(torch.arange(1, LATENCY_COPIES + 1, dtype=torch.int32))
    on_device = torch.zeros(LATENCY_COPIES, dtype=torch.int32, device=device.torch_device)
    device.gate.ready()
    for at in range(LATENCY_WARM_UP):
        _once(device, clock, host, on_device, at)
    on_device.zero_()
    device.synchronize()
    seconds = [_once(device, clock, host, on_device, at) for at in range(LATENCY_COPIES)]
    device.gate.block(sum(seconds), False)
    if not torch.equal(on_device.cpu(), host):
        raise WrongResult("the data that arrived differ from the data that were sent")
    typical = ProbeResult(
        "host_copy.latency",
        "us",
        value=1e6 * median(seconds),
        conditions={
            "bytes": 4,
            "copies": LATENCY_COPIES,
            "direction": "h2d",
            "pinned": not device.is_cpu,
            **memory_place(device),
        },
        details={"p50_us": 1e6 * median(seconds), "p99_us": 1e6 * p99(seconds), "most_us": 1e6 * max(seconds)},
    )
    yield typical
    yield replace(typical, metric="host_copy.latency_p99", value=1e6 * p99(seconds))


def _once(device: Compute, clock: Clock, host: Tensor, on_device: Tensor, at: int) -> float:
    """Return the seconds of one copy of element `at`, including the wait for it."""
    source, target = host[at : at + 1], on_device[at : at + 1]
    began = clock.now()
    target.copy_(source, non_blocking=True)
    device.synchronize()
    return clock.now() - began


def p99(values: list[float]) -> float:
    """Return the 99th percentile by the nearest-rank method: the value that 99 of 100 do not exceed."""
    return sorted(values)[-(-99 * len(values) // 100) - 1]


# -- copies between the device and pinned memory of another NUMA node: what a process on the wrong socket gets


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
