"""A simulated node of MI300X: the suite as a user runs it, over the real amdsmi and our driver."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from support import as_user

pytestmark = pytest.mark.skipif(not find_spec("amdsmi"), reason="amdsmi is not installed")


def rehearsed(tmp_path: Path, faults: str, chosen: str) -> as_user.Ran:
    (tmp_path / "node.yaml").write_text(f"sku: mi300x\nplatform: oam8\nfaults:\n{faults}")
    return as_user.pytest(tmp_path, "--accel-simulate=node.yaml", "-k", chosen, sku="mi300x", paths=())


@pytest.mark.nightly
def test_faults_are_found_on_the_device_that_has_them(tmp_path: Path) -> None:
    faults = "  - {fault: nvlink-down, device: 2}\n  - {fault: remap-pending, device: 1}\n"
    faults += "  - {fault: thermal-slowdown, device: 6}\n"
    ran = rehearsed(tmp_path, faults, "inventory or health or soak")

    assert ran.exit == 1, ran.out
    assert ran.statuses("health.xgmi_up")["gpu2"] == "FAIL"
    assert ran.statuses("health.bad_pages_pending")["gpu1"] == "FAIL"
    hot = ran.statuses("soak.throttle.hw_thermal")
    assert {name for name, status in hot.items() if status == "FAIL"} == {"gpu6"}
    assert {device["driver"] for device in ran.record["devices"]} == {"amd"}


def test_a_fault_that_an_amd_device_cannot_state_is_refused(tmp_path: Path) -> None:
    ran = rehearsed(tmp_path, "  - {fault: fabric-not-ready, device: 2}\n", "inventory")

    assert ran.exit == 4, ran.out
    assert "fabric-not-ready cannot be simulated on a device of amd" in ran.out
