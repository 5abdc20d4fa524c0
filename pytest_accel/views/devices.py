"""The devices as `discover` shows them: their identity, the facts they report, and the facts that are not available."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_accel.core.measurement import Device
from pytest_accel.core.verdict import show
from pytest_accel.drivers import registry
from pytest_accel.judging import inventory
from pytest_accel.judging.fact_metrics import FACT_METRICS


def lines(devices: Sequence[Device]) -> list[str]:
    """Return a line for each device, then each fact, with the devices that differ, then the facts that are missing."""
    accelerators = [device for device in devices if registry.vendor(device.driver).accelerator]
    known = {metric: text for metric in FACT_METRICS if (text := _figure(metric, accelerators))}
    width = max(map(len, known), default=0)
    shown = [_identity(device) for device in devices]
    shown += ["reported by the devices:"] if known else []
    shown += [f"  {metric:{width}}  {text}" for metric, text in known.items()]
    shown += _reasons("not readable for this user on this machine:", "unread", accelerators)
    return shown + _reasons("not supported by the devices:", "unsupported", accelerators)


def _identity(device: Device) -> str:
    """Return name, product, memory, UUID, PCI address, serial number and place of a device, as far as known."""
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
    """Return the most frequent value of a metric, then the devices with another one; empty if no device has any."""
    values = {}
    for device in devices:
        unit, value, _ = inventory.read(metric, device)
        if value is not None:
            values[device.name] = show(value, unit)
    shown = list(values.values())
    usual = max(shown, key=shown.count, default="")
    return "; ".join([usual, *(f"{name} {value}" for name, value in values.items() if value != usual)])


def _reasons(title: str, kind: str, devices: Sequence[Device]) -> list[str]:
    """Return a line for each reason why facts are missing, with the devices if only some lack them."""
    lacking: dict[tuple[str, str], list[str]] = {}
    for device in devices:
        for fact, reason in device.facts.get(kind, {}).items():
            lacking.setdefault((reason, fact), []).append(device.name)
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (reason, fact), names in lacking.items():
        groups.setdefault((reason, () if len(names) == len(devices) else tuple(names)), []).append(fact)
    shown = [title] if groups else []
    for (reason, some), facts in groups.items():
        shown.append(f"  {', '.join(facts)}{' of ' + ', '.join(some) if some else ''}: {reason}")
    return shown
