"""Simulated devices answer what real ones were published to answer, and a healthy one of every platform passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pynvml
import pytest
import shipped

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku import Platform, Sku
from pytest_accel.core.verdict import Status
from pytest_accel.drivers import registry
from pytest_accel.judging.facts.inventory import Discovery, facts
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.run.simulation import model
from pytest_accel.run.terms import Wanted
from pytest_accel.simulate import management
from pytest_accel.simulate.libraries import amdsmi, nvml, published
from pytest_accel.simulate.model import Model
from pytest_accel.simulate.node import SIMULATED_VENDORS, load
from pytest_accel.skus import requirements

SKUS = [sku for sku in shipped.every() if sku.vendor in SIMULATED_VENDORS]
NODES = [
    pytest.param(
        sku,
        platform,
        id=f"{sku.name} {platform.name}",
        marks=pytest.mark.skipif(sku.vendor == "amd" and not find_spec("amdsmi"), reason="amdsmi is not installed"),
    )
    for sku in SKUS
    for platform in sku.platforms.values()
    if platform.devices is not None and not platform.partition
]
NOTHING = (Status.FAIL, Status.UNMEASURED, Status.INCONCLUSIVE)
Discover = Callable[[str, str], list[Device]]


@pytest.fixture
def discover(tmp_path: Path) -> Iterator[Discover]:
    """Return the function that discovers a simulated node through the real libraries."""
    loads = pynvml.CDLL

    def make(sku: str, platform: str) -> list[Device]:
        (tmp_path / "node.yaml").write_text(f"sku: {sku}\nplatform: {platform}\n", encoding="utf-8")
        node = load(str(tmp_path / "node.yaml"))
        management.install(Model.read(model(node, tmp_path)))
        return registry.vendor(node.sku.vendor).driver([]).discover()

    yield make
    pynvml.CDLL = loads
    nvml.install(None)
    amdsmi.install(None)


@pytest.mark.parametrize(("sku", "platform"), NODES)
def test_a_healthy_node_of_every_platform_passes(sku: Sku, platform: Platform, discover: Discover) -> None:
    devices = discover(sku.name, platform.name)
    terms = Wanted(sku.name, platform.name).settled(sku, devices)
    found = Discovery(tuple(devices), expected_by="its name")
    seen = {
        (metric, one.trouble.reason if one.trouble else one.value)
        for metric, limit in requirements.applying(terms.required, sku, terms.platform).items()
        if metric.startswith(("inventory.", "health."))
        for one in facts(metric, found, sku)
        if judge([one], limit).status in NOTHING
    }
    assert seen == set()


def test_every_answer_names_a_part_that_is_shipped_and_its_source() -> None:
    kinds = {"guest", *(name for sku in SKUS for name in (sku.name, sku.architecture))}
    for row in published():
        assert set(row["of"]) <= kinds, row["function"]
        assert row["source"], row["function"]


@pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")
def test_a_bare_metal_mi300x_has_no_state_of_its_links_and_counts_their_errors(discover: Discover) -> None:
    device, *_ = discover("mi300x", "oam8")
    assert "xgmi_errors" in device.facts["unsupported"]
    assert device.facts["xgmi_uncorrectable"] == 0


@pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")
def test_the_memory_of_a_guest_is_the_hosts_to_watch(discover: Discover) -> None:
    """It states that ECC is off and that nothing was counted, which is no finding."""
    device, *_ = discover("mi300x", "vm-single")
    assert (device.model, device.pci_id) == ("AMD Instinct MI300X VF", "1002:74b5")
    assert (device.facts["ecc"], device.facts["ecc_uncorrectable_volatile"]) == (False, 0)
    sku = shipped.load("mi300x")
    limits = requirements.limits(sku, sku.platforms["vm-single"], 1)
    applying = requirements.applying(limits, sku, sku.platforms["vm-single"])
    assert not [metric for metric in applying if "ecc_" in metric and not metric.startswith("host")]


@pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")
def test_the_second_device_of_a_module_has_no_power_limit_of_its_own(discover: Discover) -> None:
    devices = discover("mi250x", "oam4")
    sku = shipped.load("mi250x")
    found = facts("inventory.power_limit", Discovery(tuple(devices)), sku)
    assert [one.trouble.kind if one.trouble else "" for one in found] == ["", "not_applicable"] * 4
