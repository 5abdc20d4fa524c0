"""The command `pytest-accel fleet` where there is no Slurm, or one whose answers change between two questions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_accel.cli.main import main
from pytest_accel.fleet.jobs.run_folder import Expected, Fleet, Submitted, save
from pytest_accel.run.record import Record, write

AT = "2026-11-23T01:00:00+00:00"


@pytest.fixture
def no_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


Program = Callable[[str, str], None]
"""Puts a program of Slurm on the path, by its name and the lines of its script."""
US = "\x1f"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Program:
    """Return what puts a program on the path. Each call of one adds its arguments to `said` in its folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def put(name: str, script: str) -> None:
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {folder}/said\n{script}\n')
        (folder / name).chmod(0o755)

    return put


def shown(state: str, reason: str = "none", since: str = "Unknown") -> str:
    """The line of sinfo about a node n1, as a command that prints it."""
    return f"echo '{US.join(('n1', state, '(null)', 'all*', since, reason))}'"


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


REJECTED = {"line": "REJECTED gpu0", "word": "REJECTED", "exit": 1}
FAILED = {"metric": "matmul.bf16", "subject": "u0", "status": "FAIL"}


def rejected(folder: Path, **changes: object) -> None:
    """Write a fleet's run whose only node n1 is rejected."""
    save(Fleet("1", AT, "0", (), 10, expected=(Expected("n1"),), jobs=(Submitted("n1", "7", AT),)), folder)
    (folder / "n1").mkdir()
    run = {"host": "n1", "started": AT, "launcher": {"name": "slurm", "job": "7"}}
    devices = [{"uuid": "u0", "called": "gpu", "index": 0, "model": "m", "driver": "d"}]
    content = {"run": run, "closing": REJECTED, "state": "finished", "devices": devices, "verdicts": [FAILED], **changes}
    (folder / "n1/record.json").write_text(json.dumps(content))


def test_a_node_that_is_drained_while_the_plan_is_applied_keeps_its_reason(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rejected(tmp_path)
    program("squeue", "")
    program("scontrol", "")
    asked = tmp_path / "asked"
    program("sinfo", f"if [ -e {asked} ]; then {shown('drained', 'fan')}; else touch {asked}; {shown('idle')}; fi")
    assert main(["fleet", "drain", str(tmp_path), "--yes"]) == 1
    assert "left alone: n1: changed meanwhile: drained: fan" in capsys.readouterr().out
    assert "scontrol" not in (tmp_path / "bin/said").read_text()
    program("sinfo", shown("idle"))
    assert main(["fleet", "drain", str(tmp_path), "--yes"]) == 1
    assert "state=drain reason=[accel] gpu0 matmul.bf16" in (tmp_path / "bin/said").read_text()
