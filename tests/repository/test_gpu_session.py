"""A session on a GPU cannot fail for silly reasons: what it lacks, and what breaks in it, costs that and no more.

The steps are programs of a line in the places of the real ones; tests/repository/test_benchmarks.py runs those.
"""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import subprocess
import sys
import tarfile
import textwrap
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from support import packaged_suite, shipped
from support.rows import each_row

from pytest_accel.core.sku_types import Sku
from pytest_accel.probes.declare import declaration_for
from pytest_accel.skus import loader
from pytest_accel.skus.budgets import budget
from pytest_accel.skus.peaks import why_not_applicable

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

import compare  # noqa: E402  programs, not a package
import gpu_session  # noqa: E402
import session_report  # noqa: E402
import verify  # noqa: E402
from session import Session, Step  # noqa: E402

SLOW_MEMORY = """
sku: h200-sxm
platform: single
faults: [{fault: slow-memory, device: 0}]
"""
HELD = {"run": "V6", "what": "memory", "predicted": "", "found": {"triad": 4.2}, "result": "HELD", "seconds": 1.0}


def program(text: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text)]


def run(folder: Path, *steps: Step, seconds: float = 60.0) -> Session:
    folder.mkdir(exist_ok=True)
    session = Session(folder, time.monotonic() + seconds, steps, session_report.report)
    session.run()
    return session


def packed(session: Session, name: str) -> str:
    with tarfile.open(session.archive) as archive:
        member = archive.extractfile(f"{session.folder.name}/{name}")
        assert member
        return member.read().decode()


def chosen(*arguments: str, monkeypatch: pytest.MonkeyPatch, part: str = "h200-sxm") -> list[Step]:
    monkeypatch.setattr(sys, "argv", ["gpu_session.py", *arguments])
    return gpu_session.steps(gpu_session.parse(), Path("/folder"), part, part)


# -- steps and their deadlines


@pytest.mark.nightly
def test_a_step_that_overruns_is_ended_and_what_it_had_is_kept(tmp_path: Path) -> None:
    """It ends at twice its plan with all that it started; its row and the steps after it are there."""
    row = json.dumps(HELD)
    hangs = program(f"""
        import subprocess, sys, time
        print({row!r}, flush=True)
        subprocess.run([sys.executable, "-c", "import time; time.sleep(300)", "{tmp_path}"])
    """)

    session = run(
        tmp_path / "s",
        Step("V6", 2.0, hangs, "verify", ("V6", "V7")),
        Step("V8", 1.0, program(f"print({row.replace('V6', 'V8')!r})"), "verify", ("V8",)),
    )

    said = packed(session, "session.md")
    assert "| V6 | 2 | " in said
    assert "STOPPED at its deadline of 4 s" in said
    assert re.search(r"^\| V6 .*triad 4\.2 \| HELD \|", said, re.MULTILINE)
    assert re.search(r"^\| V7 .*NOT RUN: STOPPED at its deadline", said, re.MULTILINE)
    assert re.search(r"^\| V8 .*triad 4\.2 \| HELD \|", said, re.MULTILINE)
    assert not [each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in (each.info["cmdline"] or [])]


def test_a_step_that_crashes_costs_its_own_rows(tmp_path: Path) -> None:
    """Also one whose output is not ours to read: a line that only begins like JSON."""
    crashes = program("import os; print('{broken', flush=True); os.abort()")
    fails = program("raise RuntimeError('CUDA error: an illegal memory access')")

    session = run(
        tmp_path / "s",
        Step("V2", 5.0, crashes, "verify", ("V2",)),
        Step("V3", 5.0, fails, "verify", ("V3",)),
        Step("quick", 5.0, program("print('ACCEPTED 1/1 devices\\nrecord: here')")),
        Step("every", 5.0, program("print('ERROR: cpu0 is being measured by pid 7\\n'); raise SystemExit(4)")),
    )

    said = packed(session, "session.md")
    assert re.search(r"^\| V2 .*NOT RUN: BROKE with -6: \{broken", said, re.MULTILINE)
    assert re.search(r"^\| V3 .*NOT RUN: BROKE with 1: RuntimeError: CUDA error: an illegal", said, re.MULTILINE)
    assert "* quick: `ACCEPTED 1/1 devices`" in said
    assert "* every: `ERROR: cpu0 is being measured by pid 7`" in said
    assert re.search(r"^\* every: no record: .*s/every.*", said, re.MULTILINE)
    assert "Steps: 2 ran to their end, 2 broke, 0 stopped, 0 not run, 0 cut." in said


@pytest.mark.nightly
def test_the_summary_has_the_verdict_of_a_run_of_the_suite(tmp_path: Path) -> None:
    """Behind it the run prints the next step, how to repeat it, and the record."""
    suite = "--accel-simulate=h200-sxm", "--accel-platform=single", "-k", "inventory_node"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *suite]

    session = run(tmp_path / "s", Step("quick", 30.0, command))

    assert "* quick: `SIMULATED REJECTED node: inventory.count 8 devices, expected 1`" in packed(session, "session.md")
    log = packed(session, "quick.log")
    assert all(f"\n{title}: " in log for title in ("next", "again", "record"))


def simulated(folder: Path, selected: str, seconds: float) -> Step:
    """Return a run of the packaged suite on a simulated H200 whose memory is slow, with `seconds` planned."""
    (folder / "node.yaml").write_text(SLOW_MEMORY)
    (folder / "s").mkdir()
    (folder / "s/pytest.ini").write_text("[pytest]\n")
    options = f"--accel-simulate={folder / 'node.yaml'}", "--accel-sku=h200-sxm", "--accel-platform=single"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pytest.ini", *options]
    return Step("every", seconds, [*command, f"--accel-output={folder / 's/every'}", "-k", selected])


@pytest.mark.nightly
def test_the_summary_has_every_verdict_that_is_not_pass_with_its_figures(tmp_path: Path) -> None:
    """From the record. What holds is counted alone; of what is measured, what is not applicable is named."""
    session = run(
        tmp_path / "s", simulated(tmp_path, "test_stream or test_health or test_peer_copy_all", 120.0), seconds=240.0
    )

    said = packed(session, "session.md")
    peers = "not applicable of what is measured: .*peer_copy_all.rounds, peer_copy_all.all"
    assert re.search(rf"^\* every: finished: 2 FAIL, \d+ PASS, \d+ NOT APPLICABLE; {peers}$", said, re.MULTILINE)
    rows = re.findall(r"^\| every \| ([a-z]+\..*) \|$", said, re.MULTILINE)
    floor = shipped.load("h200-sxm").limits["stream.triad"].floor
    assert [row.partition(" ")[0] for row in rows] == ["stream.copy_kernel", "stream.triad"]
    triad = re.fullmatch(r"stream.triad \| gpu0 \| FAIL \| (\d+) GB/s \| floor (\d+) GB/s \| (-.*)% \| (.*)", rows[1])
    assert triad, rows
    assert floor
    assert int(triad[2]) == pytest.approx(floor, abs=1)
    assert float(triad[3]) == pytest.approx(100 * (int(triad[1]) / floor - 1), abs=0.1)
    assert "unexplained at the memory's full clock" in triad[4]
    assert [one["status"] for one in session.found["steps"]["every"]["verdicts"]] == ["FAIL", "FAIL"]


def test_the_archive_is_whole_after_every_step(tmp_path: Path) -> None:
    """The second step finds the results of the first in it."""
    look = f"import tarfile; print(tarfile.open({str(tmp_path / 's.tar.gz')!r}).getnames())"

    session = run(tmp_path / "s", Step("quick", 5.0, program("print('HELD')")), Step("soak", 5.0, program(look)))

    assert session.archive == tmp_path / "s.tar.gz"
    assert "s/quick.log" in session.found["steps"]["soak"]["closing"]
    assert "s/soak.log" in tarfile.open(session.archive).getnames()


def test_what_no_longer_fits_is_not_begun_and_what_fits_is(tmp_path: Path) -> None:
    session = run(
        tmp_path / "s",
        Step("soak", 90.0, program("print('never')")),
        Step("V7", 5.0, program("pass"), "verify", ("V7",)),
        seconds=20.0,
    )

    assert session.found["steps"]["soak"]["result"] == "NOT RUN: it is planned with 90 s, and 20 were left"
    assert session.found["steps"]["V7"]["result"] == "ended with 0"


def test_an_archive_that_cannot_be_written_does_not_end_the_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.tar.gz").mkdir()

    session = run(tmp_path / "s", Step("quick", 5.0, program("print('HELD')")))

    assert "could not be written" in capsys.readouterr().out
    assert session.found["steps"]["quick"]["closing"] == "HELD"


def test_a_folder_that_is_there_is_no_reason_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    folders = [gpu_session.new_folder(tmp_path).name for _ in range(3)]

    assert folders == ["session", "session-2", "session-3"]
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_disk_that_is_full_costs_the_summary_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    session = Session(tmp_path, time.monotonic() + 60.0, [Step("V6", 1.0)], session_report.report)
    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr(session, "_process", full)

    session.run()

    assert session.found["steps"]["V6"]["result"] == "BROKE: [Errno 28] No space left on device"
    assert (tmp_path / "session.md").read_text().startswith("# A session"), "the one before stays"


# -- the plan


def test_the_steps_come_in_the_order_of_their_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [each.name for each in chosen(monkeypatch=monkeypatch)]
    assert names == list(gpu_session.WORTH)
    runs = {run for each in chosen(monkeypatch=monkeypatch) for run in each.runs}
    assert runs == set(verify.RUNS) | set(compare.PLANS)
    of_h100 = [each.name for each in chosen(monkeypatch=monkeypatch, part="h100-sxm")]
    assert of_h100[-2:] == ["V1", "V12"], "they say what an H200 does"


@each_row(
    ("asked", "devices", "sku", "platform"),
    [
        ("auto", 1, "h100-sxm", "single"),
        ("auto", 8, "h100-sxm", "auto"),
        ("hgx8", 1, "h100-sxm", "hgx8"),
        ("auto", 1, "cpu", "auto"),
        ("auto", 1, "auto", "auto"),
        ("auto", 0, "", "auto"),
    ],
)
def test_one_device_alone_is_named_as_such(asked: str, devices: int, sku: str, platform: str) -> None:
    """A platform that was recognised by the number of its devices is never accepted."""
    options = argparse.Namespace(platform=asked)
    assert gpu_session.platform_of(options, {"devices": devices}, sku) == platform


def test_a_part_that_is_named_is_measured_though_the_first_look_failed() -> None:
    """It may only have been too slow; each step says itself what it lacks."""
    named, unnamed = (argparse.Namespace(cpu=False, sku=sku) for sku in ("h200-sxm", "auto"))
    assert gpu_session.subject(named, {})[0] == "h200-sxm"
    assert gpu_session.subject(unnamed, {})[0] == ""
    assert gpu_session.subject(named, {"gpu": False, "why": "torch.cuda sees none"})[0] == ""


def test_the_plan_of_seven_minutes_has_what_is_worth_most_and_says_what_does_not_fit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gpu_session.py", "--plan"])
    gpu_session.main()
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]

    fits = [name for name, _, total in rows[1:] if not total.startswith("NOT RUN")]
    assert fits[:6] == ["quick", "every", "soak", "V6", "V2", "records"]
    sums = [float(total) for _, _, total in rows if not total.startswith("NOT RUN")]
    assert sums == sorted(sums)
    assert sums[-1] <= 7 * 60 - gpu_session.RESERVE
    assert all(
        re.fullmatch(r"NOT RUN: (\d+ s are left|no folder .*)", total)
        for name, _, total in rows[1:]
        if name not in fits
    )
    assert {name for name, _, _ in rows[1:]} == set(gpu_session.WORTH)


def measured_alone(level: str, sku: Sku) -> dict[str, float]:
    """Return the budgets of what the packaged suite measures on one device alone, by metric."""
    every = {(each.probe, repr(each.conditions)): each.metric for each in packaged_suite.requests()}
    alone = sku.platforms["single"]
    asked = [(declaration_for(probe), metric) for (probe, _), metric in every.items()]
    return {
        metric: budget(declared, metric, level, sku)
        for declared, metric in asked
        if not why_not_applicable(sku, metric, alone)
    }


def test_quick_is_planned_with_its_budgets_and_what_is_around_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """On one device, where nothing is copied to a peer. V11 predicts no less than that."""
    seconds = sum(measured_alone("quick", shipped.load("h200-sxm")).values())
    starting = 30.0

    assert seconds + starting <= gpu_session.QUICK
    assert verify.RUNS["V11"].predicted["seconds"][1] >= seconds + starting


@pytest.mark.parametrize("sku", ["h100-sxm", "h200-sxm"])
def test_every_metric_of_standard_is_planned_with_little_time_in_two_minutes(sku: str, tmp_path: Path) -> None:
    """Of one device: the budgets, and what is around them."""
    gpu_session.write_files(tmp_path, sku, 60.0)
    own = loader.load(str(tmp_path / "every.yaml"))
    budgets = measured_alone("standard", own)
    starting = 30.0

    assert sum(budgets.values()) + starting <= gpu_session.EVERY <= 120
    shipped_budgets = measured_alone("standard", shipped.load(sku))
    assert budgets.keys() == shipped_budgets.keys()
    assert all(0 < budgets[metric] <= most for metric, most in shipped_budgets.items() if most)
    assert loader.load(str(tmp_path / "soak.yaml")).budgets["standard"] == {"soak": 60.0}


def test_no_time_is_kept_for_tools_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without builds the kernels of stream.cu alone; with a folder of builds those that are in it."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "nvbandwidth").write_text("")

    without, given = chosen(monkeypatch=monkeypatch), chosen("--peers", str(tmp_path), monkeypatch=monkeypatch)

    assert {each.name for each in without if each.table == "compare" and not each.lacks} == {"CUDA kernels"}
    assert {each.name for each in given if not each.lacks} - {each.name for each in without if not each.lacks} == {
        "nvbandwidth"
    }
    assert next(each for each in given if each.name == "gpu-burn").lacks == "there is no gpu_burn among the builds"


# -- predictions


def test_a_link_that_is_not_stated_costs_its_own_figure() -> None:
    """nvidia-smi says "[N/A], [N/A]" in a virtual machine."""
    link = verify._generation("[N/A], [N/A]") / verify._generation("5, 16")
    copies = {"h2d GB/s": 54.0, "d2h": 54.0}
    run = verify.RUNS["V7"]

    said = [
        verify.judge(run, {**copies, "gen idle / loaded": found}, gpu=True, sku="h200-sxm") for found in (1.0, link)
    ]

    assert said == ["HELD", "HELD IN PART: no figure of gen idle / loaded"]
    slow = verify.judge(run, {"h2d GB/s": 20.0, "d2h": 54.0}, gpu=True, sku="h200-sxm")
    assert slow == "NOT HELD: h2d GB/s"


# -- the whole, on a machine that is said to have an H200

TORCH = """
class Tensor: ...
class cuda:
    @staticmethod
    def is_available(): return {gpu}
    @staticmethod
    def __getattr__(name): raise RuntimeError("CUDA error")
class version: cuda, hip = "13.0", None
__version__ = "2.13.0+stub"
"""
NVML = """
from pytest_accel.simulate.libraries.nvml import NvmlLibrary, h200, install, processes
install(NvmlLibrary([h200(nvmlDeviceGetComputeRunningProcesses_v3=processes(4711, memory=1 << 30))]))
"""
SMI = """#!/bin/sh
echo "nvidia-smi $*"
case "$*" in *--loop=1*) exec sleep 300;; esac
"""


def session(folder: Path, *arguments: str, gpu: bool) -> subprocess.CompletedProcess[str]:
    """Run gpu_session.py where torch is a stub and NVML is simulated."""
    (folder / "stub" / "torch").mkdir(parents=True)
    (folder / "stub" / "torch" / "__init__.py").write_text(TORCH.format(gpu=gpu))
    (folder / "stub" / "sitecustomize.py").write_text(NVML)
    (folder / "stub" / "nvidia-smi").write_text(SMI)
    (folder / "stub" / "nvidia-smi").chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "COV"))}
    command = [sys.executable, str(BENCHMARKS / "gpu_session.py"), str(folder / "out"), *arguments]
    environment = {**kept, "PYTHONPATH": str(folder / "stub"), "PATH": f"{folder / 'stub'}:{kept['PATH']}"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)


def results(folder: Path) -> dict[str, Any]:
    with tarfile.open(folder / "out" / "session.tar.gz") as archive:
        member = archive.extractfile("session/session.json")
        assert member
        return dict(json.load(member))


@pytest.mark.nightly
def test_the_part_is_recognised_and_what_breaks_has_its_reason(tmp_path: Path) -> None:
    """A torch that breaks at once: every run says with what, and the session comes to its end."""
    done = session(tmp_path, "--steps", "V2", "records", "nvbandwidth", gpu=True)

    assert done.returncode == 0, done.stderr
    assert results(tmp_path)["about"]["device"] == "a GPU as h200-sxm"
    said = (tmp_path / "out" / "session" / "session.md").read_text()
    assert re.search(r"^\| V2 .*NOT RUN: BROKE with 1: AttributeError", said, re.MULTILINE)
    assert "| nvbandwidth | 33 | 0 | NOT RUN: no folder of builds was given (--peers) |" in said
    assert done.stdout.endswith(f"results: {tmp_path / 'out' / 'session.tar.gz'}\n")


@pytest.mark.nightly
def test_without_a_gpu_it_says_so_at_once(tmp_path: Path) -> None:
    """And measures nothing, unless --cpu asks for that."""
    done = session(tmp_path, gpu=False)

    assert done.returncode == 1
    assert "no GPU" in done.stderr
    assert "nothing was measured" in done.stderr
    assert {each["result"] for each in results(tmp_path)["steps"].values()} == {"NOT RUN: no GPU"}


@pytest.mark.nightly
def test_the_minutes_count_from_when_the_command_was_given(tmp_path: Path) -> None:
    """What installing took is not there twice."""
    began = time.time() - 540

    done = session(tmp_path, "--since", str(began), "--minutes", "10", "--steps", "quick", gpu=True)

    assert done.returncode == 0, done.stderr
    left = re.search(r"planned with 85 s, and (\d+) were left", done.stdout)
    assert left, done.stdout
    assert int(left[1]) <= 30


def test_what_the_machine_answers_is_written_down_with_every_refusal(tmp_path: Path) -> None:
    """Raw, for later simulated devices: structs by their fields, and one row for all links that answer alike."""
    done = session(tmp_path, "--steps", "nvbandwidth", gpu=True)

    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "out" / "session" / "answers.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    said = {row["ask"]: row for row in rows}
    assert said["nvmlDeviceGetName"]["answer"] == "NVIDIA H200"
    assert said["nvmlDeviceGetNvLinkState"]["arguments"] == [[link] for link in range(18)]
    assert "volatileCor" in said["nvmlDeviceGetSramEccErrorStatus"]["answer"]
    assert said["nvmlDeviceGetBridgeChipInfo"]["refused"] == "3: Not Supported"
    assert said["nvmlDeviceGetComputeRunningProcesses"]["answer"][0]["pid"] == 4711
    assert said["uname -a"]["answer"].startswith("Linux")
    after = (tmp_path / "out" / "session" / "answers-after.jsonl").read_text()
    assert '"ask": "nvidia-smi -q", "answer": "nvidia-smi -q' in after
    assert "clocks.sm" in (tmp_path / "out" / "session" / "trace.csv").read_text()
