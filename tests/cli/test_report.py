"""`pytest-accel report`: the page of a saved record, on the screen or in a file that is replaced at once."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from support import report_record

from pytest_accel.cli.main import main
from pytest_accel.run import record

BEGIN = "<!DOCTYPE html>"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    record.write(report_record.record(), tmp_path)
    return tmp_path


def test_the_page_on_the_screen_and_in_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(BEGIN)
    assert main(["report", str(folder / record.FILE), "--output", str(folder / "out")]) == 0
    assert (folder / "out").read_text(encoding="utf-8") == shown


def test_who_reads_meanwhile_sees_one_file_or_the_other(folder: Path) -> None:
    """The file is replaced by a new one; what was opened before keeps the old text."""
    out = folder / "accel.html"
    out.write_text("old")
    with out.open() as opened:
        assert main(["report", str(folder), "--output", str(out)]) == 0
        assert opened.read() == "old"
    assert out.read_text().startswith(BEGIN)
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(out.stat().st_mode) == 0o666 & ~mask, "another user may read it"
    assert not [path.name for path in folder.iterdir() if path.name.startswith(".accel.html")]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_left_as_it_is(folder: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Root would put a file in the place of /dev/stdout, or write to where somebody else's link leads."""
    out, elsewhere = folder / "out", folder / "elsewhere"
    elsewhere.write_text("precious")
    if kind == "link":
        out.symlink_to(elsewhere)
    elif kind == "pipe":
        os.mkfifo(out)
    else:
        out.mkdir()
    before = out.lstat()
    assert main(["report", str(folder), "--output", str(out)]) == 4
    assert "is not a regular file" in capsys.readouterr().err
    assert (out.lstat().st_ino, out.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert elsewhere.read_text() == "precious"


def test_what_cannot_be_written_or_read_ends_with_4(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nowhere = folder / "no" / "accel.html"
    assert main(["report", str(folder), "--output", str(nowhere)]) == 4
    assert f"--output: cannot write to {nowhere}: No such file" in capsys.readouterr().err
    assert main(["report", str(folder / "none")]) == 4
