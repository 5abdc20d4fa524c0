"""Decides which dtypes a CPU multiplies fast, by the speed of small products; it emulates the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_accel.core.messages import FastPath
from pytest_accel.core.sku_types import MATMUL_DTYPES
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.gemm import Gemm
from pytest_accel.probes.device.timing import Clock

if TYPE_CHECKING:
    from pytest_accel.probes.device.torch_device import Compute

ALWAYS_FAST = ("fp64", "fp32")
PILOTS = ((64, 0.05), (256, 1.2))
"""Side of the products that are tried, and the least speed compared with fp32 that counts as a fast path. The small one
is first, because an emulated dtype may be thousands of times slower than fp32."""
BLOCKS, BLOCK_SECONDS = 5, 0.004
"""Number and length of the blocks that time a product; the fastest counts."""


class ThreadClock(Clock):
    """The processor time of this thread: other processes that use the CPU do not add to it."""

    def mark(self) -> float:
        """Return the processor time of this thread in seconds."""
        return time.thread_time()


def try_all(device: Compute) -> dict[str, FastPath]:
    """Return the speed of every dtype that torch multiplies on the CPU, by dtype.

    torch works in one thread meanwhile, whose processor time is counted.
    """
    threads = device.torch.get_num_threads()
    device.torch.set_num_threads(1)
    try:
        paths = {dtype: _tried(device, dtype) for dtype in MATMUL_DTYPES if dtype not in ALWAYS_FAST}
    finally:
        device.torch.set_num_threads(threads)
    return {dtype: path for dtype, path in paths.items() if path}


def _tried(device: Compute, dtype: str) -> FastPath | None:
    """Return the speed of a dtype, or None if it does not exist on a CPU, which every probe finds out by itself."""
    speed = 0.0
    for side, threshold in PILOTS:
        try:
            speed = _rate(Gemm(device, dtype, side, side, side)) / _rate(Gemm(device, "fp32", side, side, side))
        except NotApplicable:
            return None
        except (RuntimeError, NotImplementedError) as error:
            reason = f"torch cannot multiply {dtype} on this CPU: {str(error).splitlines()[0]}"
            return {"speed": 0.0, "why_not": reason}
        if speed < threshold:
            reason = f"this CPU has no fast path for {dtype}: {speed:.2g} times the speed of fp32 at {side}^3"
            return {"speed": speed, "why_not": reason}
    return {"speed": speed, "why_not": ""}


def _rate(gemm: Gemm) -> float:
    """Return operations per second of processor time. The figure only chooses and is never reported as a result."""
    return gemm.rate(ThreadClock(), BLOCK_SECONDS, BLOCKS)


def refuse_slow(device: Compute, dtype: str) -> None:
    """Raise NotApplicable for a dtype that the CPU only emulates. Does nothing for an accelerator."""
    if not device.measures_peak or dtype in ALWAYS_FAST:
        return
    if not device.fast_paths:
        device.fast_paths = try_all(device)
    path = device.fast_paths.get(dtype)
    if path and path["why_not"]:
        raise NotApplicable(path["why_not"])
