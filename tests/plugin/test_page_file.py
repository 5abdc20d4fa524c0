"""--accel-report: the page of a run. It is refused before the run, or written after it, and never decides anything."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
from support import as_user
from support.report_record import record, saved

from pytest_accel.plugin import page_file
from pytest_accel.run.options import page_name

NODE = "{sku: h100-sxm, platform: single}"


def test_a_page_that_cannot_be_written_is_told_in_a_line(tmp_path: Path) -> None:
    saved(tmp_path, record())
    (tmp_path / "report.html").mkdir()
    text, colour = page_file.write(record(), tmp_path, True)
    later = f"make it later: pytest-accel report {tmp_path} --output FILE"
    assert text == f"report: cannot write to {tmp_path / 'report.html'}: Is a directory; {later}"
    assert colour == "yellow"


def test_the_page_lies_beside_the_record_or_where_it_was_named(tmp_path: Path) -> None:
    saved(tmp_path, record())
    assert page_file.write(record(), tmp_path, True) == (f"report: {tmp_path / 'report.html'}", "")
    page_file.write(record(), tmp_path, str(tmp_path / "other.html"))
    assert (tmp_path / "other.html").read_text() == (tmp_path / "report.html").read_text()


def test_what_is_known_to_fail_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert page_file.refusal(True) is None
    assert page_file.refusal(str(tmp_path / "report.html")) is None
    assert page_file.refusal(str(tmp_path / "none/report.html")) == f"{tmp_path / 'none'} is not a folder"
    (tmp_path / "old.html").mkdir()
    assert page_file.refusal(str(tmp_path / "old.html")) == f"{tmp_path / 'old.html'} is a folder; name a file in it"
    assert "cannot write to /proc/report.html: " in (page_file.refusal("/proc/report.html") or "")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert "pip install 'pytest-accel[report]'" in (page_file.refusal(True) or "")


def test_a_test_that_follows_the_option_is_not_taken_for_its_file() -> None:
    assert page_name("a/report.html") == "a/report.html"
    with pytest.raises(argparse.ArgumentTypeError, match=r"'tests/test_a\.py' does not end in \.html"):
        page_name("tests/test_a.py")


@pytest.mark.nightly
def test_a_run_writes_its_page(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    options = ("--accel-simulate=node.yaml", "--accel-level=quick", "-k", "inventory", "--accel-report")
    ran = as_user.pytest(tmp_path, *options, f"--accel-output={tmp_path / 'out'}", sku=None, paths=())
    assert ran.exit == 6, ran.out
    assert f"report: {tmp_path / 'out/report.html'}" in ran.out
    assert "inventory.vbios" in (tmp_path / "out/report.html").read_text()


def test_a_wrong_name_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "node.yaml").write_text(NODE)
    options = ("--accel-simulate=node.yaml", "--accel-report=none/a.html")
    ran = as_user.pytest(tmp_path, *options, sku=None, paths=(), refused=True)
    assert ran.exit == 4
    assert "none is not a folder" in ran.out
    assert not (tmp_path / "accel-records").exists()
