"""Devices and host as `discover` shows them: identity, the facts that were read, and those that are not available."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.core.fact_metrics import FACT_METRICS
from pytest_accel.core.groups import grouped
from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.measurement import Device
from pytest_accel.core.verdict import show
from pytest_accel.drivers import registry
from pytest_accel.judging.facts import inventory


def lines(devices: Sequence[Device], *, in_full: bool = False) -> list[str]:
    """Return a line for each device, then each fact, with the devices that differ, then the facts that are missing.

    With `in_full` every accelerator has a paragraph, which tells one from the other without a comparison.
    """
    accelerators = [device for device in devices if registry.vendor(device.driver).accelerator]
    figures = {metric: text for metric in FACT_METRICS if (text := _figure(metric, accelerators))}
    width = max(map(len, figures), default=0)
    rows = [line for device in devices for line in (_paragraph(device) if in_full else [_identity(device)])]
    rows += ["reported by the devices:"] if figures else []
    rows += [f"  {metric:{width}}  {text}" for metric, text in figures.items()]
    rows += _reasons("not readable for this user on this machine:", "unread", accelerators)
    return rows + _reasons("not supported by the devices:", "unsupported", accelerators)


def _identity(device: Device) -> str:
    """Return name, product, memory, UUID, PCI address, serial number and place of a device, as far as known."""
    slots = [f"{name} {device.facts[name]}" for name in ("module_id", "slot", "chassis_serial") if name in device.facts]
    parts = [
        *([f"{device.memory_bytes / 1e9:.0f} GB"] if device.memory_bytes else []),
        device.uuid,
        device.pci_address or "no PCI address",
        *([f"serial {device.serial}"] if device.serial else []),
        *(text.replace("_id", "").replace("_serial", "") for text in slots),
    ]
    return f"{device.name}: {device.product}, {', '.join(parts)}"


def _paragraph(device: Device) -> list[str]:
    """Return the identity of a device, then its ids, its figures, its links, and its parts if it is divided."""
    facts = device.facts
    width, count = facts.get("pcie_width", "?"), facts.get("nvlink_count", facts.get("xgmi_up"))
    rows = {
        "ids": [
            f"PCI {device.pci_id}" if device.pci_id else "",
            _named("subsystem", facts.get("pci_subsystem")),
            _named("board", facts.get("board_part")),
            _named("VBIOS", facts.get("vbios")),
        ],
        "states": [
            _named("", facts.get("compute_units"), " compute units"),
            _named("power limit", facts.get("power_limit_w"), " W"),
            _named("of at most", facts.get("power_limit_max_w"), " W"),
            _named("clock up to", facts.get("clock_max_mhz"), " MHz"),
            _named("memory clock up to", facts.get("memory_clock_max_mhz"), " MHz"),
        ],
        "links": [
            f"PCIe {facts['pcie_gen_max']} x{width}" if "pcie_gen_max" in facts else "",
            _named("NUMA node", device.numa_node),
            _named("", count, f" links, {facts.get('nvlink_up', facts.get('xgmi_up', '?'))} up"),
            _named("each", facts.get("nvlink_gb_per_s", facts.get("xgmi_gb_per_s")), " GB/s"),
        ],
        "parts": [
            "MIG is on" if facts.get("mig") else "",
            _named("compute partition", facts.get("compute_partition")),
            _named("memory partition", facts.get("memory_partition")),
            _named("virtualization", None if (mode := facts.get("virtualization")) == "none" else mode),
        ],
    }
    texts = {name: ", ".join(filter(None, parts)) for name, parts in rows.items()}
    return [_identity(device), *(f"  {name:7}{text}" for name, text in texts.items() if text)]


def _named(name: str, value: object, unit: str = "") -> str:
    """Return a value with its name and unit, empty for none."""
    text = f"{value:.5g}" if isinstance(value, float) else value
    return "" if value is None else f"{name} {text}{unit}".strip()


def _figure(metric: str, devices: Sequence[Device]) -> str:
    """Return the most frequent value of a metric, then the devices with another one; empty if no device has any."""
    values = {}
    for device in devices:
        unit, value, _ = inventory.read_fact(metric, device)
        if value is not None:
            values[device.name] = show(value, unit)
    texts = list(values.values())
    common = max(texts, key=texts.count, default="")
    return "; ".join([common, *(f"{name} {value}" for name, value in values.items() if value != common)])


def _reasons(title: str, kind: str, devices: Sequence[Device]) -> list[str]:
    """Return a line for each reason why facts are missing, with the devices if only some lack them."""
    missing = [(device.name, *fact) for device in devices for fact in device.facts.get(kind, {}).items()]
    by_fact = grouped(missing, lambda row: row[1:])
    owners = {fact: [name for name, *_ in rows] for fact, rows in by_fact.items()}
    groups = grouped(owners, lambda fact: (fact[1], tuple(owners[fact]) if len(owners[fact]) < len(devices) else ()))
    lines = [title] if groups else []
    for (reason, names), facts in groups.items():
        scope = f" of {', '.join(names)}" if names else ""
        lines.append(f"  {', '.join(fact for fact, _ in facts)}{scope}: {reason}")
    return lines


def host_lines(answers: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the facts with their values, then those that cannot be read and those that do not exist, by reason."""
    width = max(map(len, answers), default=0)
    readable = {name: answer for name, answer in answers.items() if "value" in answer}
    hidden = {name: answer["unreadable"] for name, answer in answers.items() if "unreadable" in answer}
    absent = {name: answer["absent"] for name, answer in answers.items() if "absent" in answer}
    lines = ["host:"]
    for name, answer in readable.items():
        worst = f" ({answer['worst']})" if answer.get("worst") else ""
        lines.append(f"  {name:{width}}  {show(answer['value'], HOST_FACTS[name].unit)}{worst}")
    lines += ["not readable for this user on this machine:"] if hidden else []
    lines += [f"  {', '.join(names)}: {reason}" for reason, names in grouped(hidden, hidden.__getitem__).items()]
    lines += ["not present on this machine:"] if absent else []
    return lines + [f"  {', '.join(names)}: {reason}" for reason, names in grouped(absent, absent.__getitem__).items()]
