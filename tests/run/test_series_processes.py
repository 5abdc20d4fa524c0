"""Series of runs as a user begins them, in processes: their lines and exit statuses, stops and kills."""

from __future__ import annotations

import json
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


@pytest.mark.slow
def test_a_signal_ends_the_run_and_the_series(folder: Folder) -> None:
    series = folder.begin(*SIMULATED, "--accel-simulate=h100-sxm", "--accel-hours=1")
    folder.until(lambda: folder.measures(1))
    series.send_signal(signal.SIGTERM)
    assert series.wait() == 2
    assert "INTERRUPTED (SIGTERM)" in folder.log.read_text().splitlines()[-1]
    (run,) = folder.told["runs"]
    assert (run["state"], run["whole"]) == ("interrupted", False)


@pytest.mark.slow
def test_a_run_dies_with_its_series(folder: Folder) -> None:
    series = folder.begin(*SIMULATED, "--accel-simulate=h100-sxm", "--accel-hours=1")
    folder.until(lambda: folder.measures(1))
    below = psutil.Process(series.pid).children(recursive=True)
    assert below
    series.kill()
    series.wait()
    _, alive = psutil.wait_procs(below, timeout=20)
    assert not alive


@pytest.mark.slow
def test_a_second_series_in_the_same_folder_is_refused_and_told_who_has_it(folder: Folder) -> None:
    first = folder.begin(*SIMULATED, "--accel-simulate=h100-sxm", "--accel-hours=1")
    folder.until((folder.path / "series/run-1").exists)
    status, _ = folder.series(*FACTS, "--accel-hours=1")
    assert status == 4
    assert f"is being measured by pid {first.pid}, a series of --accel-hours" in folder.log.read_text()
    assert not (folder.path / "series/run-2").exists()
