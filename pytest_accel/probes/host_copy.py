"""Copies between pinned host memory and the device."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_accel.drivers.host import cpus_of
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import WrongResult
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
    settings = {"engine": "copy engine", "memory": "pinned", "size": f"{mib} MiB", "statistic": "median"}
    return {**settings, "counted": "both, until the slower ends"} if direction == "both" else settings


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
    return _timed_copies(device, f"host_copy.{direction}", direction, mib)


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
    return _timed_copies(device, f"host_copy_all.{direction}", direction, mib)


def _timed_copies(device: Compute, metric: str, direction: str, mib: int) -> ProbeResult:
    """Time copies of `mib` MiB, then compare what arrived with what was sent.

    Raises WrongResult for data that arrived changed.
    """
    torch, pinned = device.torch, not device.is_cpu
    n = mib * 2**20 // 4
    ways = [way for way in ("h2d", "d2h") if direction in (way, "both")]
    device.require_memory(4 * n * (len(ways) + 1))
    pairs = [_ends(device, way, n) for way in ways]
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
            **memory_location(device),
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


def _ends(device: Compute, way: str, n: int) -> tuple[Tensor, Tensor]:
    """Return source and target of the copies in one direction, in fresh memory."""
    torch = device.torch
    host = device.host_memory(n, torch.int32)
    on_device = torch.empty(n, dtype=torch.int32, device=device.torch_device)
    source, target = (host, on_device) if way == "h2d" else (on_device, host)
    torch.arange(0, n, out=source)  # made in place: nothing is copied before the first copy that counts
    target.zero_()
    return source, target


def memory_location(device: Compute) -> dict[str, Any]:
    """Return the conditions that say where the host memory of a copy lies.

    `numa` is "near" if the worker runs on CPUs of the device's NUMA node, "far" if the cpuset excludes those, or
    "unknown"; `numa_node` is the number of the node. Empty for a CPU.
    """
    if device.is_cpu:
        return {}
    node = device.devices[0].numa_node
    try:
        cpus = cpus_of(Path(f"/sys/devices/system/node/node{node}/cpulist").read_text(encoding="ascii").strip())
    except (OSError, ValueError):
        return {"numa": "unknown"}
    # the worker is bound to CPUs near the device before it allocates, so its memory lies there too
    return {"numa": "near" if os.sched_getaffinity(0) <= set(cpus) else "far", "numa_node": node}


def _work(device: Compute, pairs: list[tuple[Tensor, Tensor]]) -> tuple[Callable[[], Any], list[Any]]:
    """Return a call that starts one copy of each pair without waiting, and the streams that they run on.

    A single direction uses the current stream.
    """
    apart = len(pairs) > 1 and not device.is_cpu
    # a stream for each direction waits for the other at the end of a block, and not after every copy
    streams = [device.backend.new_stream(device.torch_device) for _ in pairs] if apart else []

    def call() -> None:
        for number, (source, target) in enumerate(pairs):
            with device.backend.stream(streams[number]) if streams else nullcontext():
                target.copy_(source, non_blocking=True)

    return call, streams
