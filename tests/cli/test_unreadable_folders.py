"""Commands on folders that this user may not enter or write into: each is named, and no result vanishes silently."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import as_user, fleet_nights
from support.rows import each_row

CAPABILITIES = "-dac_override,-dac_read_search"
OBEYING = ["setpriv", f"--bounding-set={CAPABILITIES}", f"--inh-caps={CAPABILITIES}"] if os.geteuid() == 0 else []
"""What makes root obey the permissions of files."""

pytestmark = pytest.mark.skipif(bool(OBEYING) and shutil.which("setpriv") is None, reason="root reads everything")


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """Three nodes of one night; nobody may enter the folder of the last one."""
    for node in range(3):
        fleet_nights.save(fleet_nights.record(node), tmp_path / "records")
    last = max(each.parent for each in tmp_path.rglob("record.json"))
    last.chmod(0)
    yield last
    last.chmod(0o755)


def command(folder: Path, *words: str) -> tuple[int, str]:
    """Run a command as a user whose permissions count; return its exit status and what it said."""
    line = [*OBEYING, f"{as_user.BIN}/pytest-accel", *words]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_store_names_the_folder_that_it_could_not_enter(tmp_path: Path, closed: Path) -> None:
    status, said = command(tmp_path, "store", "add", "st", "records")

    assert f"not added: {closed.relative_to(tmp_path)}: cannot be read: Permission denied\n" in said
    assert status == 6


def test_a_calibration_names_the_folder_that_it_could_not_enter(tmp_path: Path, closed: Path) -> None:
    _, said = command(tmp_path, "calibrate", "records", "--output", "own.yaml")

    assert f"{closed.relative_to(tmp_path)}: cannot be read: Permission denied" in said


def test_a_delivery_names_the_folder_that_it_could_not_enter(tmp_path: Path, closed: Path) -> None:
    status, said = command(tmp_path, "fleet", "report", "--acceptance", "records")

    assert "NOT JUDGED" in said
    assert f"{closed.relative_to(tmp_path)}: cannot be read: Permission denied" in said
    assert status == 6


@each_row(
    "words",
    [
        "fleet status closed",
        "store show closed",
        "store add st closed",
        "calibrate closed --output o.yaml",
    ],
)
def test_a_folder_that_cannot_be_read_is_told_in_a_line(tmp_path: Path, words: str) -> None:
    (tmp_path / "closed").mkdir(mode=0)

    status, said = command(tmp_path, *words.split())

    assert said.removeprefix(f"{tmp_path}/") == "closed: cannot be read: Permission denied\n"
    assert status == 4


def test_a_store_that_cannot_be_made_is_told_in_a_line(tmp_path: Path) -> None:
    fleet_nights.save(fleet_nights.record(0), tmp_path / "records")
    (tmp_path / "closed").mkdir(mode=0o555)

    assert command(tmp_path, "store", "add", "closed/st", "records") == (
        4,
        "closed/st: cannot be written: Permission denied\n",
    )
