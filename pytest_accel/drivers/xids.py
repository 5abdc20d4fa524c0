"""Xids, the errors that NVIDIA's kernel driver reports, with meaning and remedy. Pure.

Source: NVIDIA's Xid catalogue for Ampere and newer
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, 2026-11). An Xid is `hardware` here if the
catalogue's immediate action is a reset, a reboot or a check of the machine, or if its text names memory, link or bus;
`application` if the action is to restart the program; `information` if it is to ignore the Xid.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HARDWARE, APPLICATION, INFORMATION = "hardware", "application", "information"

_RESET = "drain the node and reset the GPU; if it comes back, return it"
_REBOOT = "reboot the node; reseat or return the GPU if it comes back"
_LINK = "reset the GPUs at both ends; if it comes back, check the link's seats, cables and switch"
_PROGRAM = "usually a fault of the program; if a probe of pytest-accel caused it twice, suspect the device"
_NOTHING = "no action needed"
_LOOK = "look it up in NVIDIA's Xid catalogue"


@dataclass(frozen=True)
class Xid:
    """The meaning of an Xid: its kind (hardware, application, information), a phrase, and what to do."""

    kind: str
    means: str
    do: str


_COPY = (*range(39, 42), *range(70, 73), *range(75, 78), 85, *range(126, 136))
_VIDEO = (68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139)

BY_TEXT = range(144, 151)
"""Xids of NVLink 5: only the text in the kernel log tells whether the error is fatal."""

_TABLE: Mapping[tuple[str, str], Mapping[int, str]] = {
    (HARDWARE, _RESET): {
        46: "the GPU stopped processing",
        48: "an uncorrectable ECC error of two bits",
        62: "its power controller halted",
        64: "a row of memory could not be retired or remapped",
        94: "a memory error that was contained to one program",
        95: "a memory error that was not contained",
        109: "a context switch timed out",
        110: "a security fault",
        119: "its system processor (GSP) does not answer",
        120: "an error in its system processor (GSP)",
        140: "ECC errors that could not be corrected, nor their rows retired",
        143: "it could not be initialised",
        151: "the rotation of a key failed",
        154: "the driver now requests recovery",
        156: "one of its resources was retired",
        157: "one of its resources could not be retired",
        158: "a fatal timeout",
        168: "its memory has shrunk",
        169: "its security processor halted",
        171: "an uncorrectable error in its memory",
        172: "an uncorrectable error in its SRAM",
    },
    (HARDWARE, _REBOOT): {
        32: "commands were corrupted on the way over PCI Express",
        79: "it has fallen off the bus",
        167: "a fatal timeout on PCI Express",
    },
    (HARDWARE, "connect its auxiliary power"): {
        54: "its auxiliary power is not connected",
    },
    (HARDWARE, _LINK): {
        74: "an error on an NVLink",
        136: "an NVLink could not be trained",
        155: "an NVLink was taken down",
    },
    (APPLICATION, _LINK): dict.fromkeys(BY_TEXT, "an NVLink reports an error"),
    (APPLICATION, _PROGRAM): {
        8: "the GPU stopped processing for a program",
        13: "an exception of the graphics engine",
        31: "a page fault in its memory",
        43: "a program hit a fault of its own and was stopped",
        45: "the driver cleaned up after a program, as after a kill",
        60: "an exception of the video processor",
        80: "corrupted commands were sent to it",
        **dict.fromkeys((11, 25, 69), "an invalid or corrupted stream of commands"),
        **dict.fromkeys(_COPY, "an exception of a copy engine"),
        **dict.fromkeys(_VIDEO, "an exception of a video engine"),
    },
    (INFORMATION, _NOTHING): {
        14: "an error that was injected",
        37: "an error of the driver's firmware",
        38: "a timeout of the driver's firmware",
        44: "a fault during a context switch",
        63: "a row of memory was retired or will be remapped",
        66: "an illegal access by a program",
        67: "an illegal access by a program",
        92: "many corrected ECC errors",
        106: "a test message",
        107: "a test message",
        108: "a translation error at the other end of an NVLink",
        121: "a corrected error on the link to the processor",
        137: "a forbidden access over NVLink",
        141: "an error on the fast path of a channel",
        160: "a channel was retired",
        161: "a channel could not be retired",
    },
}
"""The meanings of Xids by number, under their kind and what to do."""
XIDS = {number: Xid(kind, means, do) for (kind, do), rows in _TABLE.items() for number, means in rows.items()}
CLEANUP = (43, 45)
"""Xids that the driver reports about a program that was killed."""

CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"
IMMEDIATE: Mapping[str, tuple[int, ...]] = {
    "RESTART_APP": (8, 11, 13, 25, 31, 32, 60, 69, 80, 94, *_COPY, *_VIDEO),
    "IGNORE": (14, 37, 38, 43, 44, 63, 66, 67, 92, 106, 107, 108, 121, 137, 141, 157, 160, 161),
    "WORKFLOW_XID_45": (45,),
    "RESET_GPU": (46, 62, 64, 95, 109, 110, 119, 120, 136, 140, 143, 155, 156, 158),
    "WORKFLOW_XID_48": (48,),
    "CHECK_MECHANICALS": (54,),
    "WORKFLOW_NVLINK_ERR": (74,),
    "RESTART_BM": (79,),
    "WORKFLOW_NVLINK5_ERR": tuple(BY_TEXT),
    "RESTART_VM": (151,),
    "XID_154": (154,),
}
"""NVIDIA's immediate actions ("resolution buckets") by number, as its catalogue had them in October 2025. BM is the
bare metal machine. The catalogue had no entry then for Xids from 167 on."""
_IMMEDIATE = {number: action for action, numbers in IMMEDIATE.items() for number in numbers}


def immediate_action(number: int) -> str:
    """Return the immediate action of NVIDIA's catalogue for an Xid; empty if it is not known."""
    return _IMMEDIATE.get(number, "")


def lookup(number: int, text: str = "") -> Xid:
    """Return the meaning of an Xid; `text` is the rest of its line in the kernel log, if that could be read."""
    known = XIDS.get(number, Xid(APPLICATION, "an Xid that this version does not know", _LOOK))
    words = text.lower().replace("-", "")
    if number in BY_TEXT and "nonfatal" not in words and "fatal" in words:
        return Xid(HARDWARE, f"{known.means} that is fatal", known.do)
    if number in BY_TEXT and "nonfatal" in words:
        return Xid(INFORMATION, f"{known.means} that is not fatal", _NOTHING)
    return known
