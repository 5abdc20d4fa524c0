"""Faults that show only in what a device, the management library or the host reports.

A row is the whole fault: its name, the check that should catch it, its description, and what is reported instead of the
truth (names of management.py; for the host, files below its root).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.simulate.faults import Symptoms, fault

OF_DEVICE: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = (
    # -- another product, other firmware, other settings than the neighbours have
    ("wrong-pci-id", "inventory.sku", "Show the PCI id of another product under the right name.", {"part_id": "2331"}),
    ("fewer-units", "inventory.sku", "Show fewer compute units than the product has.", {"units_share": 0.95}),
    ("memory-missing", "inventory.sku", "Show less memory than the product has.", {"memory_share": 0.8}),
    ("memory-differs", "inventory.memory", "Show less memory than the other devices.", {"memory_share": 0.98}),
    ("wrong-inforom", "inventory.inforom", "Show a different InfoROM image than the other devices.",
     {"inforom": "G520.0200.00.03"}),
    ("clock-max-differs", "inventory.clock_max", "Show a lower maximum clock than the other devices.",
     {"clock_share": 0.9}),
    ("lesser-board", "inventory.power_limit_default, inventory.power_limit_max, inventory.clock_max",
     "Show a board with a lower default power limit, highest clock and other firmware than the product has.",
     {"power_share": 0.9, "clock_share": 0.886, "vbios": "96.00.61.00.01"}),
    ("slower-memory-clock", "inventory.memory_clock_max", "Show a lower highest clock of the memory.",
     {"memory_clock_share": 0.9}),
    ("narrower-memory", "inventory.memory_bus", "Show a narrower bus of the memory.", {"memory_bus_share": 0.8}),
    ("slower-links", "inventory.nvlink_speed", "Show links to the peers at half of their rate.", {"link_rate": 0.5}),
    ("slot-of-older-generation", "inventory.pcie_gen_max", "Put the device into a slot of an older PCIe generation.",
     {"pcie_gen": 4, "pcie_gen_max": 4}),
    ("vgpu", "the run is refused", "Show a share of a GPU that a hypervisor gives to a virtual machine.",
     {"virtualization": 2}),
    ("other-fabric-cluster", "inventory.fabric_cluster", "Show a different fabric cluster than the other devices.",
     {"fabric": {"clusterUuid": bytes(range(1, 17))}}),
    ("other-fabric-clique", "inventory.fabric_clique", "Show a different fabric clique than the other devices.",
     {"fabric": {"cliqueId": 7}}),
    ("ecc-change-pending", "health.ecc_pending_change", "Turn error correction off from the next reset on.",
     {"ecc_pending": False}),
    ("mig-change-pending", "the run is refused", "Turn MIG mode on from the next reset on.",
     {"mig_pending": True}),
    ("compute-prohibited", "every metric that is measured on the device is UNMEASURED",
     "Set the compute mode to prohibited.",
     {"compute_mode": 2}),
    ("slow-at-rest", "health.slowdown", "Lower the clock because of heat while idle.",
     {"reasons": ClockEvent.HW_THERMAL}),
    ("hot-at-rest", "health.thermal_margin", "Be as hot at rest as where the device slows itself down.",
     {"degrees_at_rest": 60.0}),
    # -- errors and repairs that the device remembers
    ("rows-remapped", "health.remapped_uncorrectable; later counters.rows_remapped",
     "Count more remapped rows than the vendor accepts.",
     {"remapped": 600}),
    ("rows-remapped-corrected", "counters.rows_remapped_corrected (MARGINAL)",
     "Count a row that was remapped after corrected errors.",
     {"remapped_corrected": 1}),
    ("pcie-fatal", "counters.pcie_fatal", "Count fatal errors on the PCIe link.", {"pcie_fatal": 1}),
    ("retired-pages", "health.retired_pages", "Count more retired pages than the vendor accepts.",
     {"retired_pages": 63}),
    ("retired-pages-pending", "health.retired_pages_pending", "Mark a page to be retired at the next reboot.",
     {"pages_pending": 1}),
    ("channel-repair-pending", "health.channel_repair_pending",
     "Mark a memory channel to be repaired at the next reset.",
     {"channel_pending": 1}),
    ("tpc-repair-pending", "health.tpc_repair_pending",
     "Mark a group of compute units to be repaired at the next reset.",
     {"tpc_pending": 1}),
    ("memory-unrepairable", "health.memory_unrepairable", "Mark the memory as beyond repair.",
     {"unrepairable": 1}),
    ("sram-errors", "health.ecc_sram_uncorrectable_aggregate", "Count uncorrectable errors of caches and registers.",
     {"sram_errors": 9}),
    ("sram-threshold", "health.ecc_sram_threshold",
     "Let the driver flag that the SRAM has had more errors than the vendor accepts.", {"sram_flag": 1}),
    ("recovery-needed", "health.recovery_action; later counters.recovery_asked",
     "Let the driver request a reset of the device.", {"recovery": 1}),
    # -- the fabric
    ("fabric-error", "health.fabric; later counters.fabric",
     "Let the fabric manager end with an error.", {"fabric": {"status": 13}}),
    ("fabric-degraded", "health.fabric_faults; later counters.fabric", "Report a degraded bandwidth of the fabric.",
     {"fabric": {"healthMask": 0x1A9}}),
    ("fabric-misconfigured", "health.fabric_faults; later counters.fabric",
     "Report NVLinks that are missing in the fabric's configuration.",
     {"fabric": {"healthMask": 0x5AA}}),
    # -- AMD: how it is partitioned, what its firmware and its links say
    ("memory-partitioned", "the run is refused", "Partition the memory.",
     {"memory_partition": "NPS4"}),
    ("virtual-function", "the run is refused", "Show a virtual function among whole devices.",
     {"part_id": "74b5", "virtual": True}),
    ("firmware-differs", "inventory.firmware", "Show different firmware in one block than the other devices.",
     {"firmware": {"pm": 0x00556800}}),
    ("bundle-differs", "inventory.firmware_bundle", "Show a different firmware bundle than the other devices.",
     {"firmware": {"pldm_bundle": 0x01190300}}),
    ("other-hive", "inventory.xgmi_hive", "Show a different XGMI hive than the other devices.",
     {"hive": 0x5A3C00002222}),
    ("deferred-errors", "health.ecc_deferred_volatile (MARGINAL); later counters.ecc_deferred",
     "Count deferred memory errors: data that is known to be wrong and was not read yet.", {"ecc_deferred": 2}),
    ("bad-pages", "health.bad_pages_of_threshold; later counters.bad_pages",
     "Count more bad pages than the vendor accepts.", {"bad_pages": 300}),
    # -- what cannot be read
    ("reading-denied", "health.ecc_*, health.remap* are UNMEASURED", "Deny this user access to the error counters.",
     {"denied": True}),
)  # fmt: skip

ACS_ON = b"\0" * 0x100 + struct.pack("<IHH", 0x000D | 1 << 16, 0xFF, 0x001D) + b"\0" * (4096 - 0x108)
"""Configuration space of a bridge whose access control redirects traffic between devices (PCIe, ACS)."""
ROOT, SLOT = "sys/devices/pci0000:10/0000:10:01.0", "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"
BUS = {"nvidia": {"vendor": "0x10de", "kind": "0x030200"}, "amd": {"vendor": "0x1002", "kind": "0x120000"}}
"""Vendor and class that the PCI bus reports for a device (3D controller, processing accelerator)."""
GPU = {
    f"{SLOT}/vendor": "{vendor}",
    f"{SLOT}/class": "{kind}",
    f"{SLOT}/numa_node": "0",
    "sys/bus/pci/devices/0000:11:00.0": f"-> {SLOT}",
    "proc/self/status": "Cpus_allowed_list:\t0-3\n",
    "sys/devices/system/node/node0/cpulist": "0-3\n",
    "sys/devices/system/node/node1/cpulist": "4-7\n",
}

MEMORY, PORT = "sys/devices/system/edac/mc/mc0", "sys/class/infiniband/mlx5_0/ports/1"

OF_HOST: tuple[tuple[str, str, str, Mapping[str, str | bytes | tuple[str, str]]], ...] = (
    ("numa-balancing", "host.numa_balancing (MARGINAL)", "Let the kernel move pages between NUMA nodes.",
     {"proc/sys/kernel/numa_balancing": "1\n"}),
    ("acs-on", "host.acs (MARGINAL)", "Let a bridge send traffic between devices up to the root.",
     {**GPU, f"{ROOT}/config": ACS_ON}),
    ("narrow-riser", "host.pcie_width (MARGINAL)", "Let the kernel report a PCIe link with half of its lanes.",
     {**GPU, f"{SLOT}/current_link_width": "8", f"{SLOT}/max_link_width": "16"}),
    ("iommu-translates", "host.iommu (MARGINAL)", "Let the IOMMU translate the memory accesses of the devices.",
     {**GPU, f"{SLOT}/iommu_group": "-> sys/kernel/iommu_groups/17", "sys/kernel/iommu_groups/17/type": "DMA-FQ"}),
    ("huge-pages-off", "host.huge_pages (MARGINAL)", "Turn transparent huge pages off.",
     {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}),
    ("far-processors", "host.accelerator_numa (MARGINAL)", "Leave no processor near the device in the cpuset.",
     {**GPU, f"{SLOT}/numa_node": "1"}),
    ("host-memory-lost-before", "host.ecc_uncorrected (MARGINAL)",
     "Count uncorrected memory errors since the last boot.",
     {f"{MEMORY}/ue_count": "2"}),
    ("machine-checked-before", "host.machine_checks (MARGINAL)",
     "Count machine checks of a processor since the last boot.",
     {"proc/interrupts": "MCE: 1 0"}),
    ("nic-down", "host.nics_active where the platform states NICs", "Take the port of an RDMA NIC down.",
     {f"{PORT}/state": "1: DOWN", f"{PORT}/phys_state": "2: Polling"}),
    ("nic-slow", "host.nics_active where the platform states NICs", "Let an RDMA NIC negotiate 100 Gbit/s.",
     {f"{PORT}/rate": "100 Gb/sec (1X NDR)"}),
    # -- counted while the devices work
    ("host-memory-uncorrected", "host_counters.ecc_uncorrected",
     "Count uncorrected errors of host memory during the run.",
     {f"{MEMORY}/ue_count": ("0", "1")}),
    ("host-memory-corrected", "host_counters.ecc_corrected (MARGINAL)",
     "Count corrected errors of host memory during the run.",
     {f"{MEMORY}/ce_count": ("0", "40")}),
    ("machine-check", "host_counters.machine_checks", "Raise machine checks of a processor during the run.",
     {"proc/interrupts": ("MCE: 0 0", "MCE: 1 0")}),
    ("pcie-error-of-a-bridge", "host_counters.pcie_fatal", "Report a fatal error of a PCIe bridge during the run.",
     {**GPU, f"{ROOT}/aer_dev_fatal": ("TOTAL_ERR_FATAL 0", "TOTAL_ERR_FATAL 1")}),
    ("pcie-transaction-lost", "host_counters.pcie_nonfatal (MARGINAL)",
     "Report a lost transaction of a PCIe bridge during the run.",
     {**GPU, f"{ROOT}/aer_dev_nonfatal": ("TOTAL_ERR_NONFATAL 0", "TOTAL_ERR_NONFATAL 1")}),
    ("nic-link-lost", "host_counters.nic_link_downed", "Take the link of an RDMA NIC down and up during the run.",
     {f"{PORT}/counters/link_downed": ("3", "4")}),
    ("nic-link-recovers", "host_counters.nic_link_recovery", "Let the link of an RDMA NIC recover during the run.",
     {f"{PORT}/counters/link_error_recovery": ("0", "1")}),
    ("nic-errors", "host_counters.nic_errors (MARGINAL)", "Count symbol errors on the link of an RDMA NIC.",
     {f"{PORT}/counters/symbol_error": ("0", "7")}),
    ("nic-carrier-lost", "host_counters.nic_carrier_lost", "Take the Ethernet link of an RDMA NIC down during the run.",
     {"sys/class/net/rdma0/type": "1", "sys/class/net/rdma0/device/infiniband/mlx5_0/x": "",
      "sys/class/net/rdma0/carrier_down_count": ("1", "2")}),
    ("ethernet-carrier-lost", "host_counters.ethernet_carrier_lost (MARGINAL)",
     "Take another Ethernet link down during the run.",
     {"sys/class/net/eth0/type": "1", "sys/class/net/eth0/device/x": "",
      "sys/class/net/eth0/carrier_down_count": ("1", "2")}),
)  # fmt: skip

BEGINNING_FAULTS = (
    "fabric-error",
    "fabric-degraded",
    "fabric-misconfigured",
    "rows-remapped",
    "rows-remapped-corrected",
    "pcie-fatal",
    "recovery-needed",
    "deferred-errors",
    "bad-pages",
    "clock-max-differs",
    "slot-of-older-generation",
)
"""Faults that may begin during the run, because the driver reads their counters or facts after every probe."""
OF_NVIDIA = (
    "narrower-memory", "slower-links", "hw-slowdown", "vgpu", "wrong-inforom", "other-fabric-cluster",
    "other-fabric-clique", "ecc-change-pending", "mig-change-pending",
    "compute-prohibited", "sync-boost", "rows-remapped", "rows-remapped-corrected", "pcie-fatal",
    "retired-pages", "retired-pages-pending", "channel-repair-pending", "tpc-repair-pending", "memory-unrepairable",
    "sram-errors", "sram-threshold",
    "recovery-needed", "fabric-not-ready", "fabric-error", "fabric-degraded", "fabric-misconfigured", "xid", "acs-on",
)  # fmt: skip
"""Faults that only NVML can report, or that only NVIDIA's limits catch."""
OF_AMD = (
    "memory-partitioned", "virtual-function", "firmware-differs", "bundle-differs", "other-hive", "deferred-errors",
    "bad-pages", "ras-errors", "iommu-translates", "huge-pages-off",
)  # fmt: skip
"""Faults that only amdsmi can report, or that only AMD's limits catch."""


def _enter(symptom: str, name: str, caught_by: str, does: str, said: Mapping[str, Any], **more: bool) -> None:
    """Register one row as a fault, which adds what is said to a symptom: `shows` of a device, `host`."""

    def apply(symptoms: Symptoms) -> None:
        getattr(symptoms, symptom).update(said)

    apply.__doc__ = does
    fault(name, caught_by, **more)(apply)


for _row in OF_DEVICE:
    _enter("shows", *_row, begins=_row[0] in BEGINNING_FAULTS)
for _row in OF_HOST:
    _enter("host", *_row, of_node=True)


@fault("wrong-driver", "inventory.driver_version where the SKU's file limits it", of_node=True)
def _(symptoms: Symptoms, version: str = "535.54.03") -> None:
    """Report another driver version than the threshold file requires."""
    symptoms.shows["driver"] = version


@fault("driver-mismatch", "inventory.driver", of_node=True)
def _(symptoms: Symptoms) -> None:
    """Give library and kernel module different versions, as after a driver update without a reboot."""
    symptoms.library = "mismatched"


@fault("driver-not-loaded", "inventory.driver", of_node=True)
def _(symptoms: Symptoms) -> None:
    """Let the management library report that the kernel module is not loaded."""
    symptoms.library = "not loaded"


@fault("library-missing", "inventory.driver", of_node=True)
def _(symptoms: Symptoms) -> None:
    """Remove the management library."""
    symptoms.library = "missing"


@fault("library-blocked", "inventory.driver, after --accel-patience seconds", of_node=True)
def _(symptoms: Symptoms) -> None:
    """Let the management library block for ever."""
    symptoms.library = "blocked"
