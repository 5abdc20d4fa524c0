"""The versions by which a limit says what it was validated on."""

from __future__ import annotations

from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.core.software import MEANINGS, OF_DEVICES, versions_of


def node(*facts: dict[str, Any]) -> list[Device]:
    return [Device(f"GPU-{place}", place, "nvidia", "", facts=each) for place, each in enumerate(facts)]


def test_what_all_devices_share_has_a_version() -> None:
    same = {"driver_version": "570.86.15", "library_version": "12.570.86.15"}
    assert versions_of(node({**same, "vbios": "96.00.A5"}, {**same, "vbios": "96.00.B0"})) == {
        "driver": "570.86.15",
        "management_library": "12.570.86.15",
    }
    assert versions_of(node(same, {})) == {}, "what one device does not state is not known of the node"
    assert versions_of([]) == {}


def test_every_name_is_documented() -> None:
    assert set(OF_DEVICES) <= set(MEANINGS)
