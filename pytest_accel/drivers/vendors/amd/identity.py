"""Queries on the identity, firmware and settings of the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_accel.drivers.library_query import Answerer, LibraryCall, Refusal, Table, named
from pytest_accel.drivers.vendors.amd.query import absent, number, value

ASIC, BOARD, ENUMERATION = "amdsmi_get_gpu_asic_info", "amdsmi_get_gpu_board_info", "amdsmi_get_gpu_enumeration_info"

VIRTUALIZATION = {1: "none", 2: "host", 3: "guest", 4: "passthrough"}
"""AMDSMI_VIRTUALIZATION_MODE_*: bare metal, the host of virtual functions, a virtual function in a guest, a whole GPU
in a guest."""

WHOLE = "SPX"
"""The compute partition mode in which one device is the whole GPU."""


def _ids(vendor: str, part: str) -> Any:
    """Return a reader of a PCI id: "0x1002" and "0x74a1" are "1002:74a1"."""
    return lambda answer: f"{number(vendor)(answer):04x}:{number(part)(answer):04x}"


def _board(key: str) -> Answerer:
    return LibraryCall(BOARD, read=value(key))


def _serial(answer: Any) -> str:
    """Return the serial number of the board, which is "0" where nobody wrote one."""
    serial = str(value("product_serial")(answer))
    if not serial.strip("0"):
        raise absent()
    return serial


def _hip_uuid(answer: Any) -> str:
    """Return the UUID for ROCR_VISIBLE_DEVICES, which a GPU without a serial number does not have."""
    uuid = str(value("hip_uuid")(answer))
    if not uuid.removeprefix("GPU-").strip("0-X"):
        raise absent()
    return uuid


def _firmware(answer: Any) -> dict[str, str]:
    """Return the firmware versions by block; amdsmi's "AmdSmiFwBlock.AMDSMI_FW_ID_PM" is "pm"."""
    return {_block(entry["fw_name"]): str(entry["fw_version"]) for entry in answer["fw_list"]}


def _block(name: Any) -> str:
    return str(getattr(name, "name", name)).rpartition("FW_ID_")[2].lower()


def _bundle(answer: Any) -> str:
    version = _firmware(answer).get("pldm_bundle")
    if not version:
        raise absent()
    return version


def _library(answer: Mapping[str, Any]) -> str:
    """Return the version of amdsmi: major 26, minor 0, release 2 is "26.0.2"."""
    return ".".join(str(answer[part]) for part in ("major", "minor", "release"))


def _rocm(answer: tuple[bool, str]) -> str:
    valid, text = answer
    if not valid:
        raise Refusal(text)
    return text


PRODUCT: Table = {
    "model": (LibraryCall(ASIC, read=value("market_name")), _board("product_name")),
    "serial": (LibraryCall(BOARD, read=_serial), LibraryCall(ASIC, read=value("asic_serial"))),
    "memory_bytes": (
        LibraryCall("amdsmi_get_gpu_memory_total", ("AmdSmiMemoryType.VRAM",)),
        LibraryCall("amdsmi_get_gpu_vram_info", read=value("vram_size", scale=2**20)),
    ),
    "pci_id": LibraryCall(ASIC, read=_ids("vendor_id", "device_id")),
    "pci_subsystem": LibraryCall(ASIC, read=_ids("subvendor_id", "subsystem_id")),
    "asic_serial": LibraryCall(ASIC, read=value("asic_serial")),
    "board_part": _board("model_number"),
    "fru_id": _board("fru_id"),
    "compute_units": LibraryCall(ASIC, read=value("num_compute_units")),
    "memory_bus_bits": LibraryCall("amdsmi_get_gpu_vram_info", read=value("vram_bit_width")),
    "gfx_target": LibraryCall(ASIC, read=value("target_graphics_version")),
}
POSITION: Table = {
    "module_id": LibraryCall(ASIC, read=value("oam_id")),
    "hip_id": LibraryCall(ENUMERATION, read=value("hip_id")),
    "hip_uuid": LibraryCall(ENUMERATION, read=_hip_uuid),
    "numa_node": LibraryCall("amdsmi_get_gpu_topo_numa_affinity"),
}
FIRMWARE: Table = {
    "driver_version": LibraryCall("amdsmi_get_gpu_driver_info", read=value("driver_version")),
    "library_version": LibraryCall("amdsmi_get_lib_version", target="system", read=_library),
    "rocm_version": LibraryCall("amdsmi_get_rocm_version", target="system", read=_rocm),
    "vbios": LibraryCall("amdsmi_get_gpu_vbios_info", read=value("version")),
    "vbios_part": LibraryCall("amdsmi_get_gpu_vbios_info", read=value("part_number")),
    "firmware_bundle": LibraryCall("amdsmi_get_fw_info", read=_bundle),
    "firmware": LibraryCall("amdsmi_get_fw_info", read=_firmware),
}
SETTINGS: Table = {
    "virtualization": LibraryCall(
        "amdsmi_get_gpu_virtualization_mode", read=lambda answer: named(VIRTUALIZATION)(int(answer["mode"]))
    ),
    "compute_partition": LibraryCall("amdsmi_get_gpu_compute_partition", read=value()),
    "memory_partition": LibraryCall("amdsmi_get_gpu_memory_partition", read=value()),
    "partition_id": LibraryCall("amdsmi_get_gpu_kfd_info", read=value("current_partition_id")),
    # "AMDSMI_DEV_PERF_LEVEL_AUTO" is "auto"
    "perf_level": LibraryCall("amdsmi_get_gpu_perf_level", read=lambda level: level.rpartition("LEVEL_")[2].lower()),
}


CHANGING: Table = {name: source for name, source in SETTINGS.items() if name != "virtualization"}
"""The settings that somebody may change while the node runs."""


def visible_as(facts: Mapping[str, Any]) -> str | None:
    """Return the entry that selects the GPU in ROCR_VISIBLE_DEVICES: its UUID, or its index in HIP's order, or None.

    The index is used for the partitions of a GPU, which share its UUID, and for a GPU without a UUID. The UUID selects
    the first partition, whose number is 0. ROCm 10.0 announces the removal of the function that states the mode.
    """
    # HIP's UUID consists of the serial number of the chip, 16 hexadecimal digits
    digits = (facts.get("asic_serial") or "").lower().removeprefix("0x")
    name = facts.get("hip_uuid") or (f"GPU-{digits:0>16}" if digits.strip("0") else None)
    if name and facts.get("compute_partition", WHOLE) == WHOLE and not facts.get("partition_id"):
        return str(name)
    return str(facts["hip_id"]) if "hip_id" in facts else None
