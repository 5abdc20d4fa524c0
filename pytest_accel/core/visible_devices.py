"""Device visibility through environment variables: reading it, setting it for a worker, and verifying it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.core.measurement import Device

ROCR, HIP = "ROCR_VISIBLE_DEVICES", ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""ROCr reads the first, by index or UUID. HIP selects among the remaining devices by the first of the others that is
set."""
CUDA = "CUDA_VISIBLE_DEVICES"
QUEUES, MOST_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS", 32
"""The number of work queues of a context: 8 by default, at most 32. Copies on streams that share a queue wait for each
other (CUDA programming guide, environment variables), and a process that copies between all devices at once has two
streams per device and peer. Training scripts set it to 1, so no worker inherits it."""

ZE, ASCEND, MODULES, MODULE = "ZE_AFFINITY_MASK", "ASCEND_RT_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID"
"""The variables of Level Zero and CANN hold device indices; those of Gaudi hold modules, which only its kernel driver
knows."""


def narrowing(found: Sequence[Device], environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the entries of each environment variable that narrows the visible devices, by variable.

    Entries of AMD and Gaudi devices are translated to UUIDs where possible; all others are returned as written.
    """
    vendor = found[0].driver if found else ""
    if vendor == "nvidia":
        return {CUDA: _entries(environment[CUDA])} if CUDA in environment else {}
    if vendor in ("intel", "ascend"):
        name = ZE if vendor == "intel" else ASCEND
        return {name: _entries(environment[name])} if name in environment else {}
    if vendor == "habana":
        named = {name: _entries(environment[name]) for name in (MODULES, MODULE) if name in environment}
        return {name: [_module(entry, found) for entry in entries] for name, entries in named.items()}
    if vendor != "amd":
        return {}
    left, said = sorted((_place(device) for device in found), key=int), {}
    for name in (ROCR, next((each for each in HIP if each in environment), HIP[0])):
        if name in environment:
            entries = _entries(environment[name])
            left = [left[int(each)] if each.isdigit() and int(each) < len(left) else each for each in entries]
            said[name] = [_uuid(each, found) for each in left]
    return said


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(",") if entry.strip()]


def _module(entry: str, found: Sequence[Device]) -> str:
    """Return the UUID of a Gaudi module, or "module N" (which matches no device) if the kernel shows no modules."""
    known = {str(device.facts.get("module_id")): device.uuid for device in found}
    return known.get(entry, f"module {entry}")


def _place(device: Device) -> str:
    """Return the index of the device in HIP's own order."""
    return str(device.facts.get("hip_id", device.index))


def _uuid(entry: str, found: Sequence[Device]) -> str:
    """Return the UUID of the device for HIP's index or HIP's UUID; any other entry is returned unchanged."""
    for device in found:
        if entry == _place(device) or entry.lower() == str(device.facts.get("visible_as", "")).lower():
            return device.uuid
    return entry


def selecting(group: Sequence[Device]) -> dict[str, str | None]:
    """Return the environment of a worker that sees only these devices, in this order.

    A value of None removes a variable that the worker must not inherit.
    """
    if group[0].driver == "amd":
        names = [str(device.facts.get("visible_as", device.index)) for device in group]
        return {ROCR: ",".join(names), **dict.fromkeys((*HIP, "GPU_DEVICE_ORDINAL"))}
    if group[0].driver in _OTHERS:
        return _OTHERS[group[0].driver](group)
    chosen = {CUDA: ",".join(device.uuid for device in group), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {**chosen, QUEUES: str(MOST_QUEUES) if len(group) > 1 else None}


def _level_zero(group: Sequence[Device]) -> dict[str, str | None]:
    """Select by index in PCI order, each tile a device (Level Zero specification, environment variables)."""
    order = {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}
    others = dict.fromkeys(("ONEAPI_DEVICE_SELECTOR", "SYCL_DEVICE_FILTER", "PYTORCH_ENABLE_XPU_FALLBACK"))
    return {ZE: _indices(group), **order, **others}


def _cann(group: Sequence[Device]) -> dict[str, str | None]:
    return {ASCEND: _indices(group)}


def _gaudi(group: Sequence[Device]) -> dict[str, str | None]:
    """Select the one module that a process opens (docs.habana.ai, Gaudi-to-process assignment).

    Eager mode is set because a lazy graph would run after the events that are to time it.
    """
    module = group[0].facts.get("module_id") if len(group) == 1 else None
    return {MODULE: None if module is None else str(module), MODULES: None, "PT_HPU_LAZY_MODE": "0"}


_OTHERS = {"intel": _level_zero, "ascend": _cann, "habana": _gaudi}


def _indices(group: Sequence[Device]) -> str:
    return ",".join(str(device.index) for device in group)


def unselectable(group: Sequence[Device]) -> str | None:
    """Return why a process cannot be made to open exactly these devices, or None if it can."""
    if group[0].driver != "habana":
        return None
    if len(group) > 1:
        return "a process can open only one Gaudi, so it cannot copy between two"
    if "module_id" not in group[0].facts and not group[0].facts.get("sole"):
        return f"the module of {group[0].pci_address} is not known: its kernel driver shows no module_id"
    return None


def mistaken(properties: Any, device: Device) -> str | None:
    """Return the identity of the device that torch opened (`properties`) if it is not `device`, else None."""
    uuid = str(getattr(properties, "uuid", "")).lower()
    if device.driver == "nvidia":  # NVML's has "GPU-" before it
        return uuid if uuid and uuid not in device.uuid.lower() else None
    if device.driver != "amd":
        return _other(properties, device)
    known = str(device.facts.get("visible_as", "")).lower()
    evidence = {
        _address(properties): _bus_place(device),
        _spelled(uuid): known.removeprefix("gpu-").replace("-", "") if known.startswith("gpu-") else "",
    }
    comparable = {opened: meant for opened, meant in evidence.items() if opened and meant}
    if not comparable or any(opened == meant for opened, meant in comparable.items()):
        return None
    return " ".join(comparable)


def _other(properties: Any, device: Device) -> str | None:
    """Return what torch opened instead of a device without CUDA or HIP, by PCI address or product id, or None."""
    product = getattr(properties, "device_id", None)
    told = f"{product:04x}" if isinstance(product, int) else ""
    pairs = ((_address(properties), _bus_place(device)), (told, str(device.pci_id or "").partition(":")[2]))
    return next((opened for opened, meant in pairs if opened and meant and opened != meant), None)


def verified(properties: Any, device: Device) -> bool:
    """Return True if torch reports the PCI address of the device that it opened, and it is this device's."""
    return _address(properties) == _bus_place(device)


def _bus_place(device: Device) -> str:
    return str(device.pci_address).rpartition(".")[0]


def _address(properties: Any) -> str:
    """Return the PCI address that newer versions of torch report, such as "0000:0c:00"; else an empty text."""
    names = ("pci_domain_id", "pci_bus_id", "pci_device_id")
    numbers = [getattr(properties, name, None) for name in names]
    if not all(isinstance(each, int) for each in numbers):
        return ""
    domain, bus, slot = numbers
    return f"{domain:04x}:{bus:02x}:{slot:02x}"


def _spelled(uuid: str) -> str:
    """Return the UUID that torch prints for a HIP device in HIP's own spelling.

    HIP's 16 bytes are the hexadecimal digits of the number as ASCII characters, which torch prints as if they were
    bytes of a UUID.
    """
    plain = uuid.replace("-", "")
    try:
        letters = bytes.fromhex(plain).decode("ascii")
        int(letters, 16)
    except ValueError:
        return plain
    return letters.lower()
