"""What the environment leaves of the devices, what a worker is shown, and whether torch opened the right one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support import data_files
from support.rows import each_row

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import registry
from pytest_accel.drivers.visibility import Visibility

CASES = data_files.tables("drivers/visibility")
NVIDIA = [Device(f"GPU-aaaa{i}", i, "nvidia", "H100") for i in range(4)]
# the library's order is the bus's, HIP's is another
AMD = [
    Device(
        f"uuid-{i}",
        i,
        "amd",
        "MI300X",
        pci_address=f"0000:{0x0C + i:02x}:00.0",
        facts={"hip_id": 3 - i, "visible_as": f"GPU-5a3c00001111000{i}"},
    )
    for i in range(4)
]


def of(devices: list[Device]) -> Visibility:
    """The rules of their vendor."""
    return registry.vendor(devices[0].driver).visibility


@each_row(("environment", "left"), CASES["hip"])
def test_hip_counts_in_its_own_order_among_what_rocr_left(
    environment: dict[str, str], left: dict[str, list[str]]
) -> None:
    assert of(AMD).narrowing(AMD, environment) == left


def test_only_its_own_vendors_variables_narrow() -> None:
    everything = {"CUDA_VISIBLE_DEVICES": "1, 2", "ROCR_VISIBLE_DEVICES": "0"}
    assert of(NVIDIA).narrowing(NVIDIA, everything) == {"CUDA_VISIBLE_DEVICES": ["1", "2"]}
    cpu = [Device("c", 0, "cpu", "")]
    assert of(cpu).narrowing(cpu, everything) == {}


def test_a_worker_sees_its_devices_and_inherits_no_other_choice() -> None:
    assert of(AMD).selecting(AMD[:2]) == {
        "ROCR_VISIBLE_DEVICES": "GPU-5a3c000011110000,GPU-5a3c000011110001",
        "HIP_VISIBLE_DEVICES": None,
        "CUDA_VISIBLE_DEVICES": None,
        "GPU_DEVICE_ORDINAL": None,
    }
    assert of(NVIDIA).selecting(NVIDIA[:1]) == {
        "CUDA_VISIBLE_DEVICES": "GPU-aaaa0",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_DEVICE_MAX_CONNECTIONS": None,
    }
    assert of(NVIDIA).selecting(NVIDIA)["CUDA_DEVICE_MAX_CONNECTIONS"] == "32", "many copies at once"
    assert of(AMD).selecting([Device("u", 2, "amd", "")])["ROCR_VISIBLE_DEVICES"] == "2"


def opened(uuid: str = "", **place: Any) -> Any:
    return SimpleNamespace(**({"uuid": uuid} if uuid else {}), **place)


RIGHT = "35613363-3030-3030-3131-313130303030"
"""The letters 5a3c000011110000, as torch prints the bytes of a UUID."""


@each_row(
    ("properties", "mistake"),
    [
        (opened(), None),  # an old torch tells nothing
        (opened(RIGHT), None),
        (opened("5a3c0000-1111-0000"), None),
        (opened("35613363-3030-3030-3131-313130303031"), "5a3c000011110001"),
        (opened(pci_domain_id=0, pci_bus_id=0x0C, pci_device_id=0), None),
        (opened(pci_domain_id=0, pci_bus_id=0x0D, pci_device_id=0), "0000:0d:00"),
        (opened("some other form", pci_domain_id=0, pci_bus_id=0x0C, pci_device_id=0), None),
    ],
)
def test_torch_on_rocm_opened_the_device(properties: Any, mistake: str | None) -> None:
    assert of(AMD).mistaken(properties, AMD[0]) == mistake


def test_torch_on_cuda_opened_the_device() -> None:
    assert of(NVIDIA).mistaken(opened("AAAA1"), NVIDIA[1]) is None
    assert of(NVIDIA).mistaken(opened("aaaa2"), NVIDIA[1]) == "aaaa2"


# -- vendors that are known by the PCI bus alone


def others(driver: str, **facts: Any) -> list[Device]:
    return [Device(f"PCI-{i}", i, driver, "", facts={key: v[i] for key, v in facts.items()}) for i in range(3)]


@pytest.mark.parametrize(("driver", "name"), [("intel", "ZE_AFFINITY_MASK"), ("ascend", "ASCEND_RT_VISIBLE_DEVICES")])
def test_a_device_is_chosen_by_its_place_on_the_bus(driver: str, name: str) -> None:
    devices = others(driver)
    assert of(devices).selecting(devices[1:])[name] == "1,2"
    assert of(devices).narrowing(devices, {name: "0, 2", "CUDA_VISIBLE_DEVICES": "1"}) == {name: ["0", "2"]}


def test_level_zero_counts_tiles_in_the_order_of_the_bus() -> None:
    chosen = of(others("intel")).selecting(others("intel")[:1])
    assert chosen["ZE_ENABLE_PCI_ID_DEVICE_ORDER"] == "1"
    assert chosen["ZE_FLAT_DEVICE_HIERARCHY"] == "FLAT"
    assert chosen["ONEAPI_DEVICE_SELECTOR"] is None, "it would choose among what is left"


def test_a_gaudi_is_chosen_by_its_module_and_runs_eagerly() -> None:
    devices = others("habana", module_id=["5", "2", "7"])
    assert of(devices).selecting(devices[1:2]) == {
        "HLS_MODULE_ID": "2",
        "HABANA_VISIBLE_MODULES": None,
        "PT_HPU_LAZY_MODE": "0",
    }
    chosen = {"HABANA_VISIBLE_MODULES": "7,5"}
    assert of(devices).narrowing(devices, chosen) == {"HABANA_VISIBLE_MODULES": ["PCI-2", "PCI-0"]}
    assert of(devices).narrowing(others("habana"), chosen) == {"HABANA_VISIBLE_MODULES": ["module 7", "module 5"]}
