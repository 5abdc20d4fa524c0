"""Network: RDMA devices (InfiniBand, RoCE) port by port, and Ethernet. The worst of several is named."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_accel.drivers.host import Absent, HostAnswer, Unreadable, fact, maybe, most, number, shown, some, text

ERRORS = (
    "symbol_error",
    "port_rcv_errors",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
)
"""Counters of a port that speak of a bad cable, connector or transceiver; they count since the last reset."""
_OWN = "its own, where RDMA namespaces are exclusive"
_HANDED = "only those that were handed in"
_ITS = "its own interfaces"


def ports(root: Path) -> dict[str, Path]:
    """Every port of every RDMA device, by the name "mlx5_0/1". Raises Absent."""
    found = sorted((root / "sys/class/infiniband").glob("*/ports/*"))
    if not found:
        raise Absent("there is no RDMA NIC")
    return {f"{port.parent.parent.name}/{port.name}": port for port in found}


def _devices(root: Path) -> dict[str, Path]:
    return {port.parent.parent.name: port.parent.parent for port in ports(root).values()}


@fact(container=_OWN, machine=_HANDED)
def nics(root: Path) -> int:
    try:
        return len(_devices(root))
    except Absent:
        return 0


@fact(container=_OWN, machine=_HANDED)
def nic_state(root: Path) -> HostAnswer:
    """ "active", or the states of the ports that are not, as "DOWN (Polling)"."""
    bad = {}
    for name, port in ports(root).items():
        state, physical = (text(port / file).rpartition(":")[2].strip() for file in ("state", "phys_state"))
        if state != "ACTIVE" or physical != "LinkUp":
            bad[name] = f"{state} ({physical})"
    return HostAnswer(some([f"{name} {state}" for name, state in bad.items()]) or "active", details={"bad": bad})


@fact(container=_OWN, machine=_HANDED)
def nic_rate(root: Path) -> HostAnswer:
    """From "400 Gb/sec (4X NDR)": the rate that was negotiated, before encoding overhead."""
    rates = {}
    for name, port in ports(root).items():
        if text(port / "state").endswith("ACTIVE"):
            rates[name] = _rate(port / "rate")
    if not rates:
        raise Unreadable("no RDMA port is active")
    worst = min(rates, key=lambda name: rates[name])
    return HostAnswer(rates[worst], worst, {"rates": rates})


def _rate(path: Path) -> float:
    match = re.match(r"([\d.]+) Gb/sec", text(path))
    if match is None:
        raise Unreadable(f"{shown(path)}: {text(path)[:40]!r} is no rate")
    return float(match[1]) / 8


@fact(container=_OWN, machine=_HANDED)
def nic_width(root: Path) -> str:
    words = {match[1] for port in ports(root).values() if (match := re.search(r"\((\d+X)", text(port / "rate")))}
    return ", ".join(sorted(words)) or "not told"


@fact(container=_OWN, machine=_HANDED)
def nic_link_layer(root: Path) -> str:
    return ", ".join(sorted({text(port / "link_layer") for port in ports(root).values()}))


@fact(container=_OWN, machine=_HANDED)
def nic_firmware(root: Path) -> str:
    versions: dict[str, set[str]] = {}
    for nic in _devices(root).values():
        versions.setdefault(maybe(nic / "board_id") or "unknown board", set()).add(text(nic / "fw_ver"))
    return "; ".join(f"{board} {' and '.join(sorted(each))}" for board, each in sorted(versions.items()))


@fact(container=_OWN, machine=_HANDED)
def nic_link_downed(root: Path) -> HostAnswer:
    return most({name: number(port / "counters/link_downed") for name, port in ports(root).items()})


@fact(container=_OWN, machine=_HANDED)
def nic_link_recovery(root: Path) -> HostAnswer:
    return _of_ports(root, "link_error_recovery")


@fact(container=_OWN, machine=_HANDED)
def nic_errors(root: Path) -> HostAnswer:
    return _of_ports(root, *ERRORS)


def _of_ports(root: Path, *counters: str) -> HostAnswer:
    """The sum of some counters; a port without such ones (RoCE of some vendors) leaves them out."""
    counts: dict[str, int] = {}
    for name, port in ports(root).items():
        there = [path for counter in counters if (path := port / "counters" / counter).exists()]
        if there:
            counts[name] = sum(map(number, there))
    if not counts:
        raise Absent("no RDMA port counts errors")
    return most(counts)


# -- Ethernet


@fact(container=_ITS, machine=_HANDED)
def nic_carrier_lost(root: Path) -> HostAnswer:
    """RoCE: the ports' own counters stand still under some drivers, the interface's does not."""
    return _carrier_lost(root, rdma=True)


@fact(container=_ITS, machine=_HANDED)
def ethernet_carrier_lost(root: Path) -> HostAnswer:
    return _carrier_lost(root, rdma=False)


def _carrier_lost(root: Path, *, rdma: bool) -> HostAnswer:
    counts = {}
    for interface in _cards(root):
        path = interface / "carrier_down_count"
        if path.exists() and (interface / "device/infiniband").is_dir() == rdma:
            counts[interface.name] = number(path)
    if not counts:
        raise Absent(f"no Ethernet interface {'of an RDMA NIC ' if rdma else ''}counts how often its link was lost")
    return most(counts)


def _cards(root: Path) -> list[Path]:
    """The Ethernet interfaces that have a device."""
    every = sorted((root / "sys/class/net").glob("*"))
    return [each for each in every if (each / "device").exists() and maybe(each / "type") == "1"]


@fact(container=_ITS, machine="not told as a rule")
def ethernet_rate(root: Path) -> HostAnswer:
    rates = {}
    for interface in _cards(root):
        if maybe(interface / "operstate") != "up":
            continue  # others answer with an error when they are asked for their speed
        speed = maybe(interface / "speed")
        if speed.isdigit() and int(speed):
            rates[interface.name] = int(speed) / 8000
    if not rates:
        raise Absent("no Ethernet link says how fast it is")
    worst = min(rates, key=lambda name: rates[name])
    return HostAnswer(rates[worst], worst, {"rates": rates})
