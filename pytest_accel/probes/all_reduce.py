"""All-reduce over all devices: the workers are the ranks (nccl on GPUs, gloo on CPUs)."""

from __future__ import annotations

import re
from typing import Any

from pytest_accel.compute import Compute, Finding, NotApplicable, WrongResult
from pytest_accel.probes.spec import probe

_UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


@probe("all_reduce.busbw@{size}", runs="ranks")
def all_reduce(device: Compute, *, size: str = "8GiB") -> Finding:
    """Bus bandwidth in GB/s of an all-reduce (sum) of `size` per rank: size / time x 2 (n - 1) / n.

    The formula is that of NVIDIA's nccl-tests (doc/PERFORMANCE.md); the time is the slowest rank's. The payload
    is int32, so that the sum is exact in any order: it is compared bit for bit on every rank, before and after.
    """
    import torch.distributed as dist

    n = _bytes(size) // 4
    payload = device.torch.empty(n, dtype=device.torch.int32, device=device.torch_device)
    _check(device, payload, dist)
    finding = device.sample(
        lambda: dist.all_reduce(payload),
        amount=n * 4 / 1e9 * 2 * (device.world - 1) / device.world,
        unit="GB/s",
        metric=f"all_reduce.busbw@{size}",
        collective=True,
        conditions={"size": size, "ranks": device.world, "dtype": "int32", "backend": dist.get_backend()},
    )
    _check(device, payload, dist)
    return finding


def _bytes(size: str) -> int:
    found = re.fullmatch(r"(\d+)(KiB|MiB|GiB)", size)
    if not found:
        raise NotApplicable(f"size {size!r} is not a number with KiB, MiB or GiB, such as 8GiB")
    return int(found[1]) * _UNITS[found[2]]


def _pattern(device: Compute, payload: Any, rank: int) -> Any:
    """What `rank` sends: depends on the rank and on the place, so that a shift or a swap shows."""
    torch = device.torch
    place = torch.arange(payload.numel(), dtype=torch.int32, device=payload.device)
    return place.mul_(7919).add_(rank * 104729).remainder_(65521)


def _check(device: Compute, payload: Any, dist: Any) -> None:
    payload.copy_(_pattern(device, payload, device.rank))
    dist.all_reduce(payload)
    for rank in range(device.world):
        payload.sub_(_pattern(device, payload, rank))
    wrong = int(payload.count_nonzero().item())
    if wrong:
        raise WrongResult(f"all_reduce: {wrong} of {payload.numel()} sums are wrong on rank {device.rank}")
