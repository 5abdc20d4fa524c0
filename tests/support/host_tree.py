"""A made tree of a host's /proc, /sys and /dev, and what our reading of it says."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_accel.drivers.host.host_environment import HostEnvironment
from pytest_accel.drivers.host.reading import HOST_READERS, answer

METAL = HostEnvironment(root=True, container="", machine="")
CPU = "sys/devices/system/cpu"
BUS = "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"
"""Root port, upstream port of a switch."""
GPU = f"{BUS}/0000:12:00.0/0000:13:00.0"
NIC = f"{BUS}/0000:12:01.0/0000:14:00.0"
FAR_NIC = "sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0"

MC = "sys/devices/system/edac/mc/mc{}/{}_count"
"""Errors of the host's memory, by controller and kind."""

Tree = Mapping[str, "str | bytes"]


def make(root: Path, tree: Tree) -> Path:
    """Write the files of a tree; "a -> b" is a link to b, from the root, "a/" an empty folder."""
    for name, content in tree.items():
        path, _, target = name.partition(" -> ")
        place_ = root / path
        place_.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            place_.mkdir()
        elif target:
            place_.symlink_to(root / target)
        elif isinstance(content, bytes):
            place_.write_bytes(content)
        else:
            place_.write_text(content)
    return root


def value(root: Path, name: str, where: HostEnvironment = METAL) -> Any:
    found = answer(HOST_READERS[name], root, where)
    assert "value" in found, found
    return found["value"]


def why(root: Path, name: str, where: HostEnvironment = METAL) -> str:
    """Why there is no value."""
    found = answer(HOST_READERS[name], root, where)
    assert "value" not in found, found
    return str(found.get("unreadable") or found.get("absent"))


def rdma(name: str, port: Mapping[str, str], device: str = NIC) -> dict[str, str]:
    """An RDMA NIC with one port, healthy but for what `port` says."""
    healthy = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "counters/link_downed": "0",
        "counters/symbol_error": "0",
        "counters/link_error_recovery": "0",
    }
    folder = f"sys/class/infiniband/{name}"
    files = {f"{folder}/ports/1/{file}": text for file, text in {**healthy, **port}.items()}
    return {
        **files,
        f"{folder}/fw_ver": "28.43.2026\n",
        f"{folder}/board_id": "MT_0000000838\n",
        f"{device}/vendor": "0x15b3",
        f"{folder}/device -> {device}": "",
    }
