"""Reads and follows the kernel log for Xids and other messages of failing hardware."""

from __future__ import annotations

import os
import re
import select
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_accel.core import clock
from pytest_accel.drivers import kernel_messages
from pytest_accel.drivers.interface import DriverProblem

LOG = Path("/dev/kmsg")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+)\b(?:, pid='?(\d+|<unknown>)'?)?(?:, (.*))?")
"""A MIG instance may stand behind the address: "(PCI:0000:3b:00 GPU-I:03)"."""
_ADDRESS = re.compile(r"\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b", re.IGNORECASE)
_SOURCE = re.compile(r"(\w{4,8}):\S+: DPC: containment event, status:\w+ source:0x([0-9a-f]{2})([0-9a-f]{2})")
_BELOW = re.compile(r" device_id: (\w{4,8}):(?:.*?) secondary_bus: 0x(?!00)([0-9a-f]{2})", re.DOTALL)
_FIRMWARE = re.compile(r"^(\{\d+\})?\[Hardware Error\]: ")
"""The beginning of every line of a report of the firmware; the number tells reports apart."""
_LINES = (
    (r"(?P<head>\[Hardware Error\]: Hardware error from|BERT: Error records)|(?P<section>\]:  Error \d+, type: )",
     _FIRMWARE.pattern),
    (r"(?P<received>AER: .*Uncorrect.* received)|(?P<contained>DPC: containment)|(?P<error>Bus Error: severity=Uncorr)",
     r"(?P<below>AER: can't recover)|error status/mask=|: {3,}\[ ?\d+\] |DPC: "),
    (r"(?P<lost>NVRM: The NVIDIA GPU [0-9a-fA-F:.]+$)", r"(?P<below>NVRM: (?:\(PCI ID|fallen off|installed in this))"),
)  # fmt: skip
"""The lines of reports of several lines: the parts of which a report has one each, and the others. A line belongs to
the report with its mark or of the device that it speaks of; one of a device `below` to the last report. A firmware's
report has a part for each section (Linux 6.12 to 6.16: drivers/firmware/efi/cper.c, drivers/pci/pcie/aer.c and dpc.c;
NVIDIA's osapi.c)."""
_KINDS = [(re.compile(parts), re.compile(continuation)) for parts, continuation in _LINES]
TOGETHER = 1.0
"""Seconds without a further line after which a report is whole."""
MOST_LINES = 200
"""Lines of one report; more are none of it."""
SHOWN = 300
"""Characters of a report that are kept."""
RECORD_BYTES = 8192
"""The size of the read buffer, larger than any record of the kernel."""
FACILITIES = 8
"""Priorities from this one on belong to programs that write into the log; the kernel's own are lower."""


def parse(report: str) -> dict[str, Any] | None:
    """Return the event in a report, one line of the log or several, or None if there is none.

    An Xid has `address` (PCI), `number`, `pid` (None if unknown) and `text`; another message has `message` (its name
    in `kernel_messages`), `address`, `text`, and under `named` all PCI addresses in it.
    """
    if match := kernel_messages.find(report):
        message, address = match
        text = "; ".join(_FIRMWARE.sub("", line).strip() for line in report.splitlines())[:SHOWN]
        return {"message": message.name, "address": address, "text": text, "named": sorted(_named(report))}
    xid = _XID.search(report)
    if not xid:
        return None
    address, number, pid, text = xid.groups()
    process = int(pid) if pid and pid.isdigit() else None
    return {"address": address.lower(), "number": int(number), "pid": process, "text": (text or "").strip()}


def _named(report: str) -> set[str]:
    """Return the PCI addresses that a report names, with those that it states in another form.

    These are the device that sent an error to a port, as a number, and the one on the bus behind a port.
    """
    sent = {
        f"{domain}:{bus}:{int(byte, 16) >> 3:02x}.{int(byte, 16) & 7}" for domain, bus, byte in _SOURCE.findall(report)
    }
    downstream = {f"{domain}:{bus}:00.0" for domain, bus in _BELOW.findall(report)}
    return {address.lower() for address in {*_ADDRESS.findall(report), *sent, *downstream}}


@dataclass(eq=False)
class _Report:
    """A report that may go on: kind, last time (`seconds` since the boot), mark or devices, parts, and lines."""

    kind: int
    seconds: float
    subjects: set[str | None]
    parts: set[str | None]
    lines: list[str]


class Reports:
    """Joins the lines of reports of several lines, between which others may stand, and finds the events in them."""

    def __init__(self) -> None:
        self.open: list[_Report] = []
        """The reports that may go on, the last one at the end."""

    def take(self, record: bytes) -> list[dict[str, Any]]:
        """Take a record of the log, and return the events that are whole, each with its seconds since the boot as `at`.

        A record that a program wrote holds none.
        """
        seconds, text = _seconds(record), _text(record)
        events = self.end([report for report in self.open if report.seconds < seconds - TOGETHER])
        for kind, (parts, continuation) in enumerate(_KINDS):
            part = parts.search(text)
            goes_on = part or continuation.search(text)
            if not goes_on:
                continue
            mark = _FIRMWARE.match(text)
            # a report of the firmware has a mark, the others name devices
            subjects: set[str | None] = {*_named(text)} if kind else {mark and mark[1]}
            candidates = [report for report in self.open if report.kind == kind]
            report = next((candidate for candidate in reversed(candidates) if subjects & candidate.subjects), None)
            if goes_on.lastgroup == "below":
                report = report or next(reversed(candidates), None)
            if part and (report is None or part.lastgroup in report.parts):
                heads = report.lines[:1] if report and part.lastgroup == "section" else []
                events += self.end([report] if report else [])
                self.open.append(_Report(kind, seconds, subjects, {part.lastgroup}, [*heads, text]))
                return events
            if report and len(report.lines) < MOST_LINES:
                report.seconds = seconds
                report.subjects |= subjects if part else set()
                report.parts |= {part.lastgroup} if part else set()
                report.lines.append(text)
                return events
        return events + _events_in(seconds, text)

    def end(self, reports: Sequence[_Report] | None = None) -> list[dict[str, Any]]:
        """Return the events of reports to which nothing more belongs, by default of all."""
        finished = self.open if reports is None else reports
        self.open = [report for report in self.open if report not in finished]
        return [event for report in finished for event in _events_in(report.seconds, "\n".join(report.lines))]


def _events_in(seconds: float, report: str) -> list[dict[str, Any]]:
    event = parse(report)
    return [{"at": seconds, **event}] if event else []


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
    booted, reports = clock.epoch(), Reports()
    log = _open(path, os.SEEK_SET)
    try:
        events = [event for record in _records(log, path) for event in reports.take(record)] + reports.end()
    finally:
        os.close(log)
    return [{**event, "at": booted + event["at"]} for event in events]


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


def _records(log: int, path: Path) -> Iterator[bytes]:
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
        if not record:  # the file that a container shows in place of the log may end
            raise DriverProblem(f"{LOG} is not the kernel log here: it has an end")
        yield record


def _events(log: int, path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of an open log, without end."""
    poll, reports = select.poll(), Reports()
    poll.register(log, select.POLLIN)
    while True:
        waited = poll.poll(1000 * TOGETHER if reports.open else None)
        for event in [] if waited else reports.end():
            yield _now(event)
        for record in _records(log, path):
            yield from map(_now, reports.take(record))


def _now(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without its time since the boot."""
    return {name: value for name, value in event.items() if name != "at"}


def _seconds(record: bytes) -> float:
    """Return the time of a record in seconds since the boot; 0 if it states none."""
    fields = record.partition(b";")[0].split(b",")
    return int(fields[2]) / 1e6 if len(fields) > 2 and fields[2].isdigit() else 0.0


def _text(record: bytes) -> str:
    """Return the first line of a record's text; an empty one of a record that a program wrote."""
    priority = record.partition(b",")[0]
    if priority.isdigit() and int(priority) >= FACILITIES:
        return ""  # a program wrote it
    return record.partition(b";")[2].partition(b"\n")[0].decode(errors="replace").strip()
