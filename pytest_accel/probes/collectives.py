"""All-reduce over all devices; each worker process is a rank (nccl on GPUs, gloo on CPUs)."""

from __future__ import annotations

from typing import Any

from pytest_accel.core.units import in_bytes
from pytest_accel.probes.declare import SIZES, Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

_CHUNK = 2**26
"""Elements that are made and compared at a time, so that the check needs little memory besides the payload."""


@probe(
    "all_reduce.busbw@{size}",
    runs="ranks",
    unit="GB/s",
    method=lambda: {"dtype": "fp32", "in_place": True, "statistic": "mean"},  # ranks and algorithm are compared apart
    stresses=["link"],
    variants={"size": SIZES},
    budgets={"quick": 3.0, "standard": 8.0, "long": 20.0},
    peak="peer_links",
    derived_floor=0.94,
    required="collectives",
    verifies="sums",
    cost=Cost("link", share=0.8),
    small={"size": "64KiB"},
)
def all_reduce(device: Compute, *, size: str = "8GiB") -> ProbeResult:
    """Measure the bus bandwidth in GB/s of an all-reduce (sum) of `size` per rank: size / time x 2 (n - 1) / n.

    The formula is that of NVIDIA's nccl-tests (doc/PERFORMANCE.md); the time is that of the slowest rank. The payload
    is fp32, as in nccl-tests: NVSwitches add four floats at once, but integers one by one (NCCL,
    src/device/reduce_kernel.h). As there, the sum replaces the payload, calls are queued back to back, and the mean
    counts. Their number differs: nccl-tests makes 20 calls after 1 to 5 of warm-up, this probe as many as its budget
    holds after a quarter of it. The packaged suite measures every size that the SKU has a limit for.

    Before and after the timing the payload holds integers whose sum is exact in any order, and every rank compares the
    result bit by bit. During the timing it holds zeros, because other numbers would grow with every sum.

    Raises NotApplicable for a single device, WrongResult for a wrong sum.
    """
    import torch.distributed as dist

    n = in_bytes(size) // 4
    if device.world < 2:
        raise NotApplicable("all-reduce needs at least two devices")
    device.require_memory(4 * n + 4 * 8 * _CHUNK)
    payload = device.torch.empty(n, dtype=device.torch.float32, device=device.torch_device)
    _check(device, payload, dist)
    result = device.sample(
        lambda: dist.all_reduce(payload),
        amount=n * 4 / 1e9 * 2 * (device.world - 1) / device.world,
        unit="GB/s",
        metric=f"all_reduce.busbw@{size}",
        collective=True,
        conditions={"size": size, "ranks": device.world, "dtype": "fp32", "data": "zeros", **device.collectives},
    )
    _check(device, payload, dist)
    stated, account = device.account("allreduce", 4 * n)
    result.conditions.update(stated)
    if account:
        result.details["account"] = account
    return result


def _pattern(device: Compute, start: int, end: int, rank: int) -> Any:
    """Return the payload of `rank`: integers below 65521 that depend on rank and index, so that a shift or swap shows.

    Sums of up to 256 ranks stay below 2^24, up to which fp32 is exact.
    """
    place = device.torch.arange(start, end, dtype=device.torch.int64, device=device.torch_device)
    return place.mul_(7919).add_(rank * 104729).remainder_(65521)


def _check(device: Compute, payload: Any, dist: Any) -> None:
    """All-reduce the pattern, subtract the part of every rank, and count what is not zero. Raises WrongResult."""
    n, wrong = payload.numel(), 0
    chunks = [(start, min(start + _CHUNK, n)) for start in range(0, n, _CHUNK)]
    for start, end in chunks:
        payload[start:end] = _pattern(device, start, end, device.rank)
    dist.all_reduce(payload)
    for start, end in chunks:
        for rank in range(device.world):
            payload[start:end] -= _pattern(device, start, end, rank)
        wrong += int(payload[start:end].count_nonzero().item())
    if wrong:
        raise WrongResult(f"{wrong} of {n} sums are wrong on rank {device.rank}")
