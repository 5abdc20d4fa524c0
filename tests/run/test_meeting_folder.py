"""The temporary folder of a run: gone when the run is over, and no later than with the next run if it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from pytest_accel.run.processes.meeting_folder import HELD, NEW_SECONDS, PREFIX, MeetingFolder

HOLD = "import sys, pathlib; from pytest_accel.run.processes.meeting_folder import MeetingFolder as M; "
HOLD += "print(M(pathlib.Path(sys.argv[1])).path, flush=True); sys.stdin.read()"


def aged(folder: Path) -> Path:
    """Make a folder so old that its run must have locked it."""
    old = time.time() - 2 * NEW_SECONDS
    os.utime(folder, (old, old))
    return folder


def other_run(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """Another process that holds a folder in `place`."""
    run = subprocess.Popen(
        [sys.executable, "-c", HOLD, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert run.stdout
    return run, aged(Path(run.stdout.readline().strip()))


def test_it_is_gone_when_the_run_is_over(tmp_path: Path) -> None:
    folder = MeetingFolder(tmp_path)
    (folder.path / "rendezvous").write_text("x")
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_goes_with_the_next_one(tmp_path: Path) -> None:
    run, left = other_run(tmp_path)
    with run:
        os.kill(run.pid, signal.SIGKILL)
    assert left.exists()
    assert list(tmp_path.iterdir()) == [left]
    now = MeetingFolder(tmp_path)
    assert list(tmp_path.iterdir()) == [now.path]


def test_the_folder_of_a_living_run_stays(tmp_path: Path) -> None:
    run, held = other_run(tmp_path)
    with run:
        MeetingFolder(tmp_path).remove()
        assert list(tmp_path.iterdir()) == [held]
        assert run.stdin
        run.stdin.close()


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    """Neither what is not locked like ours, nor what a link of that name leads to."""
    place, victim = tmp_path / "shm", tmp_path / "victim"
    for folder in (place, victim, place / f"{PREFIX}other"):
        folder.mkdir()
    (victim / HELD).write_text("precious")
    (place / f"{PREFIX}link").symlink_to(aged(victim))
    aged(place / f"{PREFIX}other")
    MeetingFolder(place).remove()
    assert sorted(path.name for path in place.iterdir()) == [f"{PREFIX}link", f"{PREFIX}other"]
    assert (victim / HELD).read_text() == "precious"
