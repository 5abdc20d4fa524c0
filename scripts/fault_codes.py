"""The page docs/fault-codes.md: every fault code with its severity, next step and metrics. Made from the table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pytest_accel.core.fault_codes import HEADINGS, Action, FaultCode, Severity
from pytest_accel.drivers import xids
from pytest_accel.views.markdown import table

DCGM = "https://docs.nvidia.com/datacenter/dcgm/latest/reference/diagnostics/errors.html"
"""DCGM's errors with their severities."""
OF_DCGM = {
    "device-missing": ("CONFIG DEVICE_COUNT_MISMATCH",),
    "driver-error": ("TRIAGE XID_ERROR",),
    "driver-notice": ("TRIAGE XID_ERROR",),
    "memory-uncorrectable": ("ISOLATE VOLATILE_DBE_DETECTED DBE_VIOLATION UNCONTAINED_ERROR",),
    "repair-pending": ("RESET PENDING_ROW_REMAP PENDING_PAGE_RETIREMENTS DBE_PENDING_PAGE_RETIREMENTS",),
    "memory-unrepairable": ("ISOLATE ROW_REMAP_FAILURE RETIRED_PAGES_LIMIT RETIRED_PAGES_DBE_LIMIT",),
    "memory-worn": ("RESET UNCORRECTABLE_ROW_REMAP",),
    "memory-corrected": (
        "MONITOR VOLATILE_SBE_DETECTED",
        "ISOLATE SBE_THRESHOLD_VIOLATION",
    ),
    "memory-wrong": ("ISOLATE FAULTY_MEMORY MEMORY_MISMATCH",),
    "memory-slow": ("TRIAGE MEMORY_BANDWIDTH",),
    "host-link-narrow": (
        "TRIAGE PCIE_GENERATION",
        "CONFIG PCIE_WIDTH",
    ),
    "host-link-errors": ("ISOLATE PCI_REPLAY_RATE PCIE_REPLAY_THRESHOLD_VIOLATION",),
    "host-link-slow": ("TRIAGE LOW_BANDWIDTH HIGH_LATENCY",),
    "peer-link-down": ("TRIAGE NVLINK_DOWN GPU_EXPECTED_NVLINKS_UP",),
    "peer-link-errors": ("ISOLATE NVLINK_ERROR_CRITICAL NVLINK_CRC_ERROR_THRESHOLD NVLINK_ERROR_THRESHOLD",),
    "fabric": (
        "CONFIG FABRIC_MANAGER_TRAINING_ERROR",
        "ISOLATE NVSWITCH_FATAL_ERROR SXID_ERROR",
    ),
    "hw-thermal": ("MONITOR CLOCKS_EVENT_THERMAL THERMAL_VIOLATIONS",),
    "sw-thermal": ("MONITOR CLOCKS_EVENT_THERMAL THERMAL_VIOLATIONS",),
    "hot": ("MONITOR TEMP_VIOLATION",),
    "power-brake": ("MONITOR CLOCKS_EVENT_POWER",),
    "hw-slowdown": ("MONITOR CLOCKS_EVENT_VIOLATION",),
    "power-limit-lowered": ("CONFIG ENFORCED_POWER_LIMIT",),
    "power-not-reached": ("TRIAGE TARGET_POWER",),
    "compute-slow": ("TRIAGE STRESS_LEVEL GFLOPS_THRESHOLD_VIOLATION",),
    "wrong-result": ("ISOLATE NAN_VALUE L1TAG_MISCOMPARE",),
    "wrong-transfer": ("ISOLATE BROKEN_P2P_MEMORY_DEVICE BROKEN_P2P_WRITER_DEVICE",),
    "version": ("TRIAGE CORRUPT_INFOROM",),
    "mode": ("CONFIG ECC_DISABLED PERSISTENCE_MODE",),
    "in-use": ("RESET GRAPHICS_PROCESSES",),
}
"""DCGM's errors of the same kind by the name of a code: their severity, and their names without `DCGM_FR_`."""
SEVERITIES = {
    Severity.CRITICAL: "Results may be wrong, or the device does not work. Drain the node.",
    Severity.ERROR: "The node is not fit to accept as it is. Repair or set right what is named.",
    Severity.WARNING: "The limit holds, or only warns. The node can be used; watch it.",
    Severity.UNKNOWN: "Nothing was judged. The finding says nothing about the hardware.",
}
"""Each severity in words."""
ACTIONS = {
    Action.RETURN: "Drain the node and return the part to the supplier.",
    Action.RESET: "Drain the node and reset the device.",
    Action.REBOOT: "Drain the node and reboot or power-cycle it.",
    Action.RESEAT: "Power the node off; reseat the card, its riser and its cables.",
    Action.CHECK_COOLING: "Check air, fans, coolant, heat sink and thermal paste.",
    Action.CHECK_POWER: "Check power supplies, cables and the power budget of rack and node.",
    Action.CHECK_LINKS: "Check cables, seats, switches and the service that manages the fabric.",
    Action.CHECK_HOST: "Check the part of the host that is named; the accelerator is not at fault.",
    Action.CONFIGURE: "Set the named setting or version right.",
    Action.INVESTIGATE: "Measure again; if the finding stays, run the vendor's field diagnostic.",
    Action.WATCH: "Keep the node in use and compare its next records.",
    Action.MEASURE_AGAIN: "Remove the obstacle or the disturbance, and measure again.",
    Action.NONE: "Nothing: another finding names the cause.",
}
"""Each action in words."""
HEAD = """# Fault codes and next steps

For everybody who acts on a finding, and for runbooks. Made by `scripts/fault_codes.py` from
`pytest_accel/core/fault_codes.yaml`. Every verdict that fails or is marginal has a code, a severity and a
next step. They are printed below the closing line (`next: gpu6 (serial ...) A401 ...`; `-v` prints those of
marginal verdicts too), and are in `findings` of the record, in JUnit and in all [exports](record.md#exports).

**A code never changes its meaning**, so that tickets and scripts can rely on it. The cause counts more than
the metric: a matrix product that is slow because the device slowed itself down for heat has A401, not A501.
Where no cause accounts for half of the lost clock, the code is that of the metric. An error that the driver
reported has the code of that error.

The last column names DCGM's errors of the same kind, with DCGM's severity in parentheses
([source]({dcgm}), November 2026),
for runbooks that go by DCGM's names. The figures are not DCGM's.
"""


def page() -> str:
    """Return the whole page in Markdown."""
    lines = [HEAD.format(dcgm=DCGM)]
    lines += ["## Severities", "", *table(("severity", "meaning"), _words(SEVERITIES.items())), ""]
    lines += ["A marginal or waived verdict is a `warning` with any code. Drain and return hardware on exit status 1"]
    lines += ["alone ([verdicts.md](verdicts.md#closing-lines-and-exit-statuses)); the code says how.", ""]
    lines += ["## Actions", "", *table(("action", "meaning"), _words(ACTIONS.items())), ""]
    for heading, codes in HEADINGS.items():
        head = ("code", "name", "severity", "action", "meaning", "next step", "metrics", "DCGM")
        lines += [f"## {heading}", "", *table(head, map(_row, codes)), ""]
    lines += ["## Xids", "", *_xids()]
    return "\n".join(lines) + "\n"


def _row(fault: FaultCode) -> tuple[str, ...]:
    metrics = ", ".join(f"`{metric}`" for metric in fault.metrics)
    of_dcgm = [(error, severity) for severity, *names in map(str.split, OF_DCGM.get(fault.name, ())) for error in names]
    dcgm = ", ".join(f"`DCGM_FR_{error}` ({severity})" for error, severity in of_dcgm)
    return fault.code, fault.name, fault.severity.value, fault.action.value, fault.means, fault.do, metrics, dcgm


def _xids() -> list[str]:
    """Return the part on Xids: the code of each, and NVIDIA's immediate action."""
    text = [
        "An Xid of NVIDIA's driver is a finding with NVIDIA's immediate action in parentheses: `A102 device-lost, Xid",
        f"79 (RESTART_BM)`. The actions are those of [NVIDIA's catalogue]({xids.CATALOGUE}) as of October 2025;",
        "`RESTART_BM` is a restart of the machine. Information is neither judged nor shown. Next steps by the name of",
        "the code:",
        "",
    ]
    defaults = {xids.HARDWARE: "driver-error", xids.APPLICATION: "driver-notice"}
    rows: dict[tuple[str, ...], list[str]] = {}
    steps: dict[str, dict[str, None]] = {}
    for number, xid in sorted(xids.catalogue().items()):
        if xid.kind != xids.INFORMATION:
            name = xid.code or defaults[xid.kind]
            rows.setdefault((name, xid.means, xids.immediate_action(number)), []).append(str(number))
            steps.setdefault(xid.do, {})[name] = None
    head = ("Xid", "name of the code", "meaning", "NVIDIA's action")
    text += [f"- {', '.join(names)}: {step}." for step, names in steps.items()]
    return [*text, "", *table(head, [(", ".join(numbers), *row) for row, numbers in rows.items()])]


def _words(items: Iterable[tuple[object, str]]) -> list[tuple[str, str]]:
    return [(f"`{getattr(item, 'value', item)}`", words) for item, words in items]


if __name__ == "__main__":
    (Path(__file__).parent.parent / "docs/fault-codes.md").write_text(page(), encoding="utf-8")
