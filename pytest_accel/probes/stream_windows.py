"""Bandwidth place by place: a weak channel or a remapped bank is slow where it is, and lost in a mean."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from pytest_accel.probes.declare import probe
from pytest_accel.probes.device.timing import time_once
from pytest_accel.probes.device.torch_device import Compute, Finding

if TYPE_CHECKING:
    from torch import Tensor

SHARE = 0.9
"""Of the free memory."""
ROUNDS = 5
MOST_WINDOWS = 256


@probe("stream.slowest_window")
def stream_windows(device: Compute, *, mib: int = 1024, windows: int | None = None) -> Finding:
    """Read bandwidth (GB/s, 10^9) of the slowest window of `mib` MiB; by default windows over 90 % of free memory.

    Every window is read by turns, several times; its figure is the median. The details hold that of each, by place.
    What is reported of the slowest are fresh samples: those that it was found by were low by chance too.
    """
    torch = device.torch
    size = mib * 2**20
    arrays = [torch.ones(size // 4, device=device.torch_device) for _ in range(windows or _fitting(device, size))]

    def read(array: Tensor) -> float:
        once = time_once(lambda: torch.sum(array), device.clock, 0.0)
        device.gate.block(once, False)
        return size / 1e9 / once

    device.gate.ready()
    rates: list[list[float]] = [[] for _ in arrays]
    for _ in range(ROUNDS):
        for array, found in zip(arrays, rates, strict=True):
            found.append(read(array))
    places = [median(found) for found in rates]
    slowest = min(range(len(places)), key=places.__getitem__)
    again = [read(arrays[slowest]) for _ in range(ROUNDS)]
    return Finding(
        "stream.slowest_window",
        "GB/s",
        samples=again,
        seconds=[size / 1e9 / rate for rate in again],
        conditions={"op": "read", "mib": mib, "windows": len(arrays), "dtype": "fp32"},
        details={"slowest": slowest, "of_median": median(again) / median(places), "windows_gb_per_s": places},
    )


def _fitting(device: Compute, size: int) -> int:
    if device.is_cpu:
        return 8
    device.require_memory(size)
    free, _ = device.backend.mem_get_info(device.torch_device)
    return max(1, min(MOST_WINDOWS, int(SHARE * free) // size))
