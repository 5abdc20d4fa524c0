"""What the kernel log says of failing hardware: real lines, told apart, laid to device or node, judged by class."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import shipped
from support.in_process import RecordingPipe
from support.rows import each_row

from pytest_accel.core.measurement import NODE
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import kernel_log
from pytest_accel.drivers.kernel_messages import SOURCE, find, messages
from pytest_accel.drivers.sensor import Sensor
from pytest_accel.judging.facts.error_counters import ReadingWindow
from pytest_accel.judging.facts.error_reports import ErrorReports, WorkerEnd
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.skus import requirements

WINDOWS = [ReadingWindow("matmul.bf16", 0.0, 10.0), ReadingWindow("soak.rate", 10.0, 20.0)]
OURS = {"GPU-0": "0000:0c:00.0", "GPU-1": "0000:e3:00.0"}
OF = {"nvidia": ("h100-sxm", "hgx8"), "amd": ("mi300x", "oam8")}

REAL = yaml.safe_load((Path(__file__).parents[1] / "real/kernel_lines.yaml").read_text(encoding="utf-8"))


def kmsg(line: str, priority: int = 3) -> str:
    """A record of /dev/kmsg."""
    return f"{priority},1234,5678901,-;{line}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:1b.0\n"


def event(line: str) -> dict[str, Any]:
    """The event in a log of one line; empty if there is none."""
    reports = kernel_log.Reports()
    return next(iter(reports.take(kmsg(line).encode()) + reports.end()), {})


def test_a_line_is_known_with_its_address() -> None:
    for known in (each for group in REAL["messages"] for each in group["lines"]):
        line, found = known["line"], event(known["line"])
        assert (found["message"], found["address"]) == (known["message"], known.get("address", "")), line
        assert found["at"] == pytest.approx(5.678901)
        assert found["text"] == line.removeprefix("{1}").removeprefix("[Hardware Error]: ")


def test_what_was_corrected_or_only_goes_with_it_is_no_news() -> None:
    assert [line for group in REAL["no_news"] for line in group["lines"] if find(line)] == []


def test_every_message_has_a_real_line() -> None:
    """Alone, or where several lines make it in one of the logs; the Xids that cannot be read are made up."""
    logs = (Path(__file__).parents[1] / "real/kernel_logs.yaml").read_text(encoding="utf-8")
    alone = {each["message"] for group in REAL["messages"] for each in group["lines"]}
    records = [f"3,1,1,-;{line.strip()}\n".encode() for line in logs.splitlines()]
    reader = kernel_log.Reports()
    found = {each.get("message") for record in records for each in reader.take(record)}
    assert set(messages()) - alone - found == {"unread Xid"}


# -- laid to a device or the node, and judged


def heard(*lines: str, ended: tuple[WorkerEnd, ...] = ()) -> ErrorReports:
    """The reports of a node that has read these lines at 12 s, during the soak."""
    reports = ErrorReports(deaf={SOURCE: None}, worker_ends=list(ended))
    for line in lines:
        reports.hear({**event(line), "at": 12.0, "source": SOURCE}, OURS)
    return reports


def verdict(line: str, metric: str, *, vendor: str = "nvidia", ended: tuple[WorkerEnd, ...] = ()) -> Verdict:
    reports, subject = heard(line, ended=ended), NODE if metric.startswith("host") else "GPU-0"
    return judge([reports.measurement(metric, subject, WINDOWS)], limit(metric, vendor))


def limit(metric: str, vendor: str = "nvidia") -> Any:
    name, platform = OF[vendor]
    sku = shipped.load(name)
    return requirements.limits(sku, sku.platforms[platform], 8)[metric]


RESET = "amdgpu 0000:0c:00.0: amdgpu: GPU reset begin!"
FATAL = "pcieport 0000:{}:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)"


@pytest.mark.parametrize("vendor", OF)
def test_hardware_fails_its_device_and_advice_warns(vendor: str) -> None:
    found = verdict(FATAL.format("0c"), "counters.log_hardware", vendor=vendor)
    assert found.status is Status.FAIL
    assert sentence_of(found).startswith(
        "1, expected 0, during soak.rate: PCIe fatal, a PCI Express link failed; check"
    )
    assert "severity=Uncorrected (Fatal)" in sentence_of(found)
    advice = verdict(FATAL.format("0c").replace("Fatal", "Non-Fatal"), "counters.log_advice", vendor=vendor)
    assert advice.status is Status.MARGINAL


def test_what_is_at_no_device_is_the_nodes() -> None:
    bridge = FATAL.format("03")
    assert verdict(bridge, "counters.log_hardware").status is Status.PASS
    found = verdict(bridge, "host_counters.log_hardware")
    assert (found.status, found.subject) == (Status.FAIL, NODE)
    assert verdict(FATAL.format("0c"), "host_counters.log_hardware").status is Status.PASS, "that was the device's"
    switch = "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
    assert verdict(switch, "host_counters.log_hardware").status is Status.FAIL


def test_another_graphics_card_is_no_fault_of_the_node() -> None:
    reports = ErrorReports(deaf={SOURCE: None})
    note = reports.hear({**event(RESET.replace("0c", "77")), "at": 12.0, "source": SOURCE}, OURS)
    assert reports.reports == []
    assert "amdgpu reset of 0000:77:00.0, which is not a device of this run" in str(note)


@each_row(
    ("ended", "counts"),
    [
        (WorkerEnd("GPU-0", 812, 11.0), False),
        (WorkerEnd("GPU-0", 812, 13.0), True),
        (WorkerEnd("GPU-0", 812, -60.0), True),
        (WorkerEnd("GPU-1", 812, 11.0), True),
    ],
)
def test_a_reset_after_we_killed_its_worker_is_ours(ended: WorkerEnd, counts: bool) -> None:
    assert verdict(RESET, "counters.log_hardware", vendor="amd", ended=(ended,)).value == int(counts)
    lost_data = "amdgpu 0000:0c:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!"
    assert verdict(lost_data, "counters.log_hardware", vendor="amd", ended=(ended,)).value == 1


@pytest.mark.parametrize(("ended", "count"), [((), 0), ((WorkerEnd("GPU-0", 812, 11.0),), 1)])
def test_a_port_follows_a_device_that_failed_and_none_that_we_reset(ended: tuple[WorkerEnd, ...], count: int) -> None:
    """A device that our own kill reset is not the cause of what a port reports beside it."""
    reports = heard(RESET, FATAL.format("03"), ended=ended)
    assert reports.measurement("counters.log_hardware", "GPU-0", WINDOWS).value == 1 - count
    assert reports.measurement("host_counters.log_hardware", NODE, WINDOWS).value == count


def test_of_a_flood_the_record_has_the_beginning() -> None:
    found = heard(*[FATAL.format("0c")] * 1000).measurement("counters.log_hardware", "GPU-0", WINDOWS)
    assert (found.value, len(found.details["reports"])) == (1000, 50)


def test_an_xid_is_not_counted_twice() -> None:
    line = "NVRM: Xid (PCI:0000:0c:00): 79, pid=1234, name=python, GPU has fallen off the bus."
    assert verdict(line, "counters.log_hardware").value == 0


def test_who_may_not_read_the_log_is_not_judged_by_it() -> None:
    reports = ErrorReports(
        deaf={SOURCE: "/dev/kmsg: Permission denied (requires root, on the host instead of a container)"}
    )
    for metric in ("counters.log_hardware", "host_counters.log_hardware"):
        found = judge([reports.measurement(metric, "GPU-0", WINDOWS)], limit(metric))
        assert found.status is Status.NOT_APPLICABLE
        assert "requires root" in sentence_of(found)


def test_without_a_probe_nothing_could_be_logged() -> None:
    assert ErrorReports(deaf={SOURCE: None}).measurement("counters.log_hardware", "GPU-0", []).trouble


# -- the log itself


def test_the_sensor_tells_lines_from_xids() -> None:
    sent = RecordingPipe()
    lines = (FATAL.format("0c"), "NVRM: Xid (PCI:0000:0c:00): 79, pid=7, GPU has fallen off the bus.")
    Sensor(sent)._report(SOURCE, lambda: (kernel_log.parse(line) or {} for line in lines))  # type: ignore[arg-type]
    assert [each["event"] for each in sent] == ["hearing", "logged", "xid"]


def test_what_a_program_writes_into_the_log_is_not_the_kernels(tmp_path: Path) -> None:
    """Whoever echoes a line to /dev/kmsg gets the facility `user`; agents and drills do."""
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(path, os.O_WRONLY)
    events = kernel_log._events(reader, path)
    os.write(writer, kmsg(RESET, priority=12).encode())

    def later() -> None:
        os.write(writer, kmsg(FATAL.format("0c")).encode())

    threading.Timer(0.5, later).start()
    assert next(events)["message"] == "PCIe fatal"
