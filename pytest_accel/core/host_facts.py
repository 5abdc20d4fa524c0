"""The facts of the host (`host.NAME`): unit, meaning and source.

drivers/host reads them, judging takes units from here, and docs/checks.md is generated from this table.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostFact:
    """One fact. `source` names the files or the command that it is read from.

    `counts`: it counts errors, is read again after the last probe, and is judged as `host_counters.NAME` too.
    """

    unit: str
    means: str
    source: str
    counts: bool = False


_DMI, _CPU, _NODE = "/sys/class/dmi/id", "/sys/devices/system/cpu", "/sys/devices/system/node"
_PCI, _RDMA, _NET = "/sys/bus/pci/devices", "/sys/class/infiniband", "/sys/class/net"
_PORT = f"{_RDMA}/*/ports/*"
_PROCESSES = "/proc/*/comm"
_SHM = "statvfs of /dev/shm"

# in the order of display
# fmt: off
HOST_FACTS = {
    "machine": HostFact("text", "bare metal, virtual machine or container",
                        f"{_DMI}, /sys/hypervisor/type, /proc/cpuinfo, /proc/1/cgroup and others"),
    "product": HostFact("text", "product as the firmware names it", f"{_DMI}/sys_vendor, product_name"),
    "firmware": HostFact("text", "version and date of the firmware (BIOS)", f"{_DMI}/bios_version, bios_date"),
    "serial": HostFact("text", "serial number of the node", f"{_DMI}/product_serial"),
    "kernel_log": HostFact("text", "kernel log readable", "/dev/kmsg"),
    "numa_balancing": HostFact("count", "automatic NUMA balancing: 0 is off", "/proc/sys/kernel/numa_balancing"),
    "cpu_governor": HostFact("text", "frequency governors in use", f"{_CPU}/cpufreq/policy*/scaling_governor"),
    "cpu_clock_cap": HostFact("1", "lowest share of its maximum clock that a core may reach",
                              f"{_CPU}/cpufreq/policy*/scaling_max_freq, cpuinfo_max_freq"),
    "smt": HostFact("text", "simultaneous multithreading", f"{_CPU}/smt/control"),
    "kernel_arguments": HostFact("text", "kernel arguments that affect performance", "/proc/cmdline"),
    "kernel_taint": HostFact("text", "trouble that the kernel's taint flags record", "/proc/sys/kernel/tainted"),
    "machine_checks": HostFact("count", "machine check exceptions since boot", "/proc/interrupts", counts=True),
    "huge_pages": HostFact("text", "transparent huge pages", "/sys/kernel/mm/transparent_hugepage/enabled"),
    "huge_pages_reserved": HostFact("GB", "memory set aside as explicit huge pages",
                                    "/sys/kernel/mm/hugepages/*/nr_hugepages"),
    "cpus": HostFact("count", "processors online", f"{_CPU}/online"),
    "numa_nodes": HostFact("count", "NUMA nodes", f"{_NODE}/online"),
    "memory": HostFact("GB", "memory of the machine", "/proc/meminfo"),
    "nvme": HostFact("count", "NVMe drives", "/sys/class/nvme/*/transport"),
    "cpus_usable": HostFact("count", "processors that this process may run on", "/proc/self/status"),
    "cpu_quota": HostFact("count", "processors that the time quota of this process is worth",
                          "cpu.max or cpu.cfs_quota_us of its cgroups"),
    "memory_usable": HostFact("GB", "memory that this process may use",
                              "/proc/meminfo; memory.max or memory.limit_in_bytes of its cgroups"),
    "memlock": HostFact("text", "memory that a process may lock, which NICs and pinned buffers need",
                        "/proc/self/limits"),
    "shm": HostFact("GB", "size of /dev/shm, through which ranks on one node communicate", _SHM),
    "shm_free": HostFact("GB", "free in /dev/shm", _SHM),
    "peer_memory": HostFact("text", "modules for DMA between NICs and accelerators", "/sys/module"),
    "acs": HostFact("text", "PCI access control (ACS) on the bridges above the accelerators", f"{_PCI}/*/config"),
    "iommu": HostFact("text", "IOMMU: off, passthrough or translated",
                      "/sys/kernel/iommu_groups/*/type, /sys/class/iommu"),
    "pcie_width": HostFact("text", "links of accelerators and the bridges above at their full width",
                           f"{_PCI}/*/current_link_width, max_link_width"),
    "pcie_fatal": HostFact("count", "PCIe errors that were fatal (AER)", f"{_PCI}/*/aer_dev_fatal", counts=True),
    "pcie_nonfatal": HostFact("count", "PCIe errors that lost a transaction, not the link (AER)",
                              f"{_PCI}/*/aer_dev_nonfatal", counts=True),
    "pcie_corrected": HostFact("count", "PCIe errors that were corrected (AER)", f"{_PCI}/*/aer_dev_correctable",
                               counts=True),
    "accelerator_numa": HostFact("text", "accelerators near processors that this process may use",
                                 f"{_PCI}/*/numa_node, {_NODE}/*/cpulist, /proc/self/status"),
    "nic_distance": HostFact("text", "worst distance of an accelerator to its nearest RDMA NIC",
                             f"{_PCI}, {_RDMA}/*/device"),
    "nics": HostFact("count", "RDMA NICs", _RDMA),
    "nics_active": HostFact("count", "RDMA NICs of the network between nodes with an active port, fast enough for the "
                            "platform where it states a rate", f"{_PORT}/state, phys_state, rate; {_RDMA}/*/device"),
    "nic_state": HostFact("text", "RDMA ports that are not active", f"{_PORT}/state, phys_state"),
    "nic_rate": HostFact("GB/s", "slowest active RDMA port, each way", f"{_PORT}/rate"),
    "nic_width": HostFact("text", "lanes of the RDMA ports", f"{_PORT}/rate"),
    "nic_link_layer": HostFact("text", "link layers of the RDMA ports", f"{_PORT}/link_layer"),
    "nic_firmware": HostFact("text", "firmware of the RDMA NICs, by board", f"{_RDMA}/*/fw_ver, board_id"),
    "nic_link_downed": HostFact("count", "most often that an RDMA port lost its link", f"{_PORT}/counters/link_downed",
                                counts=True),
    "nic_link_recovery": HostFact("count", "most often that an RDMA port had to recover its link",
                                  f"{_PORT}/counters/link_error_recovery", counts=True),
    "nic_errors": HostFact("count", "most errors on the link of an RDMA port",
                           f"{_PORT}/counters/symbol_error, port_rcv_errors, local_link_integrity_errors, "
                           "excessive_buffer_overrun_errors", counts=True),
    "nic_carrier_lost": HostFact("count", "most often that an RDMA NIC's Ethernet link was lost",
                                 f"{_NET}/*/carrier_down_count", counts=True),
    "ethernet_carrier_lost": HostFact("count", "most often that another Ethernet link was lost",
                                      f"{_NET}/*/carrier_down_count", counts=True),
    "ethernet_rate": HostFact("GB/s", "slowest Ethernet link that is up, each way", f"{_NET}/*/speed, operstate"),
    "ecc_corrected": HostFact("count", "memory errors that were corrected", "/sys/devices/system/edac/mc/*/ce_count",
                              counts=True),
    "ecc_uncorrected": HostFact("count", "memory errors that could not be corrected",
                                "/sys/devices/system/edac/mc/*/ue_count", counts=True),
    "dimms": HostFact("text", "memory modules: number, size, speed", "/sys/firmware/dmi/entries/17-*/raw"),
    "fabric_manager": HostFact("text", "NVIDIA fabric manager, which an NVSwitch system needs", _PROCESSES),
    "imex": HostFact("text", "NVIDIA IMEX, which joins the memory of the nodes of a rack", _PROCESSES),
    "mps": HostFact("text", "NVIDIA MPS, which lets processes share a device", _PROCESSES),
    "host_engine": HostFact("text", "DCGM host engine, which may profile the devices during the run", _PROCESSES),
}
# fmt: on

COUNTED_HOST_FACTS = tuple(name for name, fact in HOST_FACTS.items() if fact.counts)
"""The names of the facts that count errors."""
