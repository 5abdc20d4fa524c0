"""Kernel logs that people published: what they blame, and what only follows (tests/real/kernel_logs.yaml)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import data_files
from support.rows import each_row

from pytest_accel.core.measurement import NODE
from pytest_accel.drivers import kernel_log, xids
from pytest_accel.drivers.kernel_messages import SOURCE, known
from pytest_accel.judging.facts.error_reports import ErrorReports

CASES = data_files.tables("drivers/kernel-logs")
LOGS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parents[1] / "real/kernel_logs.yaml").read_text(encoding="utf-8")
)
ACCELERATOR = re.compile(
    r"(?:(?<!S)Xid \(PCI:|NVRM: (?:The NVIDIA )?GPU (?:at PCI:)?|nvidia |amdgpu )"
    r"([0-9a-fA-F]{4}:[0-9a-f]{2}:[0-9a-f]{2})"
)
"""The address of a device of which a driver of accelerators speaks."""
EVERY = 0.1
"""Seconds between two lines of a log."""


def heard(lines: str, every: float = EVERY) -> tuple[ErrorReports, dict[str, str]]:
    """Return the reports in a log, on a node with all accelerators that it names, and these by address."""
    reader, reports = kernel_log.Reports(), ErrorReports()
    devices = {place.lower(): f"{place.lower()}.0" for place in ACCELERATOR.findall(lines)}
    records = [f"3,{n},{n * every * 1e6:.0f},-;{line}\n".encode() for n, line in enumerate(lines.splitlines())]
    for event in [event for record in records for event in reader.take(record)] + reader.end():
        reports.hear({**event, "source": SOURCE}, devices)
    return reports, devices


def of_kind(lines: str, kind: str, every: float = EVERY) -> set[str]:
    """Return the devices, or the node, of which a log counts reports of a kind."""
    reports, devices = heard(lines, every)
    subjects = [
        subject for subject in (*devices, NODE) for each in reports.reports_of(subject) if counts(reports, each, kind)
    ]
    return set(subjects)


def counts(reports: ErrorReports, report: Any, kind: str) -> bool:
    return known(report).kind == kind and not reports.cause(report, reports.causes())


@each_row("log", LOGS)
def test_a_published_log_blames_what_was_at_fault(log: dict[str, Any]) -> None:
    assert of_kind(log["lines"], xids.HARDWARE) == set(log.get("hardware", log["right"]))
    advice = of_kind(log["lines"], xids.APPLICATION) - of_kind(log["lines"], xids.HARDWARE)
    assert advice == set(log.get("advice", ()))


def test_where_the_answer_is_another_one_the_reason_is_stated() -> None:
    other = [log for log in LOGS if "hardware" in log]
    assert all(log["instead"] for log in other)
    assert len(LOGS) - len(other) >= 135, "so many are answered as by those who found the cause"


RESET = "NVRM: Xid (PCI:0000:5d:00): 154, GPU recovery action changed from 0x0 (None) to 0x{} (words differ)"


@each_row(("action", "kind"), CASES["recovery"])
def test_a_request_for_recovery_counts_by_its_number(action: str, kind: str | None) -> None:
    found = {each for each in (xids.HARDWARE, xids.APPLICATION) if of_kind(RESET.format(action), each)}
    assert found == ({kind} if kind else set())


@pytest.mark.parametrize("action", ["2", "7"])
def test_a_reboot_is_asked_of_the_node(action: str) -> None:
    lines = RESET.format(action)
    assert (of_kind(lines, xids.HARDWARE), of_kind(lines, xids.APPLICATION)) == (set(), {NODE})


NVLINK = CASES["nvlink"]


def test_of_a_broken_nvlink_the_end_that_names_the_reason_is_blamed() -> None:
    assert of_kind(NVLINK, xids.HARDWARE) == {"0000:4c:00"}
    assert of_kind(NVLINK, xids.APPLICATION) == set()


def test_what_is_not_together_does_not_follow() -> None:
    assert of_kind(NVLINK, xids.HARDWARE, every=40.0) == {"0000:4c:00", "0000:9b:00", "0000:bc:00"}


def test_what_follows_from_an_xid_that_nobody_heard_is_advice() -> None:
    assert of_kind(NVLINK.splitlines()[-1], xids.APPLICATION) == {"0000:bc:00"}


@pytest.mark.parametrize("earlier", ["45", "94"])
def test_an_xid_follows_from_no_later_one_and_not_from_itself(earlier: str) -> None:
    line = f"NVRM: Xid (PCI:0000:bc:00): 45, pid=6022, name=python3, Ch 00000003 caused by previous Xid {earlier}"
    later = "NVRM: Xid (PCI:0000:bc:00): 94, pid=6022, name=python3, Contained ECC error"
    reports, _ = heard(f"{line}\n{later}")
    assert reports.cause(reports.reports[0], reports.causes()) is None


@each_row(("line", "of"), CASES["unread"])
def test_an_xid_that_cannot_be_read_is_told(line: str, of: str) -> None:
    assert of_kind(f"NVRM: {line}", xids.APPLICATION) == {of}


CPER = CASES["cper"]


def test_a_report_of_the_firmware_names_the_device_of_each_section() -> None:
    reports, _ = heard(CPER)
    assert [(report.title, report.uuid) for report in reports.reports] == [
        ("firmware: PCIe fatal", "0000:4c:00"),
        ("firmware: PCIe", NODE),
    ]
    assert "{3}" not in reports.reports[0].text
    assert "device_id: 0000:4c:00.0" in reports.reports[0].text


@each_row(("lines", "blamed"), CASES["ports"])
def test_a_port_is_blamed_unless_its_report_names_one_device(lines: list[str], blamed: str) -> None:
    reports, _ = heard("\n".join([*lines, "nvidia 0000:4c:00.0: a device of this node"]))
    assert reports.reports[0].uuid == blamed


def of_gpu(place: str) -> str:
    error = "PCIe Bus Error: severity=Uncorrected (Fatal), type=Inaccessible, (Unregistered Agent ID)"
    return f"nvidia 0000:{place}:00.0: {error}"


def received(port: str, place: str) -> str:
    return f"pcieport 0000:{port}:01.0: AER: Uncorrected (Fatal) error received: 0000:{place}:00.0"


def section(number: int, place: str) -> list[str]:
    head = ["Hardware error from APEI Generic Hardware Error Source: 514", "event severity: fatal"]
    lines = [*head, " Error 0, type: fatal", "  section_type: PCIe error", f"  device_id: 0000:{place}:00.0"]
    return [f"{{{number}}}[Hardware Error]: {line}" for line in lines]


def test_devices_that_fail_at_once_are_all_blamed() -> None:
    both = {"0000:4c:00", "0000:bc:00"}
    assert of_kind(f"{of_gpu('4c')}\n{of_gpu('bc')}", xids.HARDWARE) == both
    ports = f"{received('4b', '4c')}\n{received('bb', 'bc')}"
    assert of_kind(f"{ports}\n{of_gpu('4c')}\n{of_gpu('bc')}", xids.HARDWARE) == both
    known_by = "nvidia 0000:4c:00.0: a device\nnvidia 0000:bc:00.0: a device\n"
    turns = [line for pair in zip(section(5, "4c"), section(6, "bc"), strict=True) for line in pair]
    assert of_kind(known_by + "\n".join(turns), xids.HARDWARE) == both


@each_row("lines", CASES["corrected"])
def test_what_was_corrected_on_a_device_is_no_part_of_another_report(lines: list[str]) -> None:
    assert of_kind("\n".join(lines), xids.HARDWARE) == {NODE}


@each_row(("lines", "blamed"), CASES["follows"])
def test_a_switch_follows_from_what_came_before_and_a_port_from_a_loss_from_the_bus(
    lines: list[str], blamed: list[str]
) -> None:
    assert of_kind("\n".join(lines), xids.HARDWARE) == set(blamed)


def test_two_reports_at_once_are_two() -> None:
    one = "pcieport 0000:4b:01.0: AER: Uncorrected (Fatal) error received: 0000:4b:01.0"
    error = "pcieport 0000:4b:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)"
    lines = "\n".join([one, error, one.replace("4b", "5b"), error.replace("4b", "5b")])
    assert len(heard(lines)[0].reports) == 2
    assert len(heard(f"{one}\n{error}")[0].reports) == 1
