"""What the tools of others print is read as they print it."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import peers  # noqa: E402


def printed(name: str) -> str:
    """Return what a tool printed: tests/real/peers, with the sources."""
    return (Path(__file__).parent / "real" / "peers" / name).read_bytes().decode()


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
