"""The kernel messages of failing hardware other than Xids, with meaning and remedy. Pure.

The patterns follow the sources: Linux 6.12 (drivers/pci/pcie/aer.c and dpc.c, drivers/gpu/drm/amd, drivers/edac,
drivers/firmware/efi/cper.c, arch/x86/kernel/cpu/mce) and NVIDIA/open-gpu-kernel-modules 570
(src/common/nvswitch/kernel/inc/error_nvswitch.h, kernel-open/nvidia/nv.c, src/nvidia/arch/nvalloc/unix/src/osinit.c,
src/common/sdk/nvidia/inc/nvstatuscodes.h). Kinds: fatal PCIe errors are hardware and non-fatal ones advisory as
in Meta's GCM (check-syslogs, pcie-aer); SXids are classified by the driver's own word, as in NVIDIA's fabric manager
guide (appendix D); AMD's as in amd/node-scraper (plugins/inband/dmesg). The table leaves out corrected errors, which
counters report, and totals, which the driver logs on every query.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_accel.core.details import ErrorReport
from pytest_accel.drivers.xids import APPLICATION, HARDWARE, Xid, lookup

SOURCE = "kernel log"
LOGGED = {"log_hardware": HARDWARE, "log_advice": APPLICATION}
"""The kind of message that is counted, by variant of the metrics `counters.*` and `host_counters.*`."""

_ADDRESS = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_GPU = rf"amdgpu {_ADDRESS}: (?:amdgpu: )?(?:\{{\d+\}})?"
_AER = rf"{_ADDRESS}: (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) "

_RESET = "drain the node and reset the device; if it comes back, return it"
_START = "check driver and firmware, power-cycle the node; if it comes back, return the device"
_SEAT = "check seat, riser and cable; return the device if it comes back"
_SWITCH = "reset the GPUs and the switch; if it comes back, return the board"
_MODULE = "find the part in the management controller's log and replace it"
_PROGRAM = "usually a fault of the program; if a probe of pytest-accel caused it twice, suspect the device"


@dataclass(frozen=True)
class Message:
    """A kernel message, recognised by a pattern whose group `address` is the PCI address.

    `kind` is that of Xids; advisory messages are `application`. A message with `anywhere` about a device that is not
    an accelerator concerns the node; one without is ignored then. `after_kill` marks what the driver may log after a
    process was killed.
    """

    name: str
    pattern: str
    kind: str
    means: str
    do: str
    anywhere: bool = True
    after_kill: bool = False


TABLE = (
    Message(
        "NVSwitch fatal", rf"SXid \(PCI:{_ADDRESS}\): \d+, Fatal,", HARDWARE,
        "an NVSwitch reports a fatal error", _SWITCH,
    ),
    Message(
        "NVSwitch non-fatal", rf"SXid \(PCI:{_ADDRESS}\): \d+, Non-fatal,", APPLICATION,
        "an NVSwitch reports an error that is not fatal", _SWITCH,
    ),
    Message(
        "off the bus", rf"NVRM: GPU {_ADDRESS}: GPU has fallen off the bus", HARDWARE,
        "it has fallen off the bus", _SEAT, anywhere=False,
    ),
    # without an Xid; of a GPU that the driver does not reach, no device has the address
    Message(  # the kernel escapes the line breaks within a record
        "not responding", rf"NVRM: (?:The NVIDIA GPU {_ADDRESS})?.*fallen off the bus and is not responding", HARDWARE,
        "a GPU has fallen off the bus", _SEAT,
    ),
    Message(
        "not initialised", rf"NVRM: (?:GPU {_ADDRESS}: )?RmInitAdapter failed!", HARDWARE,
        "the driver could not initialise a GPU", _START,
    ),
    Message(
        "reset required", r"NVRM: .*Reset required \[NV_ERR_RESET_REQUIRED\]", HARDWARE,
        "a GPU refuses all work until it is reset", _RESET,
    ),
    Message(
        "lost from the bus", r"NVRM: .*GPU lost from the bus \[NV_ERR_GPU_IS_LOST\]", HARDWARE,
        "a GPU is no longer on the bus", _SEAT,
    ),
    Message(
        "amdgpu uncorrectable",
        _GPU + r"(?:.*\b[1-9]\d* (?:new )?)?uncorrectable hardware error(?:\(\w+\)|s) detected(?:!| in (?!total))",
        HARDWARE, "the hardware reports an uncorrectable error", _RESET, anywhere=False,
    ),
    Message(
        "amdgpu deferred", _GPU + r".*\b[1-9]\d* new deferred hardware errors detected in ", APPLICATION,
        "its memory lost data that no program has used yet", _RESET, anywhere=False,
    ),
    Message(
        "amdgpu poison", _GPU + r".*(?:RAS poison consumption|poison is consumed)", HARDWARE,
        "a program used data that its memory had lost", _RESET, anywhere=False,
    ),
    Message(
        "amdgpu reset", _GPU + r"GPU reset begin", HARDWARE,
        "the driver resets it", _RESET, anywhere=False, after_kill=True,
    ),
    Message(
        "amdgpu ring timeout", _GPU + r".*ring \S+ timeout", APPLICATION,
        "one of its queues did not finish in time", _PROGRAM, anywhere=False, after_kill=True,
    ),
    Message(
        "amdgpu page fault", _GPU + r"\[\w+\] (?:no-)?retry page fault", APPLICATION,
        "a page fault in its memory", _PROGRAM, anywhere=False,
    ),
    Message("PCIe fatal", _AER + r"\(Fatal\)", HARDWARE, "a PCI Express link failed", _SEAT),
    Message("PCIe non-fatal", _AER + r"\(Non-Fatal\)", APPLICATION, "a PCI Express transaction was lost", _SEAT),
    Message(
        "PCIe contained", rf"{_ADDRESS}: DPC: containment event", HARDWARE,
        "a port took its PCI Express link down because of an error", _SEAT,
    ),
    Message(
        "PCIe slot", rf"{_ADDRESS}: pciehp: Slot\(\S+\): (?:Link Down|Card not present)", HARDWARE,
        "the card in a PCI Express slot is gone", _SEAT,
    ),
    Message(
        "firmware: fatal", r"\[Hardware Error\]: event severity: fatal", HARDWARE,
        "the firmware reports a fatal error", _MODULE,
    ),
    Message(
        "firmware: recoverable", r"\[Hardware Error\]: event severity: recoverable", APPLICATION,
        "the firmware reports an error that was not corrected", _MODULE,
    ),
    Message(
        "machine check",  # the first digit of the status: valid, overflow, uncorrected, enabled
        r"\[Hardware Error\]: (?:CPU \d+: Machine Check.*Bank \d+: [abefABEF][0-9a-fA-F]{15}|"
        r"System Fatal error|Uncorrected, software)|mce: Uncorrected hardware memory error",
        HARDWARE, "a processor or its memory lost data", _MODULE,
    ),
    Message(
        "memory uncorrectable", r"EDAC \S+: [1-9]\d* UE ", HARDWARE, "a memory module lost data", _MODULE,
    ),
)  # fmt: skip
MESSAGES = {each.name: each for each in TABLE}
_PATTERNS = [(re.compile(each.pattern), each) for each in TABLE]


def find(line: str) -> tuple[Message, str] | None:
    """Return the message that a line of the log matches with its PCI address ("" for none), or None."""
    for pattern, message in _PATTERNS:
        if found := pattern.search(line):
            address = found.groupdict().get("address") or ""
            return message, address.lower()
    return None


def known(report: ErrorReport) -> Xid | Message:
    """Return the entry of the table of Xids or of messages: what a report means, and what to do."""
    return MESSAGES.get(report.message) or lookup(report.number, report.text)
