"""Reads and follows the kernel log for Xids and other messages of failing hardware."""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_accel.drivers import kernel_messages
from pytest_accel.drivers.interface import DriverProblem

LOG = Path("/dev/kmsg")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)(?:, pid='?(\d+|<unknown>)'?)?(?:, (.*))?")
RECORD_BYTES = 8192
"""The size of the read buffer, larger than any record of the kernel."""
FACILITIES = 8
"""Priorities from this one on belong to programs that write into the log; the kernel's own are lower."""


def parse(line: str) -> dict[str, Any] | None:
    """Return the event in a line of the log, or None if there is none.

    An Xid has `address` (PCI), `number`, `pid` (None if unknown) and `text`; another message has `message` (its name
    in `kernel_messages`), `address` and `text`.
    """
    xid = _XID.search(line)
    if not xid and (other := kernel_messages.find(line)):
        message, address = other
        return {"message": message.name, "address": address, "text": line.partition(";")[2].partition("\n")[0].strip()}
    if not xid:
        return None
    address, number, pid, text = xid.groups()
    known = int(pid) if pid and pid.isdigit() else None
    return {"address": address.lower(), "number": int(number), "pid": known, "text": (text or "").strip()}


def is_at(event_address: str, device_address: str | None) -> bool:
    """Return True if the log's address ("0000:3b:00") is that of the device ("0000:3b:00.0")."""
    return bool(device_address) and str(device_address).lower().partition(".")[0] == event_address.partition(".")[0]


def follow(path: Path = LOG) -> Iterator[dict[str, Any]]:
    """Yield events (see `parse`) as they are logged, without end.

    Only records that are written after the call count. Raises DriverProblem if this user cannot read the log here, and
    at its end: the kernel log has none, but the file that a container shows in its place may.
    """
    return _events(_open(path, os.SEEK_END), path)


def past(path: Path = LOG) -> list[dict[str, Any]]:
    """Return the events (see `parse`) that the log holds, oldest first, each with its time `at` since the epoch.

    The log holds what was logged since the boot, or a part of it if it is full. Raises DriverProblem as `follow` does.
    """
    booted = time.time() - time.monotonic()
    log = _open(path, os.SEEK_SET)
    try:
        found = [(record, event) for record in _held(log, path) if (event := _event(record))]
    finally:
        os.close(log)
    return [{**event, "at": booted + _seconds(record)} for record, event in found]


def _open(path: Path, whence: int) -> int:
    """Open the log, at its oldest record (SEEK_SET) or at its end (SEEK_END). Raises DriverProblem."""
    try:
        log = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        os.lseek(log, 0, whence)
    except OSError as error:
        raise _unreadable(path, error) from None
    return log


def _unreadable(path: Path, error: OSError) -> DriverProblem:
    return DriverProblem(f"{path}: {error.strerror} (requires root, on the host instead of a container)")


def _held(log: int, path: Path) -> Iterator[bytes]:
    """Yield the records that an open log holds now. Raises DriverProblem if it cannot be read or has an end."""
    while True:
        try:
            record = os.read(log, RECORD_BYTES)
        except BrokenPipeError:  # the kernel overwrote records that were not read yet
            continue
        except BlockingIOError:
            return
        except OSError as error:
            raise _unreadable(path, error) from None
        if not record:
            raise DriverProblem(f"{LOG} is not the kernel log here: it has an end")
        yield record


def _events(log: int, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of an open log, without end."""
    poll = select.poll()
    poll.register(log, select.POLLIN)
    while True:
        poll.poll()
        yield from filter(None, map(_event, _held(log, path)))


def _seconds(record: bytes) -> float:
    """Return the time of a record in seconds since the boot; 0 if it states none."""
    stated = record.partition(b";")[0].split(b",")
    return int(stated[2]) / 1e6 if len(stated) > 2 and stated[2].isdigit() else 0.0


def _event(record: bytes) -> dict[str, Any] | None:
    """Return the event in a record, None if there is none or a program wrote it."""
    priority = record.partition(b",")[0]
    if priority.isdigit() and int(priority) >= FACILITIES:
        return None
    return parse(record.decode(errors="replace"))
