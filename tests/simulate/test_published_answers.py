"""Simulated devices answer what real ones were published to answer, and a healthy one of every platform passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pynvml
import pytest
from support import shipped

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku_types import Platform, Sku
from pytest_accel.core.verdict import Status
from pytest_accel.drivers import registry
from pytest_accel.judging.facts.inventory import Discovery, facts
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run.simulation import model
from pytest_accel.run.terms import TermOptions
from pytest_accel.simulate import management
from pytest_accel.simulate.libraries import amdsmi, nvml, published
from pytest_accel.simulate.model import Model
from pytest_accel.simulate.node import SIMULATED_VENDORS, load
from pytest_accel.skus import requirements

SKUS = [sku for sku in shipped.every() if sku.vendor in SIMULATED_VENDORS]
NEEDS_AMDSMI = pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")
NOTHING = (Status.FAIL, Status.UNMEASURED, Status.INCONCLUSIVE)
Discover = Callable[[str, str], list[Device]]


@pytest.fixture
def discover(tmp_path: Path) -> Iterator[Discover]:
    """Return the function that discovers a simulated node through the real libraries."""
    loads = pynvml.CDLL

    def make(sku: str, platform: str) -> list[Device]:
        folder = tmp_path / f"{sku} {platform}"
        folder.mkdir()
        (folder / "node.yaml").write_text(f"sku: {sku}\nplatform: {platform}\n", encoding="utf-8")
        node = load(str(folder / "node.yaml"))
        management.install(Model.read(model(node, folder)))
        return registry.vendor(node.sku.vendor).driver([]).discover()

    yield make
    pynvml.CDLL = loads
    nvml.install(None)
    amdsmi.install(None)


def not_passed(sku: Sku, platform: Platform, devices: list[Device]) -> list[tuple[object, ...]]:
    """Return what of the facts of a node does not pass, with the value or the reason."""
    terms = TermOptions(sku.name, platform.name).terms_for(sku, devices)
    found = Discovery(tuple(devices), expected_by="its name")
    return [
        (sku.name, platform.name, metric, one.trouble.reason if one.trouble else one.value)
        for metric, limit in requirements.applying(terms.required, sku, terms.platform).items()
        if metric.startswith(("inventory.", "health."))
        for one in facts(metric, found, sku)
        if judge([one], limit).status in NOTHING
    ]


@pytest.mark.parametrize(
    "vendor", [pytest.param("nvidia", marks=pytest.mark.nightly), pytest.param("amd", marks=NEEDS_AMDSMI)]
)
def test_a_healthy_node_of_every_platform_passes(vendor: str, discover: Discover) -> None:
    seen = []
    for sku in (each for each in SKUS if each.vendor == vendor):
        for platform in sku.platforms.values():
            if platform.devices is not None and not platform.partition:
                devices = discover(sku.name, platform.name)
                assert [sku.mismatch(device) for device in devices] == [None] * platform.devices
                seen += not_passed(sku, platform, devices)
    assert seen == []


def test_every_answer_names_a_part_that_is_shipped_and_its_source() -> None:
    kinds = {"guest", *(name for sku in SKUS for name in (sku.name, sku.architecture))}
    for row in published():
        assert set(row["of"]) <= kinds, row["function"]
        assert row["source"], row["function"]


@NEEDS_AMDSMI
def test_a_bare_metal_mi300x_has_no_state_of_its_links_and_counts_their_errors(discover: Discover) -> None:
    device, *_ = discover("mi300x", "oam8")
    assert "xgmi_errors" in device.facts["unsupported"]
    assert device.facts["xgmi_uncorrectable"] == 0


@NEEDS_AMDSMI
def test_the_memory_of_a_guest_is_the_hosts_to_watch(discover: Discover) -> None:
    """It states that ECC is off and that nothing was counted, which is no finding."""
    device, *_ = discover("mi300x", "vm-single")
    assert (device.model, device.pci_id) == ("AMD Instinct MI300X VF", "1002:74b5")
    assert (device.facts["ecc"], device.facts["ecc_uncorrectable_volatile"]) == (False, 0)
    sku = shipped.load("mi300x")
    limits = requirements.limits(sku, sku.platforms["vm-single"], 1)
    applying = requirements.applying(limits, sku, sku.platforms["vm-single"])
    assert not [metric for metric in applying if "ecc_" in metric and not metric.startswith("host")]


@NEEDS_AMDSMI
def test_the_second_device_of_a_module_has_no_power_limit_of_its_own(discover: Discover) -> None:
    devices = discover("mi250x", "oam4")
    sku = shipped.load("mi250x")
    found = facts("inventory.power_limit", Discovery(tuple(devices)), sku)
    assert [one.trouble.kind if one.trouble else "" for one in found] == ["", "not_applicable"] * 4
