"""Counts Xids and kernel messages of failing hardware that were reported during a run. Pure.

Each report is assigned to a device, to the probe that ran at the time, and to us if we caused it by ending a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.core.details import Details, ReportedError
from pytest_accel.core.measurement import NODE, Device, Measurement, Trouble
from pytest_accel.core.metrics import parse
from pytest_accel.drivers import xids
from pytest_accel.drivers.kernel_log import is_at
from pytest_accel.drivers.kernel_messages import LOGGED, MESSAGES, SOURCE, Message
from pytest_accel.judging.error_counters import ReadingWindow

METRICS = {"counters.xid_hardware": xids.HARDWARE, "counters.xid_application": xids.APPLICATION}

AFTER_KILL_SECONDS = 60.0
"""The time after the end of a worker in which the driver may still be cleaning up after it."""
MOST_SHOWN = 50
"""The number of reports that the record holds in full; the value counts all of them."""


@dataclass(frozen=True)
class ErrorReport:
    """One Xid of one device, or another `message` about a device or the node.

    `at` is in seconds since the epoch. `source` names the reporter; only the kernel log knows pid and text.
    """

    uuid: str
    number: int
    at: float
    source: str
    pid: int | None = None
    text: str = ""
    message: str = ""

    @property
    def title(self) -> str:
        """The name of the message, or "Xid 79"."""
        return self.message or f"Xid {self.number}"

    @property
    def known(self) -> xids.Xid | Message:
        """The table entry: what the report means and what to do."""
        return MESSAGES[self.message] if self.message else xids.lookup(self.number, self.text)


@dataclass(frozen=True)
class Ended:
    """A worker process of a device that has ended, whether we ended it or not."""

    uuid: str
    pid: int
    at: float


@dataclass
class ErrorReports:
    """The error reports of a run, and which sources could be followed."""

    heard: list[ErrorReport] = field(default_factory=list)
    deaf: dict[str, str | None] = field(default_factory=dict)
    """Each source with the reason why it cannot be followed, None if it is followed."""
    ended: list[Ended] = field(default_factory=list)
    deaf_to: dict[tuple[str, str], str] = field(default_factory=dict)
    """The reason why a source does not report about one device, by source and UUID."""
    missed: str | None = None
    """The reason why reports may have been missed for a part of the run, or None."""

    def hear(self, event: Mapping[str, Any], addresses: Mapping[str, str | None]) -> str | None:
        """Enter an Xid or a message of the kernel log.

        It belongs to the devices at its PCI address (`addresses` maps UUID to address), else to the node if the kind
        of message concerns the node. Returns a sentence about a report that belongs to neither, else None.
        """
        name, address, text = event.get("message", ""), event.get("address", ""), event.get("text", "")
        subjects = [event["uuid"]] if "uuid" in event else []
        subjects += [uuid for uuid, place in addresses.items() if address and is_at(address, place)]
        if not subjects and name and MESSAGES[name].anywhere:
            subjects = [NODE]
        for subject in subjects:
            number, pid = event.get("number", 0), event.get("pid")
            self.heard.append(ErrorReport(subject, number, event["at"], event["source"], pid, text, name))
        title = f"{name or 'Xid ' + str(event.get('number'))} of {address or 'an unknown device'}"
        return None if subjects else f"{title}, which is not a device of this run: {text}"

    def hearing(self, source: str, deaf: str | None, uuid: str | None = None) -> None:
        """Note that a source is followed from now on (`deaf` is None) or why it is not, for all devices or for one."""
        if uuid is None:
            self.deaf[source] = deaf
        elif deaf:
            self.deaf_to[source, uuid] = deaf

    def unheard(self, uuid: str) -> str | None:
        """Return the reason why Xids of the device may have been missed; None if a source was followed throughout."""
        reasons = [why or self.deaf_to.get((source, uuid)) for source, why in self.deaf.items()]
        if reasons and None in reasons:
            return self.missed
        return "; ".join(filter(None, reasons)) or "no source reports them here"

    def of(self, uuid: str) -> list[ErrorReport]:
        """Return the reports of a device in order of time, without duplicates.

        If several sources reported the same error, the source with the most reports of it counts, on a tie one with
        texts.
        """
        unique: list[ErrorReport] = []
        own = [each for each in self.heard if each.uuid == uuid]
        for title in dict.fromkeys(each.title for each in own):
            same = [each for each in own if each.title == title]
            sources = dict.fromkeys(each.source for each in same)
            by_source: list[list[ErrorReport]] = [[each for each in same if each.source == name] for name in sources]
            best = max(by_source, key=lambda each: (len(each), any(report.text for report in each)))
            unique += best
        return sorted(unique, key=lambda report: report.at)

    def ours(self, report: ErrorReport) -> bool:
        """Return True if the driver reports the clean-up after one of our workers.

        NVML does not report the pid, so that any worker of the device that has ended may be meant.
        """
        ended = [each for each in self.ended if each.uuid == report.uuid]
        if report.message:
            after = [report.at - each.at for each in ended]
            return MESSAGES[report.message].after_kill and any(0 <= each <= AFTER_KILL_SECONDS for each in after)
        return report.number in xids.CLEANUP and any(report.pid in (None, each.pid) for each in ended)

    def measured(self, metric: str, device: Device, windows: Sequence[ReadingWindow]) -> Measurement:
        """Return the number of Xids of one kind (`metric`) that the device had during the `windows`."""
        reports = self._counted(device.uuid, METRICS[metric], messages=False)
        unheard = None if reports else self.unheard(device.uuid)
        trouble = Trouble("need", f"Xids cannot be observed: {unheard}") if unheard else None
        return _measured(metric, device.uuid, reports, windows, trouble)

    def logged(self, metric: str, subject: str, windows: Sequence[ReadingWindow]) -> Measurement:
        """Return the number of kernel messages of one kind (`metric`) about a device or the node.

        An unreadable kernel log makes the metric not applicable rather than unmeasured: counters, Xids and the
        devices themselves report most of the same errors.
        """
        reports = self._counted(subject, LOGGED[parse(metric).variant], messages=True)
        deaf = self.deaf.get(SOURCE, "it is not followed here")
        trouble = Trouble("need", self.missed) if self.missed else None
        if deaf:
            trouble = Trouble("not_applicable", f"the kernel log cannot be read: {deaf}")
        if not windows and not reports:
            trouble = Trouble("not_applicable", "no probe ran that could have caused one")
        return _measured(metric, subject, reports, windows, None if reports else trouble)

    def _counted(self, subject: str, kind: str, *, messages: bool) -> list[ErrorReport]:
        own = [each for each in self.of(subject) if bool(each.message) == messages]
        return [each for each in own if each.known.kind == kind and not self.ours(each)]


def _measured(
    metric: str, subject: str, reports: Sequence[ErrorReport], windows: Sequence[ReadingWindow], trouble: Trouble | None
) -> Measurement:
    if trouble is None and not windows:
        trouble = Trouble("need", "no probe ran that could have caused one")
    if trouble:
        return Measurement(metric, subject, "", trouble=trouble)
    details: Details = {"reports": [_shown(each, windows) for each in reports[:MOST_SHOWN]]}
    if reports:
        details["during"] = _sentence(reports[0], windows)
    return Measurement(
        metric,
        subject,
        "count",
        len(reports),
        started=windows[0].started,
        ended=windows[-1].ended,
        details=details,
    )


def _during(report: ErrorReport, windows: Sequence[ReadingWindow]) -> str:
    """Return the probe that ran at the time of the report; the last one for a report that arrived afterwards."""
    return next((each.during for each in windows if report.at <= each.ended), windows[-1].during)


def _sentence(report: ErrorReport, windows: Sequence[ReadingWindow]) -> str:
    text = f" ({report.text})" if report.message else ""
    return f"{_during(report, windows)}: {report.title}, {report.known.means}; {report.known.do}{text}"


def _shown(report: ErrorReport, windows: Sequence[ReadingWindow]) -> ReportedError:
    return {
        "uuid": report.uuid,
        "number": report.number,
        "at": report.at,
        "source": report.source,
        "pid": report.pid,
        "text": report.text,
        "message": report.message,
        "during": _during(report, windows),
    }
