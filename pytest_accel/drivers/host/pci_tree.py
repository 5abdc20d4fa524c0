"""Facts of the PCI tree above the accelerators: access control, link widths, errors, distance to memory and NICs."""

from __future__ import annotations

import os
import re
import struct
from functools import partial
from pathlib import Path

from pytest_accel.core.details import HostDetails
from pytest_accel.drivers.host import Absent, HiddenFact, HostAnswer, fact, matched, maybe, number, some, sum_of, unroot
from pytest_accel.drivers.host.hints import on_bus
from pytest_accel.drivers.host.host_environment import host_environment
from pytest_accel.drivers.host.system import listed, usable_cpus

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_EXTENDED, _ACS = 0x100, 0x000D
"""The offset of the extended capabilities, and the id of access control services (PCI Express base spec, 7.7.8)."""

_BRIDGES = "the host's bridges are hidden"

WIDEST = 32
"""The maximum number of lanes of a link; virtual devices report 0, 63 or 255."""


def accelerators(root: Path) -> list[Path]:
    """Return the folders of the accelerators' PCI functions in the device tree. Raises Absent if there are none."""
    addresses = [hint.pci for hint in on_bus(root)]
    if not addresses:
        raise Absent("the PCI bus shows no accelerator")
    return [_resolve(root / "sys/bus/pci/devices" / address) for address in addresses]


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))


def bridges(function: Path) -> list[Path]:
    """Return every bridge from a function up to the root port, nearest first."""
    return [parent for parent in function.parents if _ADDRESS.fullmatch(parent.name)]


@fact(
    user="the extended configuration space requires CAP_SYS_ADMIN",
    container="unless it is privileged",
    machine=_BRIDGES,
)
def acs(root: Path) -> HostAnswer:
    """Return "on" if a bridge has access control enabled, else "off".

    Any bit of the control register redirects the traffic between devices to the root complex.
    """
    functions = accelerators(root)
    if host_environment(root).machine:
        raise HiddenFact("a guest cannot see the bridges of its host")
    upstream = {bridge for function in functions for bridge in bridges(function)}
    if not upstream:
        raise HiddenFact("the bridges above the accelerators are hidden")
    enabled = sorted(bridge.name for bridge in upstream if _acs_control(bridge))
    return HostAnswer("on" if enabled else "off", some(enabled))


def _acs_control(bridge: Path) -> int:
    """Return the ACS control register of a bridge, 0 if it has none. Raises HiddenFact."""
    path = bridge / "config"
    try:
        space = path.read_bytes()
    except OSError as error:
        raise HiddenFact(f"{unroot(path)}: {error.strerror}") from None
    if len(space) < _EXTENDED:
        raise HiddenFact(f"{unroot(path)}: only {len(space)} of 4096 bytes can be read")
    offset = _EXTENDED
    visited: set[int] = set()
    while _EXTENDED <= offset <= len(space) - 8 and offset not in visited:
        visited.add(offset)
        (header,) = struct.unpack_from("<I", space, offset)
        if header & 0xFFFF == _ACS:
            return int(struct.unpack_from("<H", space, offset + 6)[0])
        offset = header >> 20
    return 0


@fact(machine="the guest's own")
def iommu(root: Path) -> HostAnswer:
    """Return the mode of the IOMMU, by the domain types of the accelerators' groups, or of all groups without any."""
    groups = root / "sys/kernel/iommu_groups"
    units = sorted((root / "sys/class/iommu").glob("*"))
    try:
        folders = [_resolve(function / "iommu_group") for function in accelerators(root)]
    except Absent:
        folders = []
    kinds = {maybe(group / "type") for group in folders or sorted(groups.glob("*"))} - {""}
    details: HostDetails = {"units": [unit.name for unit in units], "domains": sorted(kinds)}
    if not kinds and not units and not groups.is_dir():
        raise Absent(f"there is no {unroot(groups)}")
    if not kinds and host_environment(root).machine:
        raise HiddenFact("a guest cannot see the IOMMU of its host")
    if not kinds and list(groups.glob("*")):
        raise HiddenFact(f"{unroot(groups)} has no types: this kernel is older than 5.11")
    if not kinds:
        return HostAnswer("off" if not units else "on", details=details)
    return HostAnswer("passthrough" if kinds == {"identity"} else "translated", details=details)


@fact(machine=_BRIDGES)
def pcie_width(root: Path) -> str:
    """Return "full", or the links that are narrower than both of their ends support."""
    narrow = []
    for function in accelerators(root):
        path = [function, *bridges(function)]
        # A link joins a function, or the port of a switch that faces up, and the port above it; what is above that one
        # is of the same switch, or nothing: a root port of x32 with a healthy card of x16 is full (QEMU's are x32).
        for child, parent in zip(path[::2], [*path[1::2], None], strict=False):
            if child is not function and not (child / "current_link_width").exists():
                continue  # some ports do not report it
            current, widths = number(child / "current_link_width"), [number(child / "max_link_width")]
            if parent and (parent / "max_link_width").exists():
                widths.append(number(parent / "max_link_width"))
            supported = min((width for width in widths if 0 < width <= WIDEST), default=0)
            if not 0 < current <= WIDEST:
                raise HiddenFact(f"{child.name} reports no link width")  # a virtual device
            if current < supported:  # a fault, since the width does not change with the load
                narrow.append(f"{child.name} x{current} of x{supported}")
    return some(list(dict.fromkeys(narrow))) or "full"


def _aer(root: Path, kind: str, total: str) -> HostAnswer:
    """Return the AER errors of one kind over the accelerators, the RDMA NICs and the bridges above them."""
    nics = [_resolve(nic) for nic in (root / "sys/class/infiniband").glob("*/device")]
    ends = [*accelerators(root), *nics]
    # either end of a link may detect an error (Linux, Documentation/ABI/testing/sysfs-bus-pci-devices-aer)
    functions = {function for end in ends for function in (end, *bridges(end))}
    files = {function.name: function / f"aer_dev_{kind}" for function in sorted(functions)}
    counts = {
        name: int(matched(path, rf"^{total} (\d+)$", f" has no {total}")[1])
        for name, path in files.items()
        if path.exists()
    }
    if not counts:
        raise Absent("no PCIe link of an accelerator or RDMA NIC counts errors (AER)")
    return sum_of(counts)


fact(name="pcie_fatal", machine=_BRIDGES)(partial(_aer, kind="fatal", total="TOTAL_ERR_FATAL"))
fact(name="pcie_nonfatal", machine=_BRIDGES)(partial(_aer, kind="nonfatal", total="TOTAL_ERR_NONFATAL"))
fact(name="pcie_corrected", machine=_BRIDGES)(partial(_aer, kind="correctable", total="TOTAL_ERR_COR"))


@fact(container="its own cpuset")
def accelerator_numa(root: Path) -> str:
    """Return "near", or the accelerators whose NUMA node is unknown or has no processor in this process's cpuset."""
    cpus, nodes = usable_cpus(root), root / "sys/devices/system/node"
    many_nodes = len(list(nodes.glob("node[0-9]*"))) > 1
    problems = []
    for function in accelerators(root):
        node = number(function / "numa_node")
        if node < 0 and many_nodes:
            problems.append(f"the kernel does not know the NUMA node of {function.name}")
        elif node >= 0 and not cpus & listed(nodes / f"node{node}/cpulist"):
            problems.append(f"the cpuset excludes every CPU of NUMA node {node}, to which {function.name} is attached")
    return some(problems, 2) or "near"


NEARNESS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""Distances in the terms of `nvidia-smi topo`: within one switch, across PCI bridges, across the host bridge, within
the NUMA node, across NUMA nodes."""
SWITCHED = NEARNESS[:2]
"""Distances below the host bridge."""


@fact(machine="the hypervisor may flatten the tree")
def nic_distance(root: Path) -> HostAnswer:
    """Return the worst distance of an accelerator to its nearest RDMA NIC."""
    paths = sorted((root / "sys/class/infiniband").glob("*"))
    nics = {path.name: _resolve(path / "device") for path in paths if (path / "device").exists()}
    if not nics:
        raise Absent("there is no RDMA NIC")
    nearest = {}
    for function in accelerators(root):
        name = min(nics, key=lambda nic: NEARNESS.index(distance(function, nics[nic])))
        nearest[function.name] = (distance(function, nics[name]), name)
    farthest = max(nearest, key=lambda address: NEARNESS.index(nearest[address][0]))
    table = {address: f"{nearness} {name}" for address, (nearness, name) in nearest.items()}
    return HostAnswer(nearest[farthest][0], f"{farthest} to {nearest[farthest][1]}", {"nearest": table})


def distance(function: Path, other: Path) -> str:
    """Return the distance of two PCI functions, one of NEARNESS."""
    path, other_path = bridges(function), bridges(other)
    common = [bridge for bridge in path if bridge in other_path]
    if common:
        hops = path.index(common[0]) + other_path.index(common[0])
        return "PIX" if hops <= 2 else "PXB"  # two ports of one switch lie between
    if _host_bridge(function) == _host_bridge(other):
        return "PHB"
    return "NODE" if maybe(function / "numa_node") == maybe(other / "numa_node") not in ("", "-1") else "SYS"


def _host_bridge(function: Path) -> str:
    return next((part for part in function.parts if re.fullmatch(r"pci[0-9a-f]{4,}:[0-9a-f]{2}", part)), "")
