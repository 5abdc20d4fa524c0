"""A part of a device is no finding on it: the run is refused in one sentence, unless the platform states the part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.judged_tables import tabled

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku_types import Platform, expected_platform
from pytest_accel.judging.facts.partitions import refusal
from pytest_accel.run import terms
from pytest_accel.run.options import Refused
from pytest_accel.skus import loader, requirements

BOARD = Platform("board", 8)
PARTS = replace(BOARD, partition={"compute": "CPX", "memory": "NPS4"})
FUNCTIONS = replace(BOARD, virtual=True)


def devices(count: int = 2, **stated: Any) -> list[Device]:
    """The last of them states these facts."""
    whole = [Device(f"GPU-{i}", i, "nvidia", "a GPU", facts={}) for i in range(count)]
    return [*whole[:-1], replace(whole[-1], facts=stated)]


@tabled("facts, words", "data/judging/partitions.yaml")
def test_a_divided_device_is_named_with_its_division_and_the_remedy(
    facts: dict[str, Any], words: tuple[str, ...]
) -> None:
    why = refusal(devices(**facts), BOARD)
    assert why
    assert [each for each in words if each not in why] == []
    assert "\n" not in why


def test_what_the_platform_states_is_not_refused() -> None:
    for facts, platform in (
        ({}, BOARD),
        ({"mig": False, "mig_pending": False, "virtualization": "none"}, BOARD),
        ({"virtualization": "passthrough"}, BOARD),
        ({"compute_partition": "SPX", "memory_partition": "NPS1"}, BOARD),
        ({"compute_partition": "CPX", "memory_partition": "NPS4"}, PARTS),
        ({"virtualization": "vgpu"}, FUNCTIONS),
        ({"virtualization": "guest"}, FUNCTIONS),
    ):
        assert refusal(devices(1, **facts), platform) is None


def test_a_whole_device_on_a_platform_of_parts_is_refused_too_and_many_are_named_by_their_number() -> None:
    why = refusal(devices(1, compute_partition="SPX", memory_partition="NPS1"), PARTS)
    assert "in SPX mode; the platform states CPX" in str(why)
    parts = [replace(device, facts={"compute_partition": "CPX"}) for device in devices(64)]
    assert str(refusal(parts, BOARD)).startswith("gpu0, gpu1, gpu2, gpu3 and 60 more: its compute dies")


def test_a_part_that_no_file_knows_is_refused_as_a_part() -> None:
    """A partition has fewer units and less memory than the product, so no shipped SKU matches it."""
    facts = {"compute_units": 38, "compute_partition": "CPX"}
    part = Device("a", 0, "amd", "AMD Instinct MI300X", memory_bytes=24 * 10**9, pci_id="1002:74a1", facts=facts)
    with pytest.raises(Refused, match="its compute dies are in CPX mode"):
        terms.sku_of([part])


def test_a_file_may_state_a_platform_of_parts() -> None:
    sku = loader.load(str(Path(__file__).parents[1] / "data/judging/parts-sku.yaml"))
    facts = {"compute_partition": "CPX", "memory_partition": "NPS4", "compute_units": 38}
    parts = [
        Device(str(i), i, "amd", "AMD Instinct MI300X", memory_bytes=25 * 10**9, pci_id="1002:74a1", facts=facts)
        for i in range(64)
    ]
    platform, usual = expected_platform(sku, parts)
    assert (platform.name, usual) == ("cpx64", True)
    assert refusal(parts, platform) is None
    assert refusal(parts, sku.platforms["oam8"]) is not None
    assert all(sku.recognises(part) for part in parts)
    assert requirements.limits(sku, platform, 64)["inventory.count"].equals == 64
