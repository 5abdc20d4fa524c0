"""The command `pytest-accel fleet` where there is no Slurm, or one whose answers change between two questions."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from support import as_user
from support.networks import ended, transport
from support.rows import each_row

from pytest_accel.cli.main import main
from pytest_accel.core.network_run import Conclusion, GroupResult, NetworkNode, NetworkRun, Report, Round
from pytest_accel.core.run import Launch, Run, RunInfo
from pytest_accel.core.structured import plain
from pytest_accel.core.verdict import Closing, Result
from pytest_accel.fleet.jobs import waiting
from pytest_accel.fleet.jobs.run_folder import ExpectedNode, FleetRequest, SubmittedJob, load, save
from pytest_accel.run.record import TELEMETRY, seal, write

AT = "2026-11-23T01:00:00+00:00"
US = "\x1f"
ME, OTHER = str(os.geteuid()), str(os.geteuid() + 1)
"""The numbers of this user and of another one, as squeue shows them."""
Told = tuple[int, str]
"""The exit status of a command, and what it says, its errors first."""


class Slurm:
    """Programs of Slurm on the path, which add what they are called with to `said`, and the command beside them."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.run, self.queue, self._capsys = folder, folder / "run", folder / "queue", capsys
        (folder / "bin").mkdir()
        self.put(squeue="", scancel="", sbatch="echo 8", sinfo=shown("idle"))

    def put(self, **scripts: str) -> None:
        for name, script in scripts.items():
            program = self.folder / "bin" / name
            program.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.folder}/said\n{script}\n')
            program.chmod(0o755)

    def shows(self, *jobs: tuple[str, ...]) -> None:
        """Put jobs into the queue: id, state, reason, user, exit code, name."""
        self.put(squeue="\n".join(f"echo '{US.join(job)}'" for job in jobs))

    def takes_one_job(self) -> None:
        """Put three idle nodes there, and a queue that takes one job, which runs until the file `queue` is empty."""
        self.queue.touch()
        full = "error: Job violates accounting/QOS policy (job submit limit)"
        line = f'echo "{US.join(("8", "RUNNING", "None", ME, "0", "$2"))}" > {self.queue}'
        self.put(
            sinfo="\n".join(shown("idle", name=name) for name in ("n1", "n2", "n3")),
            squeue=f"cat {self.queue}",
            sbatch=f"[ -s {self.queue} ] && echo '{full}' >&2 && exit 1\n{SHIFT}; {line}; echo 8",
            scancel=f": > {self.queue}",
        )

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def fleet(self, *words: str | Path) -> Told:
        status = main(["fleet", *map(str, words)])
        told = self._capsys.readouterr()
        return status, told.err + told.out

    def start(self, *words: str) -> Told:
        """Run `fleet run` into the folder `run`."""
        return self.fleet("run", f"--output={self.run}", *words)

    def submitted(self) -> list[tuple[str, str]]:
        return [(each.node, each.job) for each in load(self.run).jobs]


SHIFT = 'while [ "$1" != -J ]; do shift; done'
"""Lines of sbatch after which "$2" is the name of the job."""


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Slurm:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return Slurm(tmp_path, capsys)


@pytest.fixture
def no_slurm(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> Slurm:
    monkeypatch.setenv("PATH", str(slurm.folder))
    return slurm


def shown(state: str, reason: str = "none", since: str = "Unknown", name: str = "n1") -> str:
    """The line of sinfo about a node, as a command that prints it."""
    return f"echo '{US.join((name, state, '(null)', 'all*', since, reason))}'"


def begun(
    folder: Path, *nodes: ExpectedNode, at: str = AT, arguments: tuple[str, ...] = (), **jobs: str
) -> FleetRequest:
    """Write a run for these nodes, some of which have jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    submitted = tuple(SubmittedJob(name, job, at) for name, job in jobs.items())
    asked = FleetRequest("1", at, "0", arguments, 10, expected=nodes, jobs=submitted, sku="cpu" if arguments else "")
    save(asked, folder)
    return asked


def accepted(folder: Path, started: str = AT) -> None:
    """Write the record of a node that is accepted, as job 7 leaves it."""
    folder.mkdir()
    run: RunInfo = {"host": folder.name, "started": started, "launcher": Launch("slurm", folder.name, job="7")}
    write(Run(info=run, closing=Closing("ACCEPTED 8/8 devices", 0, Result.ACCEPTED), state="finished"), folder)


def rejected(folder: Path, hours: float = 1.0, *, names: tuple[str, ...] = ("n1",)) -> None:
    """Write a fleet's run whose nodes were rejected some hours ago."""
    at = (datetime.now(timezone.utc) - timedelta(hours=hours)).isoformat()
    begun(folder, *map(ExpectedNode, names), at=at, arguments=(), **dict.fromkeys(names, "7"))
    for name in names:
        reject(folder / name, at)


def reject(folder: Path, at: str) -> None:
    """Write the record of a node that is rejected, as job 7 leaves it."""
    folder.mkdir()
    content = {
        "schema": 1,
        "limits": [],
        "info": {"host": folder.name, "started": at, "launcher": {"name": "slurm", "node": folder.name, "job": "7"}},
        "closing": {"line": "REJECTED gpu0", "result": "REJECTED", "exit": 1},
        "state": "finished",
        "devices": [{"uuid": "u0", "called": "gpu", "index": 0, "model": "m", "driver": "d"}],
        "verdicts": [{"metric": "matmul.bf16", "subject": "u0", "status": "FAIL"}],
        "telemetry": {"file": TELEMETRY, "sha256": "0"},
    }
    (folder / "record.json").write_text(json.dumps({**content, "sha256": seal(content)}))


def states(told: str, lines: int) -> list[str]:
    """The first column of the last lines of a report."""
    return [line.split("  ")[0] for line in told.splitlines()[-lines:]]


def test_without_slurm_a_run_says_what_is_missing(no_slurm: Slurm) -> None:
    status, told = no_slurm.start("--sku=h100-sxm")
    assert told == "sinfo is not installed here; run this on a host that can submit jobs to Slurm\n"
    assert (status, no_slurm.run.exists()) == (4, False)


def test_an_error_of_slurm_is_shown_without_the_format_that_it_was_asked_in(slurm: Slurm) -> None:
    slurm.put(sinfo="echo 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1")
    status, told = slurm.start("--sku=cpu")
    assert (status, told) == (4, "sinfo: slurm_load_partitions: Unable to contact slurm controller\n")


def test_without_slurm_a_report_goes_by_the_files(no_slurm: Slurm, tmp_path: Path) -> None:
    nodes = (ExpectedNode("n1"), ExpectedNode("n2"), ExpectedNode("n3", skipped="down"))
    begun(no_slurm.run, *nodes, n1="7", n2="8")
    accepted(no_slurm.run / "n1")
    status, told = no_slurm.fleet("report", no_slurm.run)
    assert (status, told.splitlines()[0]) == (6, "note: Slurm does not answer; states are from the files")
    assert states(told, 4) == ["no result", "skipped", "accepted", "3 nodes: 1 no result, 1 skipped, 1 accepted"]
    file = tmp_path / "r.json"
    assert no_slurm.fleet("report", no_slurm.run, "--format=json", f"--output={file}")[0] == 6
    assert '"state": "accepted"' in file.read_text()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "fleet.json"),
        ('{"format": 1, "expected": [{"name": 1, "colour": 2}]}', "or a damaged one"),
        ('{"format": 1, "id": "1", "created": "", "version": "", "arguments": [], "minutes": 1}', "no node"),
    ],
)
def test_a_folder_without_a_run_is_a_wrong_one(content: str, says: str, no_slurm: Slurm, tmp_path: Path) -> None:
    if content:
        (tmp_path / "fleet.json").write_text(content)
    told = {action: no_slurm.fleet(action, tmp_path) for action in ("status", "wait", "report", "drain", "cancel")}
    assert {action: each for action, each in told.items() if each[0] != 4 or says not in each[1]} == {}


def test_a_node_that_is_drained_while_the_plan_is_applied_keeps_its_reason(slurm: Slurm, tmp_path: Path) -> None:
    rejected(slurm.run)
    asked = tmp_path / "asked"
    slurm.put(scontrol="")
    slurm.put(sinfo=f"if [ -e {asked} ]; then {shown('drained', 'fan')}; else touch {asked}; {shown('idle')}; fi")
    status, told = slurm.fleet("drain", slurm.run, "--yes")
    assert (status, "left alone: n1: changed meanwhile: drained: fan" in told) == (1, True)
    assert "scontrol" not in slurm.said
    slurm.put(sinfo=shown("idle"))
    assert slurm.fleet("drain", slurm.run, "--yes")[0] == 1
    assert "state=drain reason=[accel] gpu0 matmul.bf16" in slurm.said


@pytest.mark.parametrize("begins", [False, True])
def test_a_run_sees_what_another_process_submitted_before_the_lock(begins: bool, slurm: Slurm, tmp_path: Path) -> None:
    """The other one begins the run, or submits the last job of it, while this one asks for the nodes."""
    theirs, moved = tmp_path / "theirs", tmp_path / "moved"
    slurm.run.mkdir()
    asked = begun(theirs, ExpectedNode("n1"), arguments=("--accel-sku=cpu", "-p", "no:cacheprovider"), n1="7")
    if begins:
        save(replace(asked, jobs=()), slurm.run)
    take = f"[ -e {moved} ] || {{ touch {moved}; cp {theirs}/fleet.json {slurm.run}/fleet.json; }}"
    slurm.put(sinfo=f"{take}\n{shown('idle')}")
    slurm.shows(("7", "RUNNING", "None", ME, "0", "accel-1-n1"))
    assert slurm.start("--sku=cpu")[0] == 0
    assert slurm.submitted() == [("n1", "7")]
    assert "sbatch" not in slurm.said


def test_a_killed_beginning_is_begun_again(slurm: Slurm) -> None:
    slurm.run.mkdir()
    (slurm.run / ".submitting").touch()
    assert slurm.start("--sku=cpu")[0] == 0
    assert (slurm.submitted(), load(slurm.run).sku) == ([("n1", "8")], "cpu")


def test_a_queue_that_never_answers_is_not_waited_for(no_slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(no_slurm.run, ExpectedNode("n1"), n1="7")
    for name, seconds in (("PATIENCE", 0.05), ("LEAST_PAUSE", 0.01), ("MOST_PAUSE", 0.01)):
        monkeypatch.setattr(waiting, name, seconds)
    status, told = no_slurm.fleet("wait", no_slurm.run)
    assert status == 6
    assert "note: Slurm does not answer; states are from the files\n" in told
    assert "1 node: 1 no result" in told


@pytest.mark.nightly
@pytest.mark.parametrize("more", [(), ("--at-once=1",), ("--wait",)])
def test_a_full_queue_is_waited_for_until_the_timeout(more: tuple[str, ...], slurm: Slurm) -> None:
    slurm.takes_one_job()
    status, told = slurm.start("--sku=cpu", "--timeout=0.01", *more)
    assert status == 6
    assert "1 job submitted" in told
    again = f"submit their jobs: pytest-accel fleet run --output {slurm.run}"
    assert f"2 nodes left when --timeout was over; {again}" in told
    assert slurm.submitted() == [("n1", "8")]
    if more == ("--wait",):
        assert states(told, 3) == ["no result", "running", "3 nodes: 2 no result, 1 running"]

    slurm.queue.write_text("")  # job 8 has ended
    slurm.put(sbatch="echo 9")
    status, told = slurm.start("--timeout=5")
    assert (status, "3 to submit" in told) == (0, True)


def test_a_job_that_has_not_begun_is_cancelled_when_the_timeout_is_over(slurm: Slurm) -> None:
    """Else the next night would find it in the queue, and its result would lie where nobody looks."""
    slurm.takes_one_job()
    state = 'case "$2" in *n1) s=RUNNING; n=8;; *) s=PENDING; n=9;; esac'
    line = f'echo "$n{US}$s{US}Resources{US}{ME}{US}0{US}$2" >> {slurm.queue}; echo $n'
    slurm.put(
        sinfo="\n".join(shown("idle", name=name) for name in ("n1", "n2")),
        sbatch=f"{SHIFT}; {state}; {line}",
        scancel=f"grep -v ^9 {slurm.queue} > {slurm.queue}.new; mv {slurm.queue}.new {slurm.queue}",
    )
    status, told = slurm.start("--sku=cpu", "--wait", "--timeout=0.01")
    assert status == 6
    assert "1 job cancelled that had not begun when --timeout was over" in told
    assert states(told, 3) == ["no result", "running", "2 nodes: 1 no result, 1 running"]
    assert "scancel 9\n" in slurm.said


def test_a_node_with_a_job_of_an_earlier_night_gets_no_second_one(slurm: Slurm) -> None:
    """Unless it is somebody else's job, or has ended."""
    slurm.put(sinfo="\n".join(shown("idle", name=name) for name in ("n1", "n2", "n3")))
    slurm.shows(
        ("7", "PENDING", "Resources", ME, "0", "accel-20261122T010000Z-ab12-n1"),
        ("8", "PENDING", "Resources", OTHER, "0", "accel-20261122T010000Z-ab12-n2"),
        ("9", "COMPLETED", "None", ME, "0", "accel-20261122T010000Z-ab12-n3"),
    )
    assert slurm.start("--sku=cpu")[0] == 0
    assert {node for node, _ in slurm.submitted()} == {"n2", "n3"}
    status, told = slurm.fleet("status", slurm.run)
    assert (status, "skipped     n1  job 7 of another run is pending" in told) == (6, True)


FOUR = ("n1", "n2", "n3", "n4")


def night(slurm: Slurm, folder: Path, days: int, *options: str, nodes: tuple[str, ...] = FOUR, bad: str = "") -> str:
    """Run a night that began some days ago; return its day. Slurm has these nodes, and `bad` is rejected."""
    at = datetime.now(timezone.utc) - timedelta(days=days)
    slurm.put(sinfo="\n".join(shown("idle", name=name) for name in nodes), sbatch="echo 7")
    slurm.put(scontrol="\n".join(["[ $2 = hostnames ] || exit 1", *(f"echo {name}" for name in nodes)]))
    assert slurm.fleet("run", "--sku=cpu", f"--output={folder}", *options)[0] == 0
    begun_now = load(folder)
    jobs = tuple(replace(each, at=at.isoformat()) for each in begun_now.jobs)
    save(replace(begun_now, created=at.isoformat(), jobs=jobs), folder)
    for name in nodes:
        (reject if name == bad else accepted)(folder / name, at.isoformat())
    return at.date().isoformat()


def test_a_partial_night_hides_no_node_of_the_last_full_one(slurm: Slurm, tmp_path: Path) -> None:
    """Each node has its newest result, with its day, and it is said which nodes were not in the last run."""
    nights = tmp_path / "nights"
    night(slurm, nights / "1", 3, bad="n2")
    day = night(slurm, nights / "2", 2, bad="n3")
    night(slurm, nights / "3", 1, "--nodes=n1", nodes=("n1",))
    status, told = slurm.fleet("report", nights)
    assert (status, told.splitlines()) == (1, [
        f"rejected    n3  REJECTED gpu0; in 2 of {day}; not in the last run",
        "accepted    n1",
        f"accepted    n2,n4  in 2 of {day}; not in the last run",
        "4 nodes: 1 rejected, 3 accepted",
    ])  # fmt: skip
    assert 'accel_fleet_nodes_expected{sku="cpu"} 4' in slurm.fleet("report", nights, "--format=prometheus")[1]
    pruned = slurm.fleet("prune", nights, "--keep-nights=1")[1]
    assert pruned.startswith("would remove 1\nkept 2: n3 is rejected in it, and was not accepted since\n")
    slurm.put(sinfo=shown("idle", name="n3"))
    assert "left alone: n3: rejected 2 d ago" in slurm.fleet("drain", nights)[1]


def test_a_node_that_was_removed_from_slurm_is_forgotten_with_the_next_full_night(slurm: Slurm, tmp_path: Path) -> None:
    """And not one of another partition. Where all runs name their nodes, --nights forgets."""
    nights = tmp_path / "nights"
    night(slurm, nights / "1", 3)
    night(slurm, nights / "2", 2, nodes=("n1", "n2", "n3"))
    assert slurm.fleet("report", nights)[1].endswith("accepted    n1,n2,n3\n3 nodes: 3 accepted\n")
    night(slurm, nights / "3", 1, "--partition=other", nodes=("m1",))
    assert slurm.fleet("report", nights)[1].endswith("\n4 nodes: 4 accepted\n")
    pruned = slurm.fleet("prune", nights, "--keep-nights=1")[1]
    assert pruned.startswith("would remove 1\nkept 2: it is the last run without --nodes\n")
    assert slurm.fleet("report", nights, "--nights=1")[1] == "accepted    m1\n1 node: 1 accepted\n"


def test_a_refused_drain_names_the_option_that_allows_it_and_the_command_that_shows_why(slurm: Slurm) -> None:
    rejected(slurm.run, names=("n1", "n2"))
    slurm.put(sinfo=f"{shown('idle')}\n{shown('idle', name='n2')}")
    status, told = slurm.fleet("drain", slurm.run)
    assert (status, told.splitlines()) == (4, [
        "refused: 2 nodes would be drained, and at most 1 of 2 nodes may be (--most=0.05); --most=1 allows it",
        f"look at the verdicts first: pytest-accel fleet report {slurm.run}",
    ])  # fmt: skip
    assert "2 nodes; nothing was changed" in slurm.fleet("drain", slurm.run, "--most=1")[1]


@pytest.mark.parametrize("lifted", [False, True])
def test_a_rejection_that_came_late_is_seen_among_the_nights(lifted: bool, slurm: Slurm, tmp_path: Path) -> None:
    """The job of the first night began two nights later; the nights between skip its node. An acceptance lifts it."""
    nights, late = tmp_path / "nights", tmp_path / "late"
    for night in ("1", "2", "3"):
        at = (datetime.now(timezone.utc) - timedelta(days=4 - int(night))).isoformat()
        skipped = "" if night == "1" else "job 7 of another run is pending"
        save(replace(begun(nights / night, ExpectedNode("n1", skipped=skipped), at=at), id=night), nights / night)
    rejected(late)
    (late / "n1").rename(nights / "1/n1")
    if lifted:
        accepted(nights / "3/n1", (datetime.now(timezone.utc) - timedelta(minutes=1)).isoformat())
    ends = 0 if lifted else 1
    status, told = slurm.fleet("drain", nights)
    assert (status, "scontrol update nodename=n1 state=drain" in told) == (ends, not lifted)
    status, told = slurm.fleet("report", nights)
    assert (status, "rejected    n1  REJECTED gpu0; in 1" in told) == (ends, not lifted)
    assert slurm.fleet("report", nights, "--nights=2")[0] == (0 if lifted else 6)
    status, told = slurm.fleet("drain", nights, "--resume")
    assert (status, "holds several runs" in told) == (4, True)
    assert slurm.fleet("prune", nights, "--keep-nights=1")[0] == 0
    assert len(list(nights.iterdir())) == 3, "without --yes nothing is removed"
    status, told = slurm.fleet("prune", nights, "--keep-nights=1", "--yes")
    assert (status, "kept 1: n1 is rejected in it, and was not accepted since" in told) == (0, not lifted)
    assert sorted(each.name for each in nights.iterdir()) == (["3"] if lifted else ["1", "3"])
    assert slurm.fleet("prune", late, "--keep-nights=1")[0] == 4


@contextmanager
def submitting(slurm: Slurm) -> Iterator[subprocess.Popen[str]]:
    """A process that submits one job for three nodes, and waits until it may submit the next one."""
    slurm.takes_one_job()
    line = [str(as_user.BIN / "pytest-accel"), "fleet", "run", "--sku=cpu", "--at-once=1", f"--output={slurm.run}"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not slurm.queue.read_text():
            time.sleep(0.05)
        yield process


@pytest.mark.nightly
def test_a_run_that_is_cancelled_submits_no_more_jobs(slurm: Slurm) -> None:
    """Before, the nodes that `run --at-once` has not come to yet are not lost, and `wait` waits for them."""
    with submitting(slurm) as process:
        before = slurm.fleet("status", slurm.run)
        cancelled = slurm.fleet("cancel", slurm.run)
        _, err = process.communicate(timeout=60)
    assert (before[0], "waiting     n2,n3  its job is not submitted yet" in before[1]) == (6, True)
    assert (cancelled[0], "1 job cancelled" in cancelled[1]) == (0, True)
    assert (process.returncode, "2 nodes left when the run was cancelled" in err) == (6, True)
    assert slurm.submitted() == [("n1", "8")]
    status, told = slurm.fleet("status", slurm.run)
    assert (status, "no result   n2,n3  no job was submitted" in told) == (6, True)
    slurm.put(sbatch="echo 9")
    assert slurm.start()[0] == 0, "the run can be taken up again"


@each_row("minutes", ["0", "-1", "nan", "inf", "soon"])
def test_a_wrong_timeout_is_refused(minutes: str) -> None:
    with pytest.raises(SystemExit, match="4"):
        main(["fleet", "run", "--sku=cpu", f"--timeout={minutes}"])


def test_the_record_of_a_node_that_was_started_alone_lies_in_the_folder_itself(slurm: Slurm) -> None:
    closing = Closing("REJECTED gpu3", 1, Result.REJECTED)
    slurm.run.mkdir()
    write(Run(info={"host": "n1", "started": AT}, closing=closing, state="finished"), slurm.run)
    status, told = slurm.fleet("report", slurm.run)
    assert (status, "rejected    n1  REJECTED gpu3" in told) == (1, True)


def test_an_old_rejection_drains_no_node(slurm: Slurm) -> None:
    rejected(slurm.run, hours=200)
    slurm.put(scontrol="")
    status, told = slurm.fleet("drain", slurm.run, "--yes")
    why = "left alone: n1: rejected 8 d ago: measure it again, or allow it by --max-age"
    assert (status, why in told, "scontrol" in slurm.said) == (1, True, False)
    assert slurm.fleet("drain", slurm.run, "--yes", "--max-age=240h")[0] == 1
    assert "state=drain" in slurm.said


def test_jobs_of_another_user_are_not_submitted_again_nor_taken_for_those_of_the_run(slurm: Slurm) -> None:
    """Somebody who calls his job like one of the run neither holds it up nor is cancelled."""
    slurm.put(sinfo="\n".join(shown("idle", name=name) for name in ("n1", "n2")))
    slurm.shows(
        ("7", "PENDING", "None", OTHER, "0", "accel-1-n1"),
        ("9", "RUNNING", "None", OTHER, "0", "accel-1-n2"),
    )
    begun(slurm.run, ExpectedNode("n1"), ExpectedNode("n2"), arguments=("--accel-sku=cpu",), n1="7")
    status, told = slurm.start("--dry-run")
    assert (status, "1 job for n2" in told) == (0, True)
    assert slurm.fleet("cancel", slurm.run)[0] == 0
    assert ("scancel 7\n" in slurm.said, "--me" in slurm.said) == (True, False)


def test_variables_of_the_operator_do_not_change_what_slurm_tells(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SQUEUE_PARTITION", "SINFO_PARTITION", "SLURM_TIME_FORMAT", "SLURM_CLUSTERS", "SBATCH_ARRAY_INX"):
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("SBATCH_ACCOUNT", "acceptance")
    asked = {"sinfo": shown("idle"), "squeue": "", "sbatch": "echo 8"}
    slurm.put(**{name: f"env > {tmp_path}/{name}.env\n{script}" for name, script in asked.items()})
    assert slurm.start("--sku=cpu")[0] == 0
    variables = [(tmp_path / f"{name}.env").read_text() for name in asked]
    assert [("other" in each, "SBATCH_ACCOUNT=acceptance" in each) for each in variables] == [(False, True)] * 3


def test_a_run_that_is_complete_says_that_nothing_was_measured(slurm: Slurm) -> None:
    begun(slurm.run, ExpectedNode("n1"), arguments=("--accel-sku=cpu",), n1="7")
    accepted(slurm.run / "n1")
    status, told = slurm.start("--wait")
    said = "nothing is measured now: the results are those of runs that began 2026-11-23 01:00 UTC"
    assert (status, said in told) == (0, True)


def test_what_a_run_is_continued_with_is_used_or_refused(slurm: Slurm) -> None:
    arguments = ("--accel-sku=cpu", "-p", "no:cacheprovider", "-k", "stream")
    begun(slurm.run, ExpectedNode("n1"), ExpectedNode("n2"), arguments=arguments, n1="7", n2="7")
    for name in ("n1", "n2"):
        accepted(slurm.run / name)
    slurm.put(sinfo=f"{shown('idle')}\n{shown('drained', 'fan', name='n2')}", scontrol="echo n1; echo n2")
    for other in ("--accel-waivers=w.yaml", "stream"):
        status, told = slurm.start("--dry-run", "--", other)
        assert (status, f"after --: {slurm.run} belongs to a run with other options (" in told) == (4, True)
    again = ("--time=20", "--reservation=repair", "--again=n[1-2]", "--", "-k", "stream")
    status, told = slurm.start("--dry-run", *again)
    assert status == 0
    assert "no job for n2 of --again: drained: fan\n" in told
    assert "1 job for n1\n" in told
    assert "-t20 --reservation=repair" in told


def test_commands_that_are_shown_can_be_pasted(slurm: Slurm) -> None:
    slurm.run = slurm.folder / "a b;touch x"
    slurm.takes_one_job()
    _, told = slurm.start("--sku=cpu", "--timeout=0.01")

    shown = [line.rpartition(": ")[2] for line in told.splitlines() if ": pytest-accel fleet " in line]
    words = [
        ["pytest-accel", "fleet", "wait", str(slurm.run)],
        ["pytest-accel", "fleet", "run", "--output", str(slurm.run)],
    ]
    assert sorted(map(shlex.split, shown)) == sorted(words)


def test_the_job_that_is_shown_is_the_one_that_is_submitted(slurm: Slurm) -> None:
    slurm.put(sinfo=shown("idle", name="n@1"))
    status, told = slurm.start("--sku=cpu", "--dry-run")
    assert (status, slurm.start("--sku=cpu")[0]) == (0, 0)
    (shown_log,) = re.findall(r"the first one: .* -o (\S+)", told)
    assert re.findall(r"sbatch .* -o (\S+)", slurm.said) == [shown_log]


@pytest.mark.nightly
def test_what_the_operator_asks_of_sbatch_idle_nodes_and_what_follows_a_run(slurm: Slurm, tmp_path: Path) -> None:
    nodes = {"n1": "idle", "n2": "allocated", "n3": "mixed"}
    slurm.put(
        sinfo="; ".join(shown(state, name=name) for name, state in nodes.items()),
        sbatch=f"cat > {tmp_path}/script; echo 7",
    )
    after = f'echo "$ACCEL_STATUS $ACCEL_OUTPUT" > {tmp_path}/told'
    words = ["--account=acct", "--qos=low", "--begin=now+1hour", "--nice=100"]
    assert slurm.start("--sku=h100-sxm", *words, "--idle", f"--after={after}")[0] == 0
    assert (" ".join(words) in slurm.said, slurm.said.count("sbatch ")) == (True, 1)
    expected = {each.name: each.skipped for each in load(slurm.run).expected}
    assert expected == {"n1": "", "n2": "allocated", "n3": "mixed"}
    script = (tmp_path / "script").read_text()
    assert script.index(" pytest --accel-sku") < script.index(after)
    short = re.sub(r".* pytest --accel-sku.*&", "(exit 6) &", script)
    assert subprocess.run(["/bin/sh", "-c", short], check=False).returncode == 6
    assert (tmp_path / "told").read_text() == f"6 {slurm.run}\n"
    slow = re.sub(r".* pytest --accel-sku.*&", "(trap 'sleep 1; exit 2' TERM; sleep 60 & wait) &", script)
    process = subprocess.Popen(["/bin/sh", "-c", slow])
    time.sleep(1)
    process.terminate()
    assert process.wait(20) == 2, "the run ends in order, and the job with its status"
    assert (tmp_path / "told").read_text() == f"2 {slurm.run}\n"


def test_a_typo_among_the_arguments_of_pytest_is_told_once_and_makes_no_folder(slurm: Slurm, tmp_path: Path) -> None:
    status, told = slurm.start("--sku=h100-sxm", "--", "--accel-foo")
    assert (status, "after --: unrecognized arguments: --accel-foo" in told, slurm.run.exists()) == (4, True, False)
    assert not (tmp_path / "said").exists(), "Slurm was asked nothing"


def test_the_exit_code_of_a_job_without_a_record_is_told(slurm: Slurm) -> None:
    """As squeue of Slurm 22.05 shows it: 3 << 8 for `exit 3`, 9 where SIGKILL ended the job."""
    begun(slurm.run, ExpectedNode("n1"), ExpectedNode("n2"), n1="7", n2="8")
    slurm.shows(
        ("7", "FAILED", "NonZeroExitCode", ME, "768", "accel-1-n1"),
        ("8", "FAILED", "JobLaunchFailure", ME, "9", "accel-1-n2"),
    )
    status, told = slurm.fleet("status", slurm.run)
    assert status == 6
    assert "n1  job 7 ended as FAILED (NonZeroExitCode, exit status 3) without a record" in told
    assert "n2  job 8 ended as FAILED (JobLaunchFailure, signal 9) without a record" in told


@pytest.mark.nightly
def test_a_node_that_is_busy_for_three_of_seven_nights_and_slow_is_drained_once(slurm: Slurm, tmp_path: Path) -> None:
    """A user's job holds it until the fourth night: no night before leaves a job behind, none after submits a second.

    The queue is a file. A job on a free node leaves the record of a rejection at once, and ends.
    """
    queue, nights, busy, reason, record = (tmp_path / name for name in ("queue", "nights", "busy", "reason", "slow"))
    queue.touch()
    busy.touch()
    rejected(record)
    state = f"if [ -s {reason} ]; then s=drained; r=$(cat {reason}); t=$(cat {reason}.at); "
    state += f"elif [ -e {busy} ]; then s=allocated; r=none; t=Unknown; else s=idle; r=none; t=Unknown; fi"
    line = f'echo "$n{US}PENDING{US}Resources{US}{ME}{US}0{US}$2" >> {queue}'
    number = f"n=$((100 + $(grep -c ^sbatch {tmp_path}/said)))"
    run = f"if [ -e {busy} ]; then {line}; else cp -r {record}/n1 $(cat {tmp_path}/night)/n1; fi"
    stamp = f"date +%Y-%m-%dT%H:%M:%S > {reason}.at"
    slurm.put(
        sinfo=f'{state}\necho "n1{US}$s{US}(null){US}all*{US}$t{US}$r"',
        squeue=f"cat {queue}",
        sbatch=f"{SHIFT}; {number}; {run}; echo $n",
        scancel=f'for id; do grep -v "^$id" {queue} > {queue}.new; mv {queue}.new {queue}; done',
        scontrol=f'case "$*" in update*) echo "$4" | sed s/reason=// > {reason}; {stamp};; *) echo n1;; esac',
    )
    drained = []
    for night in range(1, 8):
        if night == 4:
            busy.unlink()
        (tmp_path / "night").write_text(str(nights / str(night)))
        slurm.fleet("run", "--sku=cpu", f"--output={nights / str(night)}", "--wait", "--timeout=0.01")
        assert not queue.read_text(), f"night {night} leaves a job behind"
        drained.append("drained n1" in slurm.fleet("drain", nights, "--yes")[1])
    assert drained == [False, False, False, True, False, False, False]
    assert slurm.said.count("sbatch ") == 4, "a drained node got a job"
    assert slurm.said.count("scontrol update") == 1
    assert slurm.fleet("status", nights)[0] == 1


# -- the network run

NETWORK = ended(
    NetworkRun([NetworkNode("n1"), NetworkNode("n2\x1b[31m"), NetworkNode("n3")]),
    transport(lambda kind, group: 30.0 if 1 in group else 45.0),
)


SLOW = "n2\\x1b[31m 33.3% behind the median of 3 nodes (45 GB/s) with each of 2 partners"


def a_cluster(slurm: Slurm, ends: str, then: str = "") -> list[str]:
    """Have a Slurm of three nodes whose job ends at once as `ends`; return the words of a network run."""
    words = slurm.folder / "words"
    name = f"$(sed 's/.*-J \\([^ ]*\\).*/\\1/' {words})"
    slurm.put(
        sinfo=f"{shown('idle')}; {shown('idle', name='n2')}; {shown('drained', 'fan', name='n3')}",
        scontrol="echo n[1-2]",
        sbatch=f"cat > {slurm.folder}/script; echo $* > {words}; {then}\necho 7",
        squeue=f'test -e {words} && echo "7{US}{ends}{US}None{US}{ME}{US}0{US}{name}"; true',
    )
    return ["network", "--sku=cpu", f"--output={slurm.run}"]


def test_a_network_run_is_one_job_on_all_nodes_that_can_start_one(slurm: Slurm) -> None:
    command = a_cluster(slurm, "RUNNING")
    status, said = slurm.fleet(*command, "--qos=low", "--time=20", "--dry-run", "--", "-v")
    assert (status, "left out n3: drained: fan\n" in said) == (0, True)
    (line,) = [each for each in said.splitlines() if each.startswith("sbatch")]
    assert line.startswith("sbatch --parsable --exclusive --mem=0 --no-requeue --export=ALL -w n[1-2] -N2 -n2 -J ac")
    assert re.search(r"-J accel-\S+-network -o \S+/jobs/network-%j.out -t20 .*--qos=low --no-kill$", line)
    script = said[said.index("#!/bin/sh") :]
    assert re.search(
        r"exec srun --ntasks-per-node=1 --kill-on-bad-exit=0 --no-kill --wait=0 \S+ -c '.*' pytest --", script
    )
    words = {"--accel-sku=cpu", "-v", "--accel-network", "--accel-time-limit=1140", f"--accel-output={slurm.run}"}
    assert words - set(script.split()) == set()
    assert not slurm.run.exists()
    assert slurm.fleet(*command, "--nodes=n1")[0] == 4, "scontrol names two, of which sinfo shows three"
    slurm.put(sinfo=f"{shown('idle')}; {shown('drained', 'fan', name='n2')}")
    status, said = slurm.fleet(*command)
    assert (status, "--nodes: 1 node can start a job, and a network run needs two" in said) == (4, True)


def test_a_network_run_ends_as_its_file_says_and_reports_name_it(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SETTLE", 0.0)
    (tmp_path / "network.json").write_text(json.dumps(plain(NETWORK)))
    then = f"cp {tmp_path}/network.json {slurm.run}; stat -c '%a %s' {slurm.run}/network.secret > {tmp_path}/mode"
    status, said = slurm.fleet(*a_cluster(slurm, "COMPLETED", then))
    assert status == 1
    assert (tmp_path / "mode").read_text() == "600 64\n", "the secret of the run is there before its job"
    secret = (slurm.run / "network.secret").read_text()
    others = [path for path in slurm.folder.rglob("*") if path.is_file() and path.name != "network.secret"]
    assert not [path for path in others if secret in path.read_text(errors="replace")]
    assert said.splitlines()[-3:] == [
        "slow  n2\\x1b[31m  30 GB/s, 67% of the median, with 2 partners",
        "3 nodes, 2 good: 6 rounds in 0 s; median of a rank 45 GB/s (no floor); together 45 GB/s (no floor)",
        f"REJECTED network: {SLOW}",
    ]
    assert [node for node, _ in slurm.submitted()] == ["n1", "n2"]
    status, said = slurm.fleet("report", slurm.run)
    assert status == 6, "a node's own record rejects it, or nothing"
    assert f"network: REJECTED network: {SLOW}\n" in said
    status, said = slurm.start()
    assert (status, "holds a 'fleet network', which is not continued" in said) == (4, True)


WELL = replace(NETWORK.conclusion, closing=Closing("ACCEPTED network: all is well", 0, Result.ACCEPTED))
ODD = [Round("pairs", [GroupResult((0, 9), [Report("measured", 45.0)] * 2)])]
UNFINISHED = json.dumps(plain(replace(NETWORK, conclusion=Conclusion())))
HIDES = json.dumps(plain(replace(NETWORK, conclusion=WELL)))
UNKNOWN = json.dumps(plain(replace(NETWORK, rounds=ODD)))


@pytest.mark.parametrize(
    ("ends", "left", "told"),
    [
        ("TIMEOUT", "", "network.json: cannot be read: No such file"),
        ("FAILED", "{", "network.json:"),
        ("FAILED", UNFINISHED, "the network run did not come to its end; 6 rounds"),
        ("FAILED", '{"nodes": 3}', "is not the network.json of a network run"),
        (
            "FAILED",
            HIDES,
            f"as 'ACCEPTED network: all is well', and what it holds closes as 'REJECTED network: {SLOW}'",
        ),
        ("FAILED", UNKNOWN, "holds values that no run writes"),
    ],
    ids=["none", "torn", "unfinished", "other", "hides", "unknown"],
)
def test_a_job_that_ends_without_the_file_judges_nothing_and_says_why(
    ends: str, left: str, told: str, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "SETTLE", 0.0)
    (slurm.folder / "left").write_text(left)
    last = "slurmstepd: error: no space left\\nsrun: error: n1: task 0: Exited with exit code 3"
    leaves = f"printf '{last}\\n' > {slurm.run}/jobs/network-7.out"
    leaves += f"; cp {slurm.folder}/left {slurm.run}/network.json" if left else ""
    status, said = slurm.fleet(*a_cluster(slurm, ends, leaves))
    assert status == 6
    assert f"n[1-2]  job ended as {ends} without a record; their output ends: slurmstepd: error: no space left" in said
    assert "skipped     n3  drained: fan" in said
    closing = said.splitlines()[-1]
    assert (closing.startswith("NOT JUDGED network: "), told in closing) == (True, True), closing
