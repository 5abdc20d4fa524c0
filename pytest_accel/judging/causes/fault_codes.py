"""The fault codes: what each stands for, how severe it is, and what to do next. Pure.

A code never changes its meaning and is never given to another fault. New ones are added behind those of their hundred.
`judging/causes/findings.py` chooses the code of a verdict, `scripts/fault_codes.py` writes docs/fault-codes.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import cache


class Severity(str, Enum):
    """How much a finding matters. The members are in order, worst first."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    UNKNOWN = "unknown"


class Action(str, Enum):
    """What to do next, in one word for programs."""

    RETURN = "return"
    RESET = "reset"
    REBOOT = "reboot"
    RESEAT = "reseat"
    CHECK_COOLING = "check-cooling"
    CHECK_POWER = "check-power"
    CHECK_LINKS = "check-links"
    CHECK_HOST = "check-host"
    CONFIGURE = "configure"
    INVESTIGATE = "investigate"
    WATCH = "watch"
    MEASURE_AGAIN = "measure-again"
    NONE = "none"


@dataclass(frozen=True)
class FaultCode:
    """A kind of finding. `do` is the next step."""

    code: str
    name: str
    severity: Severity
    """The severity of a FAIL; other verdicts have less."""
    action: Action
    means: str
    do: str
    metrics: tuple[str, ...] = ()
    """The metrics whose verdicts have this code; `*` stands for any text."""


_TWICE = "if it comes back, return the part"
_FIELD = "if it stays, run the vendor's field diagnostic and return the part"

_CRITICAL, _ERROR, _WARNING, _UNKNOWN = Severity

DEVICE = (
    FaultCode(
        "A101", "device-missing", _CRITICAL, Action.RESEAT,
        "fewer devices than the platform has, or a device that no driver reaches",
        "check the driver, power-cycle the node, reseat the missing device; if it stays away, return it",
        ("inventory.driver", "inventory.count"),
    ),
    FaultCode(
        "A102", "device-lost", _CRITICAL, Action.REBOOT,
        "the device stopped answering: lost context, or fallen off the bus",
        f"drain and power-cycle the node, check seat and power of the device; {_TWICE}",
    ),
    FaultCode(
        "A103", "device-hung", _CRITICAL, Action.REBOOT,
        "the device did not finish its work in time", f"drain and power-cycle the node; {_TWICE}",
    ),
    FaultCode(
        "A104", "device-crashed", _CRITICAL, Action.RESET,
        "the process that works on the device was ended by an error", f"drain the node and reset the device; {_TWICE}",
    ),
    FaultCode(
        "A105", "device-error", _CRITICAL, Action.RESET,
        "the device answered its work with an error", f"drain the node and reset the device; {_TWICE}",
    ),
    FaultCode(
        "A106", "wrong-product", _ERROR, Action.RETURN,
        "the device is another product than the SKU names",
        "compare the order with the name and PCI id in the finding; return what was not ordered",
        ("inventory.sku",),
    ),
    FaultCode(
        "A107", "recovery-asked", _CRITICAL, Action.RESET,
        "the driver asks for a reset, or resets the device", f"do what the driver asks for; {_TWICE}",
        ("health.recovery_action", "counters.recovery_asked"),
    ),
    FaultCode(
        "A108", "driver-error", _CRITICAL, Action.RESET,
        "the driver reported a hardware error", f"drain the node and reset the device; {_TWICE}",
        ("counters.xid_hardware", "counters.log_hardware"),
    ),
    FaultCode(
        "A109", "driver-notice", _WARNING, Action.WATCH,
        "the driver reported an error that is usually one of a program",
        "measure again; if a probe of pytest-accel causes it twice, suspect the device",
        ("counters.xid_application", "counters.log_advice"),
    ),
)  # fmt: skip

MEMORY = (
    FaultCode(
        "A201", "memory-uncorrectable", _CRITICAL, Action.RESET,
        "memory errors that could not be corrected",
        f"drain the node and reset the device, so that the memory is remapped; {_TWICE}",
        ("health.ecc_uncorrectable_volatile", "counters.ecc_uncorrectable", "health.ecc_deferred_volatile",
         "counters.ecc_deferred"),
    ),
    FaultCode(
        "A202", "repair-pending", _ERROR, Action.RESET,
        "a repair of the memory or of compute units waits for a reset",
        "drain the node, reset the device and measure again",
        ("health.remap_pending", "counters.remap_pending", "health.retired_pages_pending", "health.bad_pages_pending",
         "health.channel_repair_pending", "health.tpc_repair_pending"),
    ),
    FaultCode(
        "A203", "memory-unrepairable", _CRITICAL, Action.RETURN,
        "memory that can no longer be repaired", "drain the node and return the device",
        ("health.remap_failure", "counters.remap_failure", "health.memory_unrepairable", "health.remap_banks_exhausted",
         "health.bad_pages_unreservable", "health.bad_pages_of_threshold", "health.ecc_sram_threshold"),
    ),
    FaultCode(
        "A204", "memory-worn", _ERROR, Action.RETURN,
        "memory was repaired because of uncorrectable errors, or has had such errors before",
        "a new device should have none: return it; in a used fleet, reset it and watch the count",
        ("health.remapped_uncorrectable", "counters.rows_remapped", "health.retired_pages", "health.bad_pages",
         "counters.bad_pages", "health.ecc_uncorrectable_aggregate", "health.ecc_sram_uncorrectable_aggregate"),
    ),
    FaultCode(
        "A205", "memory-corrected", _WARNING, Action.WATCH,
        "memory errors that were corrected, at more than the usual rate", f"watch the rate in later records; {_FIELD}",
        ("health.ecc_correctable_volatile", "counters.ecc_corrected", "health.remapped_correctable",
         "counters.rows_remapped_corrected"),
    ),
    FaultCode(
        "A206", "memory-missing", _CRITICAL, Action.RETURN,
        "the device has less memory, or a narrower memory bus, than its product", "return the device",
        ("inventory.memory", "inventory.memory_bus"),
    ),
    FaultCode(
        "A207", "memory-wrong", _CRITICAL, Action.RETURN,
        "memory does not hold what was written to it", "drain the node and return the device: its results are not safe",
        ("memory_pattern.*",),
    ),
    FaultCode(
        "A208", "memory-slow", _ERROR, Action.INVESTIGATE,
        "the memory is slower than its limit", f"reset the device and measure again; {_FIELD}",
        ("stream.*",),
    ),
)  # fmt: skip

LINKS = (
    FaultCode(
        "A301", "host-link-narrow", _ERROR, Action.RESEAT,
        "the PCI Express link runs with fewer lanes or at a lower generation than it should",
        "power off, reseat card, riser and cables, check the slot's setting in the firmware; if it stays, try another"
        " slot to tell card from board",
        ("health.pcie_width", "health.pcie_lanes_lost", "health.pcie_path_width", "host.pcie_width",
         "inventory.pcie_gen_max", "inventory.pcie_width_max", "host_copy.pcie_gen", "host_copy.pcie_width"),
    ),
    FaultCode(
        "A302", "host-link-errors", _ERROR, Action.RESEAT,
        "errors on the PCI Express link", f"reseat card, riser and cables; {_TWICE}",
        ("health.pcie_replays", "counters.pcie_replays", "health.pcie_fatal", "counters.pcie_fatal",
         "host.pcie_fatal", "host.pcie_nonfatal", "host.pcie_corrected", "host_counters.pcie_*"),
    ),
    FaultCode(
        "A303", "host-link-slow", _ERROR, Action.INVESTIGATE,
        "copies between host and device are slower than their limit",
        "check NUMA placement, IOMMU, ACS and the host's memory; then reseat the card",
        ("host_copy.*", "host_copy_all.*"),
    ),
    FaultCode(
        "A304", "peer-link-down", _CRITICAL, Action.CHECK_LINKS,
        "links between accelerators are down or missing",
        f"check the fabric's service and its log, reset the devices at both ends; {_TWICE}",
        ("health.nvlink_up", "counters.nvlink_down", "inventory.nvlink_count", "health.xgmi_up", "health.xgmi_down",
         "counters.xgmi_down"),
    ),
    FaultCode(
        "A305", "peer-link-errors", _ERROR, Action.CHECK_LINKS,
        "errors on links between accelerators",
        "reset the devices at both ends; if it comes back, check the link's seats, cables and switch",
        ("health.nvlink_errors", "counters.nvlink_*", "health.xgmi_errors", "counters.xgmi_errors",
         "health.xgmi_uncorrectable", "counters.xgmi_uncorrectable"),
    ),
    FaultCode(
        "A306", "peer-link-slow", _ERROR, Action.CHECK_LINKS,
        "copies between accelerators are slower than their limit",
        "check that all links are up and at full rate, and that copies are direct (ACS, IOMMU, container)",
        ("peer_copy.*", "peer_copy_all.*", "inventory.nvlink_speed", "inventory.xgmi_speed"),
    ),
    FaultCode(
        "A307", "fabric", _ERROR, Action.CHECK_LINKS,
        "the fabric of the accelerators is not ready, degraded, or another one than expected",
        "check the fabric manager, its log and the switches; reset the devices and the switches",
        ("health.fabric*", "counters.fabric", "inventory.fabric_*", "host.fabric_manager", "host.imex"),
    ),
    FaultCode(
        "A308", "collective-slow", _ERROR, Action.INVESTIGATE,
        "collectives or a distributed training step are slower than their limit",
        "look at peer copies and links first; then at the settings and the version of NCCL or RCCL",
        ("all_*", "reduce_scatter.*", "ddp.*"),
    ),
    FaultCode(
        "A309", "network-slow", _ERROR, Action.CHECK_LINKS,
        "the network carries less to and from this node than to and from others, or less than its limit",
        "look at its partners and rails in fabric.json; check cables, transceivers, ports and settings of its NICs",
        ("fabric.*",),
    ),
)  # fmt: skip

HEAT_AND_POWER = (
    FaultCode(
        "A401", "hw-thermal", _ERROR, Action.CHECK_COOLING,
        "the device slowed itself down because of heat",
        "check fans, air or coolant, inlet temperature, heat sink and thermal paste; measure again",
        ("soak.throttle.hw_thermal",),
    ),
    FaultCode(
        "A402", "sw-thermal", _ERROR, Action.CHECK_COOLING,
        "the driver slowed the device down because of heat",
        "check fans, air or coolant, inlet temperature and the temperature target; measure again",
        ("soak.throttle.sw_thermal",),
    ),
    FaultCode(
        "A403", "hot", _ERROR, Action.CHECK_COOLING,
        "the device is too close to the temperature at which it slows down",
        "check fans, air or coolant, inlet temperature, heat sink and thermal paste",
        ("health.thermal_margin", "soak.thermal_margin"),
    ),
    FaultCode(
        "A404", "power-brake", _ERROR, Action.CHECK_POWER,
        "the power brake of the board slowed the device down",
        "check power supplies, their cables and redundancy, and the power budget of the rack; measure again",
        ("soak.throttle.power_brake",),
    ),
    FaultCode(
        "A405", "hw-slowdown", _ERROR, Action.INVESTIGATE,
        "the device slowed itself down, at rest or without a named reason",
        f"check cooling and power, then power-cycle the node; {_TWICE}",
        ("soak.throttle.hw_slowdown", "health.slowdown"),
    ),
    FaultCode(
        "A406", "power-limit-lowered", _ERROR, Action.CONFIGURE,
        "the power limit is below the product's default",
        "set the power limit to its default and measure again; if chassis or module enforce less, ask their maker why",
        ("health.power_limit_lowered", "health.power_limit_held", "inventory.power_limit"),
    ),
    FaultCode(
        "A407", "clock-locked", _ERROR, Action.CONFIGURE,
        "a setting holds the clock down", "reset application and locked clocks and the performance level",
        ("health.clock_lock", "health.perf_level"),
    ),
    FaultCode(
        "A408", "power-not-reached", _ERROR, Action.CHECK_POWER,
        "the device draws less power under full load than it should",
        f"look at clock and temperature of the same run; check the power cables; {_FIELD}",
        ("soak.power",),
    ),
    FaultCode(
        "A409", "unsteady", _ERROR, Action.CHECK_COOLING,
        "the rate falls or varies under sustained load",
        f"compare the temperature at the beginning and the end of the soak, check cooling and power; {_FIELD}",
        ("soak.droop_slow", "soak.slowest_window"),
    ),
    FaultCode(
        "A410", "auxiliary-power", _CRITICAL, Action.CHECK_POWER,
        "the auxiliary power of the device is not connected", "connect the auxiliary power cable",
    ),
)  # fmt: skip

RESULTS = (
    FaultCode(
        "A501", "compute-slow", _ERROR, Action.INVESTIGATE,
        "the device computes more slowly than its limit, and neither heat, power nor a setting accounts for it",
        f"measure again after a power-cycle; {_FIELD}",
        ("matmul.*", "matmul_mamf.*", "matmul_best.*", "soak.rate"),
    ),
    FaultCode(
        "A502", "wrong-result", _CRITICAL, Action.RETURN,
        "the device computed or delivered wrong data", "drain the node and return the device: its results are not safe",
        ("exact_matmul.*",),
    ),
    FaultCode(
        "A503", "wrong-transfer", _CRITICAL, Action.CHECK_LINKS,
        "data that devices sent to each other arrived changed",
        "drain the node; where they travel over PCI Express, set the IOMMU as the vendor says (host.iommu; NVIDIA: off "
        "on a bare machine) and measure again, before a device is returned",
    ),
)  # fmt: skip

HOST = (
    FaultCode(
        "A601", "host-memory", _CRITICAL, Action.CHECK_HOST,
        "memory or a processor of the host lost data",
        "find the part in the management controller's log and replace it",
        ("host.ecc_uncorrected", "host_counters.ecc_uncorrected", "host.machine_checks", "host_counters.machine_checks",
         "host_counters.log_hardware"),
    ),
    FaultCode(
        "A602", "host-memory-corrected", _WARNING, Action.WATCH,
        "memory errors of the host that were corrected, or an error that its firmware reports",
        "watch the rate; find the module in the management controller's log",
        ("host.ecc_corrected", "host_counters.ecc_corrected", "host_counters.log_advice"),
    ),
    FaultCode(
        "A604", "nic", _ERROR, Action.CHECK_HOST,
        "a network card is missing, down, slow, or has errors on its link",
        "check cable, transceiver and switch port of the card that is named",
        ("host.nic*", "host_counters.nic_*", "host.ethernet_*", "host_counters.ethernet_*"),
    ),
    FaultCode(
        "A606", "host-setting", _WARNING, Action.CONFIGURE,
        "a setting or a property of the host differs from what the limit expects",
        "set it right as the finding says, and measure again", ("host.*", "host_counters.*"),
    ),
)  # fmt: skip

INVENTORY = (
    FaultCode(
        "A701", "version", _ERROR, Action.CONFIGURE,
        "driver, firmware or library has another version than expected, or not the same on all devices",
        "install the expected version on every device; for a corrupted InfoROM, ask the vendor",
        ("inventory.driver_version", "inventory.cuda_version", "inventory.rocm_version", "inventory.firmware*",
         "inventory.vbios", "inventory.inforom", "inventory.gsp_firmware"),
    ),
    FaultCode(
        "A702", "mode", _ERROR, Action.CONFIGURE,
        "a mode of the device differs from the expected one, or will change at the next reset",
        "set the mode, reset the device if it asks for that, and measure again",
        ("inventory.ecc", "inventory.mig", "inventory.persistence", "inventory.compute_mode", "inventory.confidential",
         "inventory.compute_partition", "inventory.memory_partition", "inventory.virtualization",
         "health.ecc_pending_change", "health.mig_pending_change"),
    ),
    FaultCode(
        "A703", "in-use", _ERROR, Action.MEASURE_AGAIN,
        "other processes use the device", "end the processes that are named, and measure again",
        ("health.foreign_processes",),
    ),
    FaultCode(
        "A704", "board-differs", _ERROR, Action.RETURN,
        "a property of the board differs from its product or from the other boards",
        "compare part number and firmware with the order; return what was not ordered",
        ("inventory.*",),
    ),
    FaultCode(
        "A705", "not-as-listed", _ERROR, Action.RETURN,
        "a board is not on the packing list, belongs in another node, or is listed for this node and absent",
        "look where the listed board is and put it back; correct the list, or return what was not ordered",
        ("inventory.serial", "inventory.delivered"),
    ),
    FaultCode(
        "A799", "limit-broken", _ERROR, Action.INVESTIGATE,
        "a limit of a test of your own, or of a metric without a code of its own",
        "look at the test that states the limit", ("*",),
    ),
)  # fmt: skip

NOT_JUDGED = (
    FaultCode(
        "A901", "unmeasured", _UNKNOWN, Action.MEASURE_AGAIN,
        "something that the measurement needs is missing", "provide what is named (docs/checks.md), and measure again",
    ),
    FaultCode(
        "A902", "inconclusive", _UNKNOWN, Action.MEASURE_AGAIN,
        "a limit is broken, but the measurement was disturbed, or the limit is of other software or of another method",
        "end the disturbance, or use the software and the method of the limit, as the reason says; measure again",
    ),
    FaultCode(
        "A903", "not-tried", _UNKNOWN, Action.NONE,
        "not measured because of an earlier failure", "look at the finding that it names",
    ),
)  # fmt: skip

TABLE = (*DEVICE, *MEMORY, *LINKS, *HEAT_AND_POWER, *RESULTS, *HOST, *INVENTORY, *NOT_JUDGED)
"""All codes. Of several whose metrics match, one that names the metric in full counts, else the first."""
BY_NAME = {each.name: each for each in TABLE}


@cache
def of_metric(metric: str) -> FaultCode:
    """Return the code of a metric whose limit is broken."""
    exactly = next((each for each in TABLE if metric in each.metrics), None)
    return exactly or next(each for each in TABLE if any(fnmatchcase(metric, pattern) for pattern in each.metrics))
