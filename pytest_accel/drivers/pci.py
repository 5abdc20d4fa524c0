"""Facts of a PCI function and of the bridges above it, which the kernel shows in /sys."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from pytest_accel.drivers.host import cpus_of, peek

DEVICES = Path("/sys/bus/pci/devices")

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""GT/s to the generation of PCI Express."""


def read(address: str | None, name: str) -> str:
    """Return the text of a file in the folder of the PCI function `address`, empty if it cannot be read."""
    return peek(DEVICES / str(address) / name)


def identity(address: str | None, prefix: str) -> str | None:
    """Return the ids of vendor and device ("8086:0bd5"), None if the kernel does not show them.

    With the prefix "subsystem_" they are the ids of the board instead of the chip.
    """
    numbers = [read(address, f"{prefix}{name}").removeprefix("0x") for name in ("vendor", "device")]
    return ":".join(numbers) if all(numbers) else None


def kernel_driver(address: str | None) -> str | None:
    """Return the name of the kernel driver that is bound to the function, None if no driver is."""
    link = DEVICES / str(address) / "driver"
    return link.resolve().name if link.exists() else None


def numa_node(address: str | None) -> int | None:
    """Return the NUMA node of the function, None if the firmware does not state it."""
    text = read(address, "numa_node")
    return int(text) if text and int(text) >= 0 else None


def near_cpus(address: str | None) -> tuple[int, ...]:
    """Return the CPUs of the function's NUMA node that this process may use.

    If it may use none of them, all CPUs that it may use are returned.
    """
    usable = os.sched_getaffinity(0)
    local = cpus_of(read(address, "local_cpulist")) & usable
    return tuple(sorted(local or usable))


def path(address: str | None) -> list[dict[str, Any]]:
    """Return the links of the function and of every bridge up to the root port, the function's first.

    Each has generation and width, current and maximum. A value that the kernel does not know ("Unknown", a width of 0
    or 255) is left out.
    """
    folder = DEVICES / str(address)
    if address is None or not folder.exists():
        return []
    nodes = [node for node in (folder.resolve(), *folder.resolve().parents) if _ADDRESS.fullmatch(node.name)]
    return [{"address": node.name, **_link(node)} for node in nodes]


def _link(node: Path) -> dict[str, int]:
    link = {}
    for key, name in (("gen", "current_link_speed"), ("gen_max", "max_link_speed")):
        speed = re.match(r"[\d.]+", peek(node / name))
        if speed and float(speed[0]) in GENERATIONS:
            link[key] = GENERATIONS[float(speed[0])]
    for key, name in (("width", "current_link_width"), ("width_max", "max_link_width")):
        width = peek(node / name)
        if width.isdigit() and 0 < int(width) <= 32:
            link[key] = int(width)
    return link
