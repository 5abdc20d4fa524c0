"""What the tools of others print is read as they print it, and a ratio says what it may."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import bench  # noqa: E402  programs, not a package
import compare  # noqa: E402
import peers  # noqa: E402
import verify  # noqa: E402


def printed(name: str) -> str:
    """Return what a tool printed: tests/real/peers, with the sources."""
    return (Path(__file__).parents[1] / "real" / "peers" / name).read_bytes().decode()


def test_nvbandwidth_is_read_of_one_device() -> None:
    """Not the line SUM, which is over all of them; a waived test between two others hides neither."""
    assert peers.nvbandwidth(printed("nvbandwidth-8.txt")) == {"device_local_copy": 1116.30}
    waived = peers.nvbandwidth(printed("nvbandwidth-1.txt"))
    assert waived == {"host_to_device_memcpy_sm": 25.13, "device_to_host_memcpy_ce": 25.97}


def test_mamf_finder_names_its_best_by_mean_or_sustained() -> None:
    """Version 2 by its mean; version 3 by what it holds, not by its burst."""
    assert peers.mamf(printed("mamf-2.txt")) == {"tflops": 0, "m": 384, "n": 256, "k": 256, "tried": 3}
    earlier = peers.mamf(printed("mamf-2-earlier.txt"))
    assert earlier == {"tflops": 35.1, "m": 15360, "n": 3072, "k": 1024, "tried": 3375}
    assert peers.mamf(printed("mamf-3.txt")) == {"tflops": 722, "m": 3072, "n": 2816, "k": 8192, "tried": 24}
    assert peers.mamf("Warming up the accelerator for 30 secs ... ") == {}


def test_babelstream_is_read_by_its_mean_time() -> None:
    """Copy counts two arrays, triad three; what it prints as its rate is the best run (18469.8 MB/s of 10^6)."""
    found = peers.babelstream(printed("babelstream.csv"))
    assert found["Copy"] == pytest.approx(2 * 4 * 4194304 / 0.0161001 / 1e9)
    assert found["Copy best"] == pytest.approx(18.4698, rel=1e-5)
    assert found["Triad best"] == pytest.approx(4.24972, rel=1e-5)
    assert found["Dot best"] == pytest.approx(2.38432, rel=1e-5)
    assert peers.babelstream(printed("babelstream-5.csv"))["Copy best"] == pytest.approx(20.7641, rel=1e-5)


def test_gpu_burn_is_read_by_its_last_report_and_its_own_check() -> None:
    text = printed("gpu-burn.txt")
    assert peers.gpu_burn(text) == {"gflops": 3519, "faulty": 0}
    assert peers.gpu_burn(text.replace("GPU 0: OK", "GPU 0: FAULTY"))["faulty"] == 1
    assert peers.gpu_burn("".join(text.splitlines(keepends=True)[-2:]))["gflops"] == 0
    assert peers.gpu_burn(text.partition("Tested")[0]) == {}


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
