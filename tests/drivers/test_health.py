"""Inventory and health of a simulated node as a user sees them: items, table, closing line, `discover`."""

from __future__ import annotations

import subprocess
from pathlib import Path

import as_user
import pytest

SITE = """
from pytest_accel.drivers import Hint
from pytest_accel.drivers.host import hints
from pytest_accel.simulate.libraries import never, nvml, status

gpus = [nvml.h100(place) for place in range(8)]
gpus[6].answers["nvmlDeviceGetRemappedRows"] = (0, 1, 1, 0)
for gpu in gpus:
    gpu.answers["nvmlDeviceGetSramEccErrorStatus"] = status(4)  # no permission
nvml.install(nvml.NvmlLibrary(gpus))
hints.hints = lambda: [Hint("nvidia", pci=f"0000:{0x1a + place:02x}:00.0") for place in range(8)]
"""
"""What every process of a run loads before anything else: eight GPUs, one of which waits for a reset."""


@pytest.fixture
def node(tmp_path: Path) -> dict[str, str]:
    """The environment in which the node is there."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE)
    return {"PYTHONPATH": str(tmp_path / "site")}


@pytest.mark.slow
def test_discover_shows_the_sheet_and_what_is_hidden(tmp_path: Path, node: dict[str, str]) -> None:
    done = subprocess.run(
        [str(as_user.BIN / "pytest-accel"), "discover"],
        cwd=tmp_path, env=as_user.environment(node), capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    words = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "SKU: h100-sxm, platform: hgx8" in words
    assert any(line.startswith("gpu7: NVIDIA H100 80GB HBM3, 86 GB, GPU-") for line in words)
    assert "inventory.vbios 96.00.A5.00.03" in words
    assert "health.remap_pending 0; gpu6 1" in words
    assert "ecc_sram_threshold_exceeded: this user may not read it: run as root" in words


@pytest.mark.devices
def test_a_device_that_never_answers_is_named_and_the_others_are_judged(tmp_path: Path, node: dict[str, str]) -> None:
    """In the sensor's own process, within a deadline of its own."""
    hang = "\nfrom pytest_accel.drivers import deadlines\ndeadlines.ANSWER_SECONDS = 2.0\n"
    hang += 'gpus[2].answers["nvmlDeviceGetEccMode"] = never\n'
    (tmp_path / "site" / "sitecustomize.py").write_text(SITE + hang)
    ran = as_user.pytest(tmp_path, "-k", "inventory_node or remap_failure", sku="h100-sxm", paths=(), env=node)
    assert ran.statuses("inventory.driver") == {"node": "FAIL"}
    assert "GPU 2 does not answer: its management library has not answered for 2 s" in ran.out
    assert list(ran.statuses("health.remap_failure").values()) == ["PASS"] * 7
