"""The benchmarks run and print what they promise; how fast anything is, is not asserted."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_accel import skufile
from pytest_accel.foresight import foreseen
from pytest_accel.measurement import NEXT_RUN, Measurement
from pytest_accel.record import Record, write
from pytest_accel.sku import Limit
from pytest_accel.verdict import judge

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"

TINY = ("--pairs", "1", "--seconds", "0.05", "--side", "64", "--mib", "1", "--all-reduce-kib", "64")


def test_overhead_prints_a_ratio_for_every_metric(tmp_path: Path) -> None:
    """One tiny pair of everything: a row for each probe against the plain torch loop, and the figures as JSON."""
    pytest.importorskip("torch")
    written = tmp_path / "overhead.json"

    done = run("overhead.py", *TINY, "--json", str(written))

    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\S+) +torch +[\d.e+-]+ +[\d.e+-]+ \S+ +(\d+\.\d{3}) ", done.stdout, re.MULTILINE)
    results = json.loads(written.read_text())["results"]
    assert [metric for metric, _ in rows] == list(results)
    assert {"matmul.fp32", "stream.copy", "stream.triad", "stream.read"} <= set(results)
    assert all(float(ratio) > 0 for _, ratio in rows)
    assert all(len(rates) == 1 for result in results.values() for rates in result["rates"].values())


def test_where_time_goes_splits_the_wall_clock(tmp_path: Path) -> None:
    """What the record states, as shares of the wall clock."""
    record = tmp_path / "record.json"
    seconds = {
        "wall": 40.0,
        "starting": 6.0,
        "preparing": 3.0,
        "warm_up": 5.0,
        "measuring": 15.0,
        "checks": 1.0,
        "waiting": 0.0,
        "rest": 10.0,
    }
    record.write_text(json.dumps({"state": "finished", "run": {"seconds": seconds}}))

    done = run("where_time_goes.py", str(record))

    assert done.returncode == 0, done.stderr
    assert re.search(r"^rest +10\.00 s +25\.0%", done.stdout, re.MULTILINE)


def test_where_time_goes_needs_a_run_that_has_ended(tmp_path: Path) -> None:
    """A record that is still being written has no wall clock yet."""
    (tmp_path / "record.json").write_text(json.dumps({"state": "running", "run": {}}))

    done = run("where_time_goes.py", str(tmp_path))

    assert done.returncode == 1
    assert "has not ended (state: running)" in done.stderr


def test_repeatability_reads_records(tmp_path: Path) -> None:
    """Four runs of one device at 100, 102, 100 and 102 with a floor of 91: spread 1.14 %, a gauge ratio of 0.115."""
    places = [record_of(tmp_path / str(run), 100.0 + 2 * (run % 2)) for run in range(4)]

    done = run("repeatability.py", "--records", *map(str, places))

    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if line.startswith("matmul.bf16")).split()
    assert row[:6] == ["matmul.bf16", "1", "4", "101", "TFLOPS", "1.14%"]
    assert row[6:] == ["0/3", "3/3", "0.115", "above", "a", "tenth"]


def test_repeatability_writes_a_file_by_which_the_next_run_is_foreseen(tmp_path: Path) -> None:
    """The spread of the four runs above, as a threshold file: a value of 101 comes with 101 +- t sqrt(2) spread."""
    places = [record_of(tmp_path / str(run), 100.0 + 2 * (run % 2)) for run in range(4)]
    written = tmp_path / "own.yaml"

    done = run("repeatability.py", "--records", *map(str, places), "--spread", str(written))

    assert done.returncode == 0, done.stderr
    measured = Measurement("matmul.bf16", "GPU-0", "TFLOPS", 101.0, samples=(101.0,) * 8)
    low, high = foreseen(measured, skufile.load(str(written))).details[NEXT_RUN]
    assert (low + high) / 2 == pytest.approx(101)
    assert (high - low) / 2 == pytest.approx(3.182 * 2**0.5 * 0.01143 * 101, rel=1e-3)  # Student's t of 3


def record_of(folder: Path, value: float) -> Path:
    """A record with one measurement, made by the classes that write one."""
    limit = Limit("matmul.bf16", "TFLOPS", floor=91.0, origin="here:1")
    measured = Measurement("matmul.bf16", "GPU-0", "TFLOPS", value, samples=(value,) * 8)
    folder.mkdir()
    run = {"started": "2026-11-22T01:00:00+00:00", "level": "quick"}
    about: dict[str, Any] = {"sku": {"name": "cpu"}, "software": {"torch": "2.13.0"}}
    write(Record(run=run, **about, measurements=[measured], verdicts=[judge([measured], limit)]), folder)
    return folder


def test_search_compares_with_a_scan() -> None:
    pytest.importorskip("torch")

    done = run("search.py", "--repeats", "1", "--shapes", "6", "--seconds", "0.3", "--block", "0.001")

    assert done.returncode == 0, done.stderr
    assert re.search(r"^ +1 +\d+\.\d\d s +\d+\.\d s +\d+\.\d{3} +\d+\.\d{3} ", done.stdout, re.MULTILINE)
    assert "median share of the scan's winner" in done.stdout


def test_verify_says_what_needs_a_gpu_and_runs_the_rest(tmp_path: Path) -> None:
    pytest.importorskip("torch")

    done = run("verify.py", "V8", "V9", env={"CUDA_VISIBLE_DEVICES": ""})

    assert done.returncode == 0, done.stderr
    exact, soak = map(json.loads, done.stdout.splitlines())
    assert (exact["run"], exact["found"], exact["result"]) == ("V8", 0.0, "a CPU: nothing was predicted")
    assert (soak["found"], soak["result"]) == (None, "needs a GPU: the counters of a soak")


def test_a_session_keeps_what_the_tools_of_others_print(tmp_path: Path) -> None:
    """A made gpu_burn is found, called and read; what is not there is said; what has no time left is not run."""
    pytest.importorskip("torch")
    program = tmp_path / "builds" / "gpu-burn" / "gpu_burn"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "100.0%  proc\'d: 4021 (61234 Gflop/s)   errors: 0   temps: 60 C"\n')
    program.chmod(0o755)

    done = run("gpu_session.py", str(tmp_path / "out"), "--steps", "peers", "--peers", str(tmp_path / "builds"))
    late = run("gpu_session.py", str(tmp_path / "late"), "--minutes", "0")

    assert (done.returncode, late.returncode) == (0, 0), done.stderr + late.stderr
    found = {each["tool"]: each for each in json.loads((tmp_path / "out" / "session.json").read_text())["peers"]}
    assert found["gpu-burn"]["figures"] == {"proc'd: 4021": 61234.0}
    assert found["nvbandwidth"]["result"].startswith("no nvbandwidth in ")
    assert "not run: no time was left" in (tmp_path / "late" / "session.md").read_text()


def run(program: str, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command, more = [sys.executable, str(BENCHMARKS / program), *arguments], {**os.environ, **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False, env=more)
