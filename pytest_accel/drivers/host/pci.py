"""The PCI tree above the accelerators: access control, link widths, nearness to memory and network."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

from pytest_accel.core.details import HostDetails
from pytest_accel.drivers.hints import on_bus
from pytest_accel.drivers.host import Absent, HostAnswer, Unreadable, counted, fact, maybe, number, shown, some, text
from pytest_accel.drivers.host.place import place
from pytest_accel.drivers.host.system import listed, usable_cpus

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_EXTENDED, _ACS = 0x100, 0x000D
"""Where the extended capabilities begin, and the number of that for access control (PCI Express base spec, 7.7.8)."""

_BRIDGES = "the host's bridges are hidden"

WIDEST = 32
"""Lanes of a link at most; virtual devices tell 0, 63 or 255."""


def accelerators(root: Path) -> list[Path]:
    """The PCI functions that are accelerators, as they lie in the tree. Raises Absent if the bus shows none."""
    found = [hint.where.removeprefix("PCI ") for hint in on_bus(root)]
    if not found:
        raise Absent("the PCI bus shows no accelerator")
    return [_resolve(root / "sys/bus/pci/devices" / address) for address in found]


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))


def bridges(function: Path) -> list[Path]:
    """Every bridge from a function up to the root port, nearest first."""
    return [parent for parent in function.parents if _ADDRESS.fullmatch(parent.name)]


@fact(
    user="the extended configuration space takes CAP_SYS_ADMIN",
    container="unless it is privileged",
    machine=_BRIDGES,
)
def acs(root: Path) -> HostAnswer:
    """Any bit of the control register sends what devices say to each other up to the root complex."""
    functions = accelerators(root)
    if place(root).machine:
        raise Unreadable("a guest cannot see the bridges of its host")
    above = {bridge for function in functions for bridge in bridges(function)}
    if not above:
        raise Unreadable("the bridges above the accelerators are hidden")
    on = sorted(bridge.name for bridge in above if _acs_control(bridge))
    return HostAnswer("on" if on else "off", some(on))


def _acs_control(bridge: Path) -> int:
    """The control register of a bridge, 0 where it has none. Raises Unreadable."""
    path = bridge / "config"
    try:
        space = path.read_bytes()
    except OSError as error:
        raise Unreadable(f"{shown(path)}: {error.strerror}") from None
    if len(space) < _EXTENDED:
        raise Unreadable(f"{shown(path)}: {len(space)} of 4096 bytes are shown")
    at = _EXTENDED
    seen: set[int] = set()
    while _EXTENDED <= at <= len(space) - 8 and at not in seen:
        seen.add(at)
        (header,) = struct.unpack_from("<I", space, at)
        if header & 0xFFFF == _ACS:
            return int(struct.unpack_from("<H", space, at + 6)[0])
        at = header >> 20
    return 0


@fact(machine="the guest's own")
def iommu(root: Path) -> HostAnswer:
    """By the domains of the accelerators' groups where the kernel tells, otherwise of all groups."""
    groups = root / "sys/kernel/iommu_groups"
    units = sorted((root / "sys/class/iommu").glob("*"))
    try:
        near = [_resolve(function / "iommu_group") for function in accelerators(root)]
    except Absent:
        near = []
    kinds = {maybe(group / "type") for group in near or sorted(groups.glob("*"))} - {""}
    details: HostDetails = {"units": [unit.name for unit in units], "domains": sorted(kinds)}
    if not kinds and not units and not groups.is_dir():
        raise Absent(f"there is no {shown(groups)}")
    if not kinds and place(root).machine:
        raise Unreadable("a guest cannot see the IOMMU of its host")
    if not kinds and list(groups.glob("*")):
        raise Unreadable(f"{shown(groups)} has no types: this kernel is older than 5.11")
    if not kinds:
        return HostAnswer("off" if not units else "on", details=details)
    return HostAnswer("passthrough" if kinds == {"identity"} else "translated", details=details)


@fact(machine=_BRIDGES)
def pcie_width(root: Path) -> str:
    """A link's width never changes with the load, so that one below what both ends can do is a fault."""
    narrow = []
    for function in accelerators(root):
        path = [function, *bridges(function)]
        for child, parent in zip(path, [*path[1:], None], strict=True):
            if child is not function and not (child / "current_link_width").exists():
                continue  # a root port of some machines does not tell
            now, widths = number(child / "current_link_width"), [number(child / "max_link_width")]
            if parent and (parent / "max_link_width").exists():
                widths.append(number(parent / "max_link_width"))
            most = min((width for width in widths if 0 < width <= WIDEST), default=0)
            if not 0 < now <= WIDEST:
                raise Unreadable(f"{child.name} tells no link width")  # a virtual one
            if now < most:
                narrow.append(f"{child.name} x{now} of x{most}")
    return some(list(dict.fromkeys(narrow))) or "full"


@fact(machine=_BRIDGES)
def pcie_fatal(root: Path) -> HostAnswer:
    return _aer(root, "fatal", "TOTAL_ERR_FATAL")


@fact(machine=_BRIDGES)
def pcie_nonfatal(root: Path) -> HostAnswer:
    return _aer(root, "nonfatal", "TOTAL_ERR_NONFATAL")


@fact(machine=_BRIDGES)
def pcie_corrected(root: Path) -> HostAnswer:
    return _aer(root, "correctable", "TOTAL_ERR_COR")


def _aer(root: Path, kind: str, total: str) -> HostAnswer:
    """Of accelerators, RDMA NICs and the bridges above: either end of a link may be the one that sees an error
    (Linux, Documentation/ABI/testing/sysfs-bus-pci-devices-aer)."""
    nics = [_resolve(nic) for nic in (root / "sys/class/infiniband").glob("*/device")]
    ends = [*accelerators(root), *nics]
    every = {function for end in ends for function in (end, *bridges(end))}
    files = {each.name: each / f"aer_dev_{kind}" for each in sorted(every)}
    counts = {name: _total(path, total) for name, path in files.items() if path.exists()}
    if not counts:
        raise Absent("no PCIe link of an accelerator or RDMA NIC counts errors (AER)")
    return counted(counts)


def _total(path: Path, name: str) -> int:
    match = re.search(rf"^{name} (\d+)$", text(path), re.MULTILINE)
    if match is None:
        raise Unreadable(f"{shown(path)} has no {name}")
    return int(match[1])


@fact(container="its own cpuset")
def accelerator_numa(root: Path) -> str:
    """The kernel knows each one's NUMA node, and some of that node's processors are in our cpuset."""
    ours, nodes = usable_cpus(root), root / "sys/devices/system/node"
    several = len(list(nodes.glob("node[0-9]*"))) > 1
    found = []
    for function in accelerators(root):
        node = number(function / "numa_node")
        if node < 0 and several:
            found.append(f"the kernel does not know the NUMA node of {function.name}")
        elif node >= 0 and not ours & listed(nodes / f"node{node}/cpulist"):
            found.append(f"no processor of NUMA node {node}, where {function.name} is, may be used")
    return some(found, 2) or "near"


NEARNESS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""As `nvidia-smi topo` names them: one PCI bridge between, several, the host bridge, the NUMA node, beyond."""


@fact(machine="the hypervisor may flatten the tree")
def nic_distance(root: Path) -> HostAnswer:
    nics = {}
    for nic in sorted((root / "sys/class/infiniband").glob("*")):
        if (nic / "device").exists():
            nics[nic.name] = _resolve(nic / "device")
    if not nics:
        raise Absent("there is no RDMA NIC")
    nearest = {}
    for function in accelerators(root):
        name = min(nics, key=lambda nic: NEARNESS.index(distance(function, nics[nic])))
        nearest[function.name] = (distance(function, nics[name]), name)
    worst = max(nearest, key=lambda address: NEARNESS.index(nearest[address][0]))
    table = {address: f"{how} {name}" for address, (how, name) in nearest.items()}
    return HostAnswer(nearest[worst][0], f"{worst} to {nearest[worst][1]}", {"nearest": table})


def distance(one: Path, other: Path) -> str:
    """How two PCI functions reach each other."""
    left, right = bridges(one), bridges(other)
    shared = [bridge for bridge in left if bridge in right]
    if shared:
        between = left.index(shared[0]) + right.index(shared[0])
        return "PIX" if between <= 2 else "PXB"  # two ports of one switch lie between
    if _host_bridge(one) == _host_bridge(other):
        return "PHB"
    return "NODE" if maybe(one / "numa_node") == maybe(other / "numa_node") not in ("", "-1") else "SYS"


def _host_bridge(function: Path) -> str:
    return next((part for part in function.parts if re.fullmatch(r"pci[0-9a-f]{4,}:[0-9a-f]{2}", part)), "")
