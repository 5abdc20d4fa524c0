"""Accelerators that the PCI bus or /dev shows, read without any library: so that none is silently missed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from pytest_accel.drivers import registry
from pytest_accel.drivers.host import peek
from pytest_accel.drivers.host.host_environment import host_environment
from pytest_accel.drivers.interface import Hint
from pytest_accel.drivers.vendor import Vendor

FOR_GUESTS = ("vfio-pci", "pci-stub", "xen-pciback")
"""Kernel drivers that hold a PCI function for a virtual machine."""


def hints(root: Path = Path("/"), vendors: Iterable[Vendor] | None = None) -> list[Hint]:
    """Return one hint for each accelerator that this process may expect to reach, of all registered vendors.

    That is a PCI function; where the bus shows none, a node in /dev. A container sees the bus of its host, and nodes
    for what was handed to it alone. A job of a scheduler sees bus and nodes of the host, and may open its own alone.
    """
    vendor_list = list(registry.registered().vendors.values() if vendors is None else vendors)
    bus = on_bus(root, vendor_list)
    if not bus:
        return [hint for vendor in vendor_list for hint in _below(root, vendor, (*vendor.nodes, *vendor.shared_nodes))]
    names, container = {hint.driver for hint in bus}, bool(host_environment(root).container)
    return [hint for vendor in vendor_list if vendor.name in names for hint in _handed_in(vendor, bus, root, container)]


def on_bus(root: Path, vendors: Iterable[Vendor] | None = None) -> list[Hint]:
    """Return one hint for each PCI function of an accelerator, in the order of the bus, but for those of guests."""
    vendor_list = list(registry.registered().vendors.values() if vendors is None else vendors)
    entries = []
    for function in sorted((root / "sys/bus/pci/devices").glob("*")):
        maker, kind = peek(function / "vendor"), peek(function / "class")[:6]
        if (function / "driver").resolve().name in FOR_GUESTS:
            continue  # kept for a virtual machine: no library of the host can reach it
        makers = [vendor for vendor in vendor_list if vendor.pci_vendor == maker and kind in vendor.pci_classes]
        entries += [Hint(vendor.name, pci=function.name) for vendor in makers]
    return entries


def _below(root: Path, vendor: Vendor, patterns: Iterable[str]) -> list[Hint]:
    """Return the nodes in /dev that match."""
    nodes = [node for pattern in patterns for node in sorted((root / "dev").glob(pattern))]
    return [Hint(vendor.name, node=f"/dev/{node.relative_to(root / 'dev')}") for node in nodes]


def _handed_in(vendor: Vendor, bus: list[Hint], root: Path, container: bool) -> list[Hint]:
    """Return the nodes of a container or job that was given some of its host's devices, else what the bus shows.

    A node that stands for all devices does not tell which of them were given.
    """
    all_of_host = [hint for hint in bus if hint.driver == vendor.name]
    nodes = _below(root, vendor, vendor.nodes)
    # Opening a node would start its device. The kernel asks the cgroup for access(2) too (devcgroup_inode_permission).
    openable = [hint for hint in nodes if os.access(root / hint.node.lstrip("/"), os.R_OK | os.W_OK)]
    # outside a container only nodes that are there and denied tell (the cgroup of a job denies those of others): a
    # device without a node is lost
    conclusive = container or len(openable) < len(nodes)
    return openable if conclusive and 0 < len(openable) < len(all_of_host) else all_of_host
