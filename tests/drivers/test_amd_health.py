"""What a node of MI300X states is judged by the limits that all AMD parts have: each one can fail."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest
from support import shipped

from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import pci
from pytest_accel.drivers.vendors.amd.driver import AmdDriver
from pytest_accel.judging.facts.inventory import Discovery, facts
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.simulate.libraries import amdsmi as sim
from pytest_accel.simulate.libraries import status
from pytest_accel.simulate.libraries.amdsmi import SmiLibrary, install, mi300x
from pytest_accel.skus import requirements
from pytest_accel.skus.readiness import Readiness

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
    assert Readiness(MI300X, MI300X.platforms["oam8"], ["standard"]).lacking == []


SICK: dict[str, dict[str, Any]] = {
    "inventory.power_limit_default": {"amdsmi_get_power_cap_info": {"default_power_cap": 700_000_000}},
    "inventory.compute_units": {
        "amdsmi_get_gpu_asic_info": {**mi300x().answers["amdsmi_get_gpu_asic_info"], "num_of_compute_units": 228}
    },
    "health.thermal_margin": {"amdsmi_get_gpu_metrics_info": sim.metrics(temperature_hotspot=100)},
}
"""What no fault of a simulated node shows (tests/data/fault-cases.yaml)."""


@pytest.mark.parametrize("metric", SICK)
def test_the_one_that_is_sick_fails(metric: str) -> None:
    node = [mi300x(place, **(SICK[metric] if place == 5 else {})) for place in range(8)]
    found = [each.status for each in judged(metric, *node)]
    assert found == [Status.FAIL if place == 5 else Status.PASS for place in range(8)]


def test_the_power_limit_at_work_is_no_slowdown() -> None:
    (found,) = judged("health.slowdown", mi300x(amdsmi_get_violation_status=sim.violations(ppt_pwr=1)))
    assert found.status is Status.PASS


def test_what_this_user_may_not_read_is_unmeasured_and_says_so() -> None:
    (found,) = judged("health.bad_pages_pending", mi300x(amdsmi_get_gpu_bad_page_info=status(10)))
    assert found.status is Status.UNMEASURED
    assert "run as root" in sentence_of(found)
