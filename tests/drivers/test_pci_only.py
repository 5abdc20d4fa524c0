"""Devices that the PCI bus alone shows: what is known of them, what is not, and how both are judged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support import shipped

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.messages import Problem
from pytest_accel.drivers import Hint, NoDriver, pci, pci_only, registry
from pytest_accel.drivers.host.host_environment import HostEnvironment
from pytest_accel.drivers.pci_only import PciOnlyDriver
from pytest_accel.judging.facts import inventory
from pytest_accel.judging.facts.error_counters import CounterReadings
from pytest_accel.judging.facts.inventory import Discovery, facts
from pytest_accel.judging.facts.telemetry import soak_measurements
from pytest_accel.skus import products

GAUDI3, MAX_1550, TRAINIUM2, ASCEND = "1da3:1060", "8086:0bd5", "1d0f:7364", "19e5:d802"


@pytest.fixture(autouse=True)
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PCI bus without any device, on bare metal."""
    monkeypatch.setattr(pci, "DEVICES", tmp_path)
    monkeypatch.setattr(pci_only, "host_environment", lambda: HostEnvironment(root=False, container="", machine=""))
    return tmp_path


def plug(bus: Path, address: str, pci_id: str, **files: str) -> Hint:
    """A function of the bus, and what hints at it."""
    vendor, _, device = pci_id.partition(":")
    driver = {"1da3": "habana", "8086": "intel", "1d0f": "neuron", "19e5": "ascend"}[vendor]
    link = {"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe", "current_link_width": "16"}
    own = {"vendor": f"0x{vendor}", "device": f"0x{device}", "subsystem_vendor": "0x1da3", "subsystem_device": "0x0001"}
    folder = bus / address
    folder.mkdir()
    for name, text in {**link, **own, "max_link_width": "16", "numa_node": "1", **files}.items():
        (folder / name).write_text(f"{text}\n")
    return Hint(driver, pci=f"{address}")


def opened(vendor: str, *hints: Hint) -> PciOnlyDriver:
    """The driver that the vendor declares."""
    driver = registry.vendor(vendor).driver(hints)
    assert isinstance(driver, PciOnlyDriver)
    return driver


def discovered(*hints: Hint) -> list[Device]:
    return opened(hints[0].driver, *hints).discover()


def test_a_device_is_what_the_kernel_shows_of_it(bus: Path) -> None:
    second, first = (plug(bus, address, GAUDI3, module_id="4") for address in ("0000:34:00.0", "0000:33:00.0"))
    devices = discovered(second, first)
    assert [each.pci_address for each in devices] == ["0000:33:00.0", "0000:34:00.0"]
    device = devices[0]
    assert device.uuid.startswith("PCI-")
    assert device.uuid.endswith("-0000:33:00.0")
    assert (device.driver, device.model, device.pci_id, device.numa_node) == ("habana", "", GAUDI3, 1)
    assert device.facts["pci_subsystem"] == "1da3:0001"
    assert (device.facts["pcie_width"], device.facts["pcie_gen_max"], device.facts["module_id"]) == (16, 5, "4")
    assert device.cpus


def test_the_identity_holds_on_its_host_alone(bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every node of a kind has the same addresses: their histories must not become one."""
    hint = plug(bus, "0000:33:00.0", GAUDI3)
    here = discovered(hint)[0].uuid
    monkeypatch.setattr(pci_only, "pseudonym", lambda: "another")
    assert discovered(hint)[0].uuid != here


def test_a_card_of_two_tiles_is_two_devices(bus: Path) -> None:
    """As torch counts them, and as the threshold file means them."""
    devices = discovered(*(plug(bus, f"0000:{place}:00.0", MAX_1550) for place in ("18", "2a")))
    assert [each.index for each in devices] == [0, 1, 2, 3]
    assert len({each.uuid for each in devices}) == 4
    assert [each.pci_address for each in devices] == ["0000:18:00.0"] * 2 + ["0000:2a:00.0"] * 2


def test_a_gpu_of_intel_says_nothing_of_its_link_to_the_host(bus: Path) -> None:
    device = discovered(plug(bus, "0000:18:00.0", MAX_1550, current_link_width="1"))[0]
    _, value, trouble = inventory.read_fact("health.pcie_width", device)
    assert value is None
    assert trouble
    assert "may show the link within its card" in trouble.reason


def test_nor_does_a_virtual_machine(bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pci_only, "host_environment", lambda: HostEnvironment(root=False, container="", machine="qemu"))
    device = discovered(plug(bus, "0000:33:00.0", GAUDI3, current_link_width="1"))[0]
    assert "pcie_width" not in device.facts
    assert "emulated (qemu)" in device.facts["unread"]["pcie_width"]


@pytest.mark.parametrize(
    ("pci_id", "sku", "library"),
    [
        (GAUDI3, "gaudi3", "hl-smi"),
        (MAX_1550, "max-1550", "xpu-smi"),
        (TRAINIUM2, "trainium2", "neuron-ls"),
        (ASCEND, "ascend-910b", "npu-smi"),
    ],
)
def test_it_is_recognised_by_its_pci_id_and_what_nobody_reads_is_a_need(
    bus: Path, pci_id: str, sku: str, library: str
) -> None:
    hint = plug(bus, "0000:33:00.0", pci_id)
    driver, (device, *others) = opened(hint.driver, hint), discovered(hint)
    assert [each.name for each in products.recognise([device, *others], shipped.every())] == [sku]
    troubles: list[Any] = [
        inventory.read_fact("health.remap_pending", device)[2],
        inventory.read_fact("inventory.memory", device)[2],
        counted(driver, device).trouble,
        *(each.trouble for each in soaked(device)),
    ]
    assert {each.kind for each in troubles} == {"need"}
    assert all(library in each.reason for each in troubles), "the need names the library"
    assert "whether it was idle is not known" in str(driver.idle(device)), "unknown is not idle"
    assert library in driver.needs[0]
    assert driver.read(device) == {}


def counted(driver: PciOnlyDriver, device: Device) -> Measurement:
    ledger = CounterReadings()
    for at in (0.0, 1.0):
        ledger.enter(at, "matmul.bf16", {device.uuid: driver.health(device)})
    return ledger.measurement("counters.ecc_uncorrectable", device)


def soaked(device: Device) -> list[Measurement]:
    soak = Measurement("soak.rate", device.uuid, "TFLOPS", samples=(1.0, 1.0))
    return soak_measurements(soak, device, {"readings": 0})


def test_the_kernel_alone_is_no_working_driver(bus: Path) -> None:
    """The node is neither fit nor unfit for a library that we do not drive."""
    hint = plug(bus, "0000:33:00.0", GAUDI3)
    driver = opened("habana", hint)
    problem = Problem("habana", "need", driver.needs[0], [hint.where])
    found = Discovery(tuple(driver.discover()), [problem], [vars(hint)])
    [measured] = facts("inventory.driver", found, shipped.load("gaudi3"))
    assert measured.trouble
    assert measured.trouble.kind == "need"
    assert facts("inventory.count", found, shipped.load("gaudi3"))[0].value == 1
    assert facts("inventory.sku", found, shipped.load("gaudi3"))[0].value == "gaudi3"


def test_a_function_without_an_id_is_no_other_product(bus: Path) -> None:
    hint = plug(bus, "0000:33:00.0", GAUDI3)
    (bus / "0000:33:00.0" / "device").unlink()
    [measured] = facts("inventory.sku", Discovery(tuple(discovered(hint))), shipped.load("gaudi3"))
    assert measured.trouble
    assert measured.trouble.kind == "need"


def test_nodes_in_dev_are_no_devices() -> None:
    with pytest.raises(NoDriver, match="no driver for Gaudi devices yet, and the PCI bus shows none"):
        opened("habana", Hint("habana", node="/dev/accel/accel0"))
    with pytest.raises(NoDriver, match="no driver for TPU devices yet"):
        opened("google")
