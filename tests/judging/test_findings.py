"""Fault codes: the cause before the metric, as severe as the verdict, and the same tomorrow."""

from __future__ import annotations

import math
import re
import runpy
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest
from support import in_process
from support.judged_tables import tabled, tables

from pytest_accel.core.details import Details, ErrorReport
from pytest_accel.core.fault_codes import TABLE, of_metric
from pytest_accel.core.measurement import Device, Measurement, Names
from pytest_accel.core.reasons import AllAlike, Compared, Note, OtherAlgorithm, WrongData
from pytest_accel.core.sku_types import DeclaredBy, Limit
from pytest_accel.core.verdict import Status, Verdict, Waiver
from pytest_accel.drivers import xids
from pytest_accel.drivers.kernel_messages import messages
from pytest_accel.judging.causes.findings import Finding, finding_of, findings
from pytest_accel.judging.facts.error_counters import ReadingWindow
from pytest_accel.judging.facts.error_reports import ErrorReports
from pytest_accel.run.record import findings_of
from pytest_accel.views.next_steps import next_steps

GPU = Device("GPU-0", 0, "nvidia", "NVIDIA H100 80GB HBM3", facts={"clock_max_mhz": 1980, "pcie_gen_max": 5})
NAMES = Names({"GPU-0": "gpu0", "GPU-1": "gpu1"})
WINDOWS = [ReadingWindow("soak.rate", 0.0, 20.0)]
FINDINGS = "data/judging/findings.yaml"
WAIVER = Waiver("a limit", "a sample board", "ann", date(2027, 1, 1))


def failing(metric: str, **fields: Any) -> Verdict:
    return Verdict(**{"metric": metric, "subject": "GPU-0", "status": Status.FAIL, **fields})


def lost(event: str, metric: str = "soak.rate") -> Verdict:
    return failing(metric, event=event, device_failed=True)


def wrong(metric: str, how: str) -> Verdict:
    return failing(metric, device_failed=True, reasons=(WrongData(how),))


def lines(verdicts: list[Verdict], places: dict[str, str] | None = None, *, full: bool = False) -> list[str]:
    """The lines on what to do next."""
    return [text for text, _ in next_steps(findings(verdicts, [], []), verdicts, NAMES, places or {}, full=full)]


def finding(verdict: Verdict, *own: Measurement) -> Finding:
    found = finding_of(verdict, own, GPU)
    assert found
    return found


def test_a_code_that_was_given_keeps_its_meaning() -> None:
    """Tickets and scripts refer to it: codes are added, never changed or given again."""
    assert [part for each in TABLE for part in (each.code, each.name)] == tables(FINDINGS)["given"].split()


def test_every_metric_of_ours_has_a_code_of_its_own() -> None:
    page = runpy.run_path(str(Path(__file__).parents[2] / "scripts/judged_by.py"))["page"]()
    metrics = re.findall(r"`((?:\w+)\.[\w.@]+)`", page)
    assert len(set(metrics)) > 200
    assert not [metric for metric in metrics if of_metric(metric).name == "limit-broken"]
    assert of_metric("my_own_test.bf16").name == "limit-broken"


def test_every_code_of_a_kernel_report_exists() -> None:
    codes = {each.code for each in (*messages().values(), *xids.catalogue().values())} - {""}
    assert len(codes) > 10
    assert codes <= {each.name for each in TABLE}


@tabled("fields, title, severity, action", "data/judging/findings.yaml")
def test_the_finding_of_a_verdict(fields: dict[str, Any], title: str, severity: str, action: str) -> None:
    found = finding(failing(**fields))
    assert (found.title, found.severity.value, found.action.value) == (title, severity, action)
    assert found.next_step


def test_what_holds_has_no_finding() -> None:
    for status in (Status.PASS, Status.NOT_APPLICABLE):
        assert finding_of(failing("matmul.bf16", status=status)) is None


def reported(kind: str, **fields: Any) -> Measurement:
    reports = ErrorReports(
        [ErrorReport("GPU-0", at=3.0, source="nvidia", **fields)], {"nvidia": None, "kernel log": None}
    )
    return reports.measurement(kind, "GPU-0", WINDOWS)


@tabled("kind, fields, title, do", "data/judging/findings.yaml")
def test_a_report_has_the_code_of_what_it_reports(kind: str, fields: dict[str, Any], title: str, do: str) -> None:
    metric = f"counters.{kind}_hardware"
    found = finding(failing(metric, value=1), reported(metric, **fields))
    assert found.title == title
    assert found.next_step.startswith(do)


WHOLE = math.log(1980 / 1400)


def slow(by_reason: dict[str, float], metric: str = "matmul.bf16", *, mhz: float = 1400.0) -> Measurement:
    throughout = WHOLE - sum(by_reason.values())
    lost = {"mhz": mhz, "from_mhz": 1980.0, "by_reason": by_reason, "throughout": throughout, "always": []}
    details = {"clock_losses": lost, "telemetry": {"seconds": 10.0}}
    return Measurement(metric, "GPU-0", "TFLOPS", 500.0, details=cast(Details, details))


@tabled("by_reason, changes, name", "data/judging/findings.yaml")
def test_the_cause_counts_more_than_the_metric(by_reason: dict[str, float], changes: dict[str, Any], name: str) -> None:
    own = slow(by_reason, **changes)
    assert finding(failing(own.metric, value=500.0), own).fault_code.name == name


def test_what_all_devices_share_and_a_limit_of_ones_own_are_checked_before_a_board_is_returned() -> None:
    own = Limit("stream.triad", "GB/s", floor=3200.0, declared_by=DeclaredBy.OWN_FILE, origin="ours.yaml:4")
    alike = failing("stream.triad", value=2900.0, reasons=(AllAlike(8),))
    assert finding(alike).next_step.startswith("compare what all 8 devices share")
    mine = finding(replace(alike, limit=own, margin=-0.1)).next_step
    assert mine.startswith("check the limit of your own first (ours.yaml:4); if it is right: compare what all 8")
    lost = finding(replace(alike, limit=own, device_failed=True, event="lost"))
    assert lost.fault_code.name == "device-lost"
    assert not lost.next_step.startswith(("compare", "check the limit"))
    hot = finding(failing("soak.throttle.hw_thermal", value=2.0, reasons=(AllAlike(8),)))
    assert hot.next_step.startswith("check fans"), "what they share already"


def test_the_step_after_a_disturbance_ends_it() -> None:
    disturbed = failing(
        "matmul.bf16", status=Status.INCONCLUSIVE, reasons=(Compared("floor"), Note("disturbed", "pid 4"))
    )
    assert finding(disturbed).next_step.startswith("stop the other work")
    chosen = replace(
        disturbed, reasons=(Compared("floor"), OtherAlgorithm("NCCL", "ring", "nvls"), Note("chosen", "NCCL_ALGO"))
    )
    assert finding(chosen).next_step.startswith("undo the setting")
    no_driver = failing("inventory.driver", status=Status.UNMEASURED, reasons=(Note("trouble", "no NVIDIA driver"),))
    assert "docker run --gpus all" in finding(no_driver).next_step


def test_the_worst_finding_comes_first_and_devices_share_a_line() -> None:
    width = failing("health.pcie_width")
    marginal = failing("matmul.bf16", status=Status.MARGINAL)
    verdicts = [width, marginal, replace(width, subject="GPU-1"), failing("memory_pattern.cold", value=3)]
    first, second = lines(verdicts, {"GPU-0": "serial 7"})
    assert first.startswith("next: gpu0 (serial 7) A207 memory-wrong, critical: ")
    assert second.startswith("next: gpu0 (serial 7), gpu1 A301 host-link-narrow, error: ")
    last = lines(verdicts, full=True)[-1]
    assert last.startswith("next: gpu0 A501 compute-slow, warning: ")
    assert last.endswith("(matmul.bf16)")


def test_a_fault_that_the_node_shows_names_the_part_that_is_blamed() -> None:
    """Which one to return: gpu1, and not the node."""
    verdicts = [failing("all_reduce.busbw@8GiB", subject="node", blamed="GPU-1")]
    (line,) = lines(verdicts, {"GPU-1": "serial 8"})
    assert line.startswith("next: gpu1 (serial 8) A308 collective-slow, error: ")


def test_a_device_that_is_short_beside_a_rejected_one_has_a_step() -> None:
    open_ = failing("matmul.fp8", subject="GPU-1", status=Status.INCONCLUSIVE, margin=-0.2)
    short = [open_, failing("matmul.bf16", subject="GPU-1", status=Status.MARGINAL, margin=-0.1)]
    verdicts = [failing("inventory.vbios"), *short]
    told = [re.split("[,:] ", line.removeprefix("next: "))[0] for line in lines(verdicts)]
    assert told == ["gpu0 A701 version", "gpu1 A902 inconclusive"]
    assert [line.split(":")[0] for line in lines(short)] == ["next"], "nothing is rejected: the worst has a step"


@pytest.mark.parametrize("name", ["power_brake", "hw_thermal"])
def test_what_a_slowdown_makes_slow_is_no_reason_to_return_the_part(name: str) -> None:
    slowed = [f"soak.throttle.{name}", "matmul_mamf.fp8", "soak.slowest_window"]
    verdicts = [failing(metric, value=0.5) for metric in (*slowed, "stream.triad")]
    verdicts.append(failing("matmul.fp8", value=500.0, subject="GPU-1"))
    found = {key[:2]: each.fault_code.name for key, each in findings(verdicts, [], []).items()}
    slowdown = {(metric, "GPU-0"): name.replace("_", "-") for metric in slowed}
    assert found == {**slowdown, ("stream.triad", "GPU-0"): "memory-slow", ("matmul.fp8", "GPU-1"): "compute-slow"}


def test_every_device_that_is_rejected_has_its_next_step() -> None:
    """However many codes there are."""
    metrics = ("memory_pattern.cold", "health.pcie_width", "health.remap_pending", "matmul.bf16", "stream.triad")
    verdicts = [failing(metric, subject=f"GPU-{place}") for place, metric in enumerate(metrics)]
    told = lines(verdicts)
    assert len(told) == len(metrics)
    assert [sum(f" {NAMES[each.subject]} " in line for line in told) for each in verdicts] == [1] * len(metrics)


def test_copies_over_a_narrow_link_have_its_code() -> None:
    copies = failing("host_copy.h2d"), failing("host_copy.d2h", subject="GPU-1")
    found = findings([failing("health.pcie_width", value=8), *copies], [], [])
    assert [found[each.key].fault_code.name for each in copies] == ["host-link-narrow", "host-link-slow"]


@pytest.mark.nightly
def test_a_whole_run_with_a_fault_on_every_device(tmp_path: Path) -> None:
    """The finding of each device is the fault that it has."""
    node = Path(__file__).parents[1] / "data/judging/every-device-sick.yaml"
    with in_process.fast():
        here, _ = in_process.run(node, tmp_path / "out", measured=("host_copy", "stream", "soak"))
    worst: dict[str, str] = {}
    for (_, subject, _), each in findings_of(here.ledger.record).items():
        worst.setdefault(here.ledger.names[subject], each.fault_code.name)
    expected = ("hw-thermal", "power-brake", "power-limit-lowered", "clock-locked", "host-link-narrow", "memory-slow")
    assert [worst[f"gpu{place}"] for place in range(1, 8)] == [*expected, "wrong-result"]
    assert {(each["code"], each["subject"]) for each in here.ledger.record.findings} == {
        (each.code, subject) for (_, subject, _), each in findings_of(here.ledger.record).items()
    }


def test_a_device_of_another_product_is_that_alone_unless_it_is_broken_too() -> None:
    """Its memory is not missing: the limit on it is that of the other product."""
    devices = [GPU, Device("GPU-1", 1, "nvidia", "NVIDIA H100 80GB HBM3")]
    other = [failing("inventory.sku"), failing("inventory.memory"), lost("lost", "stream.triad")]
    verdicts = [*other, failing("inventory.memory", subject="GPU-1"), failing("host.cpus", subject="node")]
    found = {key[:2]: each.fault_code.name for key, each in findings(verdicts, [], devices).items()}
    assert found == {
        ("inventory.sku", "GPU-0"): "wrong-product",
        ("stream.triad", "GPU-0"): "device-lost",
        ("inventory.memory", "GPU-1"): "memory-missing",
        ("host.cpus", "node"): "host-setting",
    }
    every = [*verdicts, failing("inventory.sku", subject="GPU-1")]
    assert {key[0] for key in findings(every, [], devices)} == {"inventory.sku", "stream.triad"}
    waived = [failing("inventory.sku", waiver=WAIVER), failing("inventory.memory")]
    assert ("inventory.memory", "GPU-0") in {key[:2] for key in findings(waived, [], devices)}
