"""`pytest-accel health`: one line and one exit status for schedulers, over simulated management libraries."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import as_user
import host_tree
import in_process
import pynvml
import pytest
import shipped

from pytest_accel.core.sku import Limit
from pytest_accel.core.summary import EXITS
from pytest_accel.drivers import Hint, kernel_log
from pytest_accel.drivers.kernel_messages import SOURCE
from pytest_accel.drivers.sensor import Machine
from pytest_accel.judging.closing import passive
from pytest_accel.judging.facts.error_counters import ReadingWindow
from pytest_accel.judging.facts.error_reports import ErrorReports
from pytest_accel.judging.facts.inventory import Discovery
from pytest_accel.run import passive as check
from pytest_accel.run.folder_summary import last_run
from pytest_accel.run.passive import Checked
from pytest_accel.run.setup import discovered
from pytest_accel.simulate.libraries import nvml
from pytest_accel.skus import requirements
from pytest_accel.skus.waivers import Waivers
from pytest_accel.views import health_line

SITE = """
import socket, sys
sys.modules["torch"] = None
from pytest_accel.drivers import Hint, kernel_log
from pytest_accel.drivers.host import hints
from pytest_accel.simulate.libraries import never, nvml

gpus = [nvml.h100(place) for place in range(8)]
hints.hints = lambda: [Hint("nvidia", pci=f"0000:{0x1a + place:02x}:00.0") for place in range(8)]
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
silent, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
kernel_log._open = lambda path, whence: (ours if whence == 0 else silent).dup().detach()
ours.setblocking(False)
silent.setblocking(False)
def log(seconds, text):
    theirs.send(f"4,100,{int(seconds * 1e6)},-;{text}".encode())
log(3.0, "usb 1-1: new device")
%s
nvml.install(nvml.NvmlLibrary(gpus))
"""
"""What every process of a check loads before anything else: eight H100, a kernel log of records, no torch."""
SECONDS = 5.0


def health(folder: Path, changes: str = "", *args: str, timeout: str = "60s") -> tuple[int, str]:
    """Run the command on a node with `changes`; return its exit status and its line."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "sitecustomize.py").write_text(SITE % changes)
    done = subprocess.run(
        [str(as_user.BIN / "pytest-accel"), "health", "--timeout", timeout, *args],
        cwd=folder, env=as_user.environment({"PYTHONPATH": str(site), "SLURMD_NODENAME": "node17"}),
        capture_output=True, text=True, timeout=as_user.SECONDS, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    assert len(line) <= 80
    return done.returncode, line


def shown_end(path: Path, most: int) -> str:
    """Return the end of a path as the line shows it."""
    return str(path) if len(str(path)) <= most else f"...{str(path)[3 - most :]}"


def summary(folder: Path, word: str, hours: float, line: str = "", host: str = "node17", **more: Any) -> None:
    """Write what a run of `host` on eight devices that began some hours ago has left in `folder`."""
    began = datetime.now(timezone.utc) - timedelta(hours=hours)
    found: dict[str, Any] = {
        "schema": 1, "started": began.isoformat(timespec="seconds"), "host": host, "state": "finished",
        "line": line or word, "word": word, "exit": EXITS.get(word, (6,))[0], "sku": "h100-sxm",
        "simulated": False, "judged_again": False,
        "devices": [{"uuid": f"GPU-{at}", "index": at, "model": "H100", "driver": "nvidia"} for at in range(8)],
        "rejected": [], **more,
    }  # fmt: skip
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps(found))


UNCORRECTED = 'gpus[3].answers["nvmlDeviceGetTotalEccErrors"] = {(0, 0): 0, (1, 0): 12, (0, 1): 0, (1, 1): 12}'
XID = 'log(%s, "NVRM: Xid (PCI:0000:1b:00): %d, pid=12, name=python, words")'
NOT_STARTED = 'log(60.0, "NVRM: GPU 0000:%s:00.0: RmInitAdapter failed! (0x24:0x72:1568)")'
RESET_REQUIRED = (
    'log(60.0, "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x62)")'
)
LINK = pynvml.NVML_FI_DEV_NVLINK_GET_STATE
LINK_DOWN = f"gpus[5].fields[{LINK}, 4] = (1, 0)"
ALLOCATED = """
for gpu in gpus:
    gpu.answers["nvmlDeviceGetComputeRunningProcesses_v3"] = nvml.processes(4711, memory=60 << 30)
    gpu.answers["nvmlDeviceGetCurrentClocksEventReasons"] = 0x20
    gpu.answers["nvmlDeviceGetCurrPcieLinkGeneration"] = 1
    gpu.answers["nvmlDeviceGetMarginTemperature"] = nvml.fills(marginTemperature=0)
"""


class Node:
    """What `changes` of a node are made to."""

    def __init__(self) -> None:
        self.gpus = [nvml.h100(place) for place in range(8)]
        self.log: list[str] = []

    def change(self, changes: str) -> None:
        """Make the changes, which are written as those of a process."""
        add = lambda seconds, text: self.log.append(f"4,1,{int(seconds * 1e6)},-;{text}")  # noqa: E731
        exec(changes, {"gpus": self.gpus, "nvml": nvml, "log": add})  # noqa: S102

    def checked(self, name: str = "h100-sxm", up: float = math.inf) -> Checked:
        """What a check by the SKU `name` finds on it, `up` seconds after its boot: drivers and judging are real."""
        said = in_process.Kept()
        shown = [Hint("nvidia", pci=f"0000:{0x1A + place:02x}:00.0") for place in range(8)]
        in_process.Deaf(said, Machine(shown=lambda: shown, container=str)).discover(None)  # type: ignore[arg-type]
        found = discovered(said.of("devices")[0], None)
        sku = shipped.load(name)
        limits = requirements.required_at("standard", requirements.limits(sku, sku.platforms["hgx8"], 8))
        places = {device.uuid: device.pci_address for device in found.devices}
        reports = ErrorReports(deaf={SOURCE: None})
        for line in self.log:
            reports.hear({"at": 1.0, "source": SOURCE, **(kernel_log.parse(line) or {})}, places)
        since = ReadingWindow("since boot", 0.0, 2.0)
        judged = passive.judged(found, sku, limits, reports=reports, since=since, waivers=Waivers(), up=up)
        return Checked(sku=sku, discovery=found, found=judged)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (UNCORRECTED, "ERROR gpu3 A201 memory-uncorrectable: 12, not 0"),
        (
            'gpus[6].answers["nvmlDeviceGetRemappedRows"] = (0, 1, 1, 0)\n' + UNCORRECTED,
            "ERROR gpu3 A201 memory-uncorrectable +1 more: 12, not 0",
        ),
        ("del gpus[7]", "ERROR node A101 device-missing: 7, not 8"),
        ('gpus[2].answers["nvmlDeviceGetCurrPcieLinkWidth"] = 8', "ERROR gpu2 A301 host-link-narrow: 8, not 16"),
        (LINK_DOWN, "ERROR gpu5 A304 peer-link-down: 17, not 18"),
        (
            'gpus[0].answers["nvmlDeviceGetGpuFabricInfoV"] = nvml.fabric(state=2)',
            "ERROR gpu0 A307 fabric: in progress",
        ),
        (XID % (60.0, 79), "ERROR gpu1 A102 device-lost: Xid 79 (RESTART_BM)"),
        (XID % (60.0, 31), "OK 8 x h100-sxm, warns gpu1 A109 driver-notice: Xid 31 (RESTART_APP)"),
        (NOT_STARTED % "1b", "ERROR gpu1 A101 device-missing: 1, not 0"),
        (NOT_STARTED % "77", "ERROR node A101 device-missing: 1, not 0"),
        (RESET_REQUIRED, "ERROR node A107 recovery-asked: 1, not 0"),
        (ALLOCATED, "OK 8 x h100-sxm"),
        ('gpus[3].answers["nvmlDeviceGetEccMode"] = (1, 0)', "UNKNOWN gpu3 health.ecc_pending_change: 1"),
    ],
)
def test_what_is_broken_is_named_first_and_a_job_on_the_node_is_no_fault(
    changes: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    node = Node()
    node.change(changes)
    nvml.install(nvml.NvmlLibrary(node.gpus))
    said = health_line.line(node.checked(), fresh=False, place=None)
    assert said.startswith(line)
    assert len(said) <= 80


@pytest.mark.parametrize(
    ("changes", "up", "line"),
    [
        (LINK_DOWN, 120.0, "UNKNOWN gpu5 health.nvlink_up: 17 of 18 NVLinks up; up 2 min, may still train"),
        (LINK_DOWN, 601.0, "ERROR gpu5 A304 peer-link-down: 17, not 18"),
        (
            'gpus[0].answers["nvmlDeviceGetGpuFabricInfoV"] = nvml.fabric(state=2)',
            599.0,
            "UNKNOWN gpu0 health.fabric: in progress, expected completed; up 10 min, may s...",
        ),
        (f"{LINK_DOWN}\n{UNCORRECTED}", 120.0, "ERROR gpu3 A201 memory-uncorrectable: 12, not 0"),
        (XID % (60.0, 155), 120.0, "ERROR gpu1 A304 peer-link-down: Xid 155 (RESET_GPU)"),
        ("del gpus[7]", 120.0, "ERROR node A101 device-missing: 7, not 8"),
    ],
)
def test_links_that_may_still_train_after_a_boot_drain_nobody(
    changes: str, up: float, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else is broken is as broken as ever."""
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    node = Node()
    node.change(changes)
    nvml.install(nvml.NvmlLibrary(node.gpus))
    assert health_line.line(node.checked(up=up), fresh=False, place=None) == line


LATE = f"""
import os
def up_for_the_second_reader():
    try:
        with open("reader", "x") as file:
            file.write(str(os.getpid()))
    except FileExistsError:
        pass
    return open("reader").read() != str(os.getpid())
gpus[5].fields[{LINK}, 4] = (1, up_for_the_second_reader)
"""
CHECK = """
import sys
from pathlib import Path
from pytest_accel.run import passive
from pytest_accel.views import health_line
passive.AGAIN_SECONDS = float(sys.argv[1])
asked = passive.CheckRequest(node="node17", sku="h100-sxm", root=Path("root"))
print(health_line.line(passive.check(asked, 50.0), fresh=False, place=None))
"""


def test_rdma_ports_are_judged_where_the_threshold_file_has_limits_on_them() -> None:
    limits = {
        "host.nics": Limit("host.nics", "count", equals=8),
        "host.nic_state": Limit("host.nic_state", "text", equals="active"),
        "host.nic_rate": Limit("host.nic_rate", "GB/s", floor=50.0),
    }
    values: dict[str, Any] = {"nics": 8, "nic_state": "active", "nic_rate": 50.0}
    fine = {f"host.{name}": {"value": value} for name, value in values.items()}
    none = ReadingWindow("since boot", 0.0, 2.0)

    def broken(**answers: Any) -> list[str]:
        told = {**fine, **{f"host.{name}": {"value": value} for name, value in answers.items()}}
        found = passive.judged(Discovery(), None, limits, reports=None, since=none, waivers=Waivers(), host=told)
        return [each.metric for each in found.broken]

    assert broken() == []
    assert broken(nics=7) == ["host.nics"]
    assert broken(nic_state="mlx5_0/1 DOWN (Polling)") == ["host.nic_state"]
    assert broken(nic_rate=25.0) == ["host.nic_rate"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "status", "line"),
    [
        ("", 0, "OK 8 x h100-sxm"),
        ("faults: [{fault: nic-down}]", 1, "ERROR node A604 nic: 7, floor 8 (-12.5%), at mlx5_0 DOWN (Polling)"),
        ("faults: [{fault: nic-slow}]", 1, "ERROR node A604 nic: 7, floor 8 (-12.5%), at mlx5_0 12.5 GB/s"),
    ],
)
def test_nics_are_held_against_those_that_the_platform_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], faults: str, status: int, line: str
) -> None:
    from pytest_accel.cli.main import main

    (tmp_path / "node.yaml").write_text(f"sku: h100-sxm\nplatform: dgx\n{faults}\n")
    assert main(["health", f"--simulate={tmp_path / 'node.yaml'}", "--timeout=60s"]) == status
    assert capsys.readouterr().out == f"SIMULATED {line}\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("up", "again", "line"),
    [
        (120, 0, "OK 8 x h100-sxm"),
        (120, 50, "UNKNOWN gpu5 health.nvlink_up: 17 of 18 NVLinks up; up 2 min, may still train"),
        (1200, 0, "ERROR gpu5 A304 peer-link-down: 17, not 18"),
    ],
)
def test_links_that_are_down_soon_after_the_boot_are_read_twice_if_there_is_time(
    up: int, again: int, line: str, tmp_path: Path
) -> None:
    host_tree.make(tmp_path / "root", {"proc/uptime": f"{up}.25 {up}.00\n"})
    (tmp_path / "sitecustomize.py").write_text(SITE % LATE)
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(again)],
        cwd=tmp_path, env=as_user.environment({"PYTHONPATH": str(tmp_path)}),
        capture_output=True, text=True, timeout=as_user.SECONDS, check=True,
    )  # fmt: skip
    assert done.stdout.rstrip() == line


def test_a_device_of_another_product_is_that_and_its_memory_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    node = Node()
    nvml.install(nvml.NvmlLibrary(node.gpus))
    said = health_line.line(node.checked("h200-sxm"), fresh=False, place=None)
    assert said.startswith("ERROR gpu0 to gpu7 A106 wrong-product: NVIDIA H100 80GB HBM3 (10de:2330)")


@pytest.mark.slow
def test_a_driver_that_hangs_ends_in_time_and_leaves_no_process(tmp_path: Path) -> None:
    hang = f"""
import os
def hang(*arguments):
    open({str(tmp_path)!r} + "/pid", "w").write(str(os.getpid()))
    never()
for gpu in gpus:
    gpu.answers["nvmlDeviceGetUUID"] = hang
"""
    reached, line = tmp_path / "pid", ""
    for seconds in (5, 20, 80):  # a busy machine may need the whole time until the driver is asked
        began = time.monotonic()
        status, line = health(tmp_path, hang, "--npd", timeout=f"{seconds}s")
        assert time.monotonic() - began < 2 * seconds, "with the start of Python, which is not counted"
        assert status == 2, "unknown to node-problem-detector"
        if reached.exists():
            break
    assert re.fullmatch(r"UNKNOWN driver silent for \d+ s", line)
    assert not as_user.left([int(reached.read_text())])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "status", "line"),
    [
        ([], 1, "ERROR node A101"),  # the bus shows eight
        (["--platform", "slice2"], 0, "OK 2 x h100-sxm"),
        (["--platform", "hgx8"], 1, "ERROR node"),
    ],
)
def test_two_devices_are_a_part_that_has_a_name(args: list[str], status: int, line: str, tmp_path: Path) -> None:
    found, said = health(tmp_path, "del gpus[2:]", "--sku", "h100-sxm", *args)
    assert (found, said[: len(line)]) == (status, line)


@pytest.mark.slow
def test_what_may_not_be_read_is_unknown_unless_it_is_left_out(tmp_path: Path) -> None:
    refused = "raise kernel_log._unreadable(path, PermissionError(1, 'Operation not permitted'))"
    closed = f"def closed(path, whence): {refused}\nkernel_log._open = closed"
    status, line = health(tmp_path, closed)
    assert (status, line[:40]) == (6, "UNKNOWN gpu0 counters.xid_hardware: Xids")
    assert health(tmp_path, closed, "--no-kernel-log") == (0, "OK 8 x h100-sxm")


def test_a_file_that_is_no_record_is_a_wrong_option(tmp_path: Path) -> None:
    (tmp_path / "e.json").write_text("{}")
    assert wrong(tmp_path, "--record=e.json") == "--record: e.json: is not a record of pytest-accel: it has no 'schema'"


@pytest.mark.parametrize(
    ("option", "said"),
    [("--sku=h100-sxn", "--sku: no SKU named 'h100-sxn'"), ("--waivers=none.yaml", "--waivers: none.yaml: cannot be")],
)
def test_an_error_names_the_option_that_was_given(tmp_path: Path, option: str, said: str) -> None:
    assert wrong(tmp_path, option).startswith(said)


def wrong(folder: Path, option: str) -> str:
    """Run the command with a wrong option, and return what it says."""
    words = [str(as_user.BIN / "pytest-accel"), "health", "--simulate=h100-sxm", "--timeout=60s", option]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=as_user.SECONDS, check=False)
    (line,) = done.stdout.splitlines()
    assert (done.returncode, len(line) <= 80) == (4, True)
    assert f"UNKNOWN {done.stderr}".startswith(line.removesuffix("..."))
    return done.stderr.rstrip()


@pytest.mark.slow
@pytest.mark.nightly
def test_the_last_run_counts_while_it_is_fresh(tmp_path: Path) -> None:
    """A node of a folder with others' results; the newest of its own counts."""
    nights = tmp_path / "nights"
    asked = ("--trust-summaries", "--record", str(nights))
    nights.mkdir()
    assert health(tmp_path, "", *asked) == (0, f"OK 8 x h100-sxm; no run found in {shown_end(nights, 47)}")
    assert health(tmp_path, "", "--record", "typo") == (0, "OK 8 x h100-sxm; no run found in typo")
    assert health(tmp_path, "", *asked, "--require-run")[0] == 6
    summary(nights / "2026-11-21" / "node17", "ACCEPTED", hours=9)
    assert health(tmp_path, "", *asked, "--require-run") == (0, "OK 8 x h100-sxm; last run ACCEPTED 9 h ago")
    summary(nights / "node17-20261123", "REJECTED", hours=2, line="REJECTED gpu3: stream.triad 2.1 TB/s, floor 3.0")
    day = (datetime.now(timezone.utc) - timedelta(hours=2)).date()
    said = health(tmp_path, "", *asked)
    assert said == (1, f"ERROR last run REJECTED gpu3: stream.triad 2.1 TB/s, floor 3.0, {day}")
    assert health(tmp_path, UNCORRECTED, *asked)[1].endswith(f" 12, not 0; last run REJECTED {day}")
    assert health(tmp_path, "", *asked, "--max-age", "1h") == (
        0, f"OK 8 x h100-sxm; last run REJECTED {day}, stale"
    )  # fmt: skip


@pytest.mark.slow
def test_an_xid_before_the_last_good_run_is_settled_by_it(tmp_path: Path) -> None:
    """The run that accepted the node measured it after the GPU was reset."""
    up = time.clock_gettime(time.CLOCK_MONOTONIC) / 3600
    summary(tmp_path / "last", "ACCEPTED", hours=up / 2)
    before, after = (XID % (up * 3600 * part, 79) for part in (0.25, 0.75))
    assert health(tmp_path, before)[0] == 1
    assert health(tmp_path, before, "--trust-summaries", "--record", str(tmp_path / "last"))[0] == 0
    assert health(tmp_path, after, "--trust-summaries", "--record", str(tmp_path / "last"))[0] == 1


@pytest.mark.slow
def test_fewer_devices_than_in_the_last_run_are_missing(tmp_path: Path) -> None:
    """Without a SKU, one GPU may be all that a node has."""
    one = "gpus[1:] = []\nhints.hints = lambda: [Hint('nvidia', node='/dev/nvidia0')]"
    assert health(tmp_path, one) == (0, "OK 1 x h100-sxm")
    summary(tmp_path / "last", "ACCEPTED", hours=1)
    place = str(tmp_path / "last" / "summary.json")
    assert health(tmp_path, one, "--record", place)[1].startswith("OK 1 x h100-sxm; last run not read"), "no record"
    status, line = health(tmp_path, one, "--trust-summaries", "--record", place)
    assert (status, line[:32]) == (1, "ERROR node A101 device-missing: ")


@pytest.mark.slow
@pytest.mark.nightly
def test_no_accelerator_is_fine_only_where_nothing_hints_at_one(tmp_path: Path) -> None:
    none = "gpus[:] = []\nhints.hints = list"
    assert health(tmp_path, none) == (0, "OK no accelerator")
    assert health(tmp_path, none, "--sku", "l40s") == (1, "ERROR node A101 device-missing: 0, not 1")
    shown = "gpus[:] = []\nhints.hints = lambda: [Hint('nvidia', node='/dev/nvidiactl')]"
    assert health(tmp_path, shown)[0] in (1, 6), "6 in a container"
    summary(tmp_path / "last", "ACCEPTED", hours=40)
    assert health(tmp_path, none, "--record", "last")[0] in (1, 6)
    os.mkfifo(tmp_path / "unreadable")
    status, line = health(tmp_path, none, "--record", "unreadable")
    assert (status, line[:55]) == (6, "UNKNOWN node inventory.driver: accelerator: none found,")


@pytest.mark.slow
def test_a_scheduler_gives_it_no_environment(tmp_path: Path) -> None:
    """Slurm sets SLURMD_NODENAME and nothing else: no PATH, no HOME."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", "import sys; from pytest_accel.cli import run; sys.exit(run())", "health",
         "--simulate=h100-sxm", "--no-kernel-log", "--timeout=60s"],
        cwd="/", env={"SLURMD_NODENAME": "node17"}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "SIMULATED OK 8 x h100-sxm\n", "")


@pytest.mark.parametrize("options", [("--sku", "h1000"), ("--timeout", "1h"), ("--max-age", "soon")])
def test_wrong_options_are_refused(options: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    from pytest_accel.cli.main import main

    try:
        status = main(["health", *options])
    except SystemExit as ended:
        status = int(str(ended.code))
    assert status == 4
    assert options[1] in capsys.readouterr().err


def test_what_is_no_option_is_told_in_the_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    from pytest_accel.cli.main import main

    with pytest.raises(SystemExit, match="4"):
        main(["health", "--timeout", "1h"])
    assert capsys.readouterr().out == "UNKNOWN --timeout: '1h': at least 1 s, at most 60 s\n"


def test_a_sensor_that_could_not_be_killed_is_not_started_again(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as hanging:
        check.remember_stuck(hanging.pid, tmp_path)
        assert check.stuck_sensor(tmp_path) == f"driver silent: process {hanging.pid} of an earlier check hangs in it"
        hanging.kill()
    assert check.stuck_sensor(tmp_path) is None, "it has ended"
    (tmp_path / check.STUCK).write_text(f"{os.getpid()} 1\n")
    assert check.stuck_sensor(tmp_path) is None, "another process has its number"


def test_results_of_others_are_not_taken_for_ones_own(tmp_path: Path) -> None:
    summary(tmp_path / "node17", "ACCEPTED", hours=3)
    summary(tmp_path / "node17-b", "REJECTED", hours=1, host="node17-b")
    found = last_run(tmp_path, "node17", trusts=True)
    assert found is not None
    assert found.word == "ACCEPTED"
    assert last_run(tmp_path, "node1", trusts=True) is None
    assert last_run(tmp_path / "nowhere", "node17", trusts=True) is None


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["REJECTED", "ACCEPTED"], "ACCEPTED"),
        (["ACCEPTED", "REJECTED"], "REJECTED"),
        (["REJECTED", "INTERRUPTED"], "REJECTED"),
        (["REJECTED", "NOT JUDGED"], "REJECTED"),
        (["REJECTED", "HELD"], "REJECTED"),
        (["REJECTED", "ACCEPTED", "HELD"], "HELD"),
        (["NOT JUDGED"], "NOT JUDGED"),
    ],
)
def test_a_run_that_accepts_nothing_does_not_hide_a_rejection(tmp_path: Path, words: list[str], counts: str) -> None:
    """The words are those of a node's runs, the oldest first."""
    for place, word in enumerate(words):
        summary(tmp_path / f"node17-{place}", word, hours=9 - place)
    found = last_run(tmp_path, "node17", trusts=True)
    assert found is not None
    assert found.word == counts


@pytest.mark.parametrize(
    ("newest", "word", "rejects"),
    [
        ({"word": "ACCEPTED", "rejected": ["GPU-3"]}, "NOT JUDGED", False),
        ({"word": "", "exit": 0}, "NOT JUDGED", False),
        ({"word": "", "exit": 1}, "NOT JUDGED", False),
        ({"word": "", "exit": None, "state": "running"}, "ACCEPTED", False),
    ],
)
def test_a_newest_result_that_contradicts_itself_or_lacks_a_word(
    tmp_path: Path, newest: dict[str, Any], word: str, rejects: bool
) -> None:
    """As the report of a fleet has them; a run that has not ended says nothing yet."""
    summary(tmp_path / "node17", "ACCEPTED", hours=9)
    summary(tmp_path / "node17-2", hours=2, **newest)
    found = last_run(tmp_path, "node17", trusts=True)
    assert found is not None
    assert (found.result, found.rejects, found.good) == (word, rejects, word == "ACCEPTED")


def test_a_result_from_the_future_is_none(tmp_path: Path) -> None:
    """A clock that was not set at boot; such a result would be the newest for as long as it lies ahead."""
    summary(tmp_path / "node17", "REJECTED", hours=2)
    summary(tmp_path / "node17-2", "ACCEPTED", hours=-48)
    found = last_run(tmp_path, "node17", trusts=True)
    assert found is not None
    assert found.word == "REJECTED"


def test_the_name_of_a_host_may_have_its_domain(tmp_path: Path) -> None:
    summary(tmp_path / "nights" / "2026-11-20" / "node17", "REJECTED", hours=2)
    summary(tmp_path / "own" / "node17.cluster", "REJECTED", hours=2, host="node17.cluster")
    for place, node in (("nights", "node17.cluster"), ("own", "node17"), ("own", "node17.cluster")):
        assert (found := last_run(tmp_path / place, node, trusts=True)), (place, node)
        assert found.rejects
    assert last_run(tmp_path / "own", "node17.other", trusts=True) is None
    summary(tmp_path / "own" / "node17.other", "ACCEPTED", hours=1, host="node17.other")
    assert last_run(tmp_path / "own", "node17", trusts=True) is None, "which of the two is not known"


def test_what_a_job_may_set_is_not_judged_beside_it() -> None:
    sku = shipped.load("h100-sxm")
    judged = passive.metrics(requirements.limits(sku, sku.platforms["hgx8"], 8))
    assert {"health.power_limit_lowered", "inventory.power_limit", "health.clock_lock"}.isdisjoint(judged)
    assert "health.nvlink_up" in judged
