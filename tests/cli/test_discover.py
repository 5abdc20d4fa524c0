"""`pytest-accel discover` where it is needed most: unknown and mixed nodes, lost devices, no torch."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support import as_user

SITE = """
from pytest_accel.drivers import Hint
from pytest_accel.drivers.host import hints
from pytest_accel.simulate.libraries import nvml, status

gpus = [nvml.h100(place) for place in range(8)]
hints.hints = lambda: [Hint("nvidia", pci=f"0000:{0x1a + place:02x}:00.0") for place in range(8)]
%s
nvml.install(nvml.NvmlLibrary(gpus))
"""
UNKNOWN = """
for place, gpu in enumerate(gpus):
    ids = nvml.fills(busId=b"00000000:%02X:00.0" % place, pciDeviceId=0x233F10DE, pciSubSystemId=0x16C110DE)
    gpu.answers.update(nvmlDeviceGetName=b"NVIDIA H101 80GB", nvmlDeviceGetPciInfo_v3=ids)
"""


def discover(folder: Path, changes: str = "", *args: str, torch: str = "2.13.0") -> subprocess.CompletedProcess[str]:
    """Run the command on a node of eight H100 with `changes`, beside an installed torch of this version."""
    site = folder / "site"
    installed = site / "torch"
    installed.mkdir(parents=True)
    (site / "sitecustomize.py").write_text(SITE % changes)
    (installed / "__init__.py").write_text("raise ImportError('nothing imports torch here')")
    (installed / "version.py").write_text(f"__version__ = {torch!r}")
    return subprocess.run(
        [str(as_user.BIN / "pytest-accel"), "discover", *args],
        cwd=folder, env=as_user.environment({"PYTHONPATH": str(site)}), capture_output=True, text=True,
        timeout=as_user.SECONDS, check=False,
    )  # fmt: skip


@pytest.mark.nightly
def test_of_an_unknown_node_every_device_and_a_file_to_fill_in_are_shown(tmp_path: Path) -> None:
    done = discover(tmp_path, UNKNOWN)
    assert done.returncode == 4
    assert done.stdout.startswith("SKU: none, no shipped file matches\n  8 devices: no shipped SKU, NVIDIA H101 80GB")
    assert "nearest is h100-sxm: its name is NVIDIA H101 80GB, not NVIDIA H100 80GB HBM3" in done.stdout
    ids = "  ids    PCI 10de:233f, subsystem 10de:16c1, board 692-2G520-0200-000, VBIOS 96.00.A5.00.03\n"
    assert done.stdout.count(ids) == 8
    assert "links  PCIe 5 x16, 18 links, 18 up, each 26.562 GB/s" in done.stdout
    assert "\nhost:\n" in done.stdout
    assert '\n  names: ["NVIDIA H101 80GB"]\n' in done.stdout


@pytest.mark.nightly
def test_the_file_to_fill_in_is_all_that_is_printed_if_it_is_asked_for(tmp_path: Path) -> None:
    done = discover(tmp_path, UNKNOWN, "--skeleton")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("# A threshold file to fill in")
    assert done.stdout.endswith("source: *measured}\n")


@pytest.mark.nightly
def test_of_a_mixed_node_the_odd_board_is_named(tmp_path: Path) -> None:
    done = discover(tmp_path, "gpus[3] = nvml.h200(3)")
    assert done.returncode == 4
    head = done.stdout.splitlines()[:3]
    assert head == [
        "SKU: none, the devices are not one product",
        "  7 devices: h100-sxm, NVIDIA H100 80GB HBM3 (10de:2330)",
        "  gpu3: h200-sxm, NVIDIA H200 (10de:2335)",
    ]
    assert "TODO" not in done.stdout, "both products are known"


@pytest.mark.parametrize(
    ("changes", "torch", "status", "words"),
    [
        ("", "2.6.0", 0, ""),
        (
            'gpus[3].answers["nvmlDeviceGetUUID"] = status(15)',
            "2.6.0",
            1,
            "cannot be used: nvidia: GPU 3 does not answer",
        ),
        ("", "2.6.0+cpu", 6, "NVIDIA devices cannot be measured: torch 2.6.0\\+cpu is built for CPUs only"),
    ],
    ids=["healthy", "lost", "torch-for-cpus"],
)
@pytest.mark.nightly
def test_the_exit_status_says_what_keeps_a_run_from_measuring(
    tmp_path: Path, changes: str, torch: str, status: int, words: str
) -> None:
    done = discover(tmp_path, changes, torch=torch)
    assert done.stdout.startswith("SKU: h100-sxm, platform: hgx8")
    assert (done.returncode, bool(done.stderr)) == (status, bool(words))
    assert re.search(words, done.stderr)


@pytest.mark.nightly
def test_without_torch_one_sentence_says_so(tmp_path: Path) -> None:
    done = discover(tmp_path, "import sys; sys.modules['torch'] = None")
    assert done.returncode == 6
    assert done.stderr == "nothing can be measured: torch is not installed in this environment (docs/running.md)\n"


@pytest.mark.nightly
def test_in_wsl2_the_library_alone_shows_the_devices(tmp_path: Path) -> None:
    done = discover(tmp_path, "hints.hints = lambda: []")
    assert done.stdout.startswith("SKU: h100-sxm, platform: hgx8")
