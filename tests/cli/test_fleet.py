"""The command `pytest-accel fleet` where there is no Slurm."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_accel.cli.main import main
from pytest_accel.fleet.jobs.run_folder import Expected, Fleet, Submitted, save
from pytest_accel.run.record import Record, write

AT = "2026-11-23T01:00:00+00:00"


@pytest.fixture
def no_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.usefixtures("no_slurm")
def test_without_slurm_a_run_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "run", "--sku", "h100-sxm", "--output", str(tmp_path / "run")]) == 4
    assert "sinfo is not installed here" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("no_slurm")
def test_without_slurm_a_report_goes_by_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = (Expected("n1"), Expected("n2"), Expected("n3", skipped="down"))
    jobs = (Submitted("n1", "7", AT), Submitted("n2", "8", AT))
    save(Fleet("1", AT, "0", (), 10, expected=expected, jobs=jobs), tmp_path)
    (tmp_path / "n1").mkdir()
    closing = {"line": "ACCEPTED 8/8 devices", "word": "ACCEPTED", "exit": 0}
    run = {"host": "n1", "started": AT, "launcher": {"name": "slurm", "job": "7"}}
    write(Record(run=run, closing=closing, state="finished"), tmp_path / "n1")  # type: ignore[arg-type]
    assert main(["fleet", "report", str(tmp_path)]) == 6
    told = capsys.readouterr()
    assert "squeue is not installed here" in told.err
    assert [line.split("  ")[0] for line in told.out.splitlines()] == [
        "no result",
        "skipped",
        "accepted",
        "3 nodes: 1 no result, 1 skipped, 1 accepted",
    ]
    assert main(["fleet", "report", str(tmp_path), "--format", "json", "--output", str(tmp_path / "r.json")]) == 6
    assert '"state": "accepted"' in (tmp_path / "r.json").read_text()


@pytest.mark.parametrize("action", ["status", "wait", "report", "drain", "cancel"])
def test_a_folder_without_a_run_is_a_wrong_one(action: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", action, str(tmp_path)]) == 4
    assert str(tmp_path) in capsys.readouterr().err


def test_a_damaged_list_of_nodes_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fleet.json").write_text('{"format": 1, "expected": [{"name": 1, "colour": 2}]}')
    assert main(["fleet", "status", str(tmp_path)]) == 4
    assert "or a damaged one" in capsys.readouterr().err
