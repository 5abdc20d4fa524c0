"""Send and receive between the devices of two nodes: what every port of a node carries, in both directions at once."""

from __future__ import annotations

from typing import Any

from pytest_accel.core.units import in_bytes
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.torch_device import Compute, ProbeResult


@probe(
    "fabric.pairs",
    runs="nodes",
    unit="GB/s",
    also={"fabric.all_reduce": "GB/s"},
    method=lambda: {"operation": "sendrecv", "dtype": "fp32", "statistic": "mean"},
    stresses=["link"],
    budgets={"quick": 2.0, "standard": 4.0, "long": 10.0},
    verifies="sums",
    cost=Cost("link", share=0.1),
    small={"size": "64KiB"},
)
def fabric_pairs(device: Compute, *, size: str = "256MiB") -> ProbeResult:
    """Measure the GB/s that each rank sends to, and at the same time receives from, the equal rank of another node.

    The first half of the ranks is one node, the second half the other: rank i exchanges `size` with rank i + n/2. So
    every port of both nodes is loaded in both directions, and no link between devices of one node. The rate is `size`
    / time of the slowest rank, as the algbw of nccl-tests' sendrecv (doc/PERFORMANCE.md).

    The payload is whole numbers that depend on rank and place. Every rank compares what it received with them, bit by
    bit, after the first call and after the last.

    Raises NotApplicable for an odd number of ranks, WrongResult for other data than were sent.
    """
    import torch.distributed as dist

    if device.world < 2 or device.world % 2:
        raise NotApplicable("an exchange between two nodes needs an even number of ranks")
    n, other = in_bytes(size) // 4, (device.rank + device.world // 2) % device.world
    device.require_memory(3 * 4 * n)
    sent, received = _payload(device, n, device.rank), device.torch.zeros(n, device=device.torch_device)

    def exchange() -> None:
        """Send and receive once, and have the device wait for both."""
        for work in dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, sent, other), dist.P2POp(dist.irecv, received, other)]
        ):
            work.wait()

    exchange()
    _check(device, received, other)
    result = device.sample(
        exchange,
        amount=n * 4 / 1e9,
        unit="GB/s",
        collective=True,
        conditions={"size": size, "ranks": device.world, **device.collectives},
    )
    _check(device, received, other)
    if kinds := device.connections():
        result.details["account"] = {"connections": dict(kinds)}
    return result


def _payload(device: Compute, n: int, rank: int) -> Any:
    """Return what a rank sends: n whole numbers below 65521, which fp32 holds exactly, shape (n,)."""
    place = device.torch.arange(n, dtype=device.torch.int32, device=device.torch_device)
    return place.remainder_(65521 - rank % 1024).float()


def _check(device: Compute, received: Any, sender: int) -> None:
    """Compare what arrived with what was sent, and forget it. Raises WrongResult."""
    wrong = int((received != _payload(device, received.numel(), sender)).count_nonzero().item())
    received.zero_()
    if wrong:
        what = f"{wrong} of {received.numel()} numbers from rank {sender} arrived changed"
        raise WrongResult(f"{what} at rank {device.rank}")
