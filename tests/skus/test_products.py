"""What the devices of a node are: one product, several, or none that is known, and then which is nearest."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from support import shipped

from pytest_accel.core.measurement import Device
from pytest_accel.run import terms
from pytest_accel.run.options import Refused
from pytest_accel.skus.products import products, recognise

KNOWN = shipped.every()
H100 = Device("GPU-0", 0, "nvidia", "NVIDIA H100 80GB HBM3", 85_520_809_984, pci_id="10de:2330")
H200 = replace(H100, model="NVIDIA H200", memory_bytes=150_754_820_096, pci_id="10de:2335")


def node(*devices: Device) -> list[Device]:
    return [replace(device, uuid=f"GPU-{place}", index=place) for place, device in enumerate(devices)]


def test_one_odd_board_is_named_and_so_is_what_the_others_are() -> None:
    """A sentence that no shipped SKU is an H100 would be untrue."""
    with pytest.raises(Refused) as refused:
        terms.sku_of(node(H100, H100, H100, H200, H100, H100, H100, H100))
    assert str(refused.value) == (
        "--accel-sku=auto: the devices are not one product: 7 devices: h100-sxm, NVIDIA H100 80GB HBM3 (10de:2330); "
        "gpu3: h200-sxm, NVIDIA H200 (10de:2335); name the SKU that they should be"
    )


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("device", "nearest", "words"),
    [
        (replace(H100, pci_id="10de:23ff"), "h100-sxm", ["its PCI id is 10de:23ff, not 10de:2330"]),
        (replace(H100, memory_bytes=96 * 10**9), "h100-sxm", ["its memory is 96.0 GB, not 80 GB"]),
        (
            replace(H100, model="NVIDIA H100 96GB HBM3", memory_bytes=96 * 10**9),
            "h100-sxm",
            [
                "its name is NVIDIA H100 96GB HBM3, not NVIDIA H100 80GB HBM3",
                "its memory is 96.0 GB, not 80 GB",
            ],
        ),
    ],
)
def test_of_an_unknown_product_all_that_differs_from_the_nearest_is_said(
    device: Device, nearest: str, words: list[str]
) -> None:
    [found] = products([device], KNOWN)
    assert not found.skus
    assert found.nearest is not None
    assert (found.nearest.name, found.differences) == (nearest, words)
    with pytest.raises(Refused, match=f"nearest is {nearest}: {words[0]}"):
        terms.sku_of([device])


def test_no_device_is_two_of_our_products() -> None:
    for sku in (each for each in KNOWN if each.match):
        kinds = ("names", "pci_ids", "subsystems", "compute_units")
        memory = int(1e9 * sku.datasheet.memory.get("gb", 0))
        for name, pci_id, subsystem, units in product(*(sku.match.get(kind) or [None] for kind in kinds)):
            facts = {"pci_subsystem": subsystem, "compute_units": units}
            device = Device("GPU-0", 0, sku.vendor, name or "", memory, pci_id=pci_id, facts=facts)
            assert [each.name for each in recognise([device], KNOWN)] == [sku.name]


def test_a_vendor_without_a_shipped_sku_has_no_nearest_one() -> None:
    [found] = products([replace(H100, driver="acme")], KNOWN)
    assert found.unknown == "no SKU of vendor acme is shipped"


def test_devices_of_one_sku_are_one_product_whatever_they_call_themselves() -> None:
    """A part whose driver does not tell its name is recognised by its PCI id."""
    assert len(products(node(H100, replace(H100, model="")), KNOWN)) == 1
    assert len(products(node(*[replace(H100, model="NVIDIA Z9")] * 2), KNOWN)) == 1
    assert len(products(node(replace(H100, model="NVIDIA Z9"), replace(H100, model="NVIDIA Z8")), KNOWN)) == 2


def test_where_no_device_is_found_none_is_listed() -> None:
    """The sentence ended with "there are" and nothing."""
    with pytest.raises(Refused) as refused:
        terms.select([], ["9"], "--accel-devices")
    assert str(refused.value) == "--accel-devices: no device '9'; no device was found here at all"


def test_an_unknown_name_gets_the_nearest_ones_and_not_all() -> None:
    with pytest.raises(Refused) as refused:
        terms.TermOptions("h100sxm").load_sku()
    assert str(refused.value) == (
        "--accel-sku: no SKU named 'h100sxm'; did you mean 'h100-sxm' or 'h800-sxm' or 'h200-sxm'? "
        "('pytest-accel sku list' shows all)"
    )
