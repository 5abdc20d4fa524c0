"""The load of other processes on the CPU."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.reasons import Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.drivers.vendors.cpu.driver import ForeignLoad, before_the_run
from pytest_accel.judging.facts.telemetry import disturbance, summarise
from pytest_accel.judging.verdicts.judge_attempts import judge

BURNS = "while True: pass"
RESTS = "import time; time.sleep(600)"
ENOUGH = 0.3
"""Seconds of processor time that are waited for."""


@contextmanager
def running(code: str) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", code]) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def other() -> Iterator[subprocess.Popen[bytes]]:
    """A process of somebody else, below which nothing runs."""
    with running(RESTS) as process:
        yield process


def grown(load: ForeignLoad, busy: subprocess.Popen[bytes]) -> float:
    """Return the increase of the foreign seconds while `busy` used ENOUGH, minus what it used."""
    import psutil

    process = psutil.Process(busy.pid)
    before, used = load.seconds(), process.cpu_times().user
    while process.cpu_times().user - used < ENOUGH:
        time.sleep(0.02)
    return load.seconds() - before


def test_our_own_processes_count_as_ours_also_once_they_ended(other: subprocess.Popen[bytes]) -> None:
    """Both loads see the same machine; they differ by what `busy` used."""
    ours, theirs = ForeignLoad(os.getpid()), ForeignLoad(other.pid)
    with running(BURNS) as busy:
        before = theirs.seconds() - ours.seconds()
        assert grown(theirs, busy) > 0.7 * ENOUGH
        assert theirs.seconds() - ours.seconds() - before > 0.7 * ENOUGH
    assert ours._own() >= ENOUGH


@pytest.mark.parametrize(("share", "says"), [(0.05, None), (0.83, "other processes take 83% of the processor's time")])
def test_only_a_load_worth_the_name_is_stated(share: float, says: str | None) -> None:
    sentence = before_the_run(share)
    assert sentence == says if says is None else (sentence or "").startswith(says)


def test_a_load_that_begins_while_a_probe_measures_is_named(other: subprocess.Popen[bytes]) -> None:
    """Half of the time without it, half with as many burning processes as there are CPUs."""
    load, readings, burning = ForeignLoad(other.pid), [], []
    device = Device("CPU-0", 0, "cpu", "a processor", cpus=sorted(load.cpus))
    for place in range(8):
        if place == 4:
            burning = [subprocess.Popen([sys.executable, "-c", BURNS]) for _ in load.cpus]
        readings.append({"at": time.monotonic(), "foreign_s": load.seconds()})
        time.sleep(0.25)
    for process in burning:
        process.kill()
        process.wait()
    why = disturbance(device, summarise(readings))
    assert why, readings
    assert re.fullmatch(r"other processes took \d+% of the CPU time", why)
    short = Measurement("matmul.fp32", "CPU-0", "TFLOPS", 0.05, notes=(Note("disturbed", why),))
    verdict = judge([short], Limit("matmul.fp32", "TFLOPS", floor=0.1))
    assert (verdict.status, sentence_of(verdict).endswith(f"; disturbed: {why}")) == (Status.INCONCLUSIVE, True)
