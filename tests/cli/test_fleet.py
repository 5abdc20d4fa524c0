"""The command `pytest-accel fleet` where there is no Slurm, or one whose answers change between two questions."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import as_user
import pytest
from fabrics import ended, transport

from pytest_accel.cli.main import main
from pytest_accel.core.fabric import Conclusion, Fabric, FabricNode, GroupResult, Report, Round
from pytest_accel.core.run import Launch, Run, RunEntry
from pytest_accel.core.structured import plain
from pytest_accel.core.verdict import Closing
from pytest_accel.fleet.jobs import waiting
from pytest_accel.fleet.jobs.run_folder import ExpectedNode, Fleet, Submitted, load, save
from pytest_accel.run.record import TELEMETRY, seal, write

AT = "2026-11-23T01:00:00+00:00"


@pytest.fixture
def no_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


Program = Callable[[str, str], None]
"""Puts a program of Slurm on the path, by its name and the lines of its script."""
US = "\x1f"
ME, OTHER = str(os.geteuid()), str(os.geteuid() + 1)
"""The numbers of this user and of another one, as squeue shows them."""


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
    expected = (ExpectedNode("n1"), ExpectedNode("n2"), ExpectedNode("n3", skipped="down"))
    jobs = (Submitted("n1", "7", AT), Submitted("n2", "8", AT))
    save(Fleet("1", AT, "0", (), 10, expected=expected, jobs=jobs), tmp_path)
    (tmp_path / "n1").mkdir()
    closing = Closing("ACCEPTED 8/8 devices", 0, "ACCEPTED")
    run: RunEntry = {"host": "n1", "started": AT, "launcher": Launch("slurm", "n1", job="7")}
    write(Run(run=run, closing=closing, state="finished"), tmp_path / "n1")
    assert main(["fleet", "report", str(tmp_path)]) == 6
    told = capsys.readouterr()
    assert "squeue is not installed here" in told.err
    assert [line.split("  ")[0] for line in told.out.splitlines()] == [
        "no result",
        "skipped",
        "accepted",
        "3 nodes: 1 no result, 1 skipped, 1 accepted",
    ]
    options = ["--format", "json", "--output", str(tmp_path / "r.json")]
    assert main(["fleet", "report", str(tmp_path), *options]) == 6
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


def rejected(folder: Path, hours: float = 1.0, **changes: object) -> None:
    """Write a fleet's run whose only node n1 was rejected some hours ago."""
    at = (datetime.now(timezone.utc) - timedelta(hours=hours)).isoformat()
    save(Fleet("1", at, "0", (), 10, expected=(ExpectedNode("n1"),), jobs=(Submitted("n1", "7", at),)), folder)
    (folder / "n1").mkdir()
    run = {"host": "n1", "started": at, "launcher": {"name": "slurm", "node": "n1", "job": "7"}}
    devices = [{"uuid": "u0", "called": "gpu", "index": 0, "model": "m", "driver": "d"}]
    content = {
        "schema": 1,
        "limits": [],
        "run": run,
        "closing": REJECTED,
        "state": "finished",
        "devices": devices,
        "verdicts": [FAILED],
        "telemetry": {"file": TELEMETRY, "sha256": "0"},
        **changes,
    }
    (folder / "n1/record.json").write_text(json.dumps({**content, "sha256": seal(content)}))


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
    asked = Fleet("1", AT, "0", arguments, 10, expected=(ExpectedNode("n1"),), sku="cpu")
    save(replace(asked, jobs=(Submitted("n1", "7", AT),)), theirs)
    if begun:
        save(asked, folder)
    take = f"[ -e {moved} ] || {{ touch {moved}; cp {theirs}/fleet.json {folder}/fleet.json; }}"
    program("sinfo", f"{take}\n{shown('idle')}")
    program("squeue", f"echo '{US.join(('7', 'RUNNING', 'None', ME, '0', 'accel-1-n1'))}'")
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
    save(Fleet("1", AT, "0", (), 10, expected=(ExpectedNode("n1"),), jobs=(Submitted("n1", "7", AT),)), tmp_path)
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
    line = f'echo "{US.join(("8", "RUNNING", "None", ME, "0", "$2"))}" > {queue}'
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


def test_a_job_that_has_not_begun_is_cancelled_when_the_timeout_is_over(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else the next night would find it in the queue, and its result would lie where nobody looks."""
    queue = tmp_path / "queue"
    queue.touch()
    program("sinfo", "\n".join(shown("idle", name=name) for name in ("n1", "n2")))
    program("squeue", f"cat {queue}")
    states = 'case "$2" in *n1) s=RUNNING; n=8;; *) s=PENDING; n=9;; esac'
    line = f'echo "$n{US}$s{US}Resources{US}{ME}{US}0{US}$2" >> {queue}; echo $n'
    program("sbatch", f'while [ "$1" != -J ]; do shift; done; {states}; {line}')
    program("scancel", f"grep -v ^9 {queue} > {queue}.new; mv {queue}.new {queue}")
    run = ["fleet", "run", "--sku", "cpu", "--output", str(tmp_path / "run"), "--wait", "--timeout", "0.01"]
    assert main(run) == 6
    told = capsys.readouterr().out
    assert "1 job cancelled that had not begun when --timeout was over" in told
    assert [line.split("  ")[0] for line in told.splitlines()[-3:]] == [
        "no result",
        "running",
        "2 nodes: 1 no result, 1 running",
    ]
    assert "scancel 9\n" in (tmp_path / "bin/said").read_text()


def test_a_node_with_a_job_of_an_earlier_night_gets_no_second_one(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Unless it is somebody else's job, or has ended."""
    program("sinfo", "\n".join(shown("idle", name=name) for name in ("n1", "n2", "n3")))
    rows = [
        ("7", "PENDING", "Resources", ME, "0", "accel-20261122T010000Z-ab12-n1"),
        ("8", "PENDING", "Resources", OTHER, "0", "accel-20261122T010000Z-ab12-n2"),
        ("9", "COMPLETED", "None", ME, "0", "accel-20261122T010000Z-ab12-n3"),
    ]
    program("squeue", "\n".join(f"echo '{US.join(row)}'" for row in rows))
    program("sbatch", "echo 10")
    folder = tmp_path / "run"
    assert main(["fleet", "run", "--sku=cpu", f"--output={folder}"]) == 0
    assert {each.node for each in load(folder).jobs} == {"n2", "n3"}
    assert main(["fleet", "status", str(folder)]) == 6
    assert "skipped     n1  job 7 of another run is pending" in capsys.readouterr().out


@pytest.mark.parametrize("accepted", [False, True])
def test_a_rejection_that_came_late_is_seen_among_the_nights(
    accepted: bool, program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job of the first night began two nights later; the nights between skip its node. An acceptance lifts it."""
    nights = tmp_path / "nights"
    for night in ("1", "2", "3"):
        (nights / night).mkdir(parents=True)
        at = (datetime.now(timezone.utc) - timedelta(days=4 - int(night))).isoformat()
        skipped = "" if night == "1" else "job 7 of another run is pending"
        save(Fleet(night, at, "0", (), 10, expected=(ExpectedNode("n1", skipped=skipped),)), nights / night)
    late = tmp_path / "late"
    late.mkdir()
    rejected(late)
    (late / "n1").rename(nights / "1/n1")
    if accepted:
        (nights / "3/n1").mkdir()
        run: RunEntry = {"host": "n1", "started": (datetime.now(timezone.utc) - timedelta(minutes=1)).isoformat()}
        closing = Closing("ACCEPTED 8/8 devices", 0, "ACCEPTED")
        write(Run(run=run, closing=closing, state="finished"), nights / "3/n1")
    program("sinfo", shown("idle"))
    program("squeue", "")
    assert main(["fleet", "drain", str(nights)]) == (0 if accepted else 1)
    told = capsys.readouterr().out
    assert ("scontrol update nodename=n1 state=drain" in told) == (not accepted)
    assert main(["fleet", "report", str(nights)]) == (0 if accepted else 1)
    assert ("rejected    n1  REJECTED gpu0; in 1" in capsys.readouterr().out) == (not accepted)
    assert main(["fleet", "report", str(nights), "--nights=2"]) == (0 if accepted else 6)
    assert main(["fleet", "drain", str(nights), "--resume"]) == 4
    assert "holds several runs" in capsys.readouterr().err
    assert main(["fleet", "prune", str(nights), "--keep-nights=1"]) == 0
    assert len(list(nights.iterdir())) == 3, "without --yes nothing is removed"
    assert main(["fleet", "prune", str(nights), "--keep-nights=1", "--yes"]) == 0
    told = capsys.readouterr().out
    assert ("kept 1: n1 is rejected in it, and was not accepted since" in told) == (not accepted)
    assert sorted(each.name for each in nights.iterdir()) == (["3"] if accepted else ["1", "3"])
    assert main(["fleet", "prune", str(late), "--keep-nights=1"]) == 4


def test_a_run_that_is_cancelled_submits_no_more_jobs(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    program("sinfo", "\n".join(shown("idle", name=name) for name in ("n1", "n2", "n3")))
    a_queue_for_one_job(program, tmp_path)
    program("scancel", f": > {tmp_path / 'queue'}")
    line = [str(as_user.BIN / "pytest-accel"), "fleet", "run", "--sku=cpu", "--at-once=1", f"--output={folder}"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as submitting:
        while not (tmp_path / "queue").exists() or not (tmp_path / "queue").read_text():
            time.sleep(0.05)
        assert main(["fleet", "cancel", str(folder)]) == 0
        _, err = submitting.communicate(timeout=60)
    assert submitting.returncode == 6
    assert "2 nodes left when the run was cancelled" in err
    assert "1 job cancelled" in capsys.readouterr().out
    assert [each.node for each in load(folder).jobs] == ["n1"]
    program("sbatch", "echo 9")
    assert main(["fleet", "run", f"--output={folder}"]) == 0, "the run can be taken up again"


@pytest.mark.parametrize("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_a_wrong_timeout_is_refused(minutes: str) -> None:
    with pytest.raises(SystemExit, match="4"):
        main(["fleet", "run", "--sku=cpu", f"--timeout={minutes}"])


def test_the_record_of_a_node_that_was_started_alone_lies_in_the_folder_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closing = Closing("REJECTED gpu3", 1, "REJECTED")
    write(Run(run={"host": "n1", "started": AT}, closing=closing, state="finished"), tmp_path)
    assert main(["fleet", "report", str(tmp_path)]) == 1
    assert capsys.readouterr().out.startswith("rejected    n1  REJECTED gpu3")


def test_a_list_without_nodes_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(Fleet("1", AT, "0", (), 10), tmp_path)
    assert main(["fleet", "status", str(tmp_path)]) == 4
    assert "names no node that was expected" in capsys.readouterr().err


def test_an_old_rejection_drains_no_node(program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rejected(tmp_path, hours=200)
    program("squeue", "")
    program("scontrol", "")
    program("sinfo", shown("idle"))
    assert main(["fleet", "drain", str(tmp_path), "--yes"]) == 1
    assert "left alone: n1: rejected 8 d ago: measure it again, or allow it by --max-age" in capsys.readouterr().out
    assert "scontrol" not in (tmp_path / "bin/said").read_text()
    assert main(["fleet", "drain", str(tmp_path), "--yes", "--max-age", "240h"]) == 1
    assert "state=drain" in (tmp_path / "bin/said").read_text()


def test_a_long_run_is_as_old_as_its_end(program: Program, tmp_path: Path) -> None:
    ended = datetime.now(timezone.utc).isoformat()
    run = {"host": "n1", "started": AT, "ended": ended, "launcher": {"name": "slurm", "node": "n1", "job": "7"}}
    rejected(tmp_path, run={**run, "started": "2026-01-01T00:00:00+00:00"})
    program("squeue", "")
    program("scontrol", "")
    program("sinfo", shown("idle"))
    assert main(["fleet", "drain", str(tmp_path), "--yes"]) == 1
    assert "state=drain" in (tmp_path / "bin/said").read_text()


def test_jobs_of_another_user_are_not_submitted_again_nor_taken_for_those_of_the_run(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody who calls his job like one of the run neither holds it up nor is cancelled."""
    program("sinfo", "\n".join(shown("idle", name=name) for name in ("n1", "n2")))
    rows = (("7", "PENDING", "None", OTHER, "0", "accel-1-n1"), ("9", "RUNNING", "None", OTHER, "0", "accel-1-n2"))
    program("squeue", "\n".join(f"echo '{US.join(row)}'" for row in rows))
    program("scancel", "")
    program("sbatch", "echo 8")
    expected = (ExpectedNode("n1"), ExpectedNode("n2"))
    save(Fleet("1", AT, "0", ("--accel-sku=cpu",), 10, expected=expected, jobs=(Submitted("n1", "7", AT),)), tmp_path)
    assert main(["fleet", "run", "--output", str(tmp_path), "--dry-run"]) == 0
    assert "1 job for n2" in capsys.readouterr().out
    assert main(["fleet", "cancel", str(tmp_path)]) == 0
    said = (tmp_path / "bin/said").read_text()
    assert "scancel 7\n" in said
    assert "--me" not in said


def test_variables_of_the_operator_do_not_change_what_slurm_tells(
    program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SQUEUE_PARTITION", "SINFO_PARTITION", "SLURM_TIME_FORMAT", "SLURM_CLUSTERS", "SBATCH_ARRAY_INX"):
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("SBATCH_ACCOUNT", "acceptance")
    program("sinfo", f"env > {tmp_path}/sinfo\n{shown('idle')}")
    program("squeue", f"env > {tmp_path}/squeue")
    program("sbatch", f"env > {tmp_path}/sbatch\necho 8")
    assert main(["fleet", "run", "--sku", "cpu", "--output", str(tmp_path / "run")]) == 0
    for name in ("sinfo", "squeue", "sbatch"):
        variables = (tmp_path / name).read_text()
        assert "other" not in variables
        assert "SBATCH_ACCOUNT=acceptance" in variables


def whole(folder: Path, *names: str, arguments: tuple[str, ...] = ("--accel-sku=cpu",)) -> None:
    """Write a fleet's run whose nodes are all accepted."""
    jobs = tuple(Submitted(name, "7", AT) for name in names)
    save(Fleet("1", AT, "0", arguments, 10, expected=tuple(map(ExpectedNode, names)), jobs=jobs), folder)
    closing = Closing("ACCEPTED 8/8 devices", 0, "ACCEPTED")
    for name in names:
        (folder / name).mkdir()
        run: RunEntry = {"host": name, "started": AT, "launcher": Launch("slurm", "n1", job="7")}
        write(Run(run=run, closing=closing, state="finished"), folder / name)


def test_a_run_that_is_complete_says_that_nothing_was_measured(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole(tmp_path, "n1")
    program("sinfo", shown("idle"))
    program("squeue", "")
    assert main(["fleet", "run", "--output", str(tmp_path), "--wait"]) == 0
    said = capsys.readouterr().out
    assert "nothing is measured now: the results are those of runs that began 2026-11-23 01:00 UTC" in said


def test_what_a_run_is_continued_with_is_used_or_refused(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole(tmp_path, "n1", "n2", arguments=("--accel-sku=cpu", "-p", "no:cacheprovider", "-k", "stream"))
    program("sinfo", f"{shown('idle')}\n{shown('drained', 'fan', name='n2')}")
    program("squeue", "")
    program("scontrol", "echo n1; echo n2")
    go_on = ["fleet", "run", "--output", str(tmp_path), "--dry-run"]
    for other in (["--accel-waivers=w.yaml"], ["stream"]):
        assert main([*go_on, "--", *other]) == 4
        assert f"after --: {tmp_path} was begun otherwise" in capsys.readouterr().err
    assert main([*go_on, "--time=20", "--reservation=repair", "--again=n[1-2]", "--", "-k", "stream"]) == 0
    said = capsys.readouterr().out
    assert "no job for n2 of --again: drained: fan\n" in said
    assert "1 job for n1\n" in said
    assert "-t20 --reservation=repair" in said


def test_the_job_that_is_shown_is_the_one_that_is_submitted(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program("sinfo", shown("idle", name="n@1"))
    program("squeue", "")
    program("sbatch", "echo 8")
    run = ["fleet", "run", "--sku", "cpu", "--output", str(tmp_path / "run")]
    assert main([*run, "--dry-run"]) == 0
    shown_log = re.search(r"-o (\S+)", capsys.readouterr().out.split("the first one: ")[1])
    assert main(run) == 0
    submitted_log = re.search(r"sbatch .* -o (\S+)", (tmp_path / "bin/said").read_text())
    assert shown_log
    assert submitted_log
    assert shown_log[1] == submitted_log[1]


def test_what_the_operator_asks_of_sbatch_idle_nodes_and_what_follows_a_run(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program("sinfo", f"{shown('idle', name='n1')}; {shown('allocated', name='n2')}; {shown('mixed', name='n3')}")
    program("squeue", "true")
    program("sbatch", f"cat > {tmp_path}/script; echo 7")
    run, after = tmp_path / "run", f'echo "$ACCEL_STATUS $ACCEL_OUTPUT" > {tmp_path}/told'
    words = ["--account=acct", "--qos=low", "--begin=now+1hour", "--nice=100", "--idle", f"--after={after}"]
    assert main(["fleet", "run", "--sku=h100-sxm", f"--output={run}", *words]) == 0
    said = (tmp_path / "bin/said").read_text()
    assert "--account=acct --qos=low --begin=now+1hour --nice=100" in said
    assert said.count("sbatch ") == 1
    assert [(each.name, each.skipped) for each in load(run).expected] == [
        ("n1", ""),
        ("n2", "allocated"),
        ("n3", "mixed"),
    ]
    script = (tmp_path / "script").read_text()
    assert script.index("-m pytest") < script.index(after)
    short = re.sub(r".*-m pytest.*&", "(exit 6) &", script)
    assert subprocess.run(["/bin/sh", "-c", short], check=False).returncode == 6
    assert (tmp_path / "told").read_text() == f"6 {run}\n"
    slow = re.sub(r".*-m pytest.*&", "(trap 'sleep 1; exit 2' TERM; sleep 60 & wait) &", script)
    process = subprocess.Popen(["/bin/sh", "-c", slow])
    time.sleep(1)
    process.terminate()
    assert process.wait(20) == 2, "the run ends in order, and the job with its status"
    assert (tmp_path / "told").read_text() == f"2 {run}\n"


def test_a_typo_among_the_arguments_of_pytest_is_told_once_and_makes_no_folder(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program("sinfo", shown("idle"))
    program("squeue", "true")
    words = ["fleet", "run", "--sku=h100-sxm", f"--output={tmp_path / 'run'}", "--", "--accel-foo"]
    assert main(words) == 4
    assert "after --: unrecognized arguments: --accel-foo" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
    assert not (tmp_path / "bin/said").exists(), "Slurm was asked nothing"


def test_a_node_whose_job_is_still_to_be_submitted_waits(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else `status` calls nodes lost that `run --at-once` has not come to yet, and `wait` does not wait for them."""
    folder = tmp_path / "run"
    program("sinfo", "\n".join(shown("idle", name=name) for name in ("n1", "n2", "n3")))
    a_queue_for_one_job(program, tmp_path)
    program("scancel", f": > {tmp_path / 'queue'}")
    line = [str(as_user.BIN / "pytest-accel"), "fleet", "run", "--sku=cpu", "--at-once=1", f"--output={folder}"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as submitting:
        while not (tmp_path / "queue").exists() or not (tmp_path / "queue").read_text():
            time.sleep(0.05)
        status, told = main(["fleet", "status", str(folder)]), capsys.readouterr().out
        main(["fleet", "cancel", str(folder)])
        submitting.communicate(timeout=60)
    assert status == 6
    assert "waiting     n2,n3  its job is not submitted yet" in told
    assert main(["fleet", "status", str(folder)]) == 6
    assert "no result   n2,n3  no job was submitted" in capsys.readouterr().out


def test_the_exit_code_of_a_job_without_a_record_is_told(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As squeue of Slurm 22.05 shows it: 3 << 8 for `exit 3`, 9 where SIGKILL ended the job."""
    expected = tuple(map(ExpectedNode, ("n1", "n2")))
    jobs = (Submitted("n1", "7", AT), Submitted("n2", "8", AT))
    save(Fleet("1", AT, "0", (), 10, expected=expected, jobs=jobs), tmp_path)
    rows = (
        ("7", "FAILED", "NonZeroExitCode", ME, "768", "accel-1-n1"),
        ("8", "FAILED", "JobLaunchFailure", ME, "9", "accel-1-n2"),
    )
    program("squeue", "\n".join(f"echo '{US.join(row)}'" for row in rows))
    assert main(["fleet", "status", str(tmp_path)]) == 6
    told = capsys.readouterr().out
    assert "n1  job 7 ended as FAILED (NonZeroExitCode, exit status 3) without a record" in told
    assert "n2  job 8 ended as FAILED (JobLaunchFailure, signal 9) without a record" in told


@pytest.mark.slow
def test_a_node_that_is_busy_for_three_of_seven_nights_and_slow_is_drained_once(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A user's job holds it until the fourth night: no night before leaves a job behind, none after submits a second.

    The queue is a file. A job on a free node leaves the record of a rejection at once, and ends.
    """
    queue, nights, busy, reason = (tmp_path / name for name in ("queue", "nights", "busy", "reason"))
    queue.touch()
    busy.touch()
    record = tmp_path / "slow"
    record.mkdir()
    rejected(record)
    state = f"if [ -s {reason} ]; then s=drained; r=$(cat {reason}); t=$(cat {reason}.at); "
    state += f"elif [ -e {busy} ]; then s=allocated; r=none; t=Unknown; else s=idle; r=none; t=Unknown; fi"
    program("sinfo", f'{state}\necho "n1{US}$s{US}(null){US}all*{US}$t{US}$r"')
    program("squeue", f"cat {queue}")
    line = f'echo "$n{US}PENDING{US}Resources{US}{ME}{US}0{US}$2" >> {queue}'
    number = f"n=$((100 + $(grep -c ^sbatch {tmp_path}/bin/said)))"
    run = f"if [ -e {busy} ]; then {line}; else cp -r {record}/n1 $(cat {tmp_path}/night)/n1; fi"
    program("sbatch", f'while [ "$1" != -J ]; do shift; done; {number}; {run}; echo $n')
    program("scancel", f'for id; do grep -v "^$id" {queue} > {queue}.new; mv {queue}.new {queue}; done')
    stamp = f"date +%Y-%m-%dT%H:%M:%S > {reason}.at"
    program("scontrol", f'case "$*" in update*) echo "$4" | sed s/reason=// > {reason}; {stamp};; *) echo n1;; esac')
    drained = []
    for night in range(1, 8):
        if night == 4:
            busy.unlink()
        folder = nights / str(night)
        (tmp_path / "night").write_text(str(folder))
        main(["fleet", "run", "--sku=cpu", f"--output={folder}", "--wait", "--timeout=0.01"])
        assert not queue.read_text(), f"night {night} leaves a job behind"
        main(["fleet", "drain", str(nights), "--yes"])
        drained.append("drained n1" in capsys.readouterr().out)
    assert drained == [False, False, False, True, False, False, False]
    said = (tmp_path / "bin/said").read_text()
    assert said.count("sbatch ") == 4, "a drained node got a job"
    assert said.count("scontrol update") == 1
    assert main(["fleet", "status", str(nights)]) == 1


# -- the fabric run

FABRIC = ended(
    Fabric([FabricNode("n1"), FabricNode("n2\x1b[31m"), FabricNode("n3")]),
    transport(lambda kind, group: 30.0 if 1 in group else 45.0),
)


SLOW = "n2\\x1b[31m 33.3% behind the median of 3 nodes (45 GB/s) with each of 2 partners"


def a_cluster(program: Program, folder: Path, ends: str, then: str = "") -> list[str]:
    """Put a Slurm of three nodes on the path whose job ends at once as `ends`; return the command of a fabric run."""
    program("sinfo", f"{shown('idle')}; {shown('idle', name='n2')}; {shown('drained', 'fan', name='n3')}")
    program("scontrol", "echo n[1-2]")
    program("sbatch", f"cat > {folder}/script; echo $* > {folder}/words; {then}\necho 7")
    name = f"$(sed 's/.*-J \\([^ ]*\\).*/\\1/' {folder}/words)"
    program("squeue", f'test -e {folder}/words && echo "7{US}{ends}{US}None{US}{ME}{US}0{US}{name}"; true')
    return ["fleet", "fabric", "--sku=cpu", f"--output={folder / 'run'}"]


def test_a_fabric_run_is_one_job_on_all_nodes_that_can_start_one(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = a_cluster(program, tmp_path, "RUNNING")
    assert main([*command, "--qos=low", "--time=20", "--dry-run", "--", "-v"]) == 0
    said = capsys.readouterr().out
    assert "left out n3: drained: fan\n" in said
    command_line = said.splitlines()[1]
    assert command_line.startswith(
        "sbatch --parsable --exclusive --mem=0 --no-requeue --export=ALL -w n[1-2] -N2 -n2 -J ac"
    )
    assert re.search(r"-J accel-\S+-fabric -o \S+/jobs/fabric-%j.out -t20 .*--qos=low --no-kill$", command_line)
    script = said[said.index("#!/bin/sh") :]
    assert re.search(r"exec srun --ntasks-per-node=1 --kill-on-bad-exit=0 --no-kill --wait=0 \S+ -m pytest ", script)
    words = ("--accel-sku=cpu", "-v", "--accel-fabric", "--accel-time-limit=1140", f"--accel-output={tmp_path / 'run'}")
    assert all(word in script.split() for word in words), script
    assert not (tmp_path / "run").exists()
    assert main([*command, "--nodes=n1"]) == 4, "scontrol names two, of which sinfo shows three"
    program("sinfo", f"{shown('idle')}; {shown('drained', 'fan', name='n2')}")
    assert main(command) == 4
    assert "--nodes: 1 node can start a job, and a fabric run needs two" in capsys.readouterr().err


def test_a_fabric_run_ends_as_its_file_says_and_reports_name_it(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SETTLE", 0.0)
    (tmp_path / "fabric.json").write_text(json.dumps(plain(FABRIC)))
    run = tmp_path / "run"
    assert main(a_cluster(program, tmp_path, "COMPLETED", f"cp {tmp_path}/fabric.json {run}")) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[-3:] == [
        "slow  n2\\x1b[31m  30 GB/s, 67% of the median, with 2 partners",
        "3 nodes, 2 good: 6 rounds in 0 s; median of a rank 45 GB/s (no floor); together 45 GB/s (no floor)",
        f"REJECTED fabric: {SLOW}",
    ]
    assert load(run).jobs[0].node == "n1"
    assert main(["fleet", "report", str(run)]) == 6, "a node's own record rejects it, or nothing"
    assert f"fabric: REJECTED fabric: {SLOW}\n" in capsys.readouterr().out
    assert main(["fleet", "run", "--output", str(run)]) == 4
    assert "holds a 'fleet fabric', which is not continued" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ends", "left", "told"),
    [
        ("TIMEOUT", "", "fabric.json: cannot be read: No such file"),
        ("FAILED", "echo '{' > DIR/run/fabric.json", "fabric.json:"),
        ("FAILED", "cp DIR/unfinished DIR/run/fabric.json", "the fabric run did not come to its end; 6 rounds"),
        ("FAILED", "echo '{\"nodes\": 3}' > DIR/run/fabric.json", "is not the fabric.json of a fabric run"),
        (
            "FAILED",
            "cp DIR/hides DIR/run/fabric.json",
            f"closed as 'ACCEPTED fabric: all is well', and what it holds closes as 'REJECTED fabric: {SLOW}'",
        ),
        ("FAILED", "cp DIR/unknown DIR/run/fabric.json", "holds values that no run writes"),
    ],
)
def test_a_job_that_ends_without_the_file_judges_nothing_and_says_why(
    ends: str,
    left: str,
    told: str,
    program: Program,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waiting, "SETTLE", 0.0)
    (tmp_path / "unfinished").write_text(json.dumps(plain(replace(FABRIC, conclusion=Conclusion()))))
    well = replace(FABRIC.conclusion, closing=Closing("ACCEPTED fabric: all is well", 0, "ACCEPTED"))
    (tmp_path / "hides").write_text(json.dumps(plain(replace(FABRIC, conclusion=well))))
    odd = [Round("pairs", [GroupResult((0, 9), [Report("measured", 45.0)] * 2)])]
    (tmp_path / "unknown").write_text(json.dumps(plain(replace(FABRIC, rounds=odd))))
    said_last = "slurmstepd: error: no space left\\nsrun: error: n1: task 0: Exited with exit code 3"
    log = f"printf '{said_last}\\n' > {tmp_path}/run/jobs/fabric-7.out"
    assert main(a_cluster(program, tmp_path, ends, f"{log}; {left.replace('DIR', str(tmp_path))}")) == 6
    said = capsys.readouterr().out
    assert f"n[1-2]  job ended as {ends} without a record; their output ends: slurmstepd: error: no space left" in said
    assert "skipped     n3  drained: fan" in said
    assert told in said.splitlines()[-1]
    assert said.splitlines()[-1].startswith("NOT JUDGED fabric: ")
