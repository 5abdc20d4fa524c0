"""The versions by which a limit says what it was validated on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_accel.core.measurement import Device
from pytest_accel.core.software import MEANINGS, OF_DEVICES, torch_version, versions_of


def node(*facts: dict[str, Any]) -> list[Device]:
    return [Device(f"GPU-{index}", index, "nvidia", "", facts=fact) for index, fact in enumerate(facts)]


def test_what_all_devices_share_has_a_version() -> None:
    shared_versions = {"driver_version": "570.86.15", "library_version": "12.570.86.15"}
    assert versions_of(node({**shared_versions, "vbios": "96.00.A5"}, {**shared_versions, "vbios": "96.00.B0"})) == {
        "driver": "570.86.15",
        "management_library": "12.570.86.15",
    }
    assert versions_of(node(shared_versions, {})) == {}, "what one device does not state is not known of the node"
    assert versions_of([]) == {}


def test_every_name_is_documented() -> None:
    assert set(OF_DEVICES) <= set(MEANINGS)


def test_the_version_of_torch_is_what_torch_calls_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the metadata of its wheel say: those of a package index lack the label of the build."""
    metadata = tmp_path / "torch-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: torch\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert torch_version() == torch.__version__


def test_a_folder_that_is_called_torch_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's own, in the current folder, or what is left of a package."""
    (tmp_path / "torch").mkdir()
    monkeypatch.delitem(sys.modules, "torch")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert torch_version() is None
