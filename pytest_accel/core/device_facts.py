"""The facts that a driver states of a device (`Device.facts`): device_facts.yaml has unit and meaning of each.

docs/checks.md is generated from that table and those of the drivers, judging takes units from it, and tests compare it
with both and with the metrics. Beside these facts a device has `unread` and `unsupported`: the facts that could not be
read, and those that it does not have, each with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.data_file import read


@dataclass(frozen=True)
class DeviceFact:
    """One fact. `used` says what it decides beside the metrics that judge it (`error_counters.judged_by`)."""

    unit: str
    means: str
    used: str = ""


GROUPS = {
    heading: {name: DeviceFact(**fact) for name, fact in facts.items()} for heading, facts in read(__file__).items()
}
"""The facts by what they are about: the headings of the page, in its order."""
DEVICE_FACTS = {name: fact for facts in GROUPS.values() for name, fact in facts.items()}
NOW = GROUPS["State at the moment"]

LESS_IS_WORSE = frozenset(
    {
        "compute_units", "cuda_cores", "memory_bus_bits", "memory_bytes", "power_limit_w", "power_limit_default_w",
        "power_limit_max_w", "clock_max_mhz", "memory_clock_max_mhz", "clock_application_mhz", "pcie_width",
        "pcie_gen_max", "pcie_width_max", "nvlink_count", "nvlink_up", "nvlink_gb_per_s", "xgmi_up", "xgmi_gb_per_s",
        "host.cpus", "host.memory", "host.numa_nodes", "host.nics", "host.nics_active", "host.nic_rate",
    }
)  # fmt: skip
"""Facts of which a smaller value is a loss."""
MORE_IS_WORSE = frozenset(
    {
        "ecc_uncorrectable_aggregate", "ecc_uncorrectable_volatile", "ecc_sram_uncorrectable_aggregate",
        "ecc_sram_uncorrectable_volatile", "ecc_dram_uncorrectable_aggregate", "ecc_dram_uncorrectable_volatile",
        "ecc_deferred_volatile", "remapped_uncorrectable", "retired_pages_uncorrectable", "bad_pages",
        "bad_pages_pending", "bad_pages_unreservable", "pcie_fatal", "xgmi_down", "ecc_sram_threshold_exceeded",
        "remap_pending", "remap_failure", "retired_pages_pending", "channel_repair_pending", "tpc_repair_pending",
        "memory_unrepairable", "xgmi_uncorrectable", "host.pcie_fatal", "host.ecc_uncorrected", "host.machine_checks",
    }
)  # fmt: skip
"""Facts of which a larger value is a loss: errors that nothing corrected, and flags of what is broken."""
RIGHT: Mapping[str, Any] = {
    "ecc": True,
    "recovery_action": "none",
    "fabric_state": "completed",
    "fabric_status": 0,
    "fabric_faults": [],
    "fabric_health": "healthy",
    "xgmi_errors": "none",
}
"""Facts with one value that is right."""
