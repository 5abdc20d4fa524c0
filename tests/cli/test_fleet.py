"""The command `pytest-accel fleet` where there is no Slurm, or one whose answers change between two questions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_accel.cli.main import main
from pytest_accel.fleet.jobs import waiting
from pytest_accel.fleet.jobs.run_folder import Expected, Fleet, Submitted, load, save
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


def shown(state: str, reason: str = "none", since: str = "Unknown", name: str = "n1") -> str:
    """The line of sinfo about a node, as a command that prints it."""
    return f"echo '{US.join((name, state, '(null)', 'all*', since, reason))}'"


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
    content = {
        "run": run,
        "closing": REJECTED,
        "state": "finished",
        "devices": devices,
        "verdicts": [FAILED],
        **changes,
    }
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


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_sees_what_another_process_submitted_before_the_lock(
    begun: bool, program: Program, tmp_path: Path
) -> None:
    """The other one begins the run, or submits the last job of it, while this one asks for the nodes."""
    folder, theirs, moved = tmp_path / "run", tmp_path / "theirs", tmp_path / "moved"
    for each in (folder, theirs):
        each.mkdir()
    arguments = ("--accel-sku=cpu", "-p", "no:cacheprovider")
    asked = Fleet("1", AT, "0", arguments, 10, expected=(Expected("n1"),), sku="cpu")
    save(replace(asked, jobs=(Submitted("n1", "7", AT),)), theirs)
    if begun:
        save(asked, folder)
    take = f"[ -e {moved} ] || {{ touch {moved}; cp {theirs}/fleet.json {folder}/fleet.json; }}"
    program("sinfo", f"{take}\n{shown('idle')}")
    program("squeue", f"echo '{US.join(('7', 'RUNNING', 'None', 'accel-1-n1'))}'")
    program("sbatch", "echo 8")
    assert main(["fleet", "run", "--sku", "cpu", "--output", str(folder)]) == 0
    assert [each.job for each in load(folder).jobs] == ["7"]
    assert "sbatch" not in (tmp_path / "bin/said").read_text()


def test_a_killed_beginning_is_begun_again(program: Program, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / ".submitting").touch()
    program("sinfo", shown("idle"))
    program("squeue", "")
    program("sbatch", "echo 8")
    assert main(["fleet", "run", "--sku", "cpu", "--output", str(folder)]) == 0
    assert ([each.job for each in load(folder).jobs], load(folder).sku) == (["8"], "cpu")


@pytest.mark.usefixtures("no_slurm")
def test_a_queue_that_never_answers_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    save(Fleet("1", AT, "0", (), 10, expected=(Expected("n1"),), jobs=(Submitted("n1", "7", AT),)), tmp_path)
    monkeypatch.setattr(waiting, "PATIENCE", 0.05)
    monkeypatch.setattr(waiting, "LEAST_PAUSE", 0.01)
    monkeypatch.setattr(waiting, "MOST_PAUSE", 0.01)
    assert main(["fleet", "wait", str(tmp_path)]) == 6
    told = capsys.readouterr()
    assert "note: the states are those of the files alone: squeue" in told.err
    assert "1 node: 1 no result" in told.out


def test_a_run_waits_no_longer_than_it_was_told(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program("sinfo", shown("idle"))
    a_queue_for_one_job(program, tmp_path)
    run = ["fleet", "run", "--sku", "cpu", "--output", str(tmp_path / "run"), "--wait", "--timeout", "0.01"]
    assert main(run) == 6
    assert "running     n1" in capsys.readouterr().out


def a_queue_for_one_job(program: Program, place: Path) -> None:
    """Put a queue on the path that takes one job, which runs for ever. Its line is in the file `queue`."""
    queue = place / "queue"
    queue.touch()
    program("squeue", f"cat {queue}")
    full = (
        f"if [ -s {queue} ]; then echo 'error: Job violates accounting/QOS policy (job submit limit)' >&2; exit 1; fi"
    )
    line = f'echo "{US.join(("8", "RUNNING", "None", "$2"))}" > {queue}'
    program("sbatch", f'{full}\nwhile [ "$1" != -J ]; do shift; done; {line}; echo 8')


@pytest.mark.parametrize("more", [(), ("--at-once=1",), ("--wait",)])
def test_a_full_queue_is_waited_for_until_the_timeout(
    more: tuple[str, ...], program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    program("sinfo", "\n".join(shown("idle", name=name) for name in ("n1", "n2", "n3")))
    a_queue_for_one_job(program, tmp_path)
    assert main(["fleet", "run", "--sku=cpu", "--timeout=0.01", f"--output={folder}", *more]) == 6
    told = capsys.readouterr()
    assert "1 job submitted" in told.out
    again = f"'pytest-accel fleet run --output {folder}' submits their jobs"
    assert f"2 nodes left when --timeout was over; {again}" in told.err
    assert [each.node for each in load(folder).jobs] == ["n1"]
    if more == ("--wait",):
        assert [line.split("  ")[0] for line in told.out.splitlines()[-3:]] == [
            "no result",
            "running",
            "3 nodes: 2 no result, 1 running",
        ]

    (tmp_path / "queue").write_text("")  # job 8 has ended
    program("sbatch", "echo 9")
    assert main(["fleet", "run", f"--output={folder}", "--timeout=5"]) == 0
    assert "3 to submit" in capsys.readouterr().out


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_a_wrong_timeout_is_refused(minutes: str) -> None:
    with pytest.raises(SystemExit, match="4"):
        main(["fleet", "run", "--sku=cpu", f"--timeout={minutes}"])


def test_the_record_of_a_node_that_was_started_alone_lies_in_the_folder_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closing = {"line": "REJECTED gpu3", "word": "REJECTED", "exit": 1}
    write(Record(run={"host": "n1", "started": AT}, closing=closing, state="finished"), tmp_path)  # type: ignore[arg-type]
    assert main(["fleet", "report", str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith("rejected    n1  REJECTED gpu3")


def test_a_list_without_nodes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Fleet("1", AT, "0", (), 10), tmp_path)
    assert main(["fleet", "status", str(tmp_path)]) == 4
    assert "names no node that was expected" in capsys.readouterr().err
