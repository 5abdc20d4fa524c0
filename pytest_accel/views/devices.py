"""What the devices state of themselves, and what this user cannot see of them here: for a person."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_accel.core.measurement import Device
from pytest_accel.core.verdict import show
from pytest_accel.drivers import registry
from pytest_accel.judging import inventory


def lines(devices: Sequence[Device]) -> list[str]:
    """A line for each device, every figure with the devices that differ, what is hidden, what is not there."""
    found = [_identity(each) for each in devices]
    stating = [each for each in devices if registry.vendor(each.driver).accelerator]
    known = {metric: text for metric in inventory.FIGURES if (text := _figure(metric, stating))}
    width = max(map(len, known), default=0)
    found += ["the devices state:"] if known else []
    found += [f"  {metric:{width}}  {text}" for metric, text in known.items()]
    found += _reasons("hidden from this user here:", "unread", stating)
    return found + _reasons("not there:", "unsupported", stating)


def _identity(device: Device) -> str:
    place = [f"{name} {device.facts[name]}" for name in ("module_id", "slot", "chassis_serial") if name in device.facts]
    parts = [
        *([f"{device.memory_bytes / 1e9:.0f} GB"] if device.memory_bytes else []),
        device.uuid,
        device.pci_address or "no PCI address",
        *([f"serial {device.serial}"] if device.serial else []),
        *(text.replace("_id", "").replace("_serial", "") for text in place),
    ]
    return f"{device.name}: {device.product}, {', '.join(parts)}"


def _figure(metric: str, devices: Sequence[Device]) -> str:
    """The value that most devices have, then those of the others; nothing where none has any."""
    values = {}
    for device in devices:
        unit, value, _ = inventory.read(metric, device)
        if value is not None:
            values[device.name] = show(value, unit)
    shown = list(values.values())
    usual = max(shown, key=shown.count, default="")
    return "; ".join([usual, *(f"{name} {value}" for name, value in values.items() if value != usual)])


def _reasons(title: str, kind: str, devices: Sequence[Device]) -> list[str]:
    """Facts by the reason why they are missing, with the devices where not all lack them."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for device in devices:
        for fact, reason in device.facts.get(kind, {}).items():
            lacking.setdefault((reason, fact), []).append(device.name)
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, fact), names in lacking.items():
        groups.setdefault((reason, () if len(names) == len(devices) else tuple(names)), []).append(fact)
    found = [title] if groups else []
    for (reason, some), facts in groups.items():
        found.append(f"  {', '.join(facts)}{' of ' + ', '.join(some) if some else ''}: {reason}")
    return found
