"""Numbers of devices that no platform has, display adapters beside accelerators, and the slots of cards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import data_files, shipped
from support.rows import each_row

from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.node_name import node_name
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import expected_platform
from pytest_accel.core.verdict import Status
from pytest_accel.judging.facts.inventory import Discovery, facts
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run import earlier_records
from pytest_accel.run.options import Refused
from pytest_accel.run.record import write
from pytest_accel.run.setup import Target, expect_earlier_devices
from pytest_accel.run.terms import TermOptions, sku_of
from pytest_accel.skus import requirements

TABLES = data_files.tables("run/parts_of_nodes")

H100 = shipped.load("h100-sxm")
MI300X = shipped.load("mi300x")
GIB = 2**30


def gpus(count: int, **more: Any) -> list[Device]:
    gpu = Device(
        "", 0, "nvidia", "NVIDIA H100 80GB HBM3", 80 * GIB, pci_id="10de:2330", facts={"virtualization": "none"}
    )
    return [replace(gpu, uuid=f"GPU-{index}", index=index, **more) for index in range(count)]


def functions(count: int) -> list[Device]:
    return gpus(count, driver="amd", model="AMD Instinct MI300X VF", pci_id="1002:74b5", memory_bytes=191 * GIB)


@each_row(("count", "name", "usual"), TABLES["counts"])
def test_a_number_that_a_part_of_a_node_may_have_is_no_missing_device(count: int, name: str, usual: bool) -> None:
    platform, known = expected_platform(H100, gpus(count))
    assert (platform.name, known) == (name, usual)


def test_links_of_a_slice_are_those_that_end_inside() -> None:
    switched, meshed = H100.platform_named("slice2"), MI300X.platform_named("slice2")
    assert switched
    assert meshed
    assert (switched.devices, switched.link["count"], switched.network) == (2, 18, {})
    assert not [metric for metric in switched.limits if metric.startswith("all_reduce")]
    assert (meshed.devices, meshed.link) == (2, {})
    functional, _ = expected_platform(MI300X, functions(2))
    assert (functional.name, functional.virtual) == ("vm-slice2", True)


@each_row(("count", "expected_by", "value", "words"), TABLES["named"])
def test_who_runs_on_a_part_is_asked_for_its_name(count: int, expected_by: str, value: int | None, words: str) -> None:
    (found,) = facts("inventory.count", Discovery(tuple(gpus(count)), expected_by=expected_by), H100)
    assert found.value == value
    assert words in (found.trouble.reason if found.trouble else "")


def test_a_named_slice_holds_and_one_device_less_fails() -> None:
    for count, status in ((4, Status.PASS), (3, Status.FAIL)):
        terms = TermOptions("h100-sxm", "slice4").terms_for(H100, gpus(count))
        (found,) = facts("inventory.count", Discovery(tuple(gpus(count)), expected_by="platform slice4"), H100)
        assert judge([found], terms.limits["inventory.count"]).status is status


@pytest.mark.parametrize(("part", "kind"), [(False, "device"), (True, None)])
def test_the_bus_may_show_more_than_the_part_that_was_named(part: bool, kind: str | None) -> None:
    """A job of a scheduler sees the bus of the whole node, and the devices that it was given."""
    shown = [{"driver": "nvidia", "pci": f"0000:{place:02x}:00.0", "where": "PCI"} for place in range(8)]
    trouble = Discovery(tuple(gpus(4)), unclaimed=shown, part=part).unreachable("nvidia")
    assert (trouble.kind if trouble else None) == kind


def test_devices_that_an_earlier_record_holds_are_missing(tmp_path: Path) -> None:
    terms = TermOptions("h100-sxm").terms_for(H100, gpus(2))
    assert terms.doubt
    run: Any = {"started": "2026-11-01", "host": node_name(), "platform": "hgx8"}
    (tmp_path / "before").mkdir()
    write(Run(info=run, sku={"name": "h100-sxm"}, devices=gpus(8), state="finished"), tmp_path / "before")
    before = earlier_records.read(tmp_path / "now", None).newest_of(node_name())
    here = expect_earlier_devices(Target(Discovery(tuple(gpus(2))), terms, gpus(2)), before)
    assert "holds 8 devices" in here.discovery.expected_by
    (count,) = facts("inventory.count", here.discovery, H100)
    assert judge([count], here.terms.limits["inventory.count"]).status is Status.FAIL
    assert count.subject == NODE


DISPLAY = Device("GPU-d", 9, "nvidia", "NVIDIA T400 4GB", 4 * GIB, pci_id="10de:1ff2", facts={"pci_class": "0x030000"})


def test_a_display_adapter_beside_accelerators_is_left_out() -> None:
    node = [*gpus(8), DISPLAY]
    assert sku_of(node) == H100
    assert TermOptions("h100-sxm").terms_for(H100, node).devices == tuple(gpus(8))
    (count,) = facts("inventory.count", Discovery(tuple(node)), H100)
    assert count.value == 8
    assert {each.value for each in facts("inventory.sku", Discovery(tuple(node)), H100)} == {"h100-sxm"}


@pytest.mark.parametrize(
    "other",
    [
        replace(DISPLAY, facts={"pci_class": "0x030200"}),  # a 3D controller
        replace(DISPLAY, memory_bytes=40 * GIB),
        replace(gpus(1)[0], uuid="GPU-x", memory_bytes=8 * GIB),  # an H100 that lost its memory
    ],
)
def test_what_may_be_an_accelerator_is_not(other: Device) -> None:
    found = facts("inventory.sku", Discovery((*gpus(8), other)), H100)
    assert [each.value == "h100-sxm" for each in found] == [True] * 8 + [False]


def test_a_device_without_a_name_is_no_display_adapter() -> None:
    lost = replace(DISPLAY, model="", pci_id=None, facts={})
    (count,) = facts("inventory.count", Discovery((*gpus(7), lost)), H100)
    assert count.value == 8


def test_the_platform_of_a_guest_is_refused_for_whole_devices() -> None:
    """Its limits leave the errors of the memory to the host."""
    whole = gpus(8, driver="amd", model="AMD Instinct MI300X", pci_id="1002:74a1", memory_bytes=191 * GIB)
    for name in ("vm-passthrough", "vm-slice8"):
        with pytest.raises(Refused, match="gpu0 is a whole device"):
            TermOptions("mi300x", name).terms_for(MI300X, whole)
        assert TermOptions("mi300x", name).terms_for(MI300X, functions(8)).platform.virtual


def test_no_two_products_share_id_units_and_memory() -> None:
    """A device that has another name is known by these, where the file states the units."""
    seen = [
        (part, units, sku.datasheet.memory.get("gb"))
        for sku in shipped.every()
        if (units := sku.datasheet.compute.get("units"))
        for part in (*sku.match.get("pci_ids", ()), *sku.match.get("virtual_functions", ()))
    ]
    assert len(seen) == len(set(seen))


@each_row(("width", "port", "status"), TABLES["lanes"])
def test_a_card_fails_by_lanes_that_both_ends_have(width: int, port: int | None, status: str) -> None:
    sku = shipped.load("l4")
    limits = requirements.limits(sku, sku.platforms["single"], 1)
    path = [{"width": width, "width_max": 16}, {} if port is None else {"width": width, "width_max": port}]
    card = Device("GPU-0", 0, "nvidia", "NVIDIA L4", facts={"pcie_width": width, "pcie_path": path})
    (lost,) = facts("health.pcie_lanes_lost", Discovery((card,)), sku)
    assert judge([lost], limits["health.pcie_lanes_lost"]).status.value == status
    (whole,) = facts("health.pcie_width", Discovery((card,)), sku)
    assert judge([whole], limits["health.pcie_width"]).status is (Status.PASS if width == 16 else Status.MARGINAL)


def test_a_part_of_a_board_fails_by_its_width() -> None:
    (found,) = facts("health.pcie_width", Discovery(tuple(gpus(1, facts={"pcie_width": 8}))), H100)
    assert (
        judge([found], requirements.limits(H100, H100.platforms["hgx8"], 8)["health.pcie_width"]).status is Status.FAIL
    )
