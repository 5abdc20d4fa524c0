"""What the kernel log says of failing hardware, beside Xids: line by line what it means, and what to do. Pure.

The wording is that of the sources: Linux 6.12 (drivers/pci/pcie/aer.c and dpc.c, drivers/gpu/drm/amd, drivers/edac,
drivers/firmware/efi/cper.c, arch/x86/kernel/cpu/mce) and NVIDIA/open-gpu-kernel-modules 570
(src/common/nvswitch/kernel/inc/error_nvswitch.h). Classes: fatal PCIe errors are hardware and non-fatal ones advice as
in Meta's GCM (check-syslogs, pcie-aer); SXids by the word that the driver says, as in NVIDIA's fabric manager guide
(appendix D); AMD's as in amd/node-scraper (plugins/inband/dmesg). What was corrected is information, which the counters
have, and so are totals that are told whenever somebody asks: neither is in the table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pytest_accel.drivers.xids import APPLICATION, HARDWARE

SOURCE = "kernel log"
LOGGED = {"log_hardware": HARDWARE, "log_advice": APPLICATION}
"""By the variant of the metrics `counters.*` and `host_counters.*`, the kind of message that is counted."""

_ADDRESS = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_GPU = rf"amdgpu {_ADDRESS}: (?:amdgpu: )?(?:\{{\d+\}})?"
_AER = rf"{_ADDRESS}: (?:AER: )?PCIe Bus Error: severity=Uncorrect(?:ed|able) "

_RESET = "drain the node and reset the device; if it comes back, return it"
_SEAT = "look at seat, riser and cable; return the device if it comes back"
_SWITCH = "reset the GPUs and the switch; if it comes back, return the board"
_MODULE = "find the part in the management controller's log and replace it"
_PROGRAM = "the program's own fault as a rule; if ours caused it twice, suspect the device"


@dataclass(frozen=True)
class Message:
    """A line, by its pattern with the PCI `address` where it has one. `kind` as of Xids: advice is `application`.

    `anywhere`: of a device that is none of the accelerators it is the node's; else it is no news. `after_kill`: what
    the driver may do about a process that was killed.
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
        "an NVSwitch reports an error that it goes on from", _SWITCH,
    ),
    Message(
        "off the bus", rf"NVRM: GPU {_ADDRESS}: GPU has fallen off the bus", HARDWARE,
        "it has fallen off the bus", _SEAT, anywhere=False,
    ),
    Message(
        "amdgpu uncorrectable",
        _GPU + r"(?:.*\b[1-9]\d* (?:new )?)?uncorrectable hardware error(?:\(\w+\)|s) detected(?:!| in (?!total))",
        HARDWARE, "an error of the hardware that cannot be corrected", _RESET, anywhere=False,
    ),
    Message(
        "amdgpu deferred", _GPU + r".*\b[1-9]\d* new deferred hardware errors detected in ", APPLICATION,
        "its memory lost data that nobody has used yet", _RESET, anywhere=False,
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
        "a queue of it did not end in time", _PROGRAM, anywhere=False, after_kill=True,
    ),
    Message(
        "amdgpu page fault", _GPU + r"\[\w+\] (?:no-)?retry page fault", APPLICATION,
        "a page fault of its memory", _PROGRAM, anywhere=False,
    ),
    Message("PCIe fatal", _AER + r"\(Fatal\)", HARDWARE, "a PCI Express link failed", _SEAT),
    Message("PCIe non-fatal", _AER + r"\(Non-Fatal\)", APPLICATION, "a PCI Express transaction was lost", _SEAT),
    Message(
        "PCIe contained", rf"{_ADDRESS}: DPC: containment event", HARDWARE,
        "a port took its PCI Express link down for an error", _SEAT,
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
    """The message that a line is, with the PCI address in it ("" for none)."""
    for pattern, message in _PATTERNS:
        if found := pattern.search(line):
            address = found.groupdict().get("address") or ""
            return message, address.lower()
    return None
