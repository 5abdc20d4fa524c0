"""Which devices the environment shows: to us, to a worker, and whether torch opened the right one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.core.measurement import Device

ROCR, HIP = "ROCR_VISIBLE_DEVICES", ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
"""ROCr reads the first, by index or UUID; HIP chooses among what it left by the first of the others that is set."""
CUDA = "CUDA_VISIBLE_DEVICES"
QUEUES, MOST_QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS", 32
"""Work queues of a context, 8 unless this says another number up to 32: copies whose streams share one wait for each
other (CUDA programming guide, environment variables). Training scripts set it to 1, and it is inherited by none; a
process that copies between all devices at once has twice as many streams a device as there are others."""

ZE, ASCEND, MODULES, MODULE = "ZE_AFFINITY_MASK", "ASCEND_RT_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES", "HLS_MODULE_ID"
"""Level Zero's counts devices, the runtime of CANN's too; Gaudi's count modules, which only its kernel driver knows."""


def narrowing(found: Sequence[Device], environment: Mapping[str, str]) -> dict[str, list[str]]:
    """What the environment leaves of the devices, by the variable that says so; the entries are as it names them."""
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
    """The UUID of the module; where the kernel does not tell the modules, words that are no device's name."""
    known = {str(device.facts.get("module_id")): device.uuid for device in found}
    return known.get(entry, f"module {entry}")


def _place(device: Device) -> str:
    """Where HIP has the device by itself."""
    return str(device.facts.get("hip_id", device.index))


def _uuid(entry: str, found: Sequence[Device]) -> str:
    """The UUID of the device that HIP's place or HIP's UUID stands for; anything else is left as it is."""
    for device in found:
        if entry == _place(device) or entry.lower() == str(device.facts.get("visible_as", "")).lower():
            return device.uuid
    return entry


def selecting(group: Sequence[Device]) -> dict[str, str | None]:
    """The environment of a worker that sees these devices only, in this order; None for what it may not inherit."""
    if group[0].driver == "amd":
        names = [str(device.facts.get("visible_as", device.index)) for device in group]
        return {ROCR: ",".join(names), **dict.fromkeys((*HIP, "GPU_DEVICE_ORDINAL"))}
    if group[0].driver in _OTHERS:
        return _OTHERS[group[0].driver](group)
    chosen = {CUDA: ",".join(device.uuid for device in group), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {**chosen, QUEUES: str(MOST_QUEUES) if len(group) > 1 else None}


def _level_zero(group: Sequence[Device]) -> dict[str, str | None]:
    """By place in the order of the PCI bus, each tile a device (Level Zero specification, environment variables)."""
    order = {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}
    others = dict.fromkeys(("ONEAPI_DEVICE_SELECTOR", "SYCL_DEVICE_FILTER", "PYTORCH_ENABLE_XPU_FALLBACK"))
    return {ZE: _indices(group), **order, **others}


def _cann(group: Sequence[Device]) -> dict[str, str | None]:
    return {ASCEND: _indices(group)}


def _gaudi(group: Sequence[Device]) -> dict[str, str | None]:
    """A process opens one module, which is named (docs.habana.ai, Gaudi-to-process assignment). Eager mode: a lazy
    graph would run after the events that are to time it."""
    module = group[0].facts.get("module_id") if len(group) == 1 else None
    return {MODULE: None if module is None else str(module), MODULES: None, "PT_HPU_LAZY_MODE": "0"}


_OTHERS = {"intel": _level_zero, "ascend": _cann, "habana": _gaudi}


def _indices(group: Sequence[Device]) -> str:
    return ",".join(str(device.index) for device in group)


def unselectable(group: Sequence[Device]) -> str | None:
    """Why a process cannot be made to open these devices and no others, or None."""
    if group[0].driver != "habana":
        return None
    if len(group) > 1:
        return "a process opens one Gaudi: there are no copies between two of them in one"
    if "module_id" not in group[0].facts and not group[0].facts.get("sole"):
        return f"nobody here can tell which module {group[0].pci_address} is: its kernel driver shows no module_id"
    return None


def mistaken(properties: Any, device: Device) -> str | None:
    """What torch opened instead of the device, or None: by its properties of the device that it opened."""
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
    """By what torch tells of a device that is not CUDA's: the address, or at least the product's PCI id."""
    product = getattr(properties, "device_id", None)
    told = f"{product:04x}" if isinstance(product, int) else ""
    pairs = ((_address(properties), _bus_place(device)), (told, str(device.pci_id or "").partition(":")[2]))
    return next((opened for opened, meant in pairs if opened and meant and opened != meant), None)


def verified(properties: Any, device: Device) -> bool:
    """True if torch tells the PCI address of what it opened, and it is the device's."""
    return _address(properties) == _bus_place(device)


def _bus_place(device: Device) -> str:
    return str(device.pci_address).rpartition(".")[0]


def _address(properties: Any) -> str:
    """ "0000:0c:00", as newer versions of torch tell it."""
    names = ("pci_domain_id", "pci_bus_id", "pci_device_id")
    numbers = [getattr(properties, name, None) for name in names]
    if not all(isinstance(each, int) for each in numbers):
        return ""
    domain, bus, slot = numbers
    return f"{domain:04x}:{bus:02x}:{slot:02x}"


def _spelled(uuid: str) -> str:
    """HIP's 16 bytes are the letters of the number, which torch prints as if they were numbers themselves."""
    plain = uuid.replace("-", "")
    try:
        letters = bytes.fromhex(plain).decode("ascii")
        int(letters, 16)
    except ValueError:
        return plain
    return letters.lower()
