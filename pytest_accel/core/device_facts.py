"""The facts that a driver states of a device (`Device.facts`): unit and meaning.

docs/checks.md is generated from this table and those of the drivers, judging takes units from it, and tests compare it
with both and with the metrics. Beside these facts a device has `unread` and `unsupported`: the facts that could not be
read, and those that it does not have, each with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class DeviceFact:
    """One fact. `used` says what it decides beside the metrics that judge it (`error_counters.judged_by`)."""

    unit: str
    means: str
    used: str = ""


_CAUSE = "the cause of a shortfall"
_VISIBLE = "how the device is made visible to its worker"

# fmt: off
IDENTITY = {
    "pci_id": DeviceFact("text", "Vendor and device id on the PCI bus, as 10de:2330.", "a field of the device as well"),
    "pci_class": DeviceFact("text", "PCI class: 0x030200 is a 3D controller, 0x030000 a display adapter.",
                            "whether a device only drives a display"),
    "pci_subsystem": DeviceFact("text", "Vendor and device id of the board (PCI subsystem).",
                                "which SKU the device is"),
    "board_part": DeviceFact("text", "Part number of the board."),
    "asic_serial": DeviceFact("text", "Serial number of the chip.", _VISIBLE),
    "fru_id": DeviceFact("text", "Identification of the field-replaceable unit."),
    "compute_capability": DeviceFact("text", "CUDA compute capability, as 9.0.", "`compute_units`"),
    "cuda_cores": DeviceFact("count", "FP32 cores.", "`compute_units`"),
    "compute_units": DeviceFact("count", "SMs (NVIDIA: cores by the cores of an SM) or compute units (AMD).",
                                "which SKU the device is; the share of what the clock gives"),
    "memory_bus_bits": DeviceFact("count", "Width of the memory's bus in bits."),
    "gfx_target": DeviceFact("text", "Instruction set of the compute units, as gfx942."),
    "cores": DeviceFact("count", "Physical cores of the part of the processor that is the device.",
                        "how many threads a worker has"),
    "kernel_driver": DeviceFact("text", "Kernel driver that is bound to the PCI function."),
    "sole": DeviceFact("yes/no", "The PCI bus shows no other device of the vendor.", _VISIBLE),
    "module_id": DeviceFact("count", "Place of the module on its baseboard.", _VISIBLE),
    "chassis_serial": DeviceFact("text", "Serial number of the chassis.", "`pytest-accel discover`"),
    "slot": DeviceFact("count", "Slot of the tray in the chassis.", "`pytest-accel discover`"),
    "tray": DeviceFact("count", "Index of the tray in the chassis."),
    "hip_id": DeviceFact("count", "Place of the device in HIP's order.", _VISIBLE),
    "hip_uuid": DeviceFact("text", "UUID by which ROCR_VISIBLE_DEVICES selects the device.", _VISIBLE),
    "visible_as": DeviceFact("text", "Entry of ROCR_VISIBLE_DEVICES that selects the device: UUID or place.", _VISIBLE),
}
VERSIONS = {
    "driver_version": DeviceFact("version", "Version of the kernel driver."),
    "memory_numa_node": DeviceFact("", "NUMA node of the host that the device's memory is, as on GH200 and GB200.",
                                   "the idle gate"),
    "library_version": DeviceFact("version", "Version of the management library."),
    "cuda_version": DeviceFact("version", "Newest CUDA that the driver supports."),
    "rocm_version": DeviceFact("version", "Version of ROCm."),
    "vbios": DeviceFact("version", "Version of the VBIOS."),
    "vbios_part": DeviceFact("text", "Part number of the VBIOS."),
    "inforom": DeviceFact("version", "Version of the image of the InfoROM."),
    "inforom_ecc": DeviceFact("version", "Version of the ECC object of the InfoROM."),
    "inforom_power": DeviceFact("version", "Version of the power object of the InfoROM."),
    "gsp_firmware": DeviceFact("version", "Version of the firmware of the GPU System Processor."),
    "firmware": DeviceFact("table", "Version of the firmware of every block."),
    "firmware_bundle": DeviceFact("version", "Version of the firmware bundle (PLDM)."),
}
SETTINGS = {
    "mig": DeviceFact("yes/no", "MIG mode is on.", "whether a run is refused"),
    "mig_pending": DeviceFact("yes/no", "MIG mode will be on after the next reset.", "whether a run is refused"),
    "persistence": DeviceFact("yes/no", "Persistence mode is on."),
    "compute_mode": DeviceFact("text", "Who may compute: default, exclusive process or prohibited.",
                               "the reason why a worker could not start"),
    "virtualization": DeviceFact("text", "none (bare metal), passthrough, or the kind of virtual function.",
                                 "the platform that is recognised, whether a run is refused"),
    "confidential": DeviceFact("text", "Confidential computing is on or off."),
    "compute_partition": DeviceFact("text", "How the compute dies are partitioned; SPX is the whole GPU.",
                                    "whether a run is refused"),
    "memory_partition": DeviceFact("text", "How the memory is partitioned, as NPS1.", "whether a run is refused"),
    "partition_id": DeviceFact("count", "Which partition of its GPU the device is."),
    "perf_level": DeviceFact("text", "Performance level; auto leaves the clocks to the firmware."),
    "power_limit_w": DeviceFact("W", "Power limit in force.", _CAUSE),
    "power_limit_requested_w": DeviceFact("W", "Power limit that was set; chassis or module may enforce a lower one."),
    "power_limit_default_w": DeviceFact("W", "Power limit after a reset.", _CAUSE),
    "power_limit_min_w": DeviceFact("W", "Lowest power limit that can be set."),
    "power_limit_max_w": DeviceFact("W", "Highest power limit that can be set."),
    "clock_max_mhz": DeviceFact("MHz", "Highest clock of the compute units.", _CAUSE),
    "memory_clock_max_mhz": DeviceFact("MHz", "Highest clock of the memory.", _CAUSE),
    "clock_application_mhz": DeviceFact("MHz", "Application clock of the compute units that is set."),
    "clock_application_default_mhz": DeviceFact("MHz", "Application clock of the compute units after a reset."),
    "shutdown_c": DeviceFact("C", "Temperature at which the device shuts down."),
    "slowdown_c": DeviceFact("C", "Temperature at which the device slows down.", "soak.thermal_margin"),
    "gpu_max_c": DeviceFact("C", "Highest temperature that the GPU is meant to have.", "soak.thermal_margin"),
    "target_c": DeviceFact("C", "Temperature that the control of fans and clocks holds.", "soak.thermal_margin"),
    "memory_max_c": DeviceFact("C", "Highest temperature that the memory is meant to have.", _CAUSE),
    "memory_shutdown_c": DeviceFact("C", "Temperature of the memory at which the device shuts down."),
    "shutdown_margin_c": DeviceFact("K", "Margin that is left when the device shuts down (from Hopper on)."),
    "slowdown_margin_c": DeviceFact("K", "Margin that is left when the device slows down (from Hopper on).",
                                    "soak.thermal_margin"),
    "gpu_max_margin_c": DeviceFact("K", "Margin that is left at the highest temperature of the GPU (from Hopper on)."),
    "memory_max_margin_c": DeviceFact("K", "Margin that is left at the highest temperature of the memory (from Hopper "
                                      "on)."),
}
MEMORY = {
    "ecc": DeviceFact("yes/no", "ECC is on.", "whether the memory is measured"),
    "ecc_pending": DeviceFact("yes/no", "ECC will be on after the next reset.", "whether the memory is measured"),
    "ecc_correctable_volatile": DeviceFact("count", "Corrected errors since the driver was loaded."),
    "ecc_correctable_aggregate": DeviceFact("count", "Corrected errors over the life of the board."),
    "ecc_uncorrectable_volatile": DeviceFact("count", "Uncorrectable errors since the driver was loaded."),
    "ecc_uncorrectable_aggregate": DeviceFact("count", "Uncorrectable errors over the life of the board."),
    "ecc_deferred_volatile": DeviceFact("count", "Deferred errors (wrong data that was not used yet) since the driver "
                                        "was loaded."),
    "ecc_sram_correctable_volatile": DeviceFact("count", "Corrected errors of the SRAM since the driver was loaded."),
    "ecc_sram_correctable_aggregate": DeviceFact("count", "Corrected errors of the SRAM over the life of the board."),
    "ecc_sram_uncorrectable_volatile": DeviceFact("count", "Uncorrectable errors of the SRAM since the driver was "
                                                  "loaded."),
    "ecc_sram_uncorrectable_aggregate": DeviceFact("count", "Uncorrectable errors of the SRAM over the life of the "
                                                   "board."),
    "ecc_dram_correctable_volatile": DeviceFact("count", "Corrected errors of the DRAM since the driver was loaded."),
    "ecc_dram_correctable_aggregate": DeviceFact("count", "Corrected errors of the DRAM over the life of the board."),
    "ecc_dram_uncorrectable_volatile": DeviceFact("count", "Uncorrectable errors of the DRAM since the driver was "
                                                  "loaded."),
    "ecc_dram_uncorrectable_aggregate": DeviceFact("count", "Uncorrectable errors of the DRAM over the life of the "
                                                   "board."),
    "ecc_sram_threshold_exceeded": DeviceFact("yes/no", "The SRAM has more uncorrectable errors than the vendor "
                                              "accepts."),
    "ecc_blocks": DeviceFact("table", "Correctable, uncorrectable and deferred errors of every block since the driver "
                             "was loaded."),
    "poison": DeviceFact("yes/no", "Wrong data is marked, and only its consumer fails."),
    "ras_eeprom": DeviceFact("version", "Version of the EEPROM that holds the bad pages."),
    "remapped_correctable": DeviceFact("count", "Rows that were remapped after corrected errors."),
    "remapped_uncorrectable": DeviceFact("count", "Rows that were remapped after uncorrectable errors."),
    "remap_pending": DeviceFact("yes/no", "A row waits for the next reset to be remapped.",
                                "whether the memory is measured"),
    "remap_failure": DeviceFact("yes/no", "A row could not be remapped."),
    "remap_banks": DeviceFact("table", "Banks by how many of their spare rows are left: max, high, partial, low, "
                              "none."),
    "retired_pages_correctable": DeviceFact("count", "Pages that were retired after corrected errors."),
    "retired_pages_uncorrectable": DeviceFact("count", "Pages that were retired after an uncorrectable error."),
    "retired_pages_pending": DeviceFact("yes/no", "Pages wait for the next reset to be retired.",
                                        "whether the memory is measured"),
    "channel_repair_pending": DeviceFact("yes/no", "A memory channel waits for its repair.",
                                         "whether the memory is measured"),
    "tpc_repair_pending": DeviceFact("yes/no", "Compute units wait for their repair.",
                                     "whether matrix products are measured"),
    "memory_unrepairable": DeviceFact("yes/no", "The memory has errors that nothing can repair."),
    "recovery_action": DeviceFact("text", "What the driver asks for to recover the device; none if nothing.",
                                  "whether the device is measured"),
    "bad_pages": DeviceFact("count", "Pages that are bad, in any state."),
    "bad_pages_reserved": DeviceFact("count", "Bad pages that are out of use."),
    "bad_pages_pending": DeviceFact("count", "Bad pages that are marked and still in use."),
    "bad_pages_unreservable": DeviceFact("count", "Bad pages that cannot be taken out of use."),
    "bad_pages_threshold": DeviceFact("count", "Bad pages from which on the vendor replaces the device."),
}
LINKS = {
    "pcie_gen": DeviceFact("count", "PCIe generation of the host link now; at rest it may be lower.",
                           "host_copy.pcie_gen, under load"),
    "pcie_width": DeviceFact("count", "Lanes of the host link now.", "host_copy.pcie_width, under load"),
    "pcie_gen_max": DeviceFact("count", "Highest PCIe generation that device and slot can do together.", _CAUSE),
    "pcie_width_max": DeviceFact("count", "Most lanes that device and slot can do together.", _CAUSE),
    "pcie_gen_device_max": DeviceFact("count", "Highest PCIe generation of the device itself."),
    "pcie_path": DeviceFact("list", "Generation and width of every link from the device up to the root port."),
    "pcie_replays": DeviceFact("count", "PCIe packets that were sent again."),
    "pcie_correctable": DeviceFact("count", "PCIe errors that were corrected."),
    "pcie_fatal": DeviceFact("count", "PCIe errors that were fatal."),
    "pcie_recoveries": DeviceFact("count", "Times that the PCIe link went from L0 to recovery."),
    "pcie_naks_sent": DeviceFact("count", "PCIe packets that the device refused."),
    "pcie_naks_received": DeviceFact("count", "PCIe packets of the device that were refused."),
    "nvlink_count": DeviceFact("count", "NVLinks that the device has."),
    "nvlink_up": DeviceFact("count", "NVLinks that are active or asleep."),
    "nvlink_gb_per_s": DeviceFact("GB/s", "Rate of the slowest NVLink that is up, each way."),
    "nvlinks": DeviceFact("list", "State, version, rate (GB/s each way), remote end and errors of every NVLink."),
    "fabric_state": DeviceFact("text", "Whether the device has joined the NVLink fabric: not started, in progress, "
                               "completed.", "whether the device is measured"),
    "fabric_status": DeviceFact("count", "NVML's error of joining the fabric; 0 is none.",
                                "whether copies between peers are measured"),
    "fabric_cluster": DeviceFact("text", "UUID of the cluster of the fabric."),
    "fabric_clique": DeviceFact("count", "Clique of devices within the cluster that reach each other."),
    "fabric_faults": DeviceFact("list", "Faults of the fabric that the device knows of."),
    "fabric_health": DeviceFact("text", "Health of the fabric in one word."),
    "xgmi_up": DeviceFact("count", "xGMI links that are up."),
    "xgmi_down": DeviceFact("count", "xGMI links that are down."),
    "xgmi_states": DeviceFact("list", "State of every xGMI link."),
    "xgmi_links": DeviceFact("list", "Remote end, rate (GB/s each way) and traffic of every xGMI link."),
    "xgmi_gb_per_s": DeviceFact("GB/s", "Rate of the slowest xGMI link, each way."),
    "xgmi_errors": DeviceFact("text", "Errors of the xGMI links since it was asked last: none, error, multiple "
                              "errors."),
    "xgmi_uncorrectable": DeviceFact("count", "Uncorrectable errors of the xGMI links since the driver was loaded."),
    "xgmi_hive": DeviceFact("text", "Id of the hive of devices that xGMI joins."),
}
NOW = {
    "processes": DeviceFact("list", "Pid and memory of every process that computes on the device.",
                            "whether others disturbed a measurement"),
    "reasons": DeviceFact("mask", "Why the clock is below its highest, in the bits of core/clock_events.", _CAUSE),
    "clock_mhz": DeviceFact("MHz", "Clock of the compute units now.", _CAUSE),
    "memory_clock_mhz": DeviceFact("MHz", "Clock of the memory now.", _CAUSE),
    "power_w": DeviceFact("W", "Power that the device draws now.", "soak.power, under load"),
    "energy_j": DeviceFact("J", "Energy that the device took since the driver was loaded.",
                           "the energy of a matrix product"),
    "temperature_c": DeviceFact("C", "Temperature of the GPU (AMD: of its hottest place) now.",
                                "soak.thermal_margin, waiting until the device has cooled"),
    "edge_temperature_c": DeviceFact("C", "Temperature at the edge of the die now."),
    "memory_temperature_c": DeviceFact("C", "Temperature of the memory now.", _CAUSE),
    "margin_c": DeviceFact("K", "Kelvin to the temperature at which the device slows down.", "soak.thermal_margin"),
    "sw_power_cap_s": DeviceFact("s", "Time under the power limit since the driver was loaded.", _CAUSE),
    "sw_thermal_s": DeviceFact("s", "Time that the driver slowed the device down for heat, since it was loaded.",
                               "soak.throttle.sw_thermal"),
    "hw_thermal_s": DeviceFact("s", "Time that the device slowed itself down for heat, since the driver was loaded.",
                               "soak.throttle.hw_thermal"),
    "hw_power_brake_s": DeviceFact("s", "Time under the power brake of the board, since the driver was loaded.",
                                   "soak.throttle.power_brake"),
}
# fmt: on

GROUPS = {
    "Identity and place": IDENTITY,
    "Versions": VERSIONS,
    "Settings and limits": SETTINGS,
    "Memory and repairs": MEMORY,
    "Links": LINKS,
    "State at the moment": NOW,
}
"""The facts by what they are about, in the order of the page."""

DEVICE_FACTS = {name: fact for group in GROUPS.values() for name, fact in group.items()}

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
