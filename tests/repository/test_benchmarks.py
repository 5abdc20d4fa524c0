"""The benchmarks run and print what they promise; how fast anything is, is not asserted."""

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.data_files import content

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.run import Run, RunInfo
from pytest_accel.core.sku_types import Limit
from pytest_accel.judging.facts.results import foreseen
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.record import write
from pytest_accel.skus import loader

pytestmark = pytest.mark.nightly

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
TINY = ("--seconds", "0.05", "--side", "64", "--mib", "1")
PRINTED = {
    ("overhead.py", "--pairs", "1", "--collective-kib", "64", *TINY): [
        rf"^{metric} +torch +[\d.e+-]+ +[\d.e+-]+ \S+ +\d+\.\d{{3}} "
        for metric in (r"matmul\.fp32", r"stream\.copy", r"stream\.triad", r"stream\.read")
    ],
    ("together.py", "--turns", "1", *TINY): [
        rf"^{metric} " for metric in (r"matmul\.fp32", r"host_copy_all\.h2d", r"host_copy_all\.d2h", r"stream\.read")
    ],
    ("training.py", "--ranks", "4", "--turns", "1", "--seconds", "0.3"): [
        r"^\| 4 \| \d+\.\d\d \| \d+\.\d\d \| \d+\.\d{3} \| \d+\.\d\d \| equal \|$",
        r"^\| 4 \| bit \| 1: in the same training step the bits of its gradients differ",
        r"^\| 4 \| seed \| 1: in the same training step the bits of its loss differ",
        r"^\| 4 \| 10% slower \| ",
    ],
    ("search.py", "--dtype", "fp32", "--repeats", "1", "--shapes", "6", "--seconds", "0.3", "--block", "0.001"): [
        r"^ +1 +\d+\.\d\d s +\d+\.\d s +\d+\.\d{3} +\d+\.\d{3} ",
        "median share of the scan's winner",
    ],
}
"""Benchmarks with little to do, and the lines that each prints."""


@pytest.mark.nightly
@pytest.mark.parametrize("words", PRINTED, ids=lambda words: words[0])
def test_a_benchmark_prints_what_it_promises(words: tuple[str, ...]) -> None:
    pytest.importorskip("torch")
    done = run(*words)
    if "one device has nobody to work together with" in done.stderr:
        pytest.skip("a processor of one core is one device")
    assert done.returncode == 0, done.stderr
    assert [line for line in PRINTED[words] if not re.search(line, done.stdout, re.MULTILINE)] == []


def test_where_time_goes_splits_the_wall_clock(tmp_path: Path) -> None:
    """What the record states, as shares of the wall clock."""
    record = tmp_path / "record.json"
    seconds = {"wall": 40.0, "starting": 6.0, "preparing": 3.0, "warm_up": 5.0, "measuring": 15.0, "checks": 1.0}
    run_entry = {"seconds": {**seconds, "waiting": 0.0, "rest": 10.0}, "probes": {"matmul.bf16": {"measuring": 2.5}}}
    record.write_text(json.dumps({"state": "finished", "info": run_entry}))

    done = run("where_time_goes.py", str(record))

    assert done.returncode == 0, done.stderr
    assert re.search(r"^rest +10\.00 s +25\.0%", done.stdout, re.MULTILINE)
    assert re.search(r"^matmul\.bf16 +0\.00 +0\.00 +2\.50 +0\.00$", done.stdout, re.MULTILINE)
    record.write_text(json.dumps({"state": "running", "info": {}}))
    assert "has not ended (state: running)" in run("where_time_goes.py", str(tmp_path)).stderr


def test_repeatability_reads_records_and_writes_a_file_by_which_the_next_run_is_foreseen(tmp_path: Path) -> None:
    """Four runs of one device at 100, 102, 100 and 102 with a floor of 91: spread 1.14 %, a gauge ratio of 0.115.

    By that spread a value of 101 comes with 101 +- t sqrt(2) spread.
    """
    places = [record_of(tmp_path / str(run), 100.0 + 2 * (run % 2)) for run in range(4)]
    written = tmp_path / "own.yaml"

    done = run("repeatability.py", "--records", *map(str, places), "--spread", str(written))

    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("matmul.bf16")).split()
    assert row[:6] == ["matmul.bf16", "1", "4", "101", "TFLOPS", "1.14%"]
    assert row[6:] == ["0/3", "3/3", "0.115", "above", "a", "tenth"]
    measured = Measurement("matmul.bf16", "GPU-0", "TFLOPS", 101.0, samples=(101.0,) * 8)
    low, high = foreseen(measured, loader.load(str(written))).next_run or (0.0, 0.0)
    assert (low + high) / 2 == pytest.approx(101)
    assert (high - low) / 2 == pytest.approx(3.182 * 2**0.5 * 0.01143 * 101, rel=1e-3)  # Student's t of 3


def record_of(folder: Path, value: float) -> Path:
    """A record with one measurement, made by the classes that write one."""
    limit = Limit("matmul.bf16", "TFLOPS", floor=91.0, origin="here:1")
    measured = Measurement("matmul.bf16", "GPU-0", "TFLOPS", value, samples=(value,) * 8)
    folder.mkdir()
    run: RunInfo = {"started": "2026-11-22T01:00:00+00:00", "level": "quick"}
    about: dict[str, Any] = {"sku": {"name": "cpu"}, "software": {"torch": "2.13.0"}}
    write(Run(info=run, **about, measurements=[measured], verdicts=[judge([measured], limit)]), folder)
    return folder


def test_verify_says_what_needs_a_gpu_and_runs_the_rest() -> None:
    pytest.importorskip("torch")

    done = run("verify.py", "V8", "V2", env=NO_GPU)

    assert done.returncode == 0, done.stderr
    exact, clock = map(json.loads, done.stdout.splitlines())
    assert (exact["run"], exact["found"]) == ("V8", {"wrong elements": 0.0, "wrong with K permuted": 0.0})
    assert exact["result"] == "NOT RUN: predicted of a GPU, this is a CPU's figure"
    assert (clock["found"], clock["result"]) == ({}, "NOT RUN: needs a GPU: its clock")


STANDING_IN = """
print("Tried 3 shapes => the best outcomes were:")
print("mean:   0.1 TFLOPS @ 128x64x256 (MxNxK)")
"""
NVBANDWIDTH = content("benchmarks/nvbandwidth.txt")


@pytest.mark.nightly
def test_ours_and_a_tool_of_others_by_turns(tmp_path: Path) -> None:
    """Programs in their places. The shape that mamf-finder names is measured again, beside ours; of nvbandwidth's
    own copy every byte is read and written."""
    pytest.importorskip("torch")
    (tmp_path / "builds").mkdir()
    (tmp_path / "builds" / "mamf-finder.py").write_text(STANDING_IN)
    program = tmp_path / "builds" / "nvbandwidth"
    program.write_text(f"#!/bin/sh\ncat <<END\n{NVBANDWIDTH}END\n")
    program.chmod(0o755)
    tools = ("mamf-finder", "nvbandwidth", "BabelStream")

    done = run("compare.py", *tools, "--peers", str(tmp_path / "builds"), env=NO_GPU)

    assert done.returncode == 0, done.stderr
    best, claim, seconds, h2d, d2h, copy, missing = map(json.loads, done.stdout.splitlines())
    assert best["ratio"] == pytest.approx(best["ours"] / best["theirs"])
    assert "its 128x64x256 with B transposed" in best["conditions"]
    assert (claim["theirs"], claim["verdict"], seconds["unit"]) == (0.1, "information", "s")
    assert (h2d["verdict"], d2h["verdict"]) == ("NOT RUN: nvbandwidth printed no figure of it",) * 2
    assert (copy["what"], copy["theirs"], copy["unit"]) == ("stream.copy", 2 * 1116.30, "GB/s")
    assert missing["verdict"] == "NOT RUN: there is no cuda-stream or omp-stream among the builds"


def running(*words: str) -> list[list[str]]:
    """Command lines of processes with all of these words."""
    lines = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            lines.append(process.cmdline())
    return [line for line in lines if all(any(word in each for each in line) for word in words)]


def run(program: str, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command, more = [sys.executable, str(BENCHMARKS / program), *arguments], {**os.environ, **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=more)


@pytest.mark.nightly
def test_false_drains_counts_nights_and_finds_a_planted_fault(tmp_path: Path) -> None:
    written = tmp_path / "drains.json"
    script = [sys.executable, str(BENCHMARKS / "false_drains.py"), "--nodes=2", "--nights=4", "--faulty=1"]
    subprocess.run([*script, f"--output={written}"], check=True, capture_output=True, timeout=240)
    told = json.loads(written.read_text())
    assert told["healthy"]["nights"] == 8
    assert told["upper 95 %"] >= 3 / 8
    worst = [each for each in told["planted"] if each["loss"] == 0.4]
    assert len(worst) == 4
    assert all(each["drained in the first night"] == 1 for each in worst)
