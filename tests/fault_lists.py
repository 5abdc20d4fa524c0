"""What others have published of what fails, entry by entry: the fault here that stands for it, or why none does.

An entry is (code, what it means, names of faults of fault_cases.py), or with a text that says why not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

Entry = tuple[str, str, tuple[str, ...] | str]

NETWORK = "out of scope: what lies between nodes; state and negotiated rate of the NICs are facts of the host"
HOST = "out of scope: of the host only the errors that it counts meanwhile are judged"
SOFTWARE = "out of scope: a fault of the job, not of the node"
OWN = "out of scope: a message about DCGM itself"
UNUSED = "not used by DCGM"
EUD = "out of scope: NVIDIA's closed EUD"
SWITCH = "not covered: NVSwitches are not asked; links that are down show at the GPUs"
SXID = "not simulated: SXids are heard from the kernel log (tests/drivers/test_kernel_log.py)"


@dataclass(frozen=True)
class Published:
    """One list, and where it stands."""

    title: str
    source: str
    entries: Sequence[Entry]


LLAMA = Published(
    "Llama 3: 419 unplanned interruptions in 54 days on 16,384 H100",
    "The Llama 3 Herd of Models, arXiv 2407.21783, table 5; read at glennklockwood.com/garden/component-reliability",
    (
        ("148", "faulty GPU", ("device-lost", "hang", "crash", "slow-compute", "nvlink-down", "recovery-needed")),
        ("72", "GPU HBM3 memory", ("ecc-uncorrectable", "ecc-counted", "remap-failure", "memory-unrepairable")),
        ("54", "software bug", SOFTWARE),
        ("35", "network switch or cable", NETWORK),
        ("32", "host maintenance", "out of scope: planned by people"),
        ("19", "GPU SRAM memory", ("sram-errors", "wrong-result")),
        ("17", "GPU system processor", ("library-blocked", "device-lost", "hang")),
        ("7", "NIC", ("nic-down", "nic-slow", "nic-link-lost", "nic-carrier-lost", "nic-link-recovers")),
        ("7", "NCCL watchdog timeout", ("rank-never-arrives", "hang")),
        ("6", "silent data corruption", ("wrong-result",)),
        ("6", "GPU thermal interface or sensor", ("thermal-slowdown", "cooling-fades", "slow-at-rest")),
        ("3", "SSD", HOST),
        ("3", "power supply", ("power-brake",)),
        ("2", "server chassis", "out of scope: what it does to a GPU is caught as heat, brake or link"),
        ("2", "IO expansion board", ("narrow-riser", "slot-of-older-generation", "narrow-pcie")),
        ("2", "dependency", SOFTWARE),
        ("2", "CPU", ("machine-check",)),
        ("2", "system memory", ("host-memory-uncorrected",)),
    ),
)

AZNHC = Published(
    "AzNHC: fault codes that send an Azure node to repair",
    "Azure/azurehpc-health-checks 0e0a1ac (2026-05-01), triggerGHR/config/nhc_fault_dictionary.cfg and customTests/",
    (
        ("NHC2001", "anything else: VBIOS, Xid, host STREAM", ("wrong-vbios", "xid")),
        ("NHC2002", "InfiniBand missing", "not simulated: NICs are counted (tests/drivers/test_host.py)"),
        ("NHC2003", "InfiniBand slow", ("nic-slow",)),
        ("NHC2004", "InfiniBand port down", ("nic-down",)),
        ("NHC2005", "InfiniBand port flapping", ("nic-link-lost",)),
        ("NHC2007", "row remap pending, failed, too many", ("remap-pending", "remap-failure", "rows-remapped")),
        ("NHC2008", "InfoROM corrupted", "not covered: nobody validates it; another image than the others' is"),
        ("NHC2009", "GPU missing", ("device-missing", "device-lost")),
        ("NHC2010", "topology, NCCL or RCCL bandwidth, GPU inaccessible", ("slow-collective", "slow-link",
         "device-lost")),
        ("NHC2011", "Xid 95, uncontained ECC error", ("xid", "ecc-uncorrectable", "ecc-counted")),
        ("NHC2012", "Xid 94, contained ECC error", ("xid", "ecc-uncorrectable", "ecc-counted")),
        ("NHC2013", "Xid 79, fallen off the bus", ("device-lost", "xid")),
        ("NHC2014", "Xid 48, double bit error", ("xid", "ecc-uncorrectable", "ecc-counted")),
        ("NHC2015", "nvidia-smi hangs or fails", ("library-blocked", "driver-mismatch")),
        ("NHC2016", "NVLink down", ("nvlink-down",)),
        ("NHC2017", "thermal violations", ("thermal-slowdown", "slow-at-rest")),
        ("NHC2018", "page retirement table full", ("retired-pages-pending", "remap-failure")),
        ("NHC2019", "too many double bit errors", ("ecc-counted", "sram-errors")),
        ("NHC2020", "host copies, peer copies, DCGM diagnostic",
         ("narrow-pcie", "slow-uploads", "slow-downloads", "peers-staged")),
        ("NHC2021", "GPU memory bandwidth", ("slow-memory", "slow-writes")),
        ("NHC2022", "CPU slow", HOST),
        ("NHC2023", "NVMe missing", HOST),
    ),
)  # fmt: skip

DCGM = Published(
    "DCGM: error codes of its diagnostic",
    "NVIDIA/DCGM 72fa3fe (2026-07-06), dcgmlib/dcgm_errors.h; codes 0 to 2 are none",
    (
        ("3 PCI_REPLAY_RATE", "PCIe replays per minute", ("pcie-replays",)),
        ("4 VOLATILE_DBE_DETECTED", "uncorrectable errors since the driver was loaded", ("ecc-counted",)),
        ("5 VOLATILE_SBE_DETECTED", "too many corrected errors", ("ecc-corrected",)),
        ("6 PENDING_PAGE_RETIREMENTS", "pages to retire", ("retired-pages-pending",)),
        ("7 RETIRED_PAGES_LIMIT", "too many retired pages", ("retired-pages",)),
        ("8 RETIRED_PAGES_DBE_LIMIT", "too many pages retired for uncorrectable errors",
         "not covered: before Ampere only; a pending one is"),
        ("9 CORRUPT_INFOROM", "InfoROM corrupt", "not covered: nobody validates the InfoROM"),
        ("10 CLOCKS_EVENT_THERMAL", "clocks held down for heat", ("thermal-slowdown", "slow-at-rest")),
        ("11 POWER_UNREADABLE", "no reading of the power", "not seen failing: soak.power is UNMEASURED where limited"),
        ("12 CLOCKS_EVENT_POWER", "clocks held down for power", "out of scope: normal at the power limit"),
        ("13 NVLINK_ERROR_THRESHOLD", "rate of NVLink errors", ("link-errors",)),
        ("14 NVLINK_DOWN", "NVLink down", ("nvlink-down",)),
        ("15 NVSWITCH_FATAL_ERROR", "NVSwitch, fatal", SXID),
        ("16 NVSWITCH_NON_FATAL_ERROR", "NVSwitch, not fatal", SXID),
        ("17 NVSWITCH_DOWN", "NVSwitch down", UNUSED),
        ("18 NO_ACCESS_TO_FILE", "a file cannot be read", ("reading-denied",)),
        ("19 NVML_API", "error of an NVML function", UNUSED),
        ("20 DEVICE_COUNT_MISMATCH", "/dev and NVML disagree", ("device-missing",)),
        ("21 BAD_PARAMETER", "bad parameter", OWN),
        ("22 CANNOT_OPEN_LIB", "a library cannot be opened", ("library-missing",)),
        ("23 DENYLISTED_DRIVER", "nouveau is active", ("driver-not-loaded",)),
        ("24 NVML_LIB_BAD", "NVML lacks functions", UNUSED),
        ("25 GRAPHICS_PROCESSES", "graphics processes are active",
         "not covered: compute processes of others are (foreign-process)"),
        ("26 HOSTENGINE_CONN", "no connection to the host engine", UNUSED),
        ("27 FIELD_QUERY", "a field cannot be read", ("reading-denied",)),
        ("28 BAD_CUDA_ENV", "variables that hurt CUDA", "out of scope: workers do not inherit them"),
        ("29 PERSISTENCE_MODE", "persistence mode is off", "out of scope: recorded; no limit, since it costs no rate"),
        ("30 LOW_BANDWIDTH", "PCIe or NVLink bandwidth",
         ("narrow-pcie", "pcie-gen", "slow-uploads", "slow-downloads", "slow-link")),
        ("31 HIGH_LATENCY", "latency", "not covered: no latency is measured"),
        ("32 CANNOT_GET_FIELD_TAG", "no tag for a field", OWN),
        ("33 FIELD_VIOLATION", "an error counter above 0", ("ecc-counted",)),
        ("34 FIELD_THRESHOLD", "an error counter above its limit", ("rows-remapped", "sram-errors")),
        ("35 FIELD_VIOLATION_DBL", "the same, fractional", ("ecc-counted",)),
        ("36 FIELD_THRESHOLD_DBL", "the same, fractional", ("rows-remapped", "sram-errors")),
        ("37 UNSUPPORTED_FIELD_TYPE", "type of a field", OWN),
        ("38 FIELD_THRESHOLD_TS", "the same, with its time", ("rows-remapped", "sram-errors")),
        ("39 FIELD_THRESHOLD_TS_DBL", "the same, with its time", ("rows-remapped", "sram-errors")),
        ("40 THERMAL_VIOLATIONS", "time under thermal violation", ("thermal-slowdown",)),
        ("41 THERMAL_VIOLATIONS_TS", "the same, with its time", ("thermal-slowdown",)),
        ("42 TEMP_VIOLATION", "too hot", "out of scope: judged by what heat does, not by degrees; it is recorded"),
        ("43 CLOCKS_EVENT_VIOLATION", "clocks held down for no good reason",
         ("slow-at-rest", "clock-locked", "sync-boost", "power-brake", "thermal-slowdown")),
        ("44 INTERNAL", "internal error", OWN),
        ("45 PCIE_GENERATION", "PCIe generation too low", ("slot-of-older-generation", "pcie-gen")),
        ("46 PCIE_WIDTH", "PCIe width too low", ("narrow-pcie", "narrow-riser")),
        ("47 ABORTED", "aborted by a signal", ("the run is interrupted or terminated",)),
        ("48 TEST_DISABLED", "test disabled for this GPU", "out of scope: what has no limit is not required, and said"),
        ("49 CANNOT_GET_STAT", "telemetry is missing", ("the sensor dies or hangs",)),
        ("50 STRESS_LEVEL", "compute is slow", ("slow-compute", "slow-dtype")),
        ("51 CUDA_API", "a CUDA function failed", ("device-lost", "ecc-uncorrectable")),
        ("52 FAULTY_MEMORY", "wrong results by the burn", ("wrong-result",)),
        ("53 CANNOT_SET_WATCHES", "watches", UNUSED),
        ("54 CUDA_UNBOUND", "context no longer bound", OWN),
        ("55 ECC_DISABLED", "ECC is off", ("ecc-off",)),
        ("56 MEMORY_ALLOC", "GPU memory cannot be allocated", ("foreign-process",)),
        ("57 CUDA_DBE", "CUDA met an uncorrectable error", ("ecc-uncorrectable",)),
        ("58 MEMORY_MISMATCH", "memory did not keep a pattern", ("wrong-result",)),
        ("59 CUDA_DEVICE", "CUDA does not see the GPU", ("compute-prohibited", "device-lost")),
        ("60 ECC_UNSUPPORTED", "no ECC on this product", "out of scope: a fact of the product"),
        ("61 ECC_PENDING", "ECC change pending", ("ecc-change-pending",)),
        ("62 MEMORY_BANDWIDTH", "memory bandwidth", ("slow-memory", "slow-writes")),
        ("63 TARGET_POWER", "power not reached", ("low-power",)),
        ("64 API_FAIL", "an API failed", ("every function of the management library fails in turn",)),
        ("65 API_FAIL_GPU", "an API failed for a GPU", ("every function of the management library fails in turn",)),
        ("66 CUDA_CONTEXT", "no context on this GPU", ("compute-prohibited", "device-lost")),
        ("67 DCGM_API", "API of DCGM", OWN),
        ("68 CONCURRENT_GPUS", "needs several GPUs", "out of scope: by what is expected NOT APPLICABLE or UNMEASURED"),
        ("69 TOO_MANY_ERRORS", "too many errors to return", UNUSED),
        ("70 NVLINK_CRC_ERROR_THRESHOLD", "more than 100 CRC errors a second", ("link-errors",)),
        ("71 NVLINK_ERROR_CRITICAL", "NVLink replay or recovery", ("link-errors",)),
        ("72 ENFORCED_POWER_LIMIT", "power limit too low", ("power-cap-lowered",)),
        ("73 MEMORY_ALLOC_HOST", "host memory cannot be allocated", HOST),
        ("74 GPU_OP_MODE", "operating mode", UNUSED),
        ("75 NO_MEMORY_CLOCKS", "memory clocks", UNUSED),
        ("76 NO_GRAPHICS_CLOCKS", "graphics clocks", UNUSED),
        ("77 HAD_TO_RESTORE_STATE", "settings had to be restored", "out of scope: nothing is set"),
        ("78 L1TAG_UNSUPPORTED", "no L1 tag test", "out of scope: a fact of the product"),
        ("79 L1TAG_MISCOMPARE", "L1 tag test", "not covered: no test of the caches' tags"),
        ("80 ROW_REMAP_FAILURE", "row remapping failed", ("remap-failure",)),
        ("81 UNCONTAINED_ERROR", "Xid 95", ("xid", "ecc-uncorrectable", "ecc-counted")),
        ("82 EMPTY_GPU_LIST", "no GPU given", OWN),
        ("83 DBE_PENDING_PAGE_RETIREMENTS", "pages to retire for uncorrectable errors", ("retired-pages-pending",)),
        ("84 UNCORRECTABLE_ROW_REMAP", "rows remapped for uncorrectable errors", ("rows-remapped",)),
        ("85 PENDING_ROW_REMAP", "row remapping pending", ("remap-pending",)),
        ("86 BROKEN_P2P_MEMORY_DEVICE", "peer copy arrives wrong at this GPU", ("wrong-result",)),
        ("87 BROKEN_P2P_WRITER_DEVICE", "peer copy leaves this GPU wrong", ("wrong-result",)),
        ("88 NVSWITCH_NVLINK_DOWN", "link of an NVSwitch", UNUSED),
        *((f"{code} EUD_{name}", "the EUD", EUD) for code, name in (
            (89, "BINARY_PERMISSIONS"), (90, "NON_ROOT_USER"), (91, "SPAWN_FAILURE"), (92, "TIMEOUT"),
            (93, "ZOMBIE"), (94, "NON_ZERO_EXIT_CODE"), (95, "TEST_FAILED"))),
        ("96 FILE_CREATE_PERMISSIONS", "no file can be made", ("the disk of the record is read-only",)),
        ("97 PAUSE_RESUME_FAILED", "pause or resume", OWN),
        ("98 PCIE_H_REPLAY_VIOLATION", "correctable PCIe errors", ("pcie-replays",)),
        ("99 GPU_EXPECTED_NVLINKS_UP", "fewer NVLinks up than expected", ("nvlink-down",)),
        ("100 NVSWITCH_EXPECTED_NVLINKS_UP", "the same at a switch", SWITCH),
        ("101 XID_ERROR", "Xid", ("xid",)),
        ("102 SBE_VIOLATION", "corrected errors", ("ecc-corrected",)),
        ("103 DBE_VIOLATION", "uncorrectable errors", ("ecc-counted",)),
        ("104 PCIE_REPLAY_VIOLATION", "PCIe replays", ("pcie-replays",)),
        ("105 SBE_THRESHOLD_VIOLATION", "too many corrected errors", ("ecc-corrected",)),
        ("106 DBE_THRESHOLD_VIOLATION", "too many uncorrectable errors", ("ecc-counted",)),
        ("107 PCIE_REPLAY_THRESHOLD_VIOLATION", "too many PCIe replays", ("pcie-replays",)),
        ("108 CUDA_FM_NOT_INITIALIZED", "fabric manager not ready", ("fabric-not-ready",)),
        ("109 SXID_ERROR", "NVSwitch, fatal", SXID),
        ("110 GFLOPS_THRESHOLD_VIOLATION", "compute is slow", ("slow-compute", "slow-dtype")),
        ("111 NAN_VALUE", "NaN in a result", ("wrong-result",)),
        ("112 FABRIC_MANAGER_TRAINING_ERROR", "links did not train", ("fabric-error", "fabric-not-ready")),
        ("113 BROKEN_P2P_PCIE_MEMORY_DEVICE", "86 over PCIe", ("wrong-result",)),
        ("114 BROKEN_P2P_PCIE_WRITER_DEVICE", "87 over PCIe", ("wrong-result",)),
        ("115 BROKEN_P2P_NVLINK_MEMORY_DEVICE", "86 over NVLink", ("wrong-result",)),
        ("116 BROKEN_P2P_NVLINK_WRITER_DEVICE", "87 over NVLink", ("wrong-result",)),
        ("117 TEST_SKIPPED", "a test was skipped", ("compute-prohibited",)),
        ("118 SRAM_THRESHOLD", "threshold of SRAM errors exceeded", ("sram-threshold", "sram-errors")),
        ("119 NVLINK_EFFECTIVE_BER_THRESHOLD", "effective bit error rate", "not seen failing: advice"),
        ("120 FALLEN_OFF_BUS", "GPU fell off the bus", ("device-lost", "device-missing")),
        ("121 NVLINK_SYMBOL_BER_THRESHOLD", "symbol error rate", "out of scope: corrected on healthy links too"),
        ("122 IMEX_UNHEALTHY", "IMEX domain", "not covered: several trays of one NVLink domain"),
        ("123 FABRIC_PROBE_STATE", "fabric state", ("fabric-not-ready", "fabric-degraded", "fabric-misconfigured")),
        ("124 BINARY_PERMISSIONS", "permissions of a program", OWN),
        ("125 GPU_RECOVERY_RESET", "reset needed", ("recovery-needed",)),
        ("126 GPU_RECOVERY_REBOOT", "reboot needed", ("recovery-needed",)),
        ("127 GPU_RECOVERY_DRAIN_P2P", "peer traffic must be drained", ("recovery-needed",)),
        ("128 GPU_RECOVERY_DRAIN_RESET", "drain and reset needed", ("recovery-needed",)),
        ("129 NCCL_ERROR", "NCCL failed", ("a rank of a collective dies or hangs", "rank-never-arrives")),
        ("130 RETEST_REQUESTED", "test again", "out of scope: a shortfall is measured again before it is blamed"),
        ("131 CONTAINED_ERROR", "Xid 94", ("xid", "ecc-uncorrectable", "ecc-counted")),
        ("132 UNCORRECTABLE_ROW_REMAP_LIMIT", "too many rows remapped", ("rows-remapped",)),
    ),
)  # fmt: skip

LISTS = (LLAMA, DCGM, AZNHC)
