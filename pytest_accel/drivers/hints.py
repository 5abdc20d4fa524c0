"""Accelerators that the PCI bus or /dev shows, read without any library: so that none is silently missed."""

from __future__ import annotations

from pathlib import Path

from pytest_accel.drivers import Hint
from pytest_accel.drivers.host.place import place

NVIDIA, AMD, INTEL, HABANA, AWS, HUAWEI = "0x10de", "0x1002", "0x8086", "0x1da3", "0x1d0f", "0x19e5"
VGA, DISPLAY_3D, DISPLAY_OTHER, PROCESSING = "0x0300", "0x0302", "0x0380", "0x1200"
_CLASSES = {
    NVIDIA: ("nvidia", (VGA, DISPLAY_3D)),
    AMD: ("amd", (DISPLAY_OTHER, PROCESSING)),  # 0x0300 is a display adapter, often part of a processor
    INTEL: ("intel", (DISPLAY_OTHER, PROCESSING)),
    HABANA: ("habana", (PROCESSING,)),
    AWS: ("neuron", (PROCESSING,)),
    HUAWEI: ("ascend", (PROCESSING,)),
}
_NODES = (("nvidia[0-9]*", "nvidia"), ("kfd", "amd"), ("accel/accel*", "habana"), ("davinci[0-9]*", "ascend"),
          ("neuron[0-9]*", "neuron"))  # fmt: skip


def hints(root: Path = Path("/")) -> list[Hint]:
    """One hint per accelerator that this process may expect to reach.

    That is a PCI function; where the bus shows none, a node in /dev. A container sees the bus of its host, and nodes
    for what was handed to it alone.
    """
    bus, nodes = on_bus(root), _nodes(root)
    if not bus or not place(root).container:
        return bus or nodes
    drivers = list(dict.fromkeys(hint.driver for hint in bus))
    return [hint for driver in drivers for hint in _handed_in(_of(driver, bus), _of(driver, nodes))]


def on_bus(root: Path) -> list[Hint]:
    """One hint per PCI function of an accelerator."""
    found = []
    for function in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            vendor = (function / "vendor").read_text().strip()
            kind = (function / "class").read_text().strip()[:6]
        except (OSError, ValueError):  # what is no text is no accelerator
            continue
        driver, classes = _CLASSES.get(vendor, ("", ()))
        if kind in classes:
            found.append(Hint(driver, f"PCI {function.name}"))
    return found


def _nodes(root: Path) -> list[Hint]:
    return [
        Hint(driver, f"/dev/{node.relative_to(root / 'dev')}")
        for pattern, driver in _NODES
        for node in sorted((root / "dev").glob(pattern))
    ]


def _of(driver: str, found: list[Hint]) -> list[Hint]:
    return [hint for hint in found if hint.driver == driver]


def _handed_in(bus: list[Hint], nodes: list[Hint]) -> list[Hint]:
    """The nodes of a container that was given some of its host's devices; one node for all says nothing of that."""
    some = nodes and nodes[0].where != "/dev/kfd" and len(nodes) < len(bus)
    return nodes if some else bus
