"""What a node of MI300X states is judged by the limits that all AMD parts have: each one can fail."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import shipped

from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import pci
from pytest_accel.drivers.vendors.amd.driver import AmdDriver
from pytest_accel.judging.facts.inventory import Discovery, facts
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.simulate.libraries import amdsmi as sim
from pytest_accel.simulate.libraries import status
from pytest_accel.simulate.libraries.amdsmi import By, SmiLibrary, install, mi300x, pages, pcie
from pytest_accel.skus import requirements
from pytest_accel.skus.readiness import lacking

pytestmark = pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")

MI300X = shipped.load("mi300x")
LIMITS = requirements.limits(MI300X, MI300X.platforms["oam8"], 8)
FACTS = [each for each in LIMITS if each.startswith(("inventory.", "health.")) and not requirements.of_node(each)]


@pytest.fixture(autouse=True)
def _below_amdsmi(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    monkeypatch.setattr(pci, "DEVICES", tmp_path)
    yield
    install(None)


def judged(metric: str, *gpus: sim.SmiGpu) -> list[Verdict]:
    """The verdict on every device against the limit that MI300X has on a board of eight."""
    install(SmiLibrary(list(gpus)))
    discovery = Discovery(tuple(AmdDriver().discover()))
    return [judge([each], LIMITS[metric]) for each in facts(metric, discovery, MI300X)]


def test_a_healthy_node_holds_every_limit_on_facts() -> None:
    node = [mi300x(place) for place in range(8)]
    found = {metric: {each.status for each in judged(metric, *node)} for metric in FACTS}
    assert {metric: each for metric, each in found.items() if each != {Status.PASS}} == {}
    assert len(found) > 20


def test_health_is_part_of_what_an_mi300x_can_be_accepted_against() -> None:
    assert lacking(MI300X, MI300X.platforms["oam8"], ["standard"]) == []


def ecc(**counts: int) -> dict[str, Any]:
    return {"amdsmi_get_gpu_total_ecc_count": counts}


BOARD = mi300x().answers
SICK: list[tuple[str, dict[str, Any]]] = [
    ("inventory.sku", {"amdsmi_get_gpu_asic_info": {**BOARD["amdsmi_get_gpu_asic_info"], "device_id": 0x74A2}}),
    ("inventory.driver_version", {"amdsmi_get_gpu_driver_info": {"driver_version": b"6.10.5"}}),
    ("inventory.virtualization", {"amdsmi_get_gpu_virtualization_mode": sim.GUEST}),
    ("inventory.memory", {"amdsmi_get_gpu_memory_total": By({0: 180 << 30})}),
    ("inventory.xgmi_hive", {"amdsmi_get_xgmi_info": {"xgmi_hive_id": 7}}),
    ("inventory.power_limit", {"amdsmi_get_power_cap_info": {"power_cap": 500_000_000}}),
    (
        "inventory.clock_max",
        {"amdsmi_get_clock_info": By({0: {"max_clk": 1900}, 4: {"max_clk": 1300}})},
    ),
    ("inventory.power_limit_default", {"amdsmi_get_power_cap_info": {"default_power_cap": 700_000_000}}),
    (
        "inventory.compute_units",
        {"amdsmi_get_gpu_asic_info": {**BOARD["amdsmi_get_gpu_asic_info"], "num_of_compute_units": 228}},
    ),
    ("inventory.ecc", {"amdsmi_get_gpu_ecc_enabled": 0}),
    ("inventory.pcie_gen_max", {"amdsmi_get_pcie_info": {"pcie_static": {"max_pcie_speed": 16_000}}}),
    ("health.pcie_width", {"amdsmi_get_pcie_info": pcie(width=8)}),
    ("health.perf_level", {"amdsmi_get_gpu_perf_level": sim.DETERMINISM}),
    (
        "health.power_limit_lowered",
        {"amdsmi_get_power_cap_info": {"power_cap": 700_000_000, "default_power_cap": 750_000_000}},
    ),
    ("health.ecc_uncorrectable_volatile", ecc(uncorrectable_count=1)),
    ("health.bad_pages_pending", {"amdsmi_get_gpu_bad_page_info": pages(0, 1)}),
    ("health.bad_pages_unreservable", {"amdsmi_get_gpu_bad_page_info": pages(2)}),
    (
        "health.bad_pages_of_threshold",
        {"amdsmi_get_gpu_bad_page_info": pages(0, 0), "amdsmi_get_gpu_bad_page_threshold": 1},
    ),
    ("health.xgmi_up", {"amdsmi_get_gpu_xgmi_link_status": {"total_links": 8, "status": [1, 1, 1, 1, 1, 1, 0, 2]}}),
    ("health.xgmi_uncorrectable", sim.errors(XGMI_WAFL={"uncorrectable": 1})),
    ("health.thermal_margin", {"amdsmi_get_gpu_metrics_info": sim.metrics(temperature_hotspot=100)}),
    ("health.slowdown", {"amdsmi_get_violation_status": sim.violations(prochot_thrm=1)}),
]


@pytest.mark.parametrize(("metric", "answers"), SICK, ids=[metric for metric, _ in SICK])
def test_the_one_that_is_sick_fails(metric: str, answers: dict[str, Any]) -> None:
    node = [mi300x(place, **(answers if place == 5 else {})) for place in range(8)]
    found = {place: each.status for place, each in enumerate(judged(metric, *node))}
    assert found.pop(5) is Status.FAIL
    assert set(found.values()) == {Status.PASS}


@pytest.mark.parametrize(
    ("metric", "answers"),
    [
        ("inventory.vbios", {"amdsmi_get_gpu_vbios_info": {"version": b"022.040.003.041.000001"}}),
        ("inventory.firmware_bundle", {"amdsmi_get_fw_info": sim.firmware(pldm_bundle=0x01190300)}),
        ("inventory.firmware", {"amdsmi_get_fw_info": sim.firmware(ta_xgmi=0x20000011)}),
    ],
)
def test_other_firmware_on_one_board_is_advice(metric: str, answers: dict[str, Any]) -> None:
    node = [mi300x(place, **(answers if place == 5 else {})) for place in range(8)]
    found = {place: each.status for place, each in enumerate(judged(metric, *node))}
    assert found.pop(5) is Status.MARGINAL
    assert set(found.values()) == {Status.PASS}


def test_the_power_limit_at_work_is_no_slowdown() -> None:
    (found,) = judged("health.slowdown", mi300x(amdsmi_get_violation_status=sim.violations(ppt_pwr=1)))
    assert found.status is Status.PASS


def test_deferred_errors_are_advice() -> None:
    (found,) = judged("health.ecc_deferred_volatile", mi300x(**ecc(deferred_count=3)))
    assert found.status is Status.MARGINAL


@pytest.mark.parametrize("metric", ["health.bad_pages_pending", "health.bad_pages_unreservable"])
def test_what_this_user_may_not_read_is_unmeasured_and_says_so(metric: str) -> None:
    (found,) = judged(metric, mi300x(amdsmi_get_gpu_bad_page_info=status(10)))
    assert found.status is Status.UNMEASURED
    assert "run as root" in sentence_of(found)


def test_every_limit_on_facts_was_made_to_fail() -> None:
    spared = {"health.foreign_processes", *(metric for metric in FACTS if LIMITS[metric].advises)}
    assert {metric for metric, _ in SICK} == set(FACTS) - spared
