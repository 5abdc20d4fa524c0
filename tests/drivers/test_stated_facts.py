"""The drivers state the facts of core/device_facts, from the sources that docs/checks.md names, and no others."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pynvml
import pytest

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.core.device_facts import DEVICE_FACTS
from pytest_accel.core.measurement import Device
from pytest_accel.drivers import Driver, Hint, library_query, pci, pci_only
from pytest_accel.drivers.host.host_environment import HostEnvironment
from pytest_accel.drivers.vendors import habana
from pytest_accel.drivers.vendors.amd.driver import AmdDriver
from pytest_accel.drivers.vendors.cpu.driver import CpuDriver
from pytest_accel.drivers.vendors.nvidia import driver as nvidia
from pytest_accel.drivers.vendors.nvidia.driver import NvidiaDriver
from pytest_accel.drivers.vendors.nvidia.power import slowdown_fields
from pytest_accel.simulate.libraries import amdsmi, nvml

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import facts
from judged_by import READ_ONCE

NOTES = {"unread", "unsupported"}


OF_DEVICE = {"model", "serial", "memory_bytes", "pci_address", "numa_node"}
"""Answers that become fields of the device, and are no facts."""


def test_the_page_names_every_fact_and_no_other() -> None:
    assert {*facts.NVML, *facts.AMDSMI, *facts.FILES} - OF_DEVICE == set(DEVICE_FACTS)


def test_the_page_names_the_slowdown_counters_as_the_header_of_driver_580_does() -> None:
    names = [facts.NVML[name] for name in ("sw_thermal_s", "hw_thermal_s", "hw_power_brake_s")]
    assert tuple(getattr(pynvml, name) for name in names) == slowdown_fields("580.95.05")


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a device whose link the PCI bus shows."""
    address = "0000:1a:00.0"
    folder = tmp_path / "0000:19:00.0" / address
    folder.mkdir(parents=True)
    link = {"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe"}
    width = {"current_link_width": "16", "max_link_width": "16"}
    ids = {"vendor": "0x1da3", "device": "0x1020", "subsystem_vendor": "0x1da3", "subsystem_device": "0x1"}
    for name, text in {**link, **width, **ids, "module_id": "3"}.items():
        (folder / name).write_text(f"{text}\n")
    (tmp_path / "habanalabs").mkdir()
    (folder / "driver").symlink_to(tmp_path / "habanalabs")
    devices = tmp_path / "devices"
    devices.mkdir()
    (devices / address).symlink_to(folder)
    monkeypatch.setattr(pci, "DEVICES", devices)
    monkeypatch.setattr(pci_only, "host_environment", lambda: HostEnvironment(root=False, container="", machine=""))
    return address


def stated(driver: Driver) -> set[str]:
    """Every fact that a driver states of its devices, at the beginning and later."""
    devices: list[Device] = driver.discover()
    return {name for each in devices for name in (*each.facts, *driver.health(each))} - NOTES


def on_page(sources: Mapping[str, str]) -> set[str]:
    return {name for name in DEVICE_FACTS if sources.get(name)}


def missed(driver: Driver) -> set[str]:
    """The facts that a driver could not state here, and says so."""
    said = [said for each in driver.discover() for said in (each.facts, driver.health(each))]
    return {name for each in said for kind in NOTES for name in each.get(kind, {})}


@pytest.fixture
def nvidia_driver(monkeypatch: pytest.MonkeyPatch, bus: str) -> Driver:
    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    nvml.install(nvml.NvmlLibrary([nvml.h100()]))
    return NvidiaDriver()


def test_nvidia_states_what_the_table_says(nvidia_driver: Driver) -> None:
    found = stated(nvidia_driver)
    assert found <= on_page(facts.NVML)
    assert on_page(facts.NVML) <= found | missed(nvidia_driver)


@pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")
def test_amd_states_what_the_table_says(bus: str) -> None:
    amdsmi.install(amdsmi.SmiLibrary([amdsmi.mi300x()]))
    driver = AmdDriver()
    found = stated(driver)
    assert found <= on_page(facts.AMDSMI)
    assert on_page(facts.AMDSMI) <= found | missed(driver)


@pytest.mark.parametrize(("machine", "mode"), [("", "none"), ("kvm", "passthrough")])
def test_a_device_of_a_virtual_machine_is_passed_through_whatever_nvml_says(
    machine: str, mode: str, nvidia_driver: Driver, bus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pci.DEVICES / bus / "class").write_text("0x030200\n")
    gpu = nvml.h100(nvmlDeviceGetPciInfo_v3=nvml.fills(busId=f"0000{bus}".encode(), pciDeviceId=0x233010DE))
    nvml.install(nvml.NvmlLibrary([gpu]))
    monkeypatch.setattr(
        library_query, "host_environment", lambda: HostEnvironment(root=False, container="", machine=machine)
    )
    (device,) = nvidia_driver.discover()
    assert device.facts["virtualization"] == mode
    assert ("pcie_path" in device.facts) == (mode == "none")


@pytest.mark.parametrize("node", ["nvidiactl", "dxg"])
def test_a_device_that_a_proxy_hands_into_a_virtual_machine_is_passed_through(
    node: str, nvidia_driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The bus shows nothing of it, and NVML answers as on the host; its host link is the guest's all the same."""
    here = HostEnvironment(root=False, container="", machine="unknown hypervisor")
    monkeypatch.setattr(library_query, "host_environment", lambda: here)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / node).touch()
    monkeypatch.setattr(nvidia, "proxied", partial(nvidia.proxied, tmp_path))
    nvml.install(nvml.NvmlLibrary([nvml.h100()]))

    (device,) = nvidia_driver.discover()
    assert device.facts["virtualization"] == "passthrough"
    assert "emulated" in device.facts["unsupported"]["pcie_path"]

    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    (device,) = nvidia_driver.discover()
    assert device.facts["virtualization"] == "none", "this kernel's own driver answers"


def test_drivers_without_a_library_state_what_the_table_says(bus: str) -> None:
    found = stated(CpuDriver()) | stated(habana.VENDOR.make_driver([Hint("habana", pci=f"{bus}")]))
    assert found == on_page(facts.FILES)


def test_the_bits_of_a_low_clock_are_those_of_the_header() -> None:
    names = {
        "GpuIdle": ClockEvent.GPU_IDLE,
        "ApplicationsClocksSetting": ClockEvent.APPLICATION_CLOCKS,
        "SwPowerCap": ClockEvent.SW_POWER_CAP,
        "HwSlowdown": ClockEvent.HW_SLOWDOWN,
        "SyncBoost": ClockEvent.SYNC_BOOST,
        "SwThermalSlowdown": ClockEvent.SW_THERMAL,
        "HwThermalSlowdown": ClockEvent.HW_THERMAL,
        "HwPowerBrakeSlowdown": ClockEvent.HW_POWER_BRAKE,
    }
    assert {name: getattr(pynvml, f"nvmlClocksEventReason{name}") for name in names} == names
    assert set(names.values()) == set(ClockEvent)


def check_read_again(driver: Driver) -> None:
    """What the first device states at discovery it states after a probe too, answered or refused."""
    (device, *_) = driver.discover()
    both = (device.facts, driver.health(device))
    first, later = ({*said, *said.get("unread", {}), *said.get("unsupported", {})} & set(DEVICE_FACTS) for said in both)
    assert first - later == first & READ_ONCE


def test_every_fact_of_nvidia_that_may_change_is_read_again() -> None:
    nvml.install(nvml.NvmlLibrary([nvml.h200()]))
    check_read_again(NvidiaDriver())


@pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")
def test_every_fact_of_amd_that_may_change_is_read_again() -> None:
    amdsmi.install(amdsmi.SmiLibrary([amdsmi.mi300x()]))
    check_read_again(AmdDriver())
