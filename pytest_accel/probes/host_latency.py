"""What the smallest copy between host and device costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from pytest_accel.probes.declare import probe
from pytest_accel.probes.device.timing import Clock
from pytest_accel.probes.device.torch_device import Compute, Finding, WrongResult
from pytest_accel.probes.host_copy import place

if TYPE_CHECKING:
    from torch import Tensor

COPIES = 1000
WARM_UP = 100


@probe("host_copy.latency", runs="in_turn")
def host_latency(device: Compute) -> Iterator[Finding]:
    """Microseconds of a copy of 4 bytes from pinned memory and the wait for it: median and 99th percentile of 1000.

    The host's clock is read before the copy is queued and after the device has synchronised, so launch and wake-up
    count. 5 to 15 us are usual for a GPU behind PCIe; a high `latency_p99` says power states of the link or the
    IOMMU. Each copy takes another element, and all of them are compared afterwards.
    """
    torch, clock = device.torch, device.clock
    host = device.host_memory(COPIES, torch.int32).copy_(torch.arange(1, COPIES + 1, dtype=torch.int32))
    far = torch.zeros(COPIES, dtype=torch.int32, device=device.torch_device)
    device.gate.ready()
    for at in range(WARM_UP):
        _once(device, clock, host, far, at)
    far.zero_()
    device.synchronize()
    seconds = [_once(device, clock, host, far, at) for at in range(COPIES)]
    device.gate.block(sum(seconds), False)
    if not torch.equal(far.cpu(), host):
        raise WrongResult("host_copy.latency: what arrived is not what was sent")
    found = Finding(
        "host_copy.latency",
        "us",
        value=1e6 * median(seconds),
        conditions={"bytes": 4, "copies": COPIES, "direction": "h2d", "pinned": not device.is_cpu, **place(device)},
        details={"p50_us": 1e6 * median(seconds), "p99_us": 1e6 * p99(seconds), "most_us": 1e6 * max(seconds)},
    )
    yield found
    yield replace(found, metric="host_copy.latency_p99", value=1e6 * p99(seconds))


def _once(device: Compute, clock: Clock, host: Tensor, far: Tensor, at: int) -> float:
    source, target = host[at : at + 1], far[at : at + 1]
    began = clock.now()
    target.copy_(source, non_blocking=True)
    device.synchronize()
    return clock.now() - began


def p99(values: list[float]) -> float:
    """The value that 99 of 100 do not exceed (nearest rank)."""
    return sorted(values)[-(-99 * len(values) // 100) - 1]
