"""Which SKU a device is: every name and id of the field, and what only looks like one of them."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from support import data_files, shipped
from support.rows import each_row

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku_types import Sku
from pytest_accel.run import terms
from pytest_accel.run.options import Refused
from pytest_accel.skus import loader, products, requirements

TABLES = data_files.tables("run/terms")

KNOWN = shipped.every()
with open(Path(__file__).parents[1] / "data" / "devices.csv", encoding="utf-8", newline="") as table:
    DEVICES = list(csv.DictReader(table))


def device(row: dict[str, str], index: int = 0) -> Device:
    units = row["compute_units"]
    return Device(
        uuid=f"GPU-{index}",
        index=index,
        driver=row["driver"],
        model=row["name"],
        pci_id=row["pci_id"] or None,
        memory_bytes=int(float(row["memory_gb"]) * 1e9),
        facts={"compute_units": int(units)} if units else {},
    )


def test_a_device_is_the_one_sku_that_it_is() -> None:
    """No prefix, no guess: the look-alikes in the table have no SKU."""
    known = [(row, [sku.name for sku in products.recognise([device(row)], KNOWN)]) for row in DEVICES]
    assert [(row, found) for row, found in known if found != ([row["sku"]] if row["sku"] else [])] == []


def test_the_files_that_name_a_device_are_enough_to_recognise_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading all of them takes a second, which a health check does not have."""
    known = {sku.name: sku for sku in KNOWN}
    monkeypatch.setattr(loader, "load", known.__getitem__)
    monkeypatch.setattr(loader, "load_shipped", list)
    alone = [row for row in DEVICES if row["sku"]][::5]
    assert [str(getattr(terms.sku_of([device(row)]), "name", None)) for row in alone] == [row["sku"] for row in alone]


def test_every_shipped_sku_is_in_the_table() -> None:
    assert {row["sku"] for row in DEVICES} - {""} == {sku.name for sku in KNOWN} - {"cpu"}


def sku(name: str) -> Sku:
    return next(each for each in KNOWN if each.name == name)


def h100(**changes: str) -> Device:
    row = {"driver": "nvidia", "name": "NVIDIA H100 80GB HBM3", "pci_id": "10de:2330", "memory_gb": "85.5"}
    return device({"compute_units": "132", **row, **changes})


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (h100(name="NVIDIA H100 PCIe", memory_gb="68.4"), "its name is NVIDIA H100 PCIe, not NVIDIA H100 80GB HBM3"),
        (h100(driver="amd"), "its driver is amd, not nvidia"),
        (h100(name="", pci_id=""), "neither its name nor its PCI id is in"),
    ],
)
def test_what_tells_a_device_from_a_product_is_named(found: Device, words: str) -> None:
    assert words in str(sku("h100-sxm").mismatch(found))


def test_the_two_parts_of_one_pci_id_are_told_apart_by_their_compute_units() -> None:
    row = {"driver": "amd", "name": "AMD Instinct MI250X / MI250", "pci_id": "1002:740c", "memory_gb": "68.7"}
    assert "number of compute units is 110, not 104" in str(
        sku("mi250").mismatch(device({**row, "compute_units": "110"}))
    )
    with pytest.raises(Refused, match="matches several SKUs: mi250, mi250x; name one of them"):
        terms.sku_of([device({**row, "compute_units": ""})])


def test_a_virtual_function_among_whole_devices_does_not_make_them_virtual() -> None:
    """Their links would have no limits any more."""
    row = {"driver": "amd", "name": "AMD Instinct MI300X", "pci_id": "1002:74a1", "memory_gb": "206"}
    whole, function = (device({**row, "pci_id": part, "compute_units": "304"}) for part in ("1002:74a1", "1002:74b5"))
    platform, _ = terms.platform_of(sku("mi300x"), "auto", [*[whole] * 7, function], "--accel-platform")
    assert platform.name == "oam8"
    platform, _ = terms.platform_of(sku("mi300x"), "auto", [function], "--accel-platform")
    assert platform.virtual


@each_row(("count", "mode", "platform"), TABLES["virtual_machines"])
def test_a_board_in_a_virtual_machine_is_not_held_against_bare_metal(count: int, mode: str, platform: str) -> None:
    """Its host copies are slower, which is no fault of the devices."""
    devices = [replace(h100(), facts={**h100().facts, "virtualization": mode})] * count
    found, _ = terms.platform_of(sku("h100-sxm"), "auto", devices, "--accel-platform")
    assert found.name == platform
    assert not found.network, "of whose cloud it is"


def test_a_server_full_of_cards_is_no_fault_and_no_acceptance() -> None:
    """Nobody said how many should be there."""
    row = {"driver": "nvidia", "name": "NVIDIA L40S", "pci_id": "10de:26b9", "memory_gb": "48.3"}
    cards = [device({**row, "compute_units": "142"})] * 8
    platform, doubt = terms.platform_of(sku("l40s"), "auto", cards, "--accel-platform")
    assert (platform.name, platform.devices) == ("pcie", None)
    assert doubt == "platform pcie was recognised by its device count, not named"
    assert "does not say how many devices to expect" in str(requirements.unfit(sku("l40s"), platform, "standard"))


def test_a_device_that_is_chosen_twice_is_one() -> None:
    assert len(terms.select([h100()], ["0", "gpu0"], "--accel-devices")) == 1


def test_a_slice_of_a_device_is_not_examined() -> None:
    with pytest.raises(Refused, match="MIG-1: MIG-1 is a slice of a device; slices are not accepted") as refused:
        terms.select([h100()], ["MIG-1"], "MIG-1")
    assert "name whole devices" in str(refused.value)
