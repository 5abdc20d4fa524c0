"""Series of runs as a user begins them, in processes: their lines and exit statuses, stops and kills."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

SIMULATED = ("--accel-sku=h100-sxm", "--accel-level=quick")
FACTS = (*SIMULATED, "--accel-simulate=h100-sxm", "-k", "inventory")
"""A run of some seconds: HELD with 6, since it is filtered."""


class Folder:
    """A folder of a user who begins a series in it."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, path / "out.txt"
        self._begun = list[subprocess.Popen[bytes]]()

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        """Begin the series, or go on with it."""
        command = [sys.executable, "-m", "pytest", "-p", "no:randomly", *words, "--accel-output=series"]
        with open(self.log, "ab") as log:
            self._begun.append(subprocess.Popen(command, cwd=self.path, stdout=log, stderr=subprocess.STDOUT))
        return self._begun[-1]

    def series(self, *words: str) -> tuple[int, str]:
        """Make it, and return its exit status and the last line."""
        status = self.begin(*words).wait()
        return status, self.log.read_text().splitlines()[-1]

    @property
    def told(self) -> Any:
        return json.loads((self.path / "series/series.json").read_text())

    def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something has happened."""
        end = time.monotonic() + 240
        while not reached():
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.2)

    def measures(self, number: int) -> bool:
        """Whether a run has measured something that is no fact."""
        file = self.path / f"series/run-{number}/telemetry.jsonl"
        return file.exists() and file.stat().st_size > 0

    def end(self) -> None:
        for each in self._begun:
            each.kill()
            each.wait()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.end()


@pytest.mark.nightly
def test_a_signal_ends_the_run_and_the_series(folder: Folder) -> None:
    series = folder.begin(*SIMULATED, "--accel-simulate=h100-sxm", "--accel-hours=1")
    folder.until(lambda: folder.measures(1))
    series.send_signal(signal.SIGTERM)
    assert series.wait() == 2
    assert "INTERRUPTED (SIGTERM)" in folder.log.read_text().splitlines()[-1]
    (run,) = folder.told["runs"]
    assert (run["state"], run["whole"]) == ("interrupted", False)


STEPPED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *at) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(which, at);
    FILE *file = which == CLOCK_REALTIME ? fopen(getenv("STEP_FILE"), "r") : NULL;
    long seconds = 0;
    if (file) {
        if (fscanf(file, "%ld", &seconds) == 1) at->tv_sec += seconds;
        fclose(file);
    }
    return status;
}
"""
"""A library that sets the wall clock alone by the seconds in a file, as `date -s` does."""


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc")
def test_a_step_of_the_wall_clock_is_no_burn_in(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    source, library, step = folder.path / "step.c", folder.path / "step.so", folder.path / "step"
    source.write_text(STEPPED)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    monkeypatch.setenv("STEP_FILE", str(step))
    monkeypatch.setenv("LD_PRELOAD", str(library))
    series = folder.begin(*FACTS, "--accel-hours=72")
    folder.until((folder.path / "series/run-1/telemetry.jsonl").exists)
    step.write_text("259200")
    assert series.wait(120) == 6
    line = folder.log.read_text().splitlines()[-1]
    assert "; the clock of the host was set by +72 h 0 min during run 1: begin a new series; 1 run in 0" in line


@pytest.mark.nightly
def test_a_run_dies_with_its_series(folder: Folder) -> None:
    series = folder.begin(*SIMULATED, "--accel-simulate=h100-sxm", "--accel-hours=1")
    folder.until(lambda: folder.measures(1))
    below = psutil.Process(series.pid).children(recursive=True)
    assert below
    series.kill()
    series.wait()
    _, alive = psutil.wait_procs(below, timeout=20)
    assert not alive


@pytest.mark.nightly
def test_a_second_series_in_the_same_folder_is_refused_and_told_who_has_it(folder: Folder) -> None:
    first = folder.begin(*SIMULATED, "--accel-simulate=h100-sxm", "--accel-hours=1")
    folder.until((folder.path / "series/run-1").exists)
    status, _ = folder.series(*FACTS, "--accel-hours=1")
    assert status == 4
    assert f"is being measured by pid {first.pid}, a series of --accel-hours" in folder.log.read_text()
    assert not (folder.path / "series/run-2").exists()
