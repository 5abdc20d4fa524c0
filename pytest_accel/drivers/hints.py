"""Accelerators that the PCI bus or /dev shows, read without any library: so that none is silently missed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_accel.drivers import registry
from pytest_accel.drivers.host.place import place
from pytest_accel.drivers.interface import Hint
from pytest_accel.drivers.vendor import Vendor


def hints(root: Path = Path("/"), vendors: Iterable[Vendor] | None = None) -> list[Hint]:
    """Return one hint for each accelerator that this process may expect to reach, of all registered vendors.

    That is a PCI function; where the bus shows none, a node in /dev. A container sees the bus of its host, and nodes
    for what was handed to it alone.
    """
    known = list(registry.registered().vendors.values() if vendors is None else vendors)
    bus, nodes = on_bus(root, known), _nodes(root, known)
    if not bus or not place(root).container:
        return bus or nodes
    shown = {hint.driver for hint in bus}
    return [hint for vendor in known if vendor.name in shown for hint in _handed_in(vendor, bus, root)]


def on_bus(root: Path, vendors: Iterable[Vendor] | None = None) -> list[Hint]:
    """Return one hint for each PCI function of an accelerator, in the order of the bus."""
    known = list(registry.registered().vendors.values() if vendors is None else vendors)
    found = []
    for function in sorted((root / "sys/bus/pci/devices").glob("*")):
        try:
            maker = (function / "vendor").read_text().strip()
            kind = (function / "class").read_text().strip()[:6]
        except (OSError, ValueError):  # a file without text belongs to no accelerator
            continue
        makers = [each for each in known if each.pci_vendor == maker and kind in each.pci_classes]
        found += [Hint(vendor.name, f"PCI {function.name}") for vendor in makers]
    return found


def _nodes(root: Path, vendors: Iterable[Vendor]) -> list[Hint]:
    return [hint for vendor in vendors for hint in _below(root, vendor, (*vendor.nodes, *vendor.shared_nodes))]


def _below(root: Path, vendor: Vendor, patterns: Iterable[str]) -> list[Hint]:
    """Return the nodes in /dev that match."""
    found = [node for pattern in patterns for node in sorted((root / "dev").glob(pattern))]
    return [Hint(vendor.name, f"/dev/{node.relative_to(root / 'dev')}") for node in found]


def _handed_in(vendor: Vendor, bus: list[Hint], root: Path) -> list[Hint]:
    """Return the nodes of a container that was given some of its host's devices, else what the bus shows.

    A node that stands for all devices does not tell which of them the container was given.
    """
    all_of_host = [hint for hint in bus if hint.driver == vendor.name]
    nodes = _below(root, vendor, vendor.nodes)
    return nodes if 0 < len(nodes) < len(all_of_host) else all_of_host
