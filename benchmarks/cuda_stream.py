"""The five kernels of BabelStream's definition in CUDA (stream.cu, our own text), for when no build of it is at hand.

Compiled in seconds by nvcc where there is one, else by NVRTC through torch (2.8 or newer). What they reach is no
"BabelStream result": its licence (UoB-HPC/BabelStream, LICENSE, 3b) wants variants to be named as such.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import Bench, NotRun

from pytest_accel.core.stats import estimate_rate

SOURCE = Path(__file__).with_name("stream.cu")
COUNTED = {"copy": 2, "mul": 2, "add": 3, "triad": 3, "dot": 2}
"""Arrays that a call reads and writes, as BabelStream counts them (src/benchmark.h, `weight`, at 57637d5)."""
CALLS = 20
"""The fastest of so many counts, as in `stream`."""
START, SCALAR = (0.1, 0.2, 0.0), 0.4
"""Of the arrays a, b, c (src/benchmark.h at 57637d5)."""
PER_THREAD = 4

Launch = Callable[[str, tuple[Any, ...], int, int, int], None]
"""(kernel, (a, b, c, sums), n, blocks, threads)."""


def launcher(bench: Bench) -> tuple[Launch, str]:
    """The compiled kernels, and what compiled them. Raises NotRun."""
    bench.need_gpu("the kernels are in CUDA")
    tried = []
    for way in (_by_nvcc, _by_nvrtc):
        try:
            return way(bench.torch)
        except (NotRun, OSError, RuntimeError, subprocess.SubprocessError) as error:
            tried.append(f"{way.__name__.removeprefix('_by_')}: {str(error).strip().splitlines()[-1]}")
    raise NotRun("; ".join(tried))


def _by_nvcc(torch: Any) -> tuple[Launch, str]:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if not nvcc:
        raise NotRun("there is no nvcc")
    major, minor = torch.cuda.get_device_capability()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "stream.so"
        options = ["-O3", f"-arch=sm_{major}{minor}", "-shared", "-Xcompiler", "-fPIC"]
        done = subprocess.run(
            [nvcc, *options, "-o", str(library), str(SOURCE)], capture_output=True, text=True, timeout=60, check=False
        )
        if done.returncode:
            raise NotRun(done.stderr or f"nvcc ended with {done.returncode}")
        loaded = ctypes.CDLL(str(library))

    def launch(kernel: str, arrays: tuple[Any, ...], n: int, blocks: int, threads: int) -> None:
        pointers = [ctypes.c_void_p(each.data_ptr()) for each in arrays]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if code := getattr(loaded, f"launch_{kernel}")(*pointers, n, blocks, threads, stream):
            raise RuntimeError(f"{kernel}: CUDA error {code}")

    return launch, "nvcc"


def _by_nvrtc(torch: Any) -> tuple[Launch, str]:
    compile_kernel = getattr(torch.cuda, "_compile_kernel", None)  # private; since torch 2.8 (pytorch PR #151484)
    if compile_kernel is None:
        raise NotRun(f"torch {torch.__version__} has no torch.cuda._compile_kernel")
    # torch asks for the headers of a toolkit before it compiles, and stops without one; the source includes none
    os.environ.setdefault("CUDA_HOME", sys.prefix)
    source, kernels = SOURCE.read_text(encoding="utf-8"), {}
    for dtype in ("float", "double"):
        for op in COUNTED:
            kernels[f"{op}_{dtype}"] = compile_kernel(source, f"{op}_{dtype}")

    def launch(kernel: str, arrays: tuple[Any, ...], n: int, blocks: int, threads: int) -> None:
        kernels[kernel](grid=(blocks, 1, 1), block=(threads, 1, 1), args=[*arrays, n])

    return launch, "NVRTC"


def rates(bench: Bench, launch: Launch, dtype: str, mib: int, seconds: float) -> dict[str, float]:
    """GB/s (10^9) of each kernel over arrays of `mib` MiB of "float" or "double", for `seconds` each.

    They are timed as `stream` times ours, call by call, of which the fastest of `CALLS` counts.
    Raises RuntimeError if an array does not hold what the kernel has to write.
    """
    torch, kind = bench.torch, {"float": bench.torch.float32, "double": bench.torch.float64}[dtype]
    n = mib * 2**20 // kind.itemsize
    bench.device.require_memory(3 * mib * 2**20)
    a, b, c = (torch.full((n,), value, dtype=kind, device=bench.device.torch_device) for value in START)
    units = torch.cuda.get_device_properties(bench.device.torch_device).multi_processor_count
    wide, dot = (-(-n // PER_THREAD // 256), 256), (4 * units, 1024)
    sums = torch.zeros(dot[0] * dot[1], dtype=kind, device=bench.device.torch_device)
    found = {}
    for op, arrays in COUNTED.items():
        grid = dot if op == "dot" else wide

        def call(op: str = op, grid: tuple[int, int] = grid) -> object:
            launch(f"{op}_{dtype}", (a, b, c, sums), n, *grid)
            return sums.sum() if op == "dot" else None  # its sum is part of the kernel's time there too

        samples = bench.sample(call, arrays * mib * 2**20 / 1e9, "GB/s", seconds, fastest_of=CALLS).samples
        found[op] = estimate_rate(samples).mean
        expected = {"copy": (c, a), "mul": (b, SCALAR * c), "add": (c, a + b), "triad": (a, b + SCALAR * c)}
        have, want = expected.get(op) or (sums.double().sum(), (a.double() * b).sum())
        if not torch.allclose(have, want, rtol=1e-4):
            raise RuntimeError(f"{op} of {dtype}: the arrays do not hold the result")
    return found
