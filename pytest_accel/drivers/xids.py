"""Xids, the errors that NVIDIA's kernel driver reports, with meaning and remedy by number and text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

HARDWARE, APPLICATION, INFORMATION = "hardware", "application", "information"

_NOTHING = "no action needed"


@cache
def kernel_reports() -> dict[str, Any]:
    """Return the table of what the kernel may report: kernel_reports.yaml, with every remedy under `do` written out."""
    import yaml  # slow to load, and nothing that only loads this module reads a log

    table: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("kernel_reports.yaml").read_text(encoding="utf-8"))
    for row in (*table["xids"], *table["messages"]):
        row["do"] = table["remedies"].get(row["do"], row["do"])
    return table


@dataclass(frozen=True)
class Meaning:
    """The meaning of an Xid or a message: its kind (hardware, application, information), a phrase, and what to do."""

    kind: str
    means: str
    do: str
    code: str = ""
    """The name of its fault code; empty where that of the metric counts."""


BY_TEXT = range(144, 151)
"""Xids of NVLink 5: only the text in the kernel log tells whether the error is fatal."""


@cache
def catalogue() -> Mapping[int, Meaning]:
    """Return the meaning of every known Xid by its number."""
    return {
        number: Meaning(row["kind"], means, row["do"], row.get("code", ""))
        for row in kernel_reports()["xids"]
        for numbers, means in row["means"].items()
        for number in _numbers(numbers)
    }


def _numbers(text: object) -> list[int]:
    return [int(number) for number in str(text).split()]


RECOVERY = 154
CLEANUP = (43, 45)
"""Xids that the driver reports about a program that was killed."""

CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html"


def immediate_action(number: int) -> str:
    """Return the immediate action of NVIDIA's catalogue for an Xid; empty if it is not known."""
    actions = kernel_reports()["immediate"].items()
    return next((action for action, numbers in actions if number in _numbers(numbers)), "")


_ASKED = re.compile(r" to 0x([0-9a-f]+)\b")
"""The action in the text of an Xid 154. Its words differ by version, its numbers do not (gpu.c, 565 to 595)."""
_OF_THIS_GPU = (0x1, 0x4, 0x6)
"""Reset, drain and reset, reset of the bus. The others are 0, none any more; 2 and 7, a reboot of the whole system; 3,
drain the peers, which a healthy GPU passes through; 5, of the IMEX domain."""
_CAUSED = re.compile(r"caused by previous Xid (\d+)")
_WORD = re.compile(r"\(0x([0-9a-f]{8}) ")
"""The first word of an Xid of NVLink 5; bits 20 to 25 of a 149 are the reason why the link went down."""
_ELSEWHERE = (0, 21, *range(32, 38))
"""Reasons of a 149 that lie at the other end of the link, or that follow where another GPU states one."""


def caused_by(text: str) -> int:
    """Return the number of the Xid of the same GPU that an Xid follows from, as the driver says; 0 if it does not."""
    caused = _CAUSED.search(text)
    return int(caused[1]) if caused else 0


def nearness(number: int, text: str) -> int:
    """Return the nearness of a fatal Xid of NVLink 5 to the fault, 0 for others: the nearest of a node are the cause.

    A link that went down at this end comes before one whose other end did, and both before the errors of transfers over
    it, which the catalogue ignores within 30 s (Xid 145).
    """
    if lookup(number, text).kind != HARDWARE or number not in (145, 149):
        return 0
    word = _WORD.search(text)
    elsewhere = word is not None and int(word[1], 16) >> 20 & 0x3F in _ELSEWHERE
    return 1 if number == 145 else 2 if elsewhere else 3


def lookup(number: int, text: str = "") -> Meaning:
    """Return the meaning of an Xid; `text` is the rest of its line in the kernel log, if that could be read."""
    default = Meaning(APPLICATION, "an Xid that this version does not know", "look it up in NVIDIA's Xid catalogue")
    entry = catalogue().get(number, default)
    if caused := caused_by(text):
        return Meaning(APPLICATION, f"it follows from an Xid {caused}", "look for that one")
    if number == RECOVERY:
        match = _ASKED.search(text)
        if match is None:
            return Meaning(APPLICATION, "the recovery that the driver asks for changed", "see health.recovery_action")
        return entry if int(match[1], 16) in _OF_THIS_GPU else Meaning(INFORMATION, "no recovery of this GPU", _NOTHING)
    words = text.lower().replace("-", "")
    if number in BY_TEXT and "nonfatal" not in words and "fatal" in words:
        return replace(entry, kind=HARDWARE, means=f"{entry.means} that is fatal")
    if number in BY_TEXT and "nonfatal" in words:
        return Meaning(INFORMATION, f"{entry.means} that is not fatal", _NOTHING)
    return entry
