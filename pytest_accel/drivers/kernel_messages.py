"""The kernel messages of failing hardware other than Xids, with meaning and remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pytest_accel.core.details import ErrorReport
from pytest_accel.drivers.xids import APPLICATION, HARDWARE, Meaning, kernel_reports, lookup

SOURCE = "kernel log"
LOGGED = {"log_hardware": HARDWARE, "log_advice": APPLICATION}
"""The kind of message that is counted, by variant of the metrics `counters.*` and `host_counters.*`."""

_ADDRESS = r"(?P<address>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_GPU = rf"amdgpu {_ADDRESS}: (?:amdgpu: )?(?:\{{\d+\}} ?)?"
_AER = rf"{_ADDRESS}: (?:AER: )?(?:PCIe Bus Error: severity=|Multiple )?Uncorrect(?:ed|able) "
_OF_PCIE = rf".*section_type: PCIe error.*?device_id: {_ADDRESS}"

_PLACEHOLDERS = {"%of_pcie%": _OF_PCIE, "%aer%": _AER, "%gpu%": _GPU, "%address%": _ADDRESS}


@dataclass(frozen=True, kw_only=True)
class Message(Meaning):
    """A kernel message, recognised by a pattern whose group `address` is the PCI address.

    `kind` is that of Xids; advisory messages are `application`. A message with `anywhere` about a device that is not
    an accelerator concerns the node; one without is ignored then. `after_kill` marks what the driver may log after a
    process was killed. `follows` says after what ports, switches and the driver may log it: a failure of `any`
    accelerator, an `earlier` one, its loss from the `bus`, or the same message of another one in its `hive`.
    """

    name: str
    pattern: re.Pattern[str]
    anywhere: bool = True
    after_kill: bool = False
    follows: str = ""


@cache
def messages() -> Mapping[str, Message]:
    """Return the messages of the table by name, in its order."""
    return {row["name"]: _message(**row) for row in kernel_reports()["messages"]}


def _message(pattern: str = "", texts: Sequence[str] = (), **row: Any) -> Message:
    """Return a message of the table, its pattern with the alternative texts behind it and without placeholders."""
    expression = f"{pattern}(?:{'|'.join(texts)})" if texts else pattern
    for name, replacement in _PLACEHOLDERS.items():
        expression = expression.replace(name, replacement)
    return Message(pattern=re.compile(expression, re.DOTALL), **row)


def find(report: str) -> tuple[Message, str] | None:
    """Return the message that lines of the log match with its PCI address ("" for none), or None."""
    for message in messages().values():
        if match := message.pattern.search(report):
            return message, (match.groupdict().get("address") or "").lower()
    return None


def known(report: ErrorReport) -> Meaning:
    """Return the entry of the table of Xids or of messages: what a report means, and what to do."""
    return messages().get(report.message) or lookup(report.number, report.text)
