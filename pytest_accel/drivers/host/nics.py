"""Facts of the network: RDMA devices (InfiniBand, RoCE) by port, and Ethernet. The worst of several is named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from pytest_accel.drivers.host import Absent, HiddenFact, HostAnswer, fact, matched, maybe, number, some, text, top
from pytest_accel.drivers.host.hints import on_bus
from pytest_accel.drivers.host.host_environment import host_environment
from pytest_accel.drivers.host.pci_tree import SWITCHED, accelerators, distance

RECOVERIES = ("link_error_recovery",)
"""The counter of the times that a port had to recover its link."""
ERRORS = (
    "symbol_error",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
"""Counters of a port that indicate a bad cable, connector or transceiver; they count since the last reset."""
_OWN = "its own, where RDMA namespaces are exclusive"
_HANDED = "only those that were passed in"
_ITS = "its own interfaces"


def ports(root: Path) -> dict[str, Path]:
    """Return the folder of every port of every RDMA device, by a name such as "mlx5_0/1". Raises Absent."""
    folders = sorted((root / "sys/class/infiniband").glob("*/ports/*"))
    if not folders:
        raise Absent("there is no RDMA NIC")
    return {f"{port.parent.parent.name}/{port.name}": port for port in folders}


def _devices(root: Path) -> dict[str, Path]:
    return {port.parent.parent.name: port.parent.parent for port in ports(root).values()}


@fact(container=_OWN, machine=_HANDED)
def nics(root: Path) -> int:
    """Return the number of RDMA NICs."""
    try:
        return len(_devices(root))
    except Absent:
        return 0


def _not_active(port: Path) -> str:
    """Return the state of a port that is not active, such as "DOWN (Polling)"; empty for one that is."""
    state, physical = (text(port / file).rpartition(":")[2].strip() for file in ("state", "phys_state"))
    return "" if (state, physical) == ("ACTIVE", "LinkUp") else f"{state} ({physical})"


def _gb_per_s(port: Path) -> float:
    """Return the negotiated rate of a port in GB/s; of one that is bonded at least that of the bond."""
    rate = float(matched(port / "rate", r"^([\d.]+) Gb/sec", ": {!r} is not a rate")[1]) / 8
    # the RDMA device of a bond may state the rate of one of its links
    bonds = [path.parent for path in (port.parent.parent / "device/net").glob("*/master/bonding")]
    return max([rate, *(number(bond / "speed") / 8000 for bond in bonds if maybe(bond / "operstate") == "up")])


@fact(container=_OWN, machine=_HANDED)
def nics_active(root: Path) -> HostAnswer:
    """Return the number of NICs with an active port, of those that carry the traffic of the accelerators.

    These are the NICs below a PCIe switch with an accelerator, or all if most accelerators have none there. Virtual
    functions count as the physical one.
    """
    rates: dict[str, float] = {}
    bad: dict[str, str] = {}
    for nic in _of_accelerators(root):
        states = {port: _not_active(port) for port in sorted((nic / "ports").glob("*"))}
        rates[nic.name] = max((_gb_per_s(port) for port, state in states.items() if not state), default=0.0)
        if not rates[nic.name]:
            bad[nic.name] = ", ".join(states.values())
    active = sum(map(bool, rates.values()))
    container = bool(host_environment(root).container)
    return HostAnswer(active, details={"rates": rates, "bad": bad, "in_container": container})


def _of_accelerators(root: Path) -> list[Path]:
    """Return the folders of the NICs that `nics_active` counts."""
    functions: dict[Path, Path] = {}
    folders = sorted((root / "sys/class/infiniband").glob("*"))
    for nic in sorted(folders, key=lambda folder: (folder / "device/physfn").exists()):  # virtual functions last
        virtual = nic / "device/physfn"
        functions.setdefault((virtual if virtual.exists() else nic / "device").resolve(), nic)
    ends = accelerators(root) if on_bus(root) else []
    switched = [[nic for function, nic in functions.items() if distance(end, function) in SWITCHED] for end in ends]
    if 2 * sum(map(bool, switched)) > len(switched):
        return sorted(set(chain(*switched)))
    return sorted(functions.values())


@fact(container=_OWN, machine=_HANDED)
def nic_state(root: Path) -> HostAnswer:
    """Return "active", or the states of the ports that are not, such as "mlx5_0/1 DOWN (Polling)"."""
    bad = {name: state for name, port in ports(root).items() if (state := _not_active(port))}
    return HostAnswer(some([f"{name} {state}" for name, state in bad.items()]) or "active", details={"bad": bad})


@fact(container=_OWN, machine=_HANDED)
def nic_rate(root: Path) -> HostAnswer:
    """Return the negotiated rate of the slowest active port in GB/s, before encoding overhead.

    It is read from texts such as "400 Gb/sec (4X NDR)".
    """
    active_ports = {name: port for name, port in ports(root).items() if text(port / "state").endswith("ACTIVE")}
    rates = {name: _gb_per_s(port) for name, port in active_ports.items()}
    if not rates:
        raise HiddenFact("no RDMA port is active")
    slowest = min(rates, key=lambda name: rates[name])
    return HostAnswer(rates[slowest], slowest, {"rates": rates})


@fact(container=_OWN, machine=_HANDED)
def nic_width(root: Path) -> str:
    """Return the different numbers of lanes of the ports, such as "4X"."""
    words = {match[1] for port in ports(root).values() if (match := re.search(r"\((\d+X)", text(port / "rate")))}
    return ", ".join(sorted(words)) or "not told"


@fact(container=_OWN, machine=_HANDED)
def nic_link_layer(root: Path) -> str:
    """Return the different link layers of the ports: InfiniBand, Ethernet."""
    return ", ".join(sorted({text(port / "link_layer") for port in ports(root).values()}))


@fact(container=_OWN, machine=_HANDED)
def nic_firmware(root: Path) -> str:
    """Return the firmware versions of the NICs by board."""
    versions: dict[str, set[str]] = {}
    for nic in _devices(root).values():
        versions.setdefault(maybe(nic / "board_id") or "unknown board", set()).add(text(nic / "fw_ver"))
    return "; ".join(f"{board} {' and '.join(sorted(numbers))}" for board, numbers in sorted(versions.items()))


@fact(container=_OWN, machine=_HANDED)
def nic_link_downed(root: Path) -> HostAnswer:
    """Return the number of times that the worst port lost its link."""
    return top({name: number(port / "counters/link_downed") for name, port in ports(root).items()})


def _port_counters(root: Path, counters: Sequence[str]) -> HostAnswer:
    """Return the highest sum of the counters over the ports; ports without them (RoCE of some vendors) are left out."""
    counts: dict[str, int] = {}
    for name, port in ports(root).items():
        files = [path for counter in counters if (path := port / "counters" / counter).exists()]
        if files:
            counts[name] = sum(map(number, files))
    if not counts:
        raise Absent("no RDMA port counts errors")
    return top(counts)


fact(name="nic_link_recovery", container=_OWN, machine=_HANDED)(partial(_port_counters, counters=RECOVERIES))
fact(name="nic_errors", container=_OWN, machine=_HANDED)(partial(_port_counters, counters=ERRORS))


# -- Ethernet


def _carrier_lost(root: Path, *, rdma: bool) -> HostAnswer:
    """Return the number of times that the worst Ethernet interface lost its link: of RDMA NICs, or of the others.

    Under some drivers of RoCE NICs the counters of the ports do not increase, but that of the interface does.
    """
    counts = {}
    for interface in _cards(root):
        path = interface / "carrier_down_count"
        if path.exists() and (interface / "device/infiniband").is_dir() == rdma:
            counts[interface.name] = number(path)
    if not counts:
        raise Absent(f"no Ethernet interface {'of an RDMA NIC ' if rdma else ''}counts how often its link was lost")
    return top(counts)


fact(name="nic_carrier_lost", container=_ITS, machine=_HANDED)(partial(_carrier_lost, rdma=True))
fact(name="ethernet_carrier_lost", container=_ITS, machine=_HANDED)(partial(_carrier_lost, rdma=False))


def _cards(root: Path) -> list[Path]:
    """Return the Ethernet interfaces that have a device, so no virtual ones."""
    interfaces = sorted((root / "sys/class/net").glob("*"))
    return [card for card in interfaces if (card / "device").exists() and maybe(card / "type") == "1"]


@fact(container=_ITS, machine="usually not reported")
def ethernet_rate(root: Path) -> HostAnswer:
    """Return the rate of the slowest Ethernet interface that is up, in GB/s."""
    rates = {}
    for interface in _cards(root):
        if maybe(interface / "operstate") != "up":
            continue  # the speed of an interface that is down cannot be read
        speed = maybe(interface / "speed")
        if speed.isdigit() and int(speed):
            rates[interface.name] = int(speed) / 8000
    if not rates:
        raise Absent("no Ethernet link reports its speed")
    slowest = min(rates, key=lambda name: rates[name])
    return HostAnswer(rates[slowest], slowest, {"rates": rates})
