"""Inventory and health of a simulated node as `discover` shows them to a user."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import as_user

SITE = """
from pytest_accel.drivers import Hint
from pytest_accel.drivers.host import hints
from pytest_accel.simulate.libraries import nvml, status

gpus = [nvml.h100(place) for place in range(8)]
gpus[6].answers["nvmlDeviceGetRemappedRows"] = (0, 1, 1, 0)
for gpu in gpus:
    gpu.answers["nvmlDeviceGetSramEccErrorStatus"] = status(4)  # no permission
nvml.install(nvml.NvmlLibrary(gpus))
hints.hints = lambda: [Hint("nvidia", pci=f"0000:{0x1a + place:02x}:00.0") for place in range(8)]
"""
"""What every process of a run loads before anything else: eight GPUs, one of which waits for a reset."""


@pytest.mark.nightly
def test_discover_shows_the_sheet_and_what_is_hidden(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SITE)
    done = subprocess.run(
        [str(as_user.BIN / "pytest-accel"), "discover"],
        cwd=tmp_path, env=as_user.environment({"PYTHONPATH": str(tmp_path)}),
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    words = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "SKU: h100-sxm, platform: hgx8" in words
    assert any(line.startswith("gpu7: NVIDIA H100 80GB HBM3, 86 GB, GPU-") for line in words)
    assert "inventory.vbios 96.00.A5.00.03" in words
    assert "health.remap_pending 0; gpu6 1" in words
    assert "ecc_sram_threshold_exceeded: this user may not read it: run as root" in words
