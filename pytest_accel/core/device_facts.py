"""The facts that a driver states of a device (`Device.facts`): unit, meaning and source.

docs/facts.md is generated from this table, judging takes units from it, and tests compare it with the tables of the
drivers and with the metrics. Beside these facts a device has `unread` and `unsupported`: the facts that could not be
read, and those that it does not have, each with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceFact:
    """One fact. `nvml`, `amdsmi` and `file` name what tells it; several names are alternatives or are combined.

    A driver that has no name for it does not state it. `used` says what it decides beside the metrics that judge it
    (`judging.error_counters.judged_by`).
    """

    unit: str
    means: str
    nvml: str = ""
    amdsmi: str = ""
    file: str = ""
    used: str = ""


_BUS = "/sys/bus/pci/devices"
_ASIC, _BOARD = "amdsmi_get_gpu_asic_info", "amdsmi_get_gpu_board_info"
_PLATFORM, _FABRIC = "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetGpuFabricInfoV"
_ANY_FABRIC = f"{_FABRIC}, nvmlDeviceGetGpuFabricInfo"
_METRICS = "amdsmi_get_gpu_metrics_info"
_HEAT, _THRESHOLD = "amdsmi_get_temp_metric", "nvmlDeviceGetTemperatureThreshold"
_ECC, _PARTS = "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetMemoryErrorCounter"
_LINK, _EVENT = "NVML_FI_DEV_NVLINK", "NVML_FI_DEV_CLOCKS_EVENT_REASON"
_PCIE, _XGMI = "amdsmi_get_pcie_info", "amdsmi_get_gpu_xgmi_link_status"
_PAGES = "amdsmi_get_gpu_bad_page_info"
_CAUSE = "the cause of a shortfall"
_VISIBLE = "how the device is made visible to its worker"

# fmt: off
IDENTITY = {
    "pci_id": DeviceFact("text", "Vendor and device id on the PCI bus, as 10de:2330.", "nvmlDeviceGetPciInfo",
                         used="a field of the device as well"),
    "pci_subsystem": DeviceFact("text", "Vendor and device id of the board (PCI subsystem).", "nvmlDeviceGetPciInfo",
                                _ASIC, _BUS, "which SKU the device is"),
    "board_part": DeviceFact("text", "Part number of the board.", "nvmlDeviceGetBoardPartNumber", _BOARD),
    "asic_serial": DeviceFact("text", "Serial number of the chip.", amdsmi=_ASIC, used=_VISIBLE),
    "fru_id": DeviceFact("text", "Identification of the field-replaceable unit.", amdsmi=_BOARD),
    "compute_capability": DeviceFact("text", "CUDA compute capability, as 9.0.", "nvmlDeviceGetCudaComputeCapability",
                                     used="`compute_units`"),
    "cuda_cores": DeviceFact("count", "FP32 cores.", "nvmlDeviceGetNumGpuCores", used="`compute_units`"),
    "compute_units": DeviceFact("count", "SMs (NVIDIA: cores by the cores of an SM) or compute units (AMD).",
                                "nvmlDeviceGetNumGpuCores, nvmlDeviceGetCudaComputeCapability", _ASIC,
                                used="which SKU the device is; the share of what the clock gives"),
    "memory_bus_bits": DeviceFact("count", "Width of the memory's bus in bits.", "nvmlDeviceGetMemoryBusWidth",
                                  "amdsmi_get_gpu_vram_info"),
    "gfx_target": DeviceFact("text", "Instruction set of the compute units, as gfx942.", amdsmi=_ASIC),
    "cores": DeviceFact("count", "Physical cores of the part of the processor that is the device.",
                        file="/sys/devices/system/cpu", used="how many threads a worker has"),
    "kernel_driver": DeviceFact("text", "Kernel driver that is bound to the PCI function.", file=_BUS),
    "sole": DeviceFact("yes/no", "The PCI bus shows no other device of the vendor.", file=_BUS, used=_VISIBLE),
    "module_id": DeviceFact("count", "Place of the module on its baseboard.", "nvmlDeviceGetModuleId", _ASIC, _BUS,
                            used=_VISIBLE),
    "chassis_serial": DeviceFact("text", "Serial number of the chassis.", _PLATFORM, used="`pytest-accel discover`"),
    "slot": DeviceFact("count", "Slot of the tray in the chassis.", _PLATFORM, used="`pytest-accel discover`"),
    "tray": DeviceFact("count", "Index of the tray in the chassis.", _PLATFORM),
    "hip_id": DeviceFact("count", "Place of the device in HIP's order.", amdsmi="amdsmi_get_gpu_enumeration_info",
                         used=_VISIBLE),
    "hip_uuid": DeviceFact("text", "UUID by which ROCR_VISIBLE_DEVICES selects the device.",
                           amdsmi="amdsmi_get_gpu_enumeration_info", used=_VISIBLE),
    "visible_as": DeviceFact("text", "Entry of ROCR_VISIBLE_DEVICES that selects the device: UUID or place.",
                             amdsmi=f"amdsmi_get_gpu_enumeration_info, {_ASIC}", used=_VISIBLE),
}
VERSIONS = {
    "driver_version": DeviceFact("version", "Version of the kernel driver.", "nvmlSystemGetDriverVersion",
                                 "amdsmi_get_gpu_driver_info"),
    "memory_numa_node": DeviceFact("", "NUMA node of the host that the device's memory is, as on GH200 and GB200.",
                                   "nvmlDeviceGetNumaNodeId", used="the idle gate"),
    "library_version": DeviceFact("version", "Version of the management library.", "nvmlSystemGetNVMLVersion",
                                  "amdsmi_get_lib_version"),
    "cuda_version": DeviceFact("version", "Newest CUDA that the driver supports.", "nvmlSystemGetCudaDriverVersion"),
    "rocm_version": DeviceFact("version", "Version of ROCm.", amdsmi="amdsmi_get_rocm_version"),
    "vbios": DeviceFact("version", "Version of the VBIOS.", "nvmlDeviceGetVbiosVersion", "amdsmi_get_gpu_vbios_info"),
    "vbios_part": DeviceFact("text", "Part number of the VBIOS.", amdsmi="amdsmi_get_gpu_vbios_info"),
    "inforom": DeviceFact("version", "Version of the image of the InfoROM.", "nvmlDeviceGetInforomImageVersion"),
    "inforom_ecc": DeviceFact("version", "Version of the ECC object of the InfoROM.", "nvmlDeviceGetInforomVersion"),
    "inforom_power": DeviceFact("version", "Version of the power object of the InfoROM.",
                                "nvmlDeviceGetInforomVersion"),
    "gsp_firmware": DeviceFact("version", "Version of the firmware of the GPU System Processor.",
                               "nvmlDeviceGetGspFirmwareVersion"),
    "firmware": DeviceFact("table", "Version of the firmware of every block.", amdsmi="amdsmi_get_fw_info"),
    "firmware_bundle": DeviceFact("version", "Version of the firmware bundle (PLDM).", amdsmi="amdsmi_get_fw_info"),
}
SETTINGS = {
    "mig": DeviceFact("yes/no", "MIG mode is on.", "nvmlDeviceGetMigMode", used="whether a run is refused"),
    "mig_pending": DeviceFact("yes/no", "MIG mode will be on after the next reset.", "nvmlDeviceGetMigMode",
                              used="whether a run is refused"),
    "persistence": DeviceFact("yes/no", "Persistence mode is on.", "nvmlDeviceGetPersistenceMode"),
    "compute_mode": DeviceFact("text", "Who may compute: default, exclusive process or prohibited.",
                               "nvmlDeviceGetComputeMode", used="the reason why a worker could not start"),
    "virtualization": DeviceFact("text", "none (bare metal), passthrough, or the kind of virtual function.",
                                 "nvmlDeviceGetVirtualizationMode", "amdsmi_get_gpu_virtualization_mode",
                                 used="the platform that is recognised, whether a run is refused"),
    "confidential": DeviceFact("text", "Confidential computing is on or off.", "nvmlSystemGetConfComputeState"),
    "compute_partition": DeviceFact("text", "How the compute dies are partitioned; SPX is the whole GPU.",
                                    amdsmi="amdsmi_get_gpu_compute_partition", used="whether a run is refused"),
    "memory_partition": DeviceFact("text", "How the memory is partitioned, as NPS1.",
                                   amdsmi="amdsmi_get_gpu_memory_partition", used="whether a run is refused"),
    "partition_id": DeviceFact("count", "Which partition of its GPU the device is.", amdsmi="amdsmi_get_gpu_kfd_info"),
    "perf_level": DeviceFact("text", "Performance level; auto leaves the clocks to the firmware.",
                             amdsmi="amdsmi_get_gpu_perf_level"),
    "power_limit_w": DeviceFact("W", "Power limit in force.", "nvmlDeviceGetEnforcedPowerLimit",
                                "amdsmi_get_power_cap_info", used=_CAUSE),
    "power_limit_default_w": DeviceFact("W", "Power limit after a reset.", "nvmlDeviceGetPowerManagementDefaultLimit",
                                        "amdsmi_get_power_cap_info", used=_CAUSE),
    "power_limit_min_w": DeviceFact("W", "Lowest power limit that can be set.",
                                    "nvmlDeviceGetPowerManagementLimitConstraints", "amdsmi_get_power_cap_info"),
    "power_limit_max_w": DeviceFact("W", "Highest power limit that can be set.",
                                    "nvmlDeviceGetPowerManagementLimitConstraints", "amdsmi_get_power_cap_info"),
    "clock_max_mhz": DeviceFact("MHz", "Highest clock of the compute units.", "nvmlDeviceGetMaxClockInfo",
                                "amdsmi_get_clock_info", used=_CAUSE),
    "memory_clock_max_mhz": DeviceFact("MHz", "Highest clock of the memory.", "nvmlDeviceGetMaxClockInfo",
                                       "amdsmi_get_clock_info", used=_CAUSE),
    "clock_application_mhz": DeviceFact("MHz", "Application clock of the compute units that is set.",
                                        "nvmlDeviceGetClock, nvmlDeviceGetApplicationsClock"),
    "clock_application_default_mhz": DeviceFact("MHz", "Application clock of the compute units after a reset.",
                                                "nvmlDeviceGetClock, nvmlDeviceGetDefaultApplicationsClock"),
    "shutdown_c": DeviceFact("C", "Temperature at which the device shuts down.", _THRESHOLD, _HEAT),
    "slowdown_c": DeviceFact("C", "Temperature at which the device slows down.", _THRESHOLD, _HEAT,
                             used="soak.thermal_margin"),
    "gpu_max_c": DeviceFact("C", "Highest temperature that the GPU is meant to have.", _THRESHOLD),
    "memory_max_c": DeviceFact("C", "Highest temperature that the memory is meant to have.", _THRESHOLD, _HEAT,
                               used=_CAUSE),
    "memory_shutdown_c": DeviceFact("C", "Temperature of the memory at which the device shuts down.", amdsmi=_HEAT),
    "shutdown_margin_c": DeviceFact("K", "Margin that is left when the device shuts down (from Hopper on).",
                                    "NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT"),
    "slowdown_margin_c": DeviceFact("K", "Margin that is left when the device slows down (from Hopper on).",
                                    "NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT", used="soak.thermal_margin"),
    "gpu_max_margin_c": DeviceFact("K", "Margin that is left at the highest temperature of the GPU (from Hopper on).",
                                   "NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT"),
    "memory_max_margin_c": DeviceFact("K", "Margin that is left at the highest temperature of the memory (from Hopper "
                                      "on).", "NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT"),
}
MEMORY = {
    "ecc": DeviceFact("yes/no", "ECC is on.", "nvmlDeviceGetEccMode", "amdsmi_get_gpu_ecc_enabled",
                      used="whether the memory is measured"),
    "ecc_pending": DeviceFact("yes/no", "ECC will be on after the next reset.", "nvmlDeviceGetEccMode",
                              used="whether the memory is measured"),
    "ecc_correctable_volatile": DeviceFact("count", "Corrected errors since the driver was loaded.", _ECC,
                                           "amdsmi_get_gpu_total_ecc_count"),
    "ecc_correctable_aggregate": DeviceFact("count", "Corrected errors over the life of the board.", _ECC),
    "ecc_uncorrectable_volatile": DeviceFact("count", "Uncorrectable errors since the driver was loaded.", _ECC,
                                             "amdsmi_get_gpu_total_ecc_count"),
    "ecc_uncorrectable_aggregate": DeviceFact("count", "Uncorrectable errors over the life of the board.", _ECC),
    "ecc_deferred_volatile": DeviceFact("count", "Deferred errors (wrong data that was not used yet) since the driver "
                                        "was loaded.", amdsmi="amdsmi_get_gpu_total_ecc_count"),
    "ecc_sram_correctable_volatile": DeviceFact("count", "Corrected errors of the SRAM since the driver was loaded.",
                                                _PARTS),
    "ecc_sram_correctable_aggregate": DeviceFact("count", "Corrected errors of the SRAM over the life of the board.",
                                                 _PARTS),
    "ecc_sram_uncorrectable_volatile": DeviceFact("count", "Uncorrectable errors of the SRAM since the driver was "
                                                  "loaded.", _PARTS),
    "ecc_sram_uncorrectable_aggregate": DeviceFact("count", "Uncorrectable errors of the SRAM over the life of the "
                                                   "board.", _PARTS),
    "ecc_dram_correctable_volatile": DeviceFact("count", "Corrected errors of the DRAM since the driver was loaded.",
                                                _PARTS),
    "ecc_dram_correctable_aggregate": DeviceFact("count", "Corrected errors of the DRAM over the life of the board.",
                                                 _PARTS),
    "ecc_dram_uncorrectable_volatile": DeviceFact("count", "Uncorrectable errors of the DRAM since the driver was "
                                                  "loaded.", _PARTS),
    "ecc_dram_uncorrectable_aggregate": DeviceFact("count", "Uncorrectable errors of the DRAM over the life of the "
                                                   "board.", _PARTS),
    "ecc_sram_threshold_exceeded": DeviceFact("yes/no", "The SRAM has more uncorrectable errors than the vendor "
                                              "accepts.", "nvmlDeviceGetSramEccErrorStatus"),
    "ecc_blocks": DeviceFact("table", "Correctable, uncorrectable and deferred errors of every block since the driver "
                             "was loaded.", amdsmi="amdsmi_get_gpu_ecc_count"),
    "poison": DeviceFact("yes/no", "Wrong data is marked, and only its consumer fails.",
                         amdsmi="amdsmi_get_gpu_ras_feature_info"),
    "ras_eeprom": DeviceFact("version", "Version of the EEPROM that holds the bad pages.",
                             amdsmi="amdsmi_get_gpu_ras_feature_info"),
    "remapped_correctable": DeviceFact("count", "Rows that were remapped after corrected errors.",
                                       "nvmlDeviceGetRemappedRows"),
    "remapped_uncorrectable": DeviceFact("count", "Rows that were remapped after uncorrectable errors.",
                                         "nvmlDeviceGetRemappedRows"),
    "remap_pending": DeviceFact("yes/no", "A row waits for the next reset to be remapped.", "nvmlDeviceGetRemappedRows",
                                used="whether the memory is measured"),
    "remap_failure": DeviceFact("yes/no", "A row could not be remapped.", "nvmlDeviceGetRemappedRows"),
    "remap_banks": DeviceFact("table", "Banks by how many of their spare rows are left: max, high, partial, low, none.",
                              "nvmlDeviceGetRowRemapperHistogram"),
    "retired_pages_correctable": DeviceFact("count", "Pages that were retired after corrected errors.",
                                            "NVML_FI_DEV_RETIRED_SBE"),
    "retired_pages_uncorrectable": DeviceFact("count", "Pages that were retired after an uncorrectable error.",
                                              "NVML_FI_DEV_RETIRED_DBE"),
    "retired_pages_pending": DeviceFact("yes/no", "Pages wait for the next reset to be retired.",
                                        "nvmlDeviceGetRetiredPagesPendingStatus",
                                        used="whether the memory is measured"),
    "channel_repair_pending": DeviceFact("yes/no", "A memory channel waits for its repair.",
                                         "nvmlDeviceGetRepairStatus", used="whether the memory is measured"),
    "tpc_repair_pending": DeviceFact("yes/no", "Compute units wait for their repair.", "nvmlDeviceGetRepairStatus",
                                     used="whether matrix products are measured"),
    "memory_unrepairable": DeviceFact("yes/no", "The memory has errors that nothing can repair.",
                                      "nvmlDeviceGetUnrepairableMemoryFlag_v1"),
    "recovery_action": DeviceFact("text", "What the driver asks for to recover the device; none if nothing.",
                                  "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION", used="whether the device is measured"),
    "bad_pages": DeviceFact("count", "Pages that are bad, in any state.", amdsmi=_PAGES),
    "bad_pages_reserved": DeviceFact("count", "Bad pages that are out of use.", amdsmi=_PAGES),
    "bad_pages_pending": DeviceFact("count", "Bad pages that are marked and still in use.", amdsmi=_PAGES),
    "bad_pages_unreservable": DeviceFact("count", "Bad pages that cannot be taken out of use.", amdsmi=_PAGES),
    "bad_pages_threshold": DeviceFact("count", "Bad pages from which on the vendor replaces the device.",
                                      amdsmi="amdsmi_get_gpu_bad_page_threshold"),
}
LINKS = {
    "pcie_gen": DeviceFact("count", "PCIe generation of the host link now; at rest it may be lower.",
                           "nvmlDeviceGetCurrPcieLinkGeneration", _PCIE, _BUS, used="host_copy.pcie_gen, under load"),
    "pcie_width": DeviceFact("count", "Lanes of the host link now.", "nvmlDeviceGetCurrPcieLinkWidth", _PCIE, _BUS,
                             "host_copy.pcie_width, under load"),
    "pcie_gen_max": DeviceFact("count", "Highest PCIe generation that device and slot can do together.",
                               "nvmlDeviceGetMaxPcieLinkGeneration", _PCIE, _BUS, _CAUSE),
    "pcie_width_max": DeviceFact("count", "Most lanes that device and slot can do together.",
                                 "nvmlDeviceGetMaxPcieLinkWidth", _PCIE, _BUS, _CAUSE),
    "pcie_gen_device_max": DeviceFact("count", "Highest PCIe generation of the device itself.",
                                      "nvmlDeviceGetGpuMaxPcieLinkGeneration"),
    "pcie_path": DeviceFact("list", "Generation and width of every link from the device up to the root port.", _BUS,
                            _BUS, _BUS),
    "pcie_replays": DeviceFact("count", "PCIe packets that were sent again.",
                               "nvmlDeviceGetPcieReplayCounter, NVML_FI_DEV_PCIE_REPLAY_COUNTER",
                               f"{_PCIE}, amdsmi_get_gpu_pci_replay_counter"),
    "pcie_correctable": DeviceFact("count", "PCIe errors that were corrected.",
                                   "NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS"),
    "pcie_fatal": DeviceFact("count", "PCIe errors that were fatal.", "NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR"),
    "pcie_recoveries": DeviceFact("count", "Times that the PCIe link went from L0 to recovery.", amdsmi=_PCIE),
    "pcie_naks_sent": DeviceFact("count", "PCIe packets that the device refused.", amdsmi=_PCIE),
    "pcie_naks_received": DeviceFact("count", "PCIe packets of the device that were refused.", amdsmi=_PCIE),
    "nvlink_count": DeviceFact("count", "NVLinks that the device has.", f"{_LINK}_LINK_COUNT"),
    "nvlink_up": DeviceFact("count", "NVLinks that are active or asleep.",
                            f"{_LINK}_GET_STATE, nvmlDeviceGetNvLinkState"),
    "nvlink_gb_per_s": DeviceFact("GB/s", "Rate of the slowest NVLink that is up, each way.",
                                  f"{_LINK}_GET_SPEED, {_LINK}_SPEED_MBPS_COMMON"),
    "nvlinks": DeviceFact("list", "State, version, rate (GB/s each way), remote end and errors of every NVLink.",
                          f"{_LINK}_*, nvmlDeviceGetNvLink*"),
    "fabric_state": DeviceFact("text",
                               "Whether the device has joined the NVLink fabric: not started, in progress, completed.",
                               _ANY_FABRIC, used="whether the device is measured"),
    "fabric_status": DeviceFact("count", "NVML's error of joining the fabric; 0 is none.", _ANY_FABRIC,
                                used="whether copies between peers are measured"),
    "fabric_cluster": DeviceFact("text", "UUID of the cluster of the fabric.", _ANY_FABRIC),
    "fabric_clique": DeviceFact("count", "Clique of devices within the cluster that reach each other.", _ANY_FABRIC),
    "fabric_faults": DeviceFact("list", "Faults of the fabric that the device knows of.", _FABRIC),
    "fabric_health": DeviceFact("text", "Health of the fabric in one word.", _FABRIC),
    "xgmi_up": DeviceFact("count", "xGMI links that are up.", amdsmi=_XGMI),
    "xgmi_down": DeviceFact("count", "xGMI links that are down.", amdsmi=_XGMI),
    "xgmi_states": DeviceFact("list", "State of every xGMI link.", amdsmi=_XGMI),
    "xgmi_links": DeviceFact("list", "Remote end, rate (GB/s each way) and traffic of every xGMI link.",
                             amdsmi="amdsmi_get_link_metrics"),
    "xgmi_gb_per_s": DeviceFact("GB/s", "Rate of the slowest xGMI link, each way.", amdsmi="amdsmi_get_link_metrics"),
    "xgmi_errors": DeviceFact("text", "Errors of the xGMI links since it was asked last: none, error, multiple errors.",
                              amdsmi="amdsmi_gpu_xgmi_error_status"),
    "xgmi_hive": DeviceFact("text", "Id of the hive of devices that xGMI joins.", amdsmi="amdsmi_get_xgmi_info"),
}
NOW = {
    "processes": DeviceFact("list", "Pid and memory of every process that computes on the device.",
                            "nvmlDeviceGetComputeRunningProcesses", "amdsmi_get_gpu_process_list",
                            used="whether others disturbed a measurement"),
    "reasons": DeviceFact("mask", "Why the clock is below its highest, in the bits of core/clock_events.",
                          "nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetCurrentClocksThrottleReasons",
                          f"amdsmi_get_violation_status, amdsmi_wrapper.{_METRICS}", used=_CAUSE),
    "clock_mhz": DeviceFact("MHz", "Clock of the compute units now.", "nvmlDeviceGetClockInfo",
                            f"{_METRICS}, amdsmi_get_clock_info", used=_CAUSE),
    "memory_clock_mhz": DeviceFact("MHz", "Clock of the memory now.", "nvmlDeviceGetClockInfo",
                                   f"{_METRICS}, amdsmi_get_clock_info", used=_CAUSE),
    "power_w": DeviceFact("W", "Power that the device draws now.", "nvmlDeviceGetPowerUsage",
                          f"{_METRICS}, amdsmi_get_power_info", used="soak.power, under load"),
    "energy_j": DeviceFact("J", "Energy that the device took since the driver was loaded.",
                           "nvmlDeviceGetTotalEnergyConsumption", "amdsmi_get_energy_count",
                           used="the energy of a matrix product"),
    "temperature_c": DeviceFact("C", "Temperature of the GPU (AMD: of its hottest place) now.",
                                "nvmlDeviceGetTemperatureV, nvmlDeviceGetTemperature", f"{_METRICS}, {_HEAT}",
                                used="soak.thermal_margin, waiting until the device has cooled"),
    "edge_temperature_c": DeviceFact("C", "Temperature at the edge of the die now.", amdsmi=f"{_METRICS}, {_HEAT}"),
    "memory_temperature_c": DeviceFact("C", "Temperature of the memory now.", "NVML_FI_DEV_MEMORY_TEMP",
                                       f"{_METRICS}, {_HEAT}", used=_CAUSE),
    "margin_c": DeviceFact("K", "Kelvin to the temperature at which the device slows down.",
                           "nvmlDeviceGetMarginTemperature", used="soak.thermal_margin"),
    "sw_power_cap_s": DeviceFact("s", "Time under the power limit since the driver was loaded.",
                                 "NVML_FI_DEV_PERF_POLICY_POWER", used=_CAUSE),
    "sw_thermal_s": DeviceFact("s", "Time that the driver slowed the device down for heat, since it was loaded.",
                               f"{_EVENT}_SW_THERM_SLOWDOWN", used="soak.throttle.sw_thermal"),
    "hw_thermal_s": DeviceFact("s", "Time that the device slowed itself down for heat, since the driver was loaded.",
                               f"{_EVENT}_HW_THERM_SLOWDOWN", used="soak.throttle.hw_thermal"),
    "hw_power_brake_s": DeviceFact("s", "Time under the power brake of the board, since the driver was loaded.",
                                   f"{_EVENT}_HW_POWER_BRAKE_SLOWDOWN", used="soak.throttle.power_brake"),
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

READ_ONCE = frozenset(IDENTITY) | {
    "memory_numa_node",
    "virtualization",
    "confidential",
    "power_limit_min_w",
    "shutdown_c",
    "slowdown_c",
    "gpu_max_c",
    "memory_max_c",
    "memory_shutdown_c",
    "shutdown_margin_c",
    "slowdown_margin_c",
    "gpu_max_margin_c",
    "memory_max_margin_c",
    "pcie_path",
}
"""The facts that no driver reads after discovery, since they do not change while the node is up."""

_JUDGED = {
    "inventory": """
        pci_subsystem board_part compute_units memory_bus driver_version cuda_version rocm_version vbios inforom
        gsp_firmware firmware firmware_bundle mig persistence compute_mode virtualization confidential
        compute_partition memory_partition power_limit power_limit_default power_limit_max clock_max
        memory_clock_max shutdown_temperature slowdown_temperature ecc pcie_gen_max pcie_width_max nvlink_count
        nvlink_speed fabric_cluster fabric_clique xgmi_speed xgmi_hive
    """,
    "health": """
        mig_pending_change perf_level power_limit_lowered clock_lock thermal_margin ecc_pending_change
        ecc_correctable_volatile ecc_uncorrectable_volatile ecc_uncorrectable_aggregate ecc_deferred_volatile
        ecc_sram_uncorrectable_aggregate ecc_sram_threshold remapped_correctable remapped_uncorrectable
        remap_pending remap_failure remap_banks_exhausted retired_pages retired_pages_pending
        channel_repair_pending tpc_repair_pending memory_unrepairable recovery_action bad_pages
        bad_pages_of_threshold bad_pages_pending bad_pages_unreservable pcie_width pcie_path_width pcie_replays
        pcie_fatal nvlink_up nvlink_errors fabric fabric_faults xgmi_up xgmi_down xgmi_errors foreign_processes
        slowdown
    """,
    "counters": """
        ecc_corrected ecc_uncorrectable ecc_deferred rows_remapped_corrected rows_remapped remap_pending
        remap_failure recovery_asked bad_pages pcie_replays pcie_fatal nvlink_down nvlink_recovery nvlink_replay
        nvlink_crc nvlink_effective nvlink_symbol fabric xgmi_down xgmi_errors
    """,
}
JUDGED_AS = tuple(f"{probe}.{name}" for probe, names in _JUDGED.items() for name in names.split())
"""The metrics that `judging` computes from these facts, so that a threshold file may limit them."""

UNJUDGED = {
    "Identity and place": "names the part or its place",
    "Versions": "a version that nobody publishes a limit for",
    "Settings and limits": "tells a setting that is judged otherwise, or a limit that the device keeps by itself",
    "Memory and repairs": "part of a total, or of a repair, that is judged",
    "Links": "part of a count or of a state that is judged; corrected errors are usual",
    "State at the moment": "another reading of the same quantity is used",
}
"""The reason why nothing judges the facts of a group that have neither a metric nor a use."""
