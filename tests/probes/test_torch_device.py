"""A worker that sees several devices opens its own, whatever torch's number of it is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch
from support.probe_device import AtOnce

from pytest_accel.core.measurement import Device
from pytest_accel.probes.device.error_class import Unmeasurable
from pytest_accel.probes.device.torch_device import Compute

BUSES = (0x0C, 0x22, 0x38, 0x5C)
NODE = [Device(f"uuid-{i}", i, "amd", "MI300X", pci_address=f"0000:{bus:02x}:00.0") for i, bus in enumerate(BUSES)]
EVERY = [device.uuid for device in NODE]


@pytest.fixture
def rocm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A torch for ROCm that shows four devices."""
    (tmp_path / "kfd").touch()
    monkeypatch.setattr("pytest_accel.probes.device.torch_device.KFD", str(tmp_path / "kfd"))
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    shows(monkeypatch, *BUSES)
    return monkeypatch


def shows(monkeypatch: pytest.MonkeyPatch, *buses: int, told: bool = True) -> list[int]:
    """torch sees the devices on these buses; returns the numbers that it is told to use."""
    used: list[int] = []
    address = [{"pci_domain_id": 0, "pci_bus_id": bus, "pci_device_id": 0} for bus in buses]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(buses))
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda number: SimpleNamespace(**(address[number] if told else {}))
    )
    monkeypatch.setattr(torch.cuda, "set_device", used.append)
    return used


def test_a_device_is_opened_by_its_place_among_those_that_are_visible(rocm: pytest.MonkeyPatch) -> None:
    used = shows(rocm, *BUSES)
    assert Compute([NODE[2]], AtOnce(), EVERY).torch_device == torch.device("cuda", 2)
    assert used == [2]
    assert [each.index for each in Compute(NODE[1:], AtOnce(), EVERY).torch_devices] == [1, 2, 3]


def test_another_order_than_was_asked_for_is_noticed(rocm: pytest.MonkeyPatch) -> None:
    shows(rocm, *reversed(BUSES))
    with pytest.raises(Unmeasurable, match="torch opened another device: 0000:22:00 instead of uuid-2"):
        Compute([NODE[2]], AtOnce(), EVERY)


def test_a_neighbour_that_torch_does_not_see_costs_nobody_else_the_measurement(rocm: pytest.MonkeyPatch) -> None:
    shows(rocm, *BUSES[:1], *BUSES[2:])
    assert Compute([NODE[2]], AtOnce(), EVERY).torch_device.index == 1
    with pytest.raises(Unmeasurable, match="CUDA sees only 3 of 4 devices"):
        Compute([NODE[1]], AtOnce(), EVERY)


def test_no_device_is_guessed_where_torch_tells_no_address(rocm: pytest.MonkeyPatch) -> None:
    shows(rocm, *BUSES[:1], *BUSES[2:], told=False)
    with pytest.raises(Unmeasurable, match="CUDA sees only 3 of 4 devices"):
        Compute([NODE[2]], AtOnce(), EVERY)
