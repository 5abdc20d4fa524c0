"""Queries on the links: PCI Express to the host, xGMI to the peers."""

from __future__ import annotations

from typing import Any

from pytest_accel.drivers import pci
from pytest_accel.drivers.library_query import Answerer, LibraryCall, Table, named
from pytest_accel.drivers.vendors.amd.query import absent, value

INFO = "amdsmi_get_pcie_info"
STATUS, METRICS = "amdsmi_get_gpu_xgmi_link_status", "amdsmi_get_link_metrics"

STATES = {"U": "up", "D": "down", "X": "disabled"}
ERRORS = {0: "none", 1: "error", 2: "multiple errors"}
"""AMDSMI_XGMI_STATUS_*"""


def _generation(*path: str) -> Answerer:
    """Return the query of a PCIe generation, which is derived from the speed in MT/s."""
    return LibraryCall(INFO, read=lambda answer: pci.GENERATIONS[value(*path)(answer) / 1000])


def _counter(name: str) -> Answerer:
    return LibraryCall(INFO, read=value("pcie_metric", name))


PCIE: Table = {
    "pcie_gen": _generation("pcie_metric", "pcie_speed"),
    "pcie_width": LibraryCall(INFO, read=value("pcie_metric", "pcie_width", bits=16)),
    "pcie_gen_max": _generation("pcie_static", "max_pcie_speed"),
    "pcie_width_max": LibraryCall(INFO, read=value("pcie_static", "max_pcie_width", bits=16)),
    "pcie_replays": (_counter("pcie_replay_count"), LibraryCall("amdsmi_get_gpu_pci_replay_counter", read=value())),
    "pcie_recoveries": _counter("pcie_l0_to_recovery_count"),
    "pcie_naks_sent": _counter("pcie_nak_sent_count"),
    "pcie_naks_received": _counter("pcie_nak_received_count"),
}


NOW: Table = {name: PCIE[name] for name in ("pcie_gen", "pcie_width")}


def _states(answer: Any) -> list[str]:
    """Return the state of every link; the entry of the GPU itself is "disabled"."""
    states = [STATES[code] for code in answer["status"] if code in STATES]
    if not states:
        raise absent()
    return states


def _counted(state: str) -> Answerer:
    return LibraryCall(STATUS, read=lambda answer: _states(answer).count(state))


def _links(answer: Any) -> list[dict[str, Any]]:
    """Return peer, GB/s per direction and traffic of every link that has a rate."""
    count = min(int(answer["num_links"]), len(answer["links"]))
    return [
        {
            "remote": link["bdf"],
            "gb_per_s": link["max_bandwidth"] / 8,
            "read_kb": link["read"],
            "written_kb": link["write"],
        }
        for link in answer["links"][:count]
        if 0 < link["max_bandwidth"] < 2**32 - 1  # all ones stand for no value
    ]


def _slowest(answer: Any) -> float:
    rates = [link["gb_per_s"] for link in _links(answer)]
    if not rates:
        raise absent()
    return float(min(rates))


XGMI: Table = {
    "xgmi_up": _counted("up"),
    "xgmi_down": _counted("down"),
    "xgmi_states": LibraryCall(STATUS, read=_states),
    "xgmi_links": LibraryCall(METRICS, read=_links),
    "xgmi_gb_per_s": LibraryCall(METRICS, read=_slowest),
    "xgmi_errors": LibraryCall("amdsmi_gpu_xgmi_error_status", read=lambda status: named(ERRORS)(int(status))),
    "xgmi_uncorrectable": LibraryCall(
        "amdsmi_get_gpu_ecc_count", ("AmdSmiGpuBlock.XGMI_WAFL",), value("uncorrectable_count")
    ),
    # 0 is that of a device without links
    "xgmi_hive": LibraryCall(
        "amdsmi_get_xgmi_info", read=lambda info: f"{value('xgmi_hive_id', positive=True)(info):016x}"
    ),
}
