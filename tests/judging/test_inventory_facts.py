"""What devices state becomes metrics with a unit; what they do not state is a need, or cannot apply."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pynvml
import pytest
from support import shipped
from support.judged_tables import tabled, tables

from pytest_accel.core.device_facts import DEVICE_FACTS
from pytest_accel.core.fact_metrics import ERROR_COUNTERS, FACT_METRICS
from pytest_accel.core.measurement import Device, Value
from pytest_accel.core.reasons import Expected
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import pci
from pytest_accel.drivers.vendors.nvidia import power
from pytest_accel.drivers.vendors.nvidia.driver import NvidiaDriver
from pytest_accel.judging.facts.error_counters import metrics_of
from pytest_accel.judging.facts.inventory import NO_LIMIT, Discovery, facts, read_fact
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.simulate.libraries import status
from pytest_accel.simulate.libraries.nvml import NvmlGpu, NvmlLibrary, fabric, fills, h100, install, processes
from pytest_accel.skus import requirements
from pytest_accel.skus.readiness import Readiness

H100 = shipped.load("h100-sxm")
LIMITS = requirements.limits(H100, H100.platforms["hgx8"], 8)
FACTS = [each for each in LIMITS if each.startswith(("inventory.", "health.")) and not requirements.of_node(each)]
NO_PERMISSION, NOT_SUPPORTED = pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_NOT_SUPPORTED
REASONS = "nvmlDeviceGetCurrentClocksEventReasons"


@pytest.fixture(autouse=True)
def _below_pynvml(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    monkeypatch.setattr(pci, "DEVICES", tmp_path)


def discovered(*gpus: NvmlGpu) -> Discovery:
    install(NvmlLibrary(list(gpus)))
    return Discovery(tuple(NvidiaDriver().discover()))


def judged(metric: str, discovery: Discovery) -> list[Verdict]:
    """The verdict on every device against the limit that H100 has on a board of eight."""
    return [judge([each], LIMITS[metric]) for each in facts(metric, discovery, H100)]


def device(**stated: Any) -> Device:
    return Device("GPU-0", 0, "nvidia", "a GPU", facts=stated)


NOT_THERE = {"health.retired_pages_pending", "health.retired_pages"}
"""On Hopper: they are of products before Ampere."""


def test_a_healthy_node_holds_every_limit_on_facts() -> None:
    node = discovered(*(h100(place) for place in range(8)))
    found = {metric: {each.status for each in judged(metric, node)} for metric in FACTS}
    assert {metric for metric, statuses in found.items() if statuses != {Status.PASS}} == NOT_THERE
    assert all(found[metric] == {Status.NOT_APPLICABLE} for metric in NOT_THERE)


def test_the_metrics_that_judge_a_fact_are_those_that_are_computed_from_it() -> None:
    """A fact without one is recorded only, and docs/checks.md says so."""
    assert metrics_of("ecc_uncorrectable_volatile") == (
        "health.ecc_uncorrectable_volatile",
        "counters.ecc_uncorrectable",
    )
    assert metrics_of("hip_id") == ()
    known = {*FACT_METRICS, *(f"counters.{name}" for name in ERROR_COUNTERS)}
    assert {metric for name in (*DEVICE_FACTS, "memory_bytes") for metric in metrics_of(name)} == known


def answer(cell: Any) -> Any:
    """What a library answers, as a table writes it."""
    if isinstance(cell, list):
        return tuple(answer(each) for each in cell)
    if not isinstance(cell, dict):
        return cell.encode() if isinstance(cell, str) else cell
    if "fills" in cell:
        return fills(**cell["fills"])
    if "fabric" in cell:
        return fabric(**cell["fabric"])
    pairs = [(tuple(arguments), each) for arguments, each in cell["pairs"]] if "pairs" in cell else cell.items()
    return {key: answer(each) for key, each in pairs}


def cases(table: str) -> list[tuple[str, dict[str, Any], dict[Any, Any]]]:
    rows = tables("data/judging/inventory-facts.yaml")[table]
    return [(metric, *(answer(each) for each in stated)) for metric, *stated in rows]


SICK = cases("sick")
ADVICE = cases("advice")


@pytest.mark.parametrize(("cases", "status"), [(SICK, Status.FAIL), (ADVICE, Status.MARGINAL)])
def test_every_limit_on_a_fact_can_fail_and_blames_one_device(
    cases: list[tuple[str, dict[str, Any], dict[Any, Any]]], status: Status
) -> None:
    for metric, answers, fields in cases:
        gpus = [h100(place) for place in range(4)]
        gpus[2].answers.update(answers)
        gpus[2].fields.update(fields)
        found = [each.status for each in judged(metric, discovered(*gpus))]
        assert [each is status for each in found] == [False, False, True, False], metric
        assert Status.FAIL not in found[:2]


@pytest.mark.parametrize(("action", "status"), [(2, Status.INCONCLUSIVE), (7, Status.INCONCLUSIVE), (1, Status.FAIL)])
def test_a_reboot_that_every_gpu_asks_for_is_no_fault_of_one(action: int, status: Status) -> None:
    """NVIDIA's driver states it of all of them, whichever failed (bug 4503046); a reset it states of one."""
    gpus = [h100(place) for place in range(3)]
    for gpu in gpus[1:]:
        gpu.fields[230] = (1, action)
    found = judged("health.recovery_action", discovered(*gpus))
    assert [each.status for each in found] == [Status.PASS, status, status]
    assert ("whichever of them failed" in sentence_of(found[1])) is (status is Status.INCONCLUSIVE)


def test_firmware_is_compared_on_boards_of_one_maker() -> None:
    gpus = [h100(place) for place in range(4)]
    for gpu in gpus[2:]:
        board = fills(busId=b"00000000:9B:00.0", pciDeviceId=0x233010DE, pciSubSystemId=0x16C11043)
        gpu.answers.update(nvmlDeviceGetVbiosVersion=b"96.00.74.00.01", nvmlDeviceGetPciInfo_v3=board)
    assert {each.status for each in judged("inventory.vbios", discovered(*gpus))} == {Status.PASS}


LESSER = {
    **dict.fromkeys(("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"), 630_000),
    "nvmlDeviceGetPowerManagementDefaultLimit": 630_000,
    "nvmlDeviceGetPowerManagementLimitConstraints": (200_000, 630_000),
    "nvmlDeviceGetMaxClockInfo": {1: 1755, 2: 2619},
}


def test_a_node_of_lesser_boards_fails_although_all_are_alike() -> None:
    node = discovered(*(h100(place, **LESSER) for place in range(8)))
    failed = {metric for metric in FACTS if {each.status for each in judged(metric, node)} == {Status.FAIL}}
    assert failed == {"inventory.power_limit_default", "inventory.power_limit_max", "inventory.clock_max"}


def test_a_vbios_that_is_not_listed_is_told_or_rejected_as_the_file_says() -> None:
    listed = Limit("inventory.vbios", "version", one_of=("96.00.A5.00.03", "96.00.A5.00.04"))
    node = discovered(h100(), h100(1, nvmlDeviceGetVbiosVersion=b"96.00.61.00.01"))
    known, other = facts("inventory.vbios", node, H100)
    assert judge([known], listed).status is Status.PASS
    assert judge([other], replace(listed, warns=True)).status is Status.MARGINAL
    rejected = judge([other], listed)
    assert rejected.status is Status.FAIL
    assert rejected.reasons[0] == Expected()
    assert (rejected.value, rejected.expected) == ("96.00.61.00.01", "96.00.A5.00.03 or 96.00.A5.00.04")


"""The answer of drivers 595 and later for application clocks."""


def test_a_driver_without_application_clocks_still_states_what_holds_the_clock() -> None:
    """Drivers 595 and later have none. Clouds set them to the highest clock, which locks nothing."""
    clocks = ("nvmlDeviceGetClock", "nvmlDeviceGetApplicationsClock", "nvmlDeviceGetDefaultApplicationsClock")
    gone: dict[str, Any] = dict.fromkeys(clocks, status(pynvml.NVML_ERROR_DEPRECATED))
    highest: dict[str, Any] = {REASONS: 0x02, "nvmlDeviceGetClock": {(1, 1): 1980, (1, 2): 1755}}
    cases = ({**gone, REASONS: 0x01}, Status.PASS), ({**gone, REASONS: 0x11}, Status.FAIL), (highest, Status.PASS)
    for answers, expected in cases:
        (verdict,) = judged("health.clock_lock", discovered(h100(**answers)))
        assert verdict.status is expected


@pytest.mark.nightly
@pytest.mark.parametrize(("after", "expected"), [(0x01, Status.PASS), (0x08, Status.FAIL), (0x48, Status.FAIL)])
def test_a_slowdown_while_the_clock_changes_is_looked_at_again(
    after: int, expected: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A healthy device may show it for a moment, as when discovery wakes it up."""
    monkeypatch.setattr(power, "CLOCK_CHANGES_S", 0.01)
    seen = iter([0x08])

    def reasons(_handle: Any, answer: Any) -> int:
        answer._obj.value = next(seen, after)
        return 0

    (verdict,) = judged("health.slowdown", discovered(h100(nvmlDeviceGetCurrentClocksEventReasons=reasons)))
    assert verdict.status is expected


def test_application_clocks_of_the_graphics_domain_count_where_those_of_the_sms_are_gone() -> None:
    def clock(_handle: Any, kind: Any, which: Any, answer: Any) -> int:
        answer._obj.value = 1200 if which.value == 1 else 1980
        return int(pynvml.NVML_ERROR_DEPRECATED) if kind.value == pynvml.NVML_CLOCK_SM else 0

    (found,) = discovered(h100(nvmlDeviceGetClock=clock)).devices
    assert found.facts["clock_application_mhz"] == 1200


def test_errors_that_only_a_part_of_the_memory_counts_are_errors_of_the_device() -> None:
    """The library's total may be of fewer places than the counters of SRAM and DRAM."""
    parts = {**dict.fromkeys(product((0, 1), (0, 1), (2, 7)), 0), (1, 0, 7): 1, (1, 0, 2): 1}
    (verdict,) = judged("health.ecc_uncorrectable_volatile", discovered(h100(nvmlDeviceGetMemoryErrorCounter=parts)))
    assert (verdict.status, verdict.value) == (Status.FAIL, 2)


def test_every_limit_is_proven_able_to_fail() -> None:
    proven = {metric for metric, *_ in (*SICK, *ADVICE)}
    of_the_node = {"inventory.driver_version", "inventory.fabric_cluster"}  # one driver, one cluster for all
    elsewhere = {"inventory.sku", "health.foreign_processes", "health.pcie_fatal"}
    assert set(FACTS) == proven | of_the_node | elsewhere


def test_every_nvidia_part_has_limits_on_its_health() -> None:
    for sku in (each for each in shipped.every() if each.vendor == "nvidia"):
        for platform in sku.platforms.values():
            assert "health" not in Readiness(sku, platform).lacking
            assert "health.remap_pending" in requirements.limits(sku, platform, 1)


def test_a_part_from_before_row_remapping_is_not_asked_for_it() -> None:
    limit = shipped.load("v100-sxm2-32gb").limits["health.remap_pending"]
    (found,) = facts("health.remap_pending", discovered(h100(nvmlDeviceGetRemappedRows=status(NOT_SUPPORTED))), None)
    assert judge([found], limit).status is Status.NOT_APPLICABLE
    assert judge([found], LIMITS["health.remap_pending"]).status is Status.UNMEASURED


def test_a_process_of_others_is_no_fault_of_the_device() -> None:
    busy = h100(nvmlDeviceGetComputeRunningProcesses_v3=processes(7))
    (verdict,) = judged("health.foreign_processes", discovered(busy))
    assert (verdict.status, "pid 7" in sentence_of(verdict)) == (Status.INCONCLUSIVE, True)


def test_a_fact_that_this_user_may_not_read_is_unmeasured_with_the_reason() -> None:
    node = discovered(h100(), h100(1, nvmlDeviceGetRemappedRows=status(NO_PERMISSION)))
    fine, hidden = judged("health.remap_pending", node)
    assert fine.status is Status.PASS
    assert hidden.status is Status.UNMEASURED
    assert sentence_of(hidden) == "remap_pending: this user may not read it: run as root"


def test_what_the_gpu_does_not_support() -> None:
    """Required without condition it is UNMEASURED: a limit is dropped by the file of the SKU, not by the GPU."""
    for metric, function, expected in (
        ("health.remap_pending", "nvmlDeviceGetRemappedRows", Status.UNMEASURED),
        ("health.fabric", "nvmlDeviceGetGpuFabricInfoV", Status.NOT_APPLICABLE),
    ):
        answer: dict[str, Any] = {function: status(NOT_SUPPORTED)}
        (verdict,) = judged(metric, discovered(h100(**answer)))
        assert verdict.status is expected
        assert "this GPU or its driver does not support it" in sentence_of(verdict)


@tabled("metric, stated, unit, value", "data/judging/inventory-facts.yaml")
def test_a_figure_and_its_unit(metric: str, stated: dict[str, Any], unit: str, value: Value) -> None:
    assert read_fact(metric, device(**stated)) == (unit, value, None)


def test_a_device_that_states_nothing_has_no_figure_and_a_reason() -> None:
    for metric in FACT_METRICS:
        _, value, trouble = read_fact(metric, device())
        assert (value, trouble and trouble.kind) == (None, "not_applicable"), metric
        assert "the driver does not report it" in str(trouble)


def test_a_power_limit_of_nothing_is_none() -> None:
    """The second device of a module of MI250X says so (aldebaran_get_power_limit)."""
    _, value, trouble = read_fact(
        "health.power_limit_lowered", device(power_limit_requested_w=0.0, power_limit_default_w=0)
    )
    assert (value, trouble) == (None, NO_LIMIT)


def test_a_limit_on_a_fact_that_nobody_knows_is_not_passed_over() -> None:
    assert "this version knows no fact health.mood" in str(read_fact("health.mood", device())[2])


@tabled("metric, stated", "data/judging/inventory-facts.yaml")
def test_a_number_that_no_device_can_mean_holds_and_breaks_no_limit(metric: str, stated: dict[str, Any]) -> None:
    _, value, trouble = read_fact(metric, device(**stated))
    assert (value, trouble and trouble.kind) == (None, "need")
