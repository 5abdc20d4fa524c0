"""Queries on memory errors, repairs, and the recovery that the driver requests."""

from __future__ import annotations

from typing import Any

from pytest_accel.drivers.library_query import Answerer, LibraryCall, Table, named
from pytest_accel.drivers.vendors.nvidia.query import Field

RECOVERY = {
    0: "none",
    1: "GPU reset",
    2: "node reboot",
    3: "drain peers",
    4: "drain and reset",
    5: "recover IMEX domain",
    6: "bus reset",
    7: "system reboot",
}
"""NVML_GPU_RECOVERY_ACTION_*"""

_COUNTERS = {"volatile": "NVML_VOLATILE_ECC", "aggregate": "NVML_AGGREGATE_ECC"}
"""Counters since the driver was loaded, and over the life of the board."""
_KINDS = {"correctable": "NVML_MEMORY_ERROR_TYPE_CORRECTED", "uncorrectable": "NVML_MEMORY_ERROR_TYPE_UNCORRECTED"}
_LOCATIONS = {"sram": "NVML_MEMORY_LOCATION_SRAM", "dram": "NVML_MEMORY_LOCATION_DRAM"}
SPARE_ROWS = ("max", "high", "partial", "low", "none")
"""The fields of NVML's histogram: banks that have all, most, some, few or none of their spare rows left."""


def _remapped(index: int) -> Answerer:
    return LibraryCall("nvmlDeviceGetRemappedRows", read=lambda rows: rows[index])


def _sram(read: Any) -> Answerer:
    return LibraryCall("nvmlDeviceGetSramEccErrorStatus", fills="c_nvmlEccSramErrorStatus_v1_t", read=read)


ERRORS: Table = {
    "ecc": LibraryCall("nvmlDeviceGetEccMode", read=lambda modes: bool(modes[0])),
    "ecc_pending": LibraryCall("nvmlDeviceGetEccMode", read=lambda modes: bool(modes[1])),
    **{
        f"ecc_{kind}_{counter}": LibraryCall("nvmlDeviceGetTotalEccErrors", (_KINDS[kind], _COUNTERS[counter]))
        for kind in _KINDS
        for counter in _COUNTERS
    },
    **{
        f"ecc_{location}_{kind}_{counter}": LibraryCall(
            "nvmlDeviceGetMemoryErrorCounter", (_KINDS[kind], _COUNTERS[counter], _LOCATIONS[location])
        )
        for location in _LOCATIONS
        for kind in _KINDS
        for counter in _COUNTERS
    },
    "ecc_sram_threshold_exceeded": _sram(lambda status: bool(status.bThresholdExceeded)),
}
REPAIRS: Table = {
    "remapped_correctable": _remapped(0),
    "remapped_uncorrectable": _remapped(1),
    "remap_pending": LibraryCall("nvmlDeviceGetRemappedRows", read=lambda rows: bool(rows[2])),
    "remap_failure": LibraryCall("nvmlDeviceGetRemappedRows", read=lambda rows: bool(rows[3])),
    "remap_banks": LibraryCall(
        "nvmlDeviceGetRowRemapperHistogram", read=lambda banks: {name: getattr(banks, name) for name in SPARE_ROWS}
    ),
    "retired_pages_correctable": Field("NVML_FI_DEV_RETIRED_SBE"),
    "retired_pages_uncorrectable": Field("NVML_FI_DEV_RETIRED_DBE"),
    "retired_pages_pending": LibraryCall("nvmlDeviceGetRetiredPagesPendingStatus", read=bool),
    "channel_repair_pending": LibraryCall("nvmlDeviceGetRepairStatus", read=lambda pending: bool(pending[0])),
    "tpc_repair_pending": LibraryCall("nvmlDeviceGetRepairStatus", read=lambda pending: bool(pending[1])),
    "memory_unrepairable": LibraryCall("nvmlDeviceGetUnrepairableMemoryFlag_v1", read=bool),
    "recovery_action": Field("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", read=named(RECOVERY)),
}
