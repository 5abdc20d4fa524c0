"""Faults that only show in what somebody states: the device of itself, the management library, the host.

A row is the whole fault: the name, the check that should catch it, what it is, and what is said instead of the truth
(names of management.py; of the host, files below its root).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from pytest_accel.core.clock_events import ClockEvent
from pytest_accel.simulate.faults import Symptoms, fault

OF_DEVICE: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = (
    # -- another product, other firmware, other settings than the neighbours have
    ("wrong-pci-id", "inventory.sku", "The name is right, the PCI id is another product's.", {"part_id": "2331"}),
    ("fewer-units", "inventory.sku", "Some compute units are fused off that the product has.", {"units_share": 0.95}),
    ("memory-missing", "inventory.sku", "A part of the memory is not there.", {"memory_share": 0.8}),
    ("memory-differs", "inventory.memory", "It shows less memory than its neighbours.", {"memory_share": 0.98}),
    ("wrong-inforom", "inventory.inforom", "It has another InfoROM image than its neighbours.",
     {"inforom": "G520.0200.00.03"}),
    ("clock-max-differs", "inventory.clock_max", "It may clock less high than its neighbours.", {"clock_share": 0.9}),
    ("slot-of-older-generation", "inventory.pcie_gen_max", "The slot or a riser is of an older PCIe generation.",
     {"pcie_gen": 4, "pcie_gen_max": 4}),
    ("other-fabric-cluster", "inventory.fabric_cluster", "The fabric counts it to another cluster.",
     {"fabric": {"clusterUuid": bytes(range(1, 17))}}),
    ("other-fabric-clique", "inventory.fabric_clique", "The fabric counts it to another clique.",
     {"fabric": {"cliqueId": 7}}),
    ("ecc-change-pending", "health.ecc_pending_change", "Error correction will be off after the next reset.",
     {"ecc_pending": False}),
    ("mig-change-pending", "health.mig_pending_change", "MIG mode will be on after the next reset.",
     {"mig_pending": True}),
    ("compute-prohibited", "whatever runs on the device is UNMEASURED", "Its compute mode lets nobody in.",
     {"compute_mode": 2}),
    ("sync-boost", "health.clock_lock", "It is in a group whose slowest member sets the clock.",
     {"reasons": ClockEvent.SYNC_BOOST}),
    ("slow-at-rest", "health.slowdown", "It holds its clock down for heat while it rests.",
     {"reasons": ClockEvent.HW_THERMAL}),
    # -- errors and repairs that the device remembers
    ("rows-remapped", "health.remapped_uncorrectable; later counters.rows_remapped",
     "More rows were replaced than its vendor accepts.",
     {"remapped": 600}),
    ("rows-remapped-corrected", "counters.rows_remapped_corrected, as advice", "A row was replaced in time.",
     {"remapped_corrected": 1}),
    ("pcie-fatal", "counters.pcie_fatal", "The PCIe link counts fatal errors.", {"pcie_fatal": 1}),
    ("retired-pages-pending", "health.retired_pages_pending", "A page will be retired at the next reboot.",
     {"pages_pending": 1}),
    ("channel-repair-pending", "health.channel_repair_pending", "A memory channel will be repaired at the next reset.",
     {"channel_pending": 1}),
    ("tpc-repair-pending", "health.tpc_repair_pending", "A group of compute units will be repaired at the next reset.",
     {"tpc_pending": 1}),
    ("memory-unrepairable", "health.memory_unrepairable", "Its memory cannot be repaired any more.",
     {"unrepairable": 1}),
    ("sram-errors", "health.ecc_sram_uncorrectable_aggregate", "Caches and registers had errors over its life.",
     {"sram_errors": 9}),
    ("recovery-needed", "health.recovery_action; later counters.recovery_asked",
     "The driver asks for a reset of the device.", {"recovery": 1}),
    # -- the fabric
    ("fabric-error", "health.fabric", "The fabric manager ended with an error.", {"fabric": {"status": 13}}),
    ("fabric-degraded", "health.fabric_faults", "The fabric says that its bandwidth is degraded.",
     {"fabric": {"healthMask": 0x1A9}}),
    ("fabric-misconfigured", "health.fabric_faults", "The fabric says that NVLinks are missing in its configuration.",
     {"fabric": {"healthMask": 0x5AA}}),
    # -- AMD: how it is partitioned, what its firmware and its links say
    ("memory-partitioned", "inventory.memory_partition", "Its memory is split among its parts.",
     {"memory_partition": "NPS4"}),
    ("virtual-function", "inventory.virtualization", "It is a virtual function among whole devices.",
     {"part_id": "74b5", "virtual": True}),
    ("firmware-differs", "inventory.firmware", "One of its blocks has other firmware than its neighbours'.",
     {"firmware": {"pm": 0x00556800}}),
    ("bundle-differs", "inventory.firmware_bundle", "Its firmware comes from another bundle than its neighbours'.",
     {"firmware": {"pldm_bundle": 0x01190300}}),
    ("other-hive", "inventory.xgmi_hive", "Its links join it to other devices than its neighbours.",
     {"hive": 0x5A3C00002222}),
    ("deferred-errors", "health.ecc_deferred_volatile, as advice; later counters.ecc_deferred",
     "Its memory holds data that is known to be wrong and that nobody has read.", {"ecc_deferred": 2}),
    ("bad-pages", "health.bad_pages_of_threshold; later counters.bad_pages",
     "More pages were taken out of use than it may have.", {"bad_pages": 300}),
    # -- what cannot be read
    ("reading-denied", "health.ecc_*, health.remap* are UNMEASURED", "This user may not read its error counters.",
     {"denied": True}),
)  # fmt: skip

ACS_ON = b"\0" * 0x100 + struct.pack("<IHH", 0x000D | 1 << 16, 0xFF, 0x001D) + b"\0" * (4096 - 0x108)
"""The configuration space of a bridge whose access control redirects what devices send each other (PCIe, ACS)."""
ROOT, SLOT = "sys/devices/pci0000:10/0000:10:01.0", "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"
BUS = {"nvidia": {"vendor": "0x10de", "kind": "0x030200"}, "amd": {"vendor": "0x1002", "kind": "0x120000"}}
"""What the PCI bus says of a device: its vendor, and its class (3D controller, processing accelerator)."""
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
    ("numa-balancing", "host.numa_balancing, as advice", "The kernel moves pages between NUMA nodes.",
     {"proc/sys/kernel/numa_balancing": "1\n"}),
    ("acs-on", "host.acs, as advice", "A bridge sends what devices say to each other up to the root.",
     {**GPU, f"{ROOT}/config": ACS_ON}),
    ("narrow-riser", "host.pcie_width, as advice", "The kernel shows a link that trained with half of its lanes.",
     {**GPU, f"{SLOT}/current_link_width": "8", f"{SLOT}/max_link_width": "16"}),
    ("iommu-translates", "host.iommu, as advice", "The IOMMU translates what the devices ask of memory.",
     {**GPU, f"{SLOT}/iommu_group": "-> sys/kernel/iommu_groups/17", "sys/kernel/iommu_groups/17/type": "DMA-FQ"}),
    ("huge-pages-off", "host.huge_pages, as advice", "The kernel gives no huge pages of itself.",
     {"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}),
    ("far-processors", "host.accelerator_numa, as advice", "The cpuset has no processor near the device.",
     {**GPU, f"{SLOT}/numa_node": "1"}),
    ("host-memory-lost-before", "host.ecc_uncorrected, as advice", "A memory module has lost data since the last boot.",
     {f"{MEMORY}/ue_count": "2"}),
    ("machine-checked-before", "host.machine_checks, as advice", "A processor had machine checks since the last boot.",
     {"proc/interrupts": "MCE: 1 0"}),
    ("drive-dead", "host.nvme_state, as advice", "An NVMe drive does not answer any more.",
     {"sys/class/nvme/nvme0/state": "dead"}),
    ("fan-alarm", "host.fan_alarms, as advice", "A fan of the chassis reports an alarm.",
     {"sys/class/hwmon/hwmon0/fan1_input": "900", "sys/class/hwmon/hwmon0/fan1_alarm": "1"}),
    ("power-supply-off", "host.power_supplies, as advice", "One of two power supplies is off.",
     {f"sys/class/power_supply/{name}/{file}": text for name, online in (("PSU1", "1"), ("PSU2", "0"))
      for file, text in (("type", "Mains"), ("online", online))}),
    # -- counted while the devices work
    ("host-memory-uncorrected", "host_counters.ecc_uncorrected", "A memory module of the host loses data.",
     {f"{MEMORY}/ue_count": ("0", "1")}),
    ("host-memory-corrected", "host_counters.ecc_corrected, as advice", "A memory module of the host corrects errors.",
     {f"{MEMORY}/ce_count": ("0", "40")}),
    ("machine-check", "host_counters.machine_checks", "A processor of the host raises machine checks.",
     {"proc/interrupts": ("MCE: 0 0", "MCE: 1 0")}),
    ("pcie-error-of-a-bridge", "host_counters.pcie_fatal", "A PCIe bridge above a device reports a fatal error.",
     {**GPU, f"{ROOT}/aer_dev_fatal": ("TOTAL_ERR_FATAL 0", "TOTAL_ERR_FATAL 1")}),
    ("pcie-transaction-lost", "host_counters.pcie_nonfatal, as advice", "A PCIe bridge reports a lost transaction.",
     {**GPU, f"{ROOT}/aer_dev_nonfatal": ("TOTAL_ERR_NONFATAL 0", "TOTAL_ERR_NONFATAL 1")}),
    ("nic-link-lost", "host_counters.nic_link_downed", "The link of an RDMA NIC goes down and comes back.",
     {f"{PORT}/counters/link_downed": ("3", "4")}),
    ("nic-link-recovers", "host_counters.nic_link_recovery", "The link of an RDMA NIC has to recover.",
     {f"{PORT}/counters/link_error_recovery": ("0", "1")}),
    ("nic-errors", "host_counters.nic_errors, as advice", "The link of an RDMA NIC counts symbol errors.",
     {f"{PORT}/counters/symbol_error": ("0", "7")}),
    ("nic-carrier-lost", "host_counters.nic_carrier_lost", "The Ethernet link of an RDMA NIC goes down.",
     {"sys/class/net/rdma0/type": "1", "sys/class/net/rdma0/device/infiniband/mlx5_0/x": "",
      "sys/class/net/rdma0/carrier_down_count": ("1", "2")}),
    ("ethernet-carrier-lost", "host_counters.ethernet_carrier_lost, as advice", "Another Ethernet link goes down.",
     {"sys/class/net/eth0/type": "1", "sys/class/net/eth0/device/x": "",
      "sys/class/net/eth0/carrier_down_count": ("1", "2")}),
)  # fmt: skip

BEGINNING_FAULTS = (
    "rows-remapped",
    "rows-remapped-corrected",
    "pcie-fatal",
    "recovery-needed",
    "deferred-errors",
    "bad-pages",
)
"""What may begin during the run: the driver reads it again after every probe."""
OF_NVIDIA = (
    "wrong-inforom", "other-fabric-cluster", "other-fabric-clique", "ecc-change-pending", "mig-change-pending",
    "compute-prohibited", "sync-boost", "rows-remapped", "rows-remapped-corrected", "pcie-fatal",
    "retired-pages-pending", "channel-repair-pending", "tpc-repair-pending", "memory-unrepairable", "sram-errors",
    "recovery-needed", "fabric-not-ready", "fabric-error", "fabric-degraded", "fabric-misconfigured", "xid", "acs-on",
)  # fmt: skip
"""What only NVML has words for, or only NVIDIA's limits speak of."""
OF_AMD = (
    "memory-partitioned", "virtual-function", "firmware-differs", "bundle-differs", "other-hive", "deferred-errors",
    "bad-pages", "ras-errors", "iommu-translates", "huge-pages-off",
)  # fmt: skip
"""The same of amdsmi and AMD's limits."""


def _enter(name: str, caught_by: str, does: str, apply: Callable[[Symptoms], None], **more: bool) -> None:
    apply.__doc__ = does
    fault(name, caught_by, **more)(apply)


def _of_device(said: Mapping[str, Any]) -> Callable[[Symptoms], None]:
    return lambda sick: sick.shows.update(said)


def _of_host(files: Mapping[str, str | bytes | tuple[str, str]]) -> Callable[[Symptoms], None]:
    return lambda sick: sick.host.update(files)


for _name, _caught_by, _does, _said in OF_DEVICE:
    _enter(_name, _caught_by, _does, _of_device(_said), begins=_name in BEGINNING_FAULTS)
for _name, _caught_by, _does, _files in OF_HOST:
    _enter(_name, _caught_by, _does, _of_host(_files), of_node=True)


@fault("wrong-driver", "inventory.driver_version where the SKU's file limits it", of_node=True)
def _(sick: Symptoms, version: str = "535.54.03") -> None:
    """The node has another driver than the one that was agreed on."""
    sick.shows["driver"] = version


@fault("driver-mismatch", "inventory.driver", of_node=True)
def _(sick: Symptoms) -> None:
    """Library and kernel module have different versions: somebody updated the driver without a reboot."""
    sick.library = "mismatched"


@fault("driver-not-loaded", "inventory.driver", of_node=True)
def _(sick: Symptoms) -> None:
    """The management library says that the kernel module is not loaded."""
    sick.library = "not loaded"


@fault("library-missing", "inventory.driver", of_node=True)
def _(sick: Symptoms) -> None:
    """There is no management library."""
    sick.library = "missing"


@fault("library-blocked", "inventory.driver, after --accel-patience seconds", of_node=True)
def _(sick: Symptoms) -> None:
    """The management library never answers."""
    sick.library = "blocked"
