"""What the tools of others print is read as they print it, and a ratio says what it may.

The samples are a few lines of what the tools printed, each from where it says; the figures are theirs.
"""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import bench  # noqa: E402  programs, not a package
import compare  # noqa: E402
import peers  # noqa: E402
import verify  # noqa: E402

NVBANDWIDTH_8 = """\
nvbandwidth Version: v0.8
Built from Git version: v0.8

Device 7: NVIDIA H20-3e (00000000:ca:00)

Running device_local_copy.
memcpy local GPU(column) bandwidth (GB/s)
           0         1         2         3         4         5         6         7
 0   1116.30   1116.30   1115.72   1116.16   1116.16   1116.88   1117.17   1116.30

SUM device_local_copy 8930.99

NOTE: The reported results may not reflect the full capabilities of the platform.
"""
"""NVIDIA/nvbandwidth, issue #48: eight devices, so that the line SUM is eight times one."""

NVBANDWIDTH_1 = """\
Running host_to_device_memcpy_sm.
memcpy SM CPU(row) -> GPU(column) bandwidth (GB/s)
           0
 0     25.13

SUM host_to_device_memcpy_sm 25.13

Waived: 
Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0
 0     25.97
"""  # noqa: W291  as it prints it
"""NVIDIA/nvbandwidth, issue #42 (an A100); a test that is waived (nvbandwidth.cpp at 66746a3); README.md (25.97)."""

MAMF_2 = """\
Warming up the accelerator for 2 secs ... accelerator warmup finished
     1 |    0.0(mean)    0.0(median)    0.0(max) @ 128x256x256          | best:    0.0(mean)    0.0(median)    0.0(max)\
 TFLOPS\r\
     2 |    0.0(mean)    0.0(median)    0.0(max) @ 256x256x256          | best:    0.0(mean)    0.0(median)    0.0(max)\
 TFLOPS\r\
     3 |    0.0(mean)    0.0(median)    0.0(max) @ 384x256x256          | best:    0.0(mean)    0.0(median)    0.0(max)\
 TFLOPS\r\x1b[K
Tried 3 shapes => the best outcomes were:
mean:   0.0 TFLOPS @ 384x256x256 (MxNxK)
median: 0.0 TFLOPS @ 384x256x256 (MxNxK)
max:    0.0 TFLOPS @ 384x256x256 (MxNxK)

Across 3 shapes in range: m=[0, 512, 128] | n=[256] | k=[256] in this run:
arithmetic mean: 0.0 TFLOPS
"""
"""stas00/ml-engineering, mamf-finder.py at 744d01e, run with a (slow) CPU put in as its device."""

MAMF_2_EARLIER = """\
Tried  3375 shapes => the best outcomes were:
mean:   35.1 TFLOPS @ 15360x3072x1024 (MxNxK)
median: 35.1 TFLOPS @ 15360x3072x1024 (MxNxK)
max:    36.9 TFLOPS @ 6144x3072x3072 (MxNxK)

Elapsed time: 6:04:34
"""
"""ROCm/legacy-rocm-build, issue #4748: an earlier one of the same version."""

MAMF_3 = """\
Tried 24 shapes => the best outcomes were:
MAMF (max achievable,  boost burst): 842 TFLOPS @ 3072x2816x20480 (MxNxK)  172W 1980MHz
MSMF (max sustainable, saturated):   722 TFLOPS @ 3072x2816x8192 (MxNxK)  681W 1612MHz
"""
"""stas00/ml-engineering, compute/accelerator/benchmarks/README.md of its version 3 (mamf-finder.py at 84cf694)."""

BABELSTREAM = """\
function,num_times,n_elements,sizeof,max_MB_per_sec,min_runtime,max_runtime,avg_runtime
Copy,20,4194304,4,18469.8,0.00181671,0.0309973,0.0161001
Mul,20,4194304,4,2803.74,0.0119677,0.0265721,0.0178813
Add,20,4194304,4,4069.49,0.0123681,0.0218839,0.016427
Triad,20,4194304,4,4249.72,0.0118435,0.0280105,0.017725
Dot,20,4194304,4,2384.32,0.0140729,0.0286931,0.0178255
"""
"""UoB-HPC/BabelStream at 57637d5, model omp, `--float --csv -n 20 -s 4194304` on a busy CPU."""

BABELSTREAM_5 = """\
phase,n_elements,sizeof,max_mbytes_per_sec,runtime
Init,4194304,4,2537.32,0.0198366
Read,4194304,4,1717.49,0.0293054
function,num_times,n_elements,sizeof,max_mbytes_per_sec,min_runtime,max_runtime,avg_runtime
Copy,20,4194304,4,20764.1,0.00161598,0.0209825,0.00944973
"""
"""The same of v5.0 (f6ae48d), which times reading and writing the arrays as well."""

GPU_BURN = """\
Run length not specified in the command line. Using compare file: compare.ptx
Burning for 10 seconds.
GPU 0: NVIDIA RTX A500 Embedded GPU (UUID: GPU-6bd3cf32-0057-0f0b-2eb7-3af5ed6da5f2)
Initialized device 0 with 3897 MB of memory (3504 MB available, using 3154 MB of it), using FLOATS
\r60.0%  proc'd: 10 (2047 Gflop/s)   errors: 0   temps: 46 C
        Summary at:   Tue Nov 19 02:52:36 PM PST 2024

\r100.0%  proc'd: 30 (3519 Gflop/s)   errors: 0   temps: 53 C
Killing processes with SIGTERM (soft kill)
Freed memory for dev 0
Uninitted cublas
done

Tested 1 GPUs:
        GPU 0: OK
"""
"""wilicc/gpu-burn, issue #124 (an A500; the ending is of its A2000, which reported no rate at all)."""


def test_nvbandwidth_is_read_of_one_device() -> None:
    """Not the line SUM, which is over all of them; a waived test between two others hides neither."""
    assert peers.nvbandwidth(NVBANDWIDTH_8) == {"device_local_copy": 1116.30}
    assert peers.nvbandwidth(NVBANDWIDTH_1) == {"host_to_device_memcpy_sm": 25.13, "device_to_host_memcpy_ce": 25.97}


def test_mamf_finder_names_its_best_by_mean_or_sustained() -> None:
    """Version 2 by its mean; version 3 by what it holds, not by its burst."""
    assert peers.mamf(MAMF_2) == {"tflops": 0, "m": 384, "n": 256, "k": 256, "tried": 3}
    assert peers.mamf(MAMF_2_EARLIER) == {"tflops": 35.1, "m": 15360, "n": 3072, "k": 1024, "tried": 3375}
    assert peers.mamf(MAMF_3) == {"tflops": 722, "m": 3072, "n": 2816, "k": 8192, "tried": 24}
    assert peers.mamf("Warming up the accelerator for 30 secs ... ") == {}


def test_babelstream_is_read_by_its_mean_time() -> None:
    """Copy counts two arrays, triad three; what it prints as its rate is the best run (18469.8 MB/s of 10^6)."""
    found = peers.babelstream(BABELSTREAM)
    assert found["Copy"] == pytest.approx(2 * 4 * 4194304 / 0.0161001 / 1e9)
    assert found["Copy best"] == pytest.approx(18.4698, rel=1e-5)
    assert found["Triad best"] == pytest.approx(4.24972, rel=1e-5)
    assert found["Dot best"] == pytest.approx(2.38432, rel=1e-5)
    assert peers.babelstream(BABELSTREAM_5)["Copy best"] == pytest.approx(20.7641, rel=1e-5)


def test_gpu_burn_is_read_by_its_last_report_and_its_own_check() -> None:
    assert peers.gpu_burn(GPU_BURN) == {"gflops": 3519, "faulty": 0}
    faulty = GPU_BURN.replace("GPU 0: OK", "GPU 0: FAULTY")
    assert peers.gpu_burn(faulty)["faulty"] == 1
    assert peers.gpu_burn("".join(GPU_BURN.splitlines(keepends=True)[-2:]))["gflops"] == 0
    assert peers.gpu_burn(GPU_BURN.partition("Tested")[0]) == {}


def test_a_ratio_is_judged_both_ways() -> None:
    """Optimism is not speed: more than one percent above is as suspicious as less is missed."""
    said = [compare.verdict(ratio, gpu=True) for ratio in (0.989, 0.99, 1.01, 1.011)]
    assert said == ["missed", "met", "met", "SUSPICIOUS"]
    assert compare.verdict(2.0, gpu=False) == "a CPU: shows that the code runs"


def test_the_highest_power_is_that_of_a_window() -> None:
    """By the energy counter where there is one: 100 W for ten seconds, then 700 W for ten, and a spike of the gauge."""
    energy = [
        (float(at), {"energy_j": 100.0 * min(at, 10) + 700.0 * max(0, at - 10), "power_w": 900.0}) for at in range(21)
    ]
    assert bench.highest(energy, 5.0) == 700
    gauge = [(float(at), {"power_w": 100.0 if at < 10 else 400.0}) for at in range(21)]
    assert bench.highest(gauge, 5.0) == 400
    assert bench.highest(energy[:4], 5.0) is None


def test_a_prediction_holds_with_all_of_its_figures() -> None:
    """Of V6, the copy alone says nothing of the others; of another part than these two nothing was predicted."""
    run = verify.RUNS["V6"]
    found = {"copy TB/s": 4.3, "triad": 4.2, "read": 4.5}
    assert verify.judge(run, {**found, "read": 3.9}, gpu=True, sku="h200-sxm") == "NOT HELD: read"
    assert verify.judge(run, found, gpu=True, sku="h200-sxm") == "HELD"
    assert verify.judge(run, found, gpu=True, sku="b200-sxm") == (
        "NOT RUN: predicted of h100-sxm and h200-sxm, this is b200-sxm"
    )
    h100 = {"copy TB/s": 3.0}
    assert verify.judge(run, h100, gpu=True, sku="h100-sxm") == "HELD"
    assert verify.judge(run, h100, gpu=True, sku="h200-sxm") == "NOT HELD: copy TB/s"
    part = verify.judge(run, {"read": 4.5}, gpu=True, sku="h200-sxm")
    assert part.startswith("HELD IN PART: no figure of copy TB/s, triad")
    assert verify.judge(run, {}, gpu=True, sku="h200-sxm").startswith("NOT RUN: no figure of copy TB/s")
    assert verify.judge(run, found, gpu=False, sku="h200-sxm").startswith("NOT RUN")


SHIM = """
#include <cstddef>
struct Place { unsigned x; };
static Place threadIdx, blockIdx, blockDim, gridDim;
#define __global__ static
#define SERIALLY(kernel, T) extern "C" void run_##kernel##_##T( \\
    T *a, T *b, T *c, T *sums, int n, int blocks, int threads) { \\
    gridDim.x = blocks; blockDim.x = threads; \\
    for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) \\
        for (threadIdx.x = 0; threadIdx.x < blockDim.x; ++threadIdx.x) kernel##_##T(a, b, c, sums, n); }
#define __restrict__
"""


def test_the_cuda_kernels_do_what_babelstream_defines(tmp_path: Path) -> None:
    """Their source, compiled for a CPU and run thread by thread: arrays 0.1, 0.2, 0 and scalar 0.4."""
    compiler = shutil.which("g++")
    if not compiler:
        pytest.skip("no g++")
    runs = "".join(
        f"SERIALLY({op}, {kind})\n" for op in ("copy", "mul", "add", "triad", "dot") for kind in ("float", "double")
    )
    kernels = (BENCHMARKS / "stream.cu").read_text().replace('extern "C" __global__', "__global__")
    (tmp_path / "all.cpp").write_text(SHIM + kernels + runs)
    command = [compiler, "-shared", "-fPIC", "-o", str(tmp_path / "all.so"), str(tmp_path / "all.cpp")]
    subprocess.run(command, check=True, timeout=100, capture_output=True)
    for kind in ("float", "double"):
        assert after_each(tmp_path / "all.so", kind) == pytest.approx([0.1, 0.04, 0.14, 0.096, 1000 * 0.096 * 0.04])


def after_each(library: Path, kind: str) -> list[float]:
    """The last element that each kernel wrote, in BabelStream's order; of dot the sum of its partial sums."""
    loaded = ctypes.CDLL(str(library))
    number: Any = {"float": ctypes.c_float, "double": ctypes.c_double}[kind]
    n, grid, block = 1000, 7, 32
    a, b, c = ((number * n)(*[value] * n) for value in (0.1, 0.2, 0.0))
    sums = (number * (grid * block))()
    written: list[float] = []
    for op, target in {"copy": c, "mul": b, "add": c, "triad": a, "dot": sums}.items():
        getattr(loaded, f"run_{op}_{kind}")(a, b, c, sums, n, grid, block)
        written.append(float(sum(sums) if op == "dot" else target[n - 1]))
    return written
