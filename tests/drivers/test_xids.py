"""Xids: read from the kernel log and from NVML, told from what we caused, judged by what they mean."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import every_query
import pynvml
import pytest
from support import data_files, shipped
from support.rows import each_row

from pytest_accel.core.details import ErrorReport
from pytest_accel.core.measurement import Device
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import DriverProblem, deadlines, kernel_log, xids
from pytest_accel.drivers.vendors.nvidia.driver import NvidiaDriver
from pytest_accel.judging.facts.error_counters import ReadingWindow
from pytest_accel.judging.facts.error_reports import ErrorReports, WorkerEnd
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.simulate.libraries import never, status
from pytest_accel.simulate.libraries.nvml import LOST, NvmlLibrary, h100, install
from pytest_accel.skus import requirements

CASES = data_files.tables("drivers/xids")
H100 = shipped.load("h100-sxm")
LIMITS = requirements.limits(H100, H100.platforms["hgx8"], 8)
GPU = Device("GPU-0", 0, "nvidia", "a GPU")
WINDOWS = [ReadingWindow("matmul.bf16", 0.0, 10.0), ReadingWindow("soak.rate", 10.0, 20.0)]


def verdict(
    kind: str, *heard: ErrorReport, ended: tuple[WorkerEnd, ...] = (), deaf: dict[str, Any] | None = None
) -> Verdict:
    reports = ErrorReports(list(heard), {"nvidia": None} if deaf is None else deaf, list(ended))
    metric = f"counters.xid_{kind}"
    return judge([reports.measurement(metric, GPU.uuid, WINDOWS)], LIMITS[metric])


def xid(number: int, at: float = 12.0, source: str = "nvidia", **more: Any) -> ErrorReport:
    return ErrorReport("GPU-0", number, at, source, **more)


# -- what they mean


@each_row(("number", "text", "kind"), CASES["kinds"])
def test_what_an_xid_means(number: int, text: str, kind: str) -> None:
    assert xids.lookup(number, text).kind == kind


def test_every_entry_says_what_it_means_and_what_to_do() -> None:
    assert len(xids.catalogue()) > 90
    assert all(each.means and each.do and each.kind for each in xids.catalogue().values())


# -- judged


def test_one_of_hardware_fails_and_says_what_when_and_what_to_do() -> None:
    found = verdict("hardware", xid(79))
    assert found.status is Status.FAIL
    assert sentence_of(found).startswith("1, expected 0, during soak.rate: Xid 79, it has fallen off the bus; reboot")


def test_one_of_a_program_is_advice_one_that_informs_is_in_no_count() -> None:
    assert verdict("application", xid(31)).status is Status.MARGINAL
    assert verdict("hardware", xid(31), xid(63)).status is Status.PASS
    assert verdict("application", xid(63)).status is Status.PASS


def test_what_two_sources_tell_is_one_thing() -> None:
    both = (xid(79), xid(79, 12.1, "kernel log", pid=7, text="GPU has fallen off the bus."))
    assert verdict("hardware", *both).value == 1
    assert verdict("hardware", *both, xid(79, 15.0, "kernel log")).value == 2


def test_of_two_sources_the_one_with_the_text_decides() -> None:
    told = (xid(149), xid(149, 12.1, "kernel log", text="NETIR_LINK_DOWN Fatal"))
    assert verdict("hardware", *told).status is Status.FAIL


@each_row(
    ("number", "pid", "ended", "counts"),
    [
        (45, 812, WorkerEnd("GPU-0", 812, 11.0), False),
        (43, None, WorkerEnd("GPU-0", 812, 11.0), False),
        (45, 813, WorkerEnd("GPU-0", 812, 11.0), True),
        (45, None, WorkerEnd("GPU-1", 812, 11.0), True),
        (31, 812, WorkerEnd("GPU-0", 812, 11.0), True),
    ],
)
def test_what_the_driver_says_of_a_worker_that_we_killed_is_ours(
    number: int, pid: int | None, ended: WorkerEnd, counts: bool
) -> None:
    assert verdict("application", xid(number, pid=pid), ended=(ended,)).value == int(counts)
    assert verdict("hardware", xid(79, pid=812), ended=(WorkerEnd("GPU-0", 812, 11.0),)).status is Status.FAIL


def test_where_nobody_can_hear_nothing_is_said() -> None:
    deaf = {"nvidia": "NVML gives no events", "kernel log": "/dev/kmsg: Permission denied (requires root)"}
    found = verdict("hardware", deaf=deaf)
    assert found.status is Status.UNMEASURED
    assert "NVML gives no events; /dev/kmsg: Permission denied" in sentence_of(found)
    assert verdict("hardware", deaf={**deaf, "nvidia": None}).status is Status.PASS


# -- the kernel log

LINES = CASES["lines"]


@each_row(("line", "number", "pid"), LINES)
def test_a_line_of_the_kernel_log(line: str, number: int, pid: int | None) -> None:
    found = kernel_log.parse(f"4,1234,5678,-;{line}\n")
    assert found is not None
    assert (found["address"], found["number"], found["pid"]) == ("0000:3b:00", number, pid)
    assert kernel_log.is_at(found["address"], "0000:3b:00.0")
    assert not kernel_log.is_at(found["address"], "0000:3c:00.0")
    assert not kernel_log.is_at(found["address"], None)


@pytest.mark.parametrize("line", ["usb 1-1: new device", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module"])
def test_other_lines_are_none(line: str) -> None:
    assert kernel_log.parse(line) is None


def test_what_stands_in_for_the_log_in_a_container_is_not_listened_to() -> None:
    """Often /dev/null: it is always readable, and says nothing."""
    with pytest.raises(DriverProblem, match="is not the kernel log here"):
        next(kernel_log.follow(Path("/dev/null")))


def test_a_log_that_is_hidden_says_what_it_takes(tmp_path: Path) -> None:
    with pytest.raises(DriverProblem, match="requires root"):
        kernel_log.follow(tmp_path / "kmsg")


def test_a_device_is_found_by_its_address_and_what_is_no_device_is_noted() -> None:
    reports, notes = ErrorReports(), []
    for line in (LINES[0][0], LINES[0][0].replace("3b", "99")):
        event = {"source": "kernel log", "at": 5.0, **(kernel_log.parse(line) or {})}
        notes.append(reports.hear(event, {"GPU-0": "0000:3b:00.0", "GPU-1": "0000:3c:00.0"}))
    assert [(each.uuid, each.number, each.pid) for each in reports.reports] == [("GPU-0", 79, 1234)]
    assert notes[0] is None
    assert "not a device of this run" in str(notes[1])


# -- NVML


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> NvmlLibrary:
    every_query.forget_pynvml(monkeypatch)
    found = NvmlLibrary([h100(0), h100(1)])
    install(found)
    return found


def test_nvml_tells_of_xids_and_names_the_gpu(library: NvmlLibrary) -> None:
    driver = NvidiaDriver()
    first, second = driver.discover()
    library.xids += [(1, 79), (0, 31)]
    found = list(itertools.islice(driver.events(), 2))
    assert found == [{"uuid": second.uuid, "number": 79}, {"uuid": first.uuid, "number": 31}]


def test_an_xid_by_another_handle_is_that_of_the_gpu_it_says(library: NvmlLibrary) -> None:
    driver = NvidiaDriver()
    _, second = driver.discover()
    library.xids.append((1 + len(library.gpus), 79))
    events = driver.events()
    assert next(events) == {"uuid": second.uuid, "number": 79}
    library.gpus[1].lost = True
    library.xids.append((1 + len(library.gpus), 79))
    with pytest.raises(DriverProblem, match="reported an Xid but not its GPU"):
        next(events)


@pytest.mark.parametrize("answer", [status(pynvml.NVML_ERROR_NOT_SUPPORTED), never])
def test_a_gpu_without_events_leaves_the_others_theirs(
    library: NvmlLibrary, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    driver = NvidiaDriver()
    first, second = driver.discover()
    monkeypatch.setattr(deadlines, "ANSWER_SECONDS", 0.3)
    library.gpus[1].answers["nvmlDeviceRegisterEvents"] = answer
    library.xids.append((0, 79))
    deaf, xid = itertools.islice(driver.events(), 2)
    assert (deaf["uuid"], xid) == (second.uuid, {"uuid": first.uuid, "number": 79})
    assert "NVML gives no events for it" in deaf["deaf"]
    library.gpus[0].answers["nvmlDeviceRegisterEvents"] = answer
    with pytest.raises(DriverProblem, match="NVML gives no events"):
        driver.events()


def test_a_gpu_that_falls_off_leaves_the_others_theirs(library: NvmlLibrary) -> None:
    driver = NvidiaDriver()
    first, second = driver.discover()
    events = driver.events()
    library.xids += [(1, 79), (LOST, 0), (0, 48)]
    library.gpus[1].lost = True
    assert next(events)["uuid"] == second.uuid
    assert next(events)["deaf"]
    assert next(events) == {"uuid": first.uuid, "number": 48}


def test_what_was_not_heard_throughout_is_unmeasured() -> None:
    reports = ErrorReports()
    reports.hearing("nvidia", None)
    reports.hearing("nvidia", "NVML gives no events for it", "GPU-1")
    reports.hearing("kernel log", "requires root")
    other = Device("GPU-1", 1, "nvidia", "a GPU")
    assert reports.measurement("counters.xid_hardware", GPU.uuid, WINDOWS).value == 0
    assert "events for it; requires root" in str(
        reports.measurement("counters.xid_hardware", other.uuid, WINDOWS).trouble
    )
    reports.gap = "the sensor ended"
    assert "the sensor ended" in str(reports.measurement("counters.xid_hardware", GPU.uuid, WINDOWS).trouble)
    reports.reports.append(xid(79))
    assert reports.measurement("counters.xid_hardware", GPU.uuid, WINDOWS).value == 1, "what was heard was heard"
