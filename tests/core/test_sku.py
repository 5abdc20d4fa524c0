"""What a device is expected to be, what a metric is a fraction of, and which platform a count points to."""

from dataclasses import replace
from typing import Any

import pytest
from made_sku import made

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku import (
    Basis,
    ClassFloor,
    Effect,
    Limit,
    Platform,
    Source,
    expected_platform,
)
from pytest_accel.core.verdict import Status, Verdict


def device(model: str = "NVIDIA H100 80GB HBM3", driver: str = "nvidia", pci_id: str | None = "10de:2330") -> Device:
    return Device(uuid="GPU-0", index=0, driver=driver, model=model, pci_id=pci_id)


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (device(), True),
        (device(model=""), True),  # by its PCI id, where it reports no name
        (device(model="", pci_id="10de:2335"), False),
        (device(model="NVIDIA H100 80GB HBM3e"), False),  # whole names only
        (device(model="NVIDIA H200"), False),  # even with the PCI id of an H100
        (device(pci_id="10de:2335"), False),  # nor an H200 that calls itself an H100
        (device(driver="amd"), False),
    ],
)
def test_a_device_is_recognised_by_its_whole_name(found: Device, known: bool) -> None:
    assert made().recognises(found) is known


def test_a_file_goes_by_what_it_matches() -> None:
    by_id = made(match={"pci_ids": ["10de:2330"]})
    assert by_id.recognises(device("NVIDIA H100 of a vendor's own naming"))
    assert not by_id.recognises(device(pci_id="10de:2335"))
    assert made(match={}).recognises(device("anything"))
    assert not made(match={}).recognises(device(driver="amd"))


def test_limits_of_the_platform_stand_over_those_of_the_sku() -> None:
    general, special = Limit("a", "s", ceiling=1), Limit("a", "s", ceiling=2)
    platform = Platform("hgx8", 8, limits={"a": special})
    assert made(limits={"a": general, "b": general}).limits_on(platform) == {"a": special, "b": general}


@pytest.mark.parametrize(
    ("count", "platform", "granted"),
    [(8, "hgx8", True), (7, "hgx8", True), (1, "single", False), (0, "hgx8", True), (9, "hgx8", True)],
)
def test_seven_devices_are_eight_with_one_missing(count: int, platform: str, granted: bool) -> None:
    """A smaller platform that fits is taken, but has to be confirmed by its name."""
    found, usual = expected_platform(made(), [device()] * count)
    assert (found.name, usual) == (platform, granted)


CLASS_FLOOR = ClassFloor(500.0, 0.5, 0.6, 0.7, 0.85, ("us",), "row", "bf16 datasheet peak", "classes.yaml:1")


@pytest.mark.parametrize(
    ("changes", "effect", "basis", "may_reject"),
    [
        ({}, Effect.REJECTS, Basis.METHOD, True),
        ({"source": Source("measured", "us", "2026")}, Effect.REJECTS, Basis.OWN, True),
        ({"source": Source("agreed", "both", "2026")}, Effect.REJECTS, Basis.AGREED, True),
        ({"advises": True}, Effect.ADVISES, None, False),
        ({"advises": True, "beneath": CLASS_FLOOR}, Effect.ADVISES, Basis.CLASS, True),
        ({"levels": ()}, Effect.INFORMS, None, False),
        ({"if_supported": True}, Effect.REJECTS, Basis.METHOD, False),
    ],
)
def test_a_limit_says_its_effect_and_its_basis(
    changes: dict[str, Any], effect: Effect, basis: Basis | None, *, may_reject: bool
) -> None:
    limit = replace(Limit("matmul.bf16", "TFLOPS", floor=600, source=Source("published", "them", "2026")), **changes)
    assert (limit.effect, limit.basis, limit.may_reject) == (effect, basis, may_reject)


def test_a_verdict_says_whether_its_limit_advised() -> None:
    limit = Limit("matmul.bf16", "TFLOPS", floor=600, source=Source("published", "them", "2026"), beneath=CLASS_FLOOR)
    held = Verdict("matmul.bf16", "GPU-0", Status.PASS, limit=limit)
    assert (held.advises, held.basis) == (False, Basis.METHOD)
    by_run = replace(held, advisory=("TunableOp on",))
    assert (by_run.advises, by_run.basis) == (True, Basis.CLASS)
    by_file = replace(held, limit=replace(limit, advises=True))
    assert (by_file.advises, by_file.basis) == (True, Basis.CLASS)
    assert not Verdict("matmul.bf16", "GPU-0", Status.PASS).advises
