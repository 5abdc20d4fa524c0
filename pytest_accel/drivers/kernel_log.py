"""Xids and other messages of failing hardware in the kernel log, from the moment that it is opened."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_accel.drivers import kernel_messages
from pytest_accel.drivers.interface import DriverProblem

LOG = Path("/dev/kmsg")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(?:, pid='?(\d+|<unknown>)'?)?(?:, (.*))?")
RECORD_BYTES = 8192
"""Longer than any record of the kernel's."""
FACILITIES = 8
"""Priorities from here on are those of programs that write into the log; the kernel's are below."""


def parse(line: str) -> dict[str, Any] | None:
    """The Xid in a line: PCI address, number, pid (None if it is not told), text. Or the name of another message."""
    found = _XID.search(line)
    if not found and (other := kernel_messages.find(line)):
        message, address = other
        return {"message": message.name, "address": address, "text": line.partition(";")[2].partition("\n")[0].strip()}
    if not found:
        return None
    address, number, pid, text = found.groups()
    known = int(pid) if pid and pid.isdigit() else None
    return {"address": address.lower(), "number": int(number), "pid": known, "text": (text or "").strip()}


def is_at(event_address: str, device_address: str | None) -> bool:
    """True if the log's "0000:3b:00" is the device's "0000:3b:00.0"."""
    return bool(device_address) and str(device_address).lower().partition(".")[0] == event_address.partition(".")[0]


def follow(path: Path = LOG) -> Iterator[dict[str, Any]]:
    """Xids and messages as they come, for ever. Raises DriverProblem if this user cannot read the log here."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        os.lseek(log, 0, os.SEEK_END)
    except OSError as error:
        raise DriverProblem(f"{path}: {error.strerror} (takes root, on the host instead of a container)") from None
    return _events(log)


def _events(log: int) -> Iterator[dict[str, Any]]:
    """Raises DriverProblem at its end: the kernel's has none, what a container shows in its place may."""
    poll = select.poll()
    poll.register(log, select.POLLIN)
    while True:
        poll.poll()
        try:
            record = os.read(log, RECORD_BYTES)
        except (BlockingIOError, BrokenPipeError):  # the latter: the kernel overwrote what we had not read yet
            continue
        if not record:
            raise DriverProblem(f"{LOG} is not the kernel's here: it has an end")
        priority = record.partition(b",")[0]
        if priority.isdigit() and int(priority) >= FACILITIES:
            continue
        if event := parse(record.decode(errors="replace")):
            yield event
