"""Queries on the identity, firmware and settings of the GPU."""

from __future__ import annotations

from typing import Any

from pytest_accel.drivers.library_query import Answerer, LibraryCall, Table, named, part
from pytest_accel.drivers.vendors.nvidia.query import text

COMPUTE_MODES = {0: "default", 2: "prohibited", 3: "exclusive process"}
VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host vgpu", 4: "host vsga"}
CONFIDENTIAL = {0: "off", 1: "on"}

CORES_PER_SM = {
    (6, 0): 64,
    (6, 1): 128,
    (7, 0): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 7): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (10, 3): 128,
    (12, 0): 128,
    (12, 1): 128,
}
"""FP32 cores of one SM by compute capability (CUDA C++ Programming Guide, arithmetic instructions)."""


def _ids(number: int) -> str:
    """Return NVML's PCI id as "vendor:device": 0x233010DE is "10de:2330"."""
    return f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _cuda(number: int) -> str:
    """Return NVML's CUDA version as text: 12080 is "12.8"."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _platform(read: Any) -> Answerer:
    return LibraryCall("nvmlDeviceGetPlatformInfo", fills="c_nvmlPlatformInfo_v2_t", read=read)


PRODUCT: Table = {
    "model": LibraryCall("nvmlDeviceGetName", read=text),
    "serial": LibraryCall("nvmlDeviceGetSerial", read=text),
    "memory_bytes": LibraryCall("nvmlDeviceGetMemoryInfo", read=lambda memory: memory.total),
    "pci_id": LibraryCall("nvmlDeviceGetPciInfo", read=lambda pci: _ids(pci.pciDeviceId)),
    "pci_subsystem": LibraryCall("nvmlDeviceGetPciInfo", read=lambda pci: _ids(pci.pciSubSystemId)),
    "pci_address": LibraryCall("nvmlDeviceGetPciInfo", read=lambda pci: text(pci.busId).lower()[-12:]),
    "board_part": LibraryCall("nvmlDeviceGetBoardPartNumber", read=text),
    "compute_capability": LibraryCall("nvmlDeviceGetCudaComputeCapability", read=lambda pair: f"{pair[0]}.{pair[1]}"),
    "cuda_cores": LibraryCall("nvmlDeviceGetNumGpuCores"),
    "memory_bus_bits": LibraryCall("nvmlDeviceGetMemoryBusWidth"),
}
POSITION: Table = {
    "module_id": LibraryCall("nvmlDeviceGetModuleId", fills="c_uint", read=lambda reference: int(reference.value)),
    "memory_numa_node": LibraryCall("nvmlDeviceGetNumaNodeId"),
    "chassis_serial": _platform(lambda info: text(info.chassisSerialNumber) or None),
    "slot": _platform(lambda info: ord(info.slotNumber)),  # pynvml declares the number as a character
    "tray": _platform(lambda info: ord(info.trayIndex)),
}
FIRMWARE: Table = {
    "driver_version": LibraryCall("nvmlSystemGetDriverVersion", target="system", read=text),
    "library_version": LibraryCall("nvmlSystemGetNVMLVersion", target="system", read=text),
    "cuda_version": LibraryCall("nvmlSystemGetCudaDriverVersion", target="system", read=_cuda),
    "vbios": LibraryCall("nvmlDeviceGetVbiosVersion", read=text),
    "inforom": LibraryCall("nvmlDeviceGetInforomImageVersion", read=text),
    "inforom_ecc": LibraryCall("nvmlDeviceGetInforomVersion", ("NVML_INFOROM_ECC",), read=text),
    "inforom_power": LibraryCall("nvmlDeviceGetInforomVersion", ("NVML_INFOROM_POWER",), read=text),
    "gsp_firmware": LibraryCall("nvmlDeviceGetGspFirmwareVersion", read=text),
}
SETTINGS: Table = {
    "mig": LibraryCall("nvmlDeviceGetMigMode", read=lambda modes: bool(modes[0])),
    "mig_pending": LibraryCall("nvmlDeviceGetMigMode", read=lambda modes: bool(modes[1])),
    "persistence": LibraryCall("nvmlDeviceGetPersistenceMode", read=bool),
    "compute_mode": LibraryCall("nvmlDeviceGetComputeMode", read=named(COMPUTE_MODES)),
    "virtualization": LibraryCall("nvmlDeviceGetVirtualizationMode", read=named(VIRTUALIZATION)),
    "confidential": LibraryCall(
        "nvmlSystemGetConfComputeState", target="system", read=lambda state: named(CONFIDENTIAL)(state.ccFeature)
    ),
}


CHANGING = part(SETTINGS, ("mig", "mig_pending", "persistence", "compute_mode"))
"""The settings that somebody may change while the node runs."""


def compute_units(facts: dict[str, Any]) -> int | None:
    """Return the number of SMs from NVML's number of cores and the cores per SM of the compute capability, or None."""
    major, _, minor = str(facts.get("compute_capability", "")).partition(".")
    cores = facts.get("cuda_cores")
    per_unit = CORES_PER_SM.get((int(major), int(minor))) if major.isdigit() and minor.isdigit() else None
    return cores // per_unit if cores and per_unit else None
