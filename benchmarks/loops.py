"""The plain loops that overhead.py compares with. No line of pytest_accel is used here.

`python loops.py THREADS CPU [CPU ...]` reads one piece of work a line (JSON): its data are made, "ready" is
answered, the next line starts it, and its calls per second are answered.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

WARMUP = 0.25
BLOCK_SECONDS = 0.05
"""The length of a block in which ranks are timed, that of the probe."""


def calls_per_second(call: Callable[[], object], seconds: float) -> float:
    """Call for a quarter of `seconds` to warm up, then count calls for the rest of it."""
    began = time.perf_counter()
    while time.perf_counter() - began < WARMUP * seconds:
        call()
    calls, began, spent = 0, time.perf_counter(), 0.0
    while spent < (1 - WARMUP) * seconds:
        call()
        calls += 1
        spent = time.perf_counter() - began
    return calls / spent


def calls_per_second_of_ranks(call: Callable[[], object], seconds: float) -> float:
    """The same, with a number of calls that all ranks know beforehand: each call needs every rank.

    The time of a block is that of its slowest rank, as nccl-tests and our probe count it.
    """
    import torch
    import torch.distributed as dist

    call()
    began = time.perf_counter()
    for _ in range(5):
        call()
    once = torch.tensor([(time.perf_counter() - began) / 5])
    dist.all_reduce(once, op=dist.ReduceOp.MAX)
    calls = max(1, round((1 - WARMUP) * seconds / once.item()))
    for _ in range(round(WARMUP * calls)):
        call()
    each, spent = max(1, round(BLOCK_SECONDS / once.item())), 0.0
    for _ in range(max(1, calls // each)):
        began = time.perf_counter()
        for _ in range(each):
            call()
        once[0] = time.perf_counter() - began
        dist.all_reduce(once, op=dist.ReduceOp.MAX)
        spent += once.item()
    return max(1, calls // each) * each / spent


def torch_matmul(side: int, dtype: str) -> Callable[[], object]:
    import torch

    a, b, c = (torch.randn(side, side).to(getattr(torch, dtype)) for _ in range(3))
    return lambda: torch.mm(a, b, out=c)


def numpy_matmul(side: int) -> Callable[[], object]:
    import numpy as np

    random = np.random.default_rng(0)
    a, b, c = (random.standard_normal((side, side), dtype=np.float32) for _ in range(3))
    return lambda: np.matmul(a, b, out=c)


def torch_stream(op: str, mib: int) -> Callable[[], object]:
    import torch

    a, b, c = (torch.rand(mib * 2**18) for _ in range(3))
    return {
        "copy": lambda: b.copy_(a),
        "triad": lambda: torch.add(b, c, alpha=3.0, out=a),
        "read": lambda: torch.sum(a),
    }[op]


def c_stream(op: str, mib: int, library: str) -> Callable[[], object]:
    """The function of stream.c, on arrays that torch made."""
    import torch

    arrays = [torch.rand(mib * 2**18) for _ in range({"copy": 2, "triad": 3, "read": 1}[op])]
    function = getattr(ctypes.CDLL(library), f"stream_{op}")
    function.argtypes = [ctypes.c_void_p] * len(arrays) + [ctypes.c_long]
    function.restype = ctypes.c_float if op == "read" else None
    return lambda: function(*[array.data_ptr() for array in arrays], mib * 2**18)


def torch_collective(operation: str, size: int, file: str, rank: int, world: int) -> Callable[[], object]:
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=world)
    payload, other = (torch.zeros(size // 4, dtype=torch.float32) for _ in range(2))
    own = payload.chunk(world)[rank]
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    calls: dict[str, Callable[[], object]] = {
        "all_reduce": lambda: dist.all_reduce(payload),
        "all_gather": lambda: gather(payload, own),
        "reduce_scatter": lambda: scatter(own, payload),
        "all_to_all": lambda: dist.all_to_all_single(other, payload),
    }
    return calls[operation]


LOOPS: dict[str, Callable[..., Callable[[], object]]] = {
    "torch_matmul": torch_matmul,
    "numpy_matmul": numpy_matmul,
    "torch_stream": torch_stream,
    "c_stream": c_stream,
    "torch_collective": torch_collective,
}


def main(threads: int, cpus: list[int]) -> None:
    os.sched_setaffinity(0, cpus)
    import torch

    torch.set_num_threads(threads)
    for line in sys.stdin:
        work: dict[str, Any] = json.loads(line)
        call = LOOPS[work["loop"]](**work["of"])
        call()
        print("ready", flush=True)
        sys.stdin.readline()
        time_it = calls_per_second_of_ranks if "rank" in work["of"] else calls_per_second
        print(time_it(call, work["seconds"]), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(each) for each in sys.argv[2:]])
