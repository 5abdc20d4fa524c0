"""Queries on the links: PCI Express to the host, NVLinks to the peers, and the fabric that the NVLinks form."""

from __future__ import annotations

import uuid
from functools import cache
from typing import Any

from pytest_accel.drivers.library_query import Answerer, Asker, LibraryCall, Table, named, scaled
from pytest_accel.drivers.vendors.nvidia.query import Field, text

PCIE: Table = {
    "pcie_gen": LibraryCall("nvmlDeviceGetCurrPcieLinkGeneration"),
    "pcie_width": LibraryCall("nvmlDeviceGetCurrPcieLinkWidth"),
    "pcie_gen_max": LibraryCall("nvmlDeviceGetMaxPcieLinkGeneration"),
    "pcie_width_max": LibraryCall("nvmlDeviceGetMaxPcieLinkWidth"),
    "pcie_gen_device_max": LibraryCall("nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    "pcie_replays": (LibraryCall("nvmlDeviceGetPcieReplayCounter"), Field("NVML_FI_DEV_PCIE_REPLAY_COUNTER")),
    "pcie_correctable": Field("NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS"),
    "pcie_fatal": Field("NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR"),
}
"""Current generation and width, and the maximum that GPU and slot support together."""

LINK_STATES = {0: "inactive", 1: "active", 2: "sleep", 3: "traffic disabled"}
UP = ("active", "sleep")
"""States of a link that works; an idle link sleeps to save power."""
LINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
REMOTE = {0: "GPU", 1: "CPU", 2: "switch"}
ERRORS = ("replay", "recovery", "crc", "crc_data", "ecc", "recovery_failed", "receive", "symbol", "effective")

FABRIC_STATES = {1: "not started", 2: "in progress", 3: "completed"}
FABRIC_SUMMARY = {1: "healthy", 2: "unhealthy", 3: "limited capacity"}
FABRIC_CONFIGURATION = {
    2: "incorrect system GUID",
    3: "incorrect chassis serial number",
    4: "no partition",
    5: "insufficient NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "invalid GPU state",
}
FABRIC_FAULTS = {0: "degraded bandwidth", 2: "route recovery", 4: "route unhealthy", 6: "access timeout recovery"}
"""Faults by the position of their two bits in the health mask: 1 is true, 2 false, 0 not supported
(NVML_GPU_FABRIC_HEALTH_MASK_*)."""


def nvlinks(asker: Asker) -> list[dict[str, Any]]:
    """Return every NVLink of the GPU: state, version, GB/s per direction, remote end, error counters.

    A value that a link does not answer is noted in the asker with the reason of the last link that did not.
    """
    count = asker.ask({"nvlink_count": Field("NVML_FI_DEV_NVLINK_LINK_COUNT", read=int)}).get("nvlink_count")
    return [{"link": link, **_link(asker, link)} for link in range(count or 0)]


def _link(asker: Asker, link: int) -> dict[str, Any]:
    table = _link_table(link)
    answers = asker.ask({f"nvlink_{fact}": sources for fact, sources in table.items()})
    for key in answers:
        del asker.facts[key]  # they are facts of the link, not of the GPU
    facts = {key.removeprefix("nvlink_"): value for key, value in answers.items()}
    errors = {name: int(facts.pop(name)) for name in ERRORS if name in facts}
    return {**facts, **({"errors": errors} if errors else {})}


@cache
def _link_table(link: int) -> Table:
    """Return the queries of one link: fields for newer drivers, calls for older ones.

    An inactive link has neither a speed nor a remote end.
    """

    def old(counter: str) -> Answerer:
        return LibraryCall("nvmlDeviceGetNvLinkErrorCounter", (link, f"NVML_NVLINK_ERROR_DL_{counter}"))

    def new(counter: str) -> Answerer:
        return Field(f"NVML_FI_DEV_NVLINK_{counter}", scope=link)

    return {
        "state": (
            Field("NVML_FI_DEV_NVLINK_GET_STATE", named(LINK_STATES), link),
            LibraryCall("nvmlDeviceGetNvLinkState", (link,), named(LINK_STATES)),
        ),
        "version": (
            Field("NVML_FI_DEV_NVLINK_GET_VERSION", named(LINK_VERSIONS), link),
            LibraryCall("nvmlDeviceGetNvLinkVersion", (link,), named(LINK_VERSIONS)),
        ),
        "gb_per_s": (
            Field("NVML_FI_DEV_NVLINK_GET_SPEED", scaled(1e-3), link),
            Field("NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON", scaled(1e-3)),
        ),
        "remote": LibraryCall("nvmlDeviceGetNvLinkRemotePciInfo", (link,), lambda pci: text(pci.busId).lower()[-12:]),
        "remote_type": LibraryCall("nvmlDeviceGetNvLinkRemoteDeviceType", (link,), named(REMOTE)),
        "replay": (new("ERROR_DL_REPLAY"), old("REPLAY")),
        "recovery": (new("ERROR_DL_RECOVERY"), old("RECOVERY"), new("COUNT_LINK_RECOVERY_EVENTS")),
        "crc": (new("ERROR_DL_CRC"), old("CRC_FLIT")),
        "crc_data": old("CRC_DATA"),
        "ecc": old("ECC_DATA"),
        "recovery_failed": new("COUNT_LINK_RECOVERY_FAILED_EVENTS"),
        "receive": new("COUNT_RCV_ERRORS"),
        "symbol": new("COUNT_SYMBOL_ERRORS"),
        "effective": new("COUNT_EFFECTIVE_ERRORS"),
    }


def summary(links: list[dict[str, Any]], count: int | None) -> dict[str, Any]:
    """Return the number of links that are up and the rate of the slowest of them in GB/s, as far as all are known.

    `count` is the number of links that the GPU states.
    """
    if count == 0:
        return {"nvlink_up": 0}  # a value, and not a missing one
    if not links or not all("state" in link for link in links):
        return {}
    live = [link for link in links if link["state"] in UP]
    rates = [link["gb_per_s"] for link in live if "gb_per_s" in link]
    return {"nvlink_up": len(live), **({"nvlink_gb_per_s": min(rates)} if rates and len(rates) == len(live) else {})}


def _faults(info: Any) -> list[str] | None:
    mask = info.healthMask
    if not mask and not getattr(info, "healthSummary", 0):  # nothing is supported, as on H100 (gpud, fabric_state.go)
        return None
    faults = [name for position, name in FABRIC_FAULTS.items() if mask >> position & 3 == 1]
    configuration = mask >> 8 & 0xF
    return faults + ([named(FABRIC_CONFIGURATION)(configuration)] if configuration > 1 else [])


_V3, _V2, _V1 = "c_nvmlGpuFabricInfo_v3_t", "c_nvmlGpuFabricInfo_v2_t", "c_nvmlGpuFabricInfo_t"


def _info(read: Any, *structs: str) -> tuple[Answerer, ...]:
    """Return the queries of the fabric, one for each struct: the newest that the library accepts answers."""
    return tuple(
        LibraryCall("nvmlDeviceGetGpuFabricInfo" + ("" if struct == _V1 else "V"), fills=struct, read=read)
        for struct in structs
    )


FABRIC: Table = {
    "fabric_state": _info(lambda info: named(FABRIC_STATES)(info.state) if info.state else None, _V3, _V2, _V1),
    "fabric_status": _info(lambda info: info.status, _V3, _V2, _V1),
    "fabric_cluster": _info(lambda info: str(uuid.UUID(bytes=bytes(info.clusterUuid))), _V3, _V2, _V1),
    "fabric_clique": _info(lambda info: info.cliqueId, _V3, _V2, _V1),
    "fabric_faults": _info(_faults, _V3, _V2),
    "fabric_health": _info(lambda info: named(FABRIC_SUMMARY)(info.healthSummary) if info.healthSummary else None, _V3),
}
