"""Xids, the errors that NVIDIA's kernel driver reports: what each one means for the device, and what to do. Pure.

After NVIDIA's Xid catalogue for Ampere and newer
(https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html, 2026-11). An Xid is `hardware` here where the
catalogue's immediate action is a reset, a reboot or a check of the machine, or its text names memory, link or bus;
`application` where it is to restart the program; `information` where it is to ignore it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

HARDWARE, APPLICATION, INFORMATION = "hardware", "application", "information"

_RESET = "drain the node and reset the GPU; if it comes back, return it"
_REBOOT = "reboot the node; reseat or return the GPU if it comes back"
_LINK = "reset the GPUs at both ends; if it comes back, look at the link's seats, cables and switch"
_PROGRAM = "the program's own fault as a rule; if ours caused it twice, suspect the device"
_NOTHING = "nothing by itself"
_LOOK = "look it up in NVIDIA's Xid catalogue"


@dataclass(frozen=True)
class Xid:
    kind: str
    means: str
    do: str


def _all(kind: str, do: str, meanings: Mapping[int, str]) -> dict[int, Xid]:
    return {number: Xid(kind, means, do) for number, means in meanings.items()}


_COPY = (*range(39, 42), *range(70, 73), *range(75, 78), 85, *range(126, 136))
_VIDEO = (68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139)

BY_TEXT = range(144, 151)
"""NVLink 5: fatal or not is in the text of the kernel log only."""

XIDS = {
    **_all(
        HARDWARE,
        _RESET,
        {
            46: "the GPU stopped processing",
            48: "an ECC error of two bits, which cannot be corrected",
            62: "its power controller halted",
            64: "a row of memory could not be retired or remapped",
            94: "a memory error that was contained to one program",
            95: "a memory error that was not contained",
            109: "a context switch timed out",
            110: "a security fault",
            119: "its system processor (GSP) does not answer",
            120: "an error of its system processor (GSP)",
            140: "ECC errors that could not be corrected, nor their rows retired",
            143: "it could not be initialised",
            151: "the rotation of a key failed",
            154: "the driver now asks for recovery",
            156: "a resource of it was retired",
            157: "a resource of it could not be retired",
            158: "a fatal timeout",
            168: "its memory has shrunk",
            169: "its security processor halted",
            171: "an error of its memory that cannot be corrected",
            172: "an error of its SRAM that cannot be corrected",
        },
    ),
    **_all(
        HARDWARE,
        _REBOOT,
        {
            32: "commands were corrupted on the way over PCI Express",
            79: "it has fallen off the bus",
            167: "PCI Express timed out for good",
        },
    ),
    **_all(
        HARDWARE,
        "connect its auxiliary power",
        {
            54: "its auxiliary power is not connected",
        },
    ),
    **_all(
        HARDWARE,
        _LINK,
        {
            74: "an error of an NVLink",
            136: "an NVLink could not be trained",
            155: "an NVLink was taken down",
        },
    ),
    **_all(APPLICATION, _LINK, dict.fromkeys(BY_TEXT, "an NVLink reports an error")),
    **_all(
        APPLICATION,
        _PROGRAM,
        {
            8: "the GPU stopped processing for a program",
            13: "an exception of the graphics engine",
            31: "a page fault of its memory",
            43: "a program hit a fault of its own and was stopped",
            45: "what a program left was cleaned up, as after a kill",
            60: "an exception of the video processor",
            80: "corrupted commands were sent to it",
            **dict.fromkeys((11, 25, 69), "an invalid or corrupted stream of commands"),
            **dict.fromkeys(_COPY, "an exception of a copy engine"),
            **dict.fromkeys(_VIDEO, "an exception of a video engine"),
        },
    ),
    **_all(
        INFORMATION,
        _NOTHING,
        {
            14: "an error that was injected",
            37: "an error of the driver's firmware",
            38: "a timeout of the driver's firmware",
            44: "a fault during a context switch",
            63: "a row of memory was retired or will be remapped",
            66: "an illegal access by a program",
            67: "an illegal access by a program",
            92: "many ECC errors that were corrected",
            106: "a test message",
            107: "a test message",
            108: "a translation error at the other end of an NVLink",
            121: "an error of the link to the processor that was corrected",
            137: "an access over NVLink that is not allowed",
            141: "an error on the fast path of a channel",
            160: "a channel was retired",
            161: "a channel could not be retired",
        },
    ),
}
CLEANUP = (43, 45)
"""What the driver reports of a program that was killed."""


def lookup(number: int, text: str = "") -> Xid:
    """What an Xid means; `text` is what the kernel log said beside it, if anybody could read that."""
    known = XIDS.get(number, Xid(APPLICATION, "an Xid that is not known here", _LOOK))
    words = text.lower().replace("-", "")
    if number in BY_TEXT and "nonfatal" not in words and "fatal" in words:
        return Xid(HARDWARE, f"{known.means} that is fatal", known.do)
    if number in BY_TEXT and "nonfatal" in words:
        return Xid(INFORMATION, f"{known.means} that is not fatal", _NOTHING)
    return known
