"""`pytest-accel health`: one line and one exit status for schedulers, over simulated management libraries."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pynvml
import pytest
from support import as_user, data_files, host_tree, in_process
from support.rows import each_row

from pytest_accel.cli.main import main
from pytest_accel.drivers import Hint, kernel_log
from pytest_accel.drivers.interface import DriverProblem
from pytest_accel.drivers.sensor import Machine, Sensor
from pytest_accel.run import device_lock, setup
from pytest_accel.run import passive as check
from pytest_accel.run.folder_summary import last_run
from pytest_accel.run.options import Options
from pytest_accel.run.processes.programs import Processes
from pytest_accel.run.processes.supervisor import Child
from pytest_accel.simulate.libraries import nvml
from pytest_accel.views import health_line

TABLES: dict[str, Any] = data_files.tables("cli/health")
CHANGES: dict[str, str] = TABLES["changes"]


class NodeSensor(in_process.InlineChild):
    """A sensor that is called instead of started; everything else of a check is as on hardware."""

    def __init__(self, node: Node) -> None:
        super().__init__("sensor")
        self._node = node
        machine = Machine(
            hints=lambda: node.shown,
            container=lambda: node.container,
            kernel_past=node.logged,
            host=node.host,
            drives=node.modules.__contains__,
        )
        self._sensor = Sensor(self.pipe, machine)  # type: ignore[arg-type]

    def send(self, event: str, **fields: Any) -> None:
        self._node.asked.append(event)
        self._sensor.take({"event": event, **fields})


class Node:
    """A node of eight H100, what its kernel has logged, and what a check starts and asks there."""

    def __init__(self) -> None:
        self.gpus = [nvml.h100(place) for place in range(8)]
        self.shown = [Hint("nvidia", pci=f"0000:{0x1A + place:02x}:00.0") for place in range(8)]
        self.lines: list[tuple[float, str]] = []
        self.closed = ""
        self.container, self.init, self.modules = "", 0, {"nvidia"}
        self.nics: dict[str, Any] = {"nics": 8, "nic_state": "active", "nic_rate": 50.0}
        self.started: list[str] = []
        self.asked: list[str] = []

    def change(self, *changes: str) -> None:
        """Make the changes to the devices (`gpus`), the log (`log`, hours ago) or what the machine shows (`node`)."""
        log: Callable[[float, str], None] = lambda hours, text: self.lines.append((hours, text))  # noqa: E731
        named = {"gpus": self.gpus, "nvml": nvml, "pynvml": pynvml, "log": log, "node": self, "Hint": Hint}
        exec("\n".join(changes), named)  # noqa: S102

    def start(self, name: str, *_how: object) -> Child:
        self.started.append(name)
        nvml.install(nvml.NvmlLibrary(self.gpus, init=self.init))
        return NodeSensor(self)

    def logged(self) -> list[dict[str, Any]]:
        if self.closed:
            raise DriverProblem(self.closed)
        events = [(hours, kernel_log.parse(f"4,1,0,-;{text}")) for hours, text in self.lines]
        return [{**event, "at": time.time() - 3600 * hours} for hours, event in events if event]

    def host(self, names: Any) -> dict[str, Any]:
        return {name: {"value": self.nics[name]} for name in names}


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Node:
    found = Node()
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(setup, "REAL", Processes(spawn=found.start))
    monkeypatch.setenv("SLURMD_NODENAME", "node17")
    monkeypatch.chdir(tmp_path)
    return found


Health = Callable[..., tuple[int, str]]


@pytest.fixture
def health(node: Node, capsys: pytest.CaptureFixture[str]) -> Health:
    """Runs the command on the node; returns its exit status and its line."""

    def run(*args: str) -> tuple[int, str]:
        status = main(["health", "--timeout", "60s", *args])
        (line,) = capsys.readouterr().out.splitlines()
        assert len(line) <= 80
        return status, line

    return run


def said(tmp_path: Path, up: float, *, seconds: float = 60.0, platform: str = "auto") -> str:
    """The line of a check on a node that was booted so many seconds ago."""
    host_tree.make(tmp_path, {"proc/uptime": f"{up:.2f} 1.00\n"})
    asked = Options(sku="h100-sxm", platform=platform, patience=seconds, prefix="--")
    return health_line.line(check.check(asked, root=tmp_path), fresh=False, path=None)


@pytest.mark.parametrize(("changes", "line"), TABLES["broken"])
def test_what_is_broken_is_named_first_and_a_job_on_the_node_is_no_fault(
    changes: list[str], line: str, node: Node, tmp_path: Path
) -> None:
    node.change(*changes)
    shown = said(tmp_path, up=1200, platform="hgx8")
    assert shown.startswith(line)
    assert len(shown) <= 80


@pytest.mark.parametrize(("changes", "up", "line"), TABLES["after_boot"])
def test_links_that_may_still_train_after_a_boot_drain_nobody(
    changes: list[str], up: int, line: str, node: Node, tmp_path: Path
) -> None:
    """Whatever else is broken is as broken as ever."""
    node.change(*changes)
    assert said(tmp_path, up, seconds=20.0) == line


@pytest.mark.parametrize(("up", "again", "line"), TABLES["read_twice"])
def test_links_that_are_down_soon_after_the_boot_are_read_twice_if_there_is_time(
    up: int, again: int, line: str, node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "AGAIN_SECONDS", float(again))
    node.change(CHANGES["link trains"])
    assert said(tmp_path, up) == line


def test_it_disturbs_neither_a_job_nor_a_run(
    health: Health, node: Node, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It starts no worker, does not wait for idle devices, needs no lock that a run holds, and leaves no file."""
    monkeypatch.setattr(device_lock, "FOLDER", tmp_path_factory.mktemp("locks"))
    node.change(CHANGES["allocated"])
    uuids = [gpu.answers["nvmlDeviceGetUUID"].decode() for gpu in node.gpus]
    held = device_lock.hold([(uuid, uuid) for uuid in uuids], "a run")
    assert health() == (0, "OK 8 x h100-sxm")
    for file in held:
        file.close()
    assert (node.started, node.asked) == (["sensor"], ["discover", "kernel_past"])
    assert not list(Path().iterdir())


@pytest.mark.parametrize(("changes", "options", "status", "line"), TABLES["options"])
def test_what_the_options_ask_decides_the_exit_status(
    changes: list[str], options: str, status: int, line: str, health: Health, node: Node, tmp_path: Path
) -> None:
    (tmp_path / "own.yaml").write_text((data_files.DATA / "cli/own-nics.yaml").read_text())
    os.mkfifo(tmp_path / "unreadable")
    node.change(*changes)
    found, shown = health(*options.split())
    assert (found, shown[: len(line)]) == (status, line)


@pytest.mark.parametrize(("option", "words"), TABLES["wrong_options"])
def test_a_wrong_option_is_told_in_the_line_and_on_standard_error(
    option: str, words: str, node: Node, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "e.json").write_text("{}")
    try:
        status = main(["health", "--timeout=60s", option])
    except SystemExit as ended:
        status = int(str(ended.code))
    told = capsys.readouterr()
    assert status == 4
    assert words in told.err
    assert told.out.startswith(f"UNKNOWN {words}"[:77])


# -- the last run


def summary(folder: Path, word: str, hours: float, line: str = "", host: str = "node17") -> None:
    """Write what a run of `host` on eight devices that began some hours ago has left in `folder`.

    Without a word it is under way.
    """
    began = datetime.now(timezone.utc) - timedelta(hours=hours)
    found: dict[str, Any] = {
        "schema": 1, "started": began.isoformat(timespec="seconds"), "host": host,
        "state": "finished" if word else "running", "line": line or word, "result": word or None,
        "exit": {"ACCEPTED": 0, "HELD": 0, "REJECTED": 1}.get(word, 6) if word else None,
        "sku": "h100-sxm", "simulated": False, "judged_again": False, "rejected": [],
        "devices": [{"uuid": f"GPU-{at}", "index": at, "model": "H100", "driver": "nvidia"} for at in range(8)],
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(found))


def test_the_last_run_counts_while_it_is_fresh(health: Health, node: Node, tmp_path: Path) -> None:
    """A node of a folder with others' results; the newest of its own counts."""
    place, asked = tmp_path / "nights", ("--record", "nights")
    place.mkdir()
    assert health(*asked) == (0, "OK 8 x h100-sxm; no run found in nights")
    assert health(*asked, "--require-run")[0] == 6
    summary(tmp_path / "other", "REJECTED", hours=1, host="node18")
    assert health("--record=other/summary.json")[1].startswith("OK 8 x h100-sxm; no run found"), "of another node"
    summary(place / "2026-11-21" / "node17", "ACCEPTED", hours=9)
    assert health(*asked, "--require-run") == (0, "OK 8 x h100-sxm; last run ACCEPTED 9 h ago")
    summary(place / "node17-20261123", "REJECTED", hours=2, line="REJECTED gpu3: stream.triad 2.1 TB/s, floor 3.0")
    day = (datetime.now(timezone.utc) - timedelta(hours=2)).date()
    assert health(*asked) == (1, f"ERROR last run REJECTED gpu3: stream.triad 2.1 TB/s, floor 3.0, {day}")
    assert health(*asked, "--max-age", "1h") == (0, f"OK 8 x h100-sxm; last run REJECTED {day}, stale")
    node.change(CHANGES["uncorrected"])
    assert health(*asked)[1].endswith(f" 12, not 0; last run REJECTED {day}")


@pytest.mark.parametrize(("hours", "status"), [(3, 0), (1, 1)])
def test_an_xid_before_the_last_good_run_is_settled_by_it(
    hours: int, status: int, health: Health, node: Node, tmp_path: Path
) -> None:
    """The run that accepted the node measured it after the GPU was reset."""
    node.change(CHANGES[f"reset {hours} h ago"])
    assert health()[0] == 1
    summary(tmp_path / "last", "ACCEPTED", hours=2)
    assert health("--record", "last")[0] == status


def test_fewer_devices_than_in_the_last_run_are_missing(health: Health, node: Node, tmp_path: Path) -> None:
    """Without a SKU, one GPU may be all that a node has, and none where nothing hints at one."""
    node.change("gpus[1:] = []\nnode.shown = [Hint('nvidia', node='/dev/nvidia0')]")
    assert health() == (0, "OK 1 x h100-sxm")
    summary(tmp_path / "last", "ACCEPTED", hours=40)
    for changes in ("", CHANGES["none"]):
        node.change(changes)
        status, line = health("--record", "last/summary.json")
        assert (status, line[:32]) == (1, "ERROR node A101 device-missing: ")


Result = tuple[str, str, float, str]
"""The folder of a run's result, its word, the hours since it began, and its host."""


@each_row(("results", "asked", "counts"), TABLES["results"])
def test_the_result_that_counts_is_the_newest_that_says_something_of_this_node(
    results: list[Result], asked: str, counts: str | None, tmp_path: Path
) -> None:
    for folder, word, hours, host in results:
        summary(tmp_path / folder, word, hours, host=host)
    found = last_run(tmp_path, asked)
    assert (found.result if found else None) == counts


# -- what takes a process


SITE = """
import os, sys
sys.modules["torch"] = None
from pytest_accel.drivers import Hint
from pytest_accel.drivers.host import hints
from pytest_accel.simulate.libraries import never, nvml

def hang(*arguments):
    open(%r, "w").write(str(os.getpid()))
    never()
gpu = nvml.h100(0)
gpu.answers["nvmlDeviceGetUUID"] = hang
hints.hints = lambda: [Hint("nvidia", pci="0000:1a:00.0")]
nvml.install(nvml.NvmlLibrary([gpu]))
"""
"""What every process of a check loads before anything else: a GPU whose library does not answer, and no torch."""


@pytest.mark.nightly
def test_a_driver_that_hangs_ends_in_time_and_leaves_no_process(tmp_path: Path) -> None:
    reached, line = tmp_path / "pid", ""
    (tmp_path / "sitecustomize.py").write_text(SITE % str(reached))
    for seconds in (5, 20, 60):  # a busy machine may need the whole time until the driver is asked
        began = time.monotonic()
        done = subprocess.run(
            [str(as_user.BIN / "pytest-accel"), "health", "--npd", "--timeout", f"{seconds}s"],
            cwd=tmp_path, env=as_user.environment({"PYTHONPATH": str(tmp_path)}),
            capture_output=True, text=True, timeout=as_user.SECONDS, check=False,
        )  # fmt: skip
        line = done.stdout.rstrip()
        assert time.monotonic() - began < 2 * seconds, "with the start of Python, which is not counted"
        assert done.returncode == 2, "unknown to node-problem-detector"
        if reached.exists():
            break
    assert re.fullmatch(r"UNKNOWN driver silent for \d+ s", line)
    assert not as_user.left([int(reached.read_text())])


@pytest.mark.nightly
def test_it_needs_neither_an_environment_nor_torch(tmp_path: Path) -> None:
    """Slurm sets SLURMD_NODENAME and nothing else: no PATH, no HOME."""
    (tmp_path / "node.yaml").write_text("sku: h100-sxm\nplatform: dgx\nfaults: [{fault: nic-down}]\n")
    code = "import sys; sys.modules['torch'] = None; from pytest_accel.cli import run; sys.exit(run())"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, "health", "--simulate=node.yaml", "--timeout=60s"],
        cwd=tmp_path, env={"SLURMD_NODENAME": "node17"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    line = "SIMULATED ERROR node A604 nic: 7, floor 8 (-12.5%), at mlx5_0 DOWN (Polling)\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, line, "")


def test_a_sensor_that_could_not_be_killed_is_not_started_again(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as hanging:
        check.remember_stuck(hanging.pid, tmp_path)
        assert check.stuck_sensor(tmp_path) == f"driver silent: process {hanging.pid} of an earlier check hangs in it"
        hanging.kill()
    assert check.stuck_sensor(tmp_path) is None, "it has ended"
    (tmp_path / check.STUCK).write_text(f"{os.getpid()} 1\n")
    assert check.stuck_sensor(tmp_path) is None, "another process has its number"


@pytest.mark.parametrize("link", [os.link, os.symlink])
def test_the_note_on_a_stuck_sensor_overwrites_no_file_that_is_linked_in_its_place(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "victim").write_text("kept", encoding="utf-8")
    link(tmp_path / "victim", tmp_path / check.STUCK)
    check.remember_stuck(os.getpid(), tmp_path)

    assert (tmp_path / "victim").read_text(encoding="utf-8") == "kept"
    assert check.stuck_sensor(tmp_path)


def test_what_cannot_be_replaced_by_the_note_is_left(tmp_path: Path) -> None:
    (tmp_path / check.STUCK / "of another user").mkdir(parents=True)
    check.remember_stuck(os.getpid(), tmp_path)

    assert check.stuck_sensor(tmp_path) is None
