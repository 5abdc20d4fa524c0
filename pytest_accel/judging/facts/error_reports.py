"""The Xids and kernel messages of failing hardware that were reported during a run. Pure.

Each report is assigned to a device, to the probe that ran at the time, and to us if we caused it by ending a worker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.core.details import ErrorReport
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Measurement, Trouble
from pytest_accel.core.metric_name import parse
from pytest_accel.core.reasons import Note
from pytest_accel.drivers import xids
from pytest_accel.drivers.kernel_log import is_at
from pytest_accel.drivers.kernel_messages import LOGGED, SOURCE, known, messages
from pytest_accel.judging.facts.error_counters import ReadingWindow

METRICS = {"counters.xid_hardware": xids.HARDWARE, "counters.xid_application": xids.APPLICATION}

AFTER_KILL_SECONDS = 60.0
"""The time after the end of a worker in which the driver may still be cleaning up after it."""
TOGETHER_SECONDS = 30.0
"""The time within which reports may follow from one fault (NVIDIA's Xid catalogue, 145)."""
EARLIER, BUS, HIVE = "earlier", "bus", "hive"
"""The origins of a message: an earlier failure of a device, its loss from the bus, the same message of another."""
OF_BUS = ("device-lost", "host-link-errors", "recovery-asked")
"""The fault codes of events that take a device off the bus, a reset among them."""
MOST_SHOWN = 50
"""The number of reports that the record holds in full; the value counts all of them."""


@dataclass(frozen=True)
class WorkerEnd:
    """A worker process of a device that has ended, whether we ended it or not."""

    uuid: str
    pid: int
    at: float


@dataclass
class ErrorReports:
    """The error reports of a run, and which sources could be followed."""

    reports: list[ErrorReport] = field(default_factory=list)
    deaf: dict[str, str | None] = field(default_factory=dict)
    """Each source with the reason why it cannot be followed, None if it is followed."""
    worker_ends: list[WorkerEnd] = field(default_factory=list)
    deaf_to: dict[tuple[str, str], str] = field(default_factory=dict)
    """The reason why a source does not report about one device, by source and UUID."""
    gap: str | None = None
    """The reason why reports may have been missed for a part of the run, or None."""

    def hear(self, event: Mapping[str, Any], addresses: Mapping[str, str | None]) -> str | None:
        """Enter an Xid or a message of the kernel log.

        It belongs to the devices at its PCI address (`addresses` maps UUID to address), or to the only one that it
        names, such as the one below a port; else to the node if the kind of message concerns the node. Returns a
        sentence about a report that belongs to none of them, else None.
        """
        name, address, text = event.get("message", ""), event.get("address", ""), event.get("text", "")
        subjects = [event["uuid"]] if "uuid" in event else []
        subjects += [uuid for uuid, pci in addresses.items() if address and is_at(address, pci)]
        uuids = [uuid for uuid, pci in addresses.items() if any(is_at(other, pci) for other in event.get("named", ()))]
        if not subjects and len(uuids) == 1:
            subjects = uuids
        if not subjects and name and (messages()[name].anywhere or not address):
            subjects = [NODE]
        for subject in subjects:
            number, pid = event.get("number", 0), event.get("pid")
            self.reports.append(ErrorReport(subject, number, event["at"], event["source"], pid, text, name))
        title = f"{name or 'Xid ' + str(event.get('number'))} of {address or 'an unknown device'}"
        return None if subjects else f"{title}, which is not a device of this run: {text}"

    def hearing(self, source: str, problem: str | None, uuid: str | None = None) -> None:
        """Note that a source is followed from now on, or the `problem` why it is not, for all devices or for one."""
        if uuid is None:
            self.deaf[source] = problem
        elif problem:
            self.deaf_to[source, uuid] = problem

    def gap_of(self, uuid: str) -> str | None:
        """Return the reason why Xids of the device may have been missed; None if a source was followed throughout."""
        reasons = [reason or self.deaf_to.get((source, uuid)) for source, reason in self.deaf.items()]
        if reasons and None in reasons:
            return self.gap
        return "; ".join(filter(None, reasons)) or "no source reports them here"

    def reports_of(self, uuid: str) -> list[ErrorReport]:
        """Return the reports of a device in order of time, without duplicates.

        If several sources reported the same error, the source with the most reports of it counts, on a tie one with
        texts.
        """
        unique: list[ErrorReport] = []
        reports = [report for report in self.reports if report.uuid == uuid]
        for copies in grouped(reports, lambda report: report.title).values():
            groups = grouped(copies, lambda report: report.source).values()
            best = max(groups, key=lambda group: (len(group), any(report.text for report in group)))
            unique += best
        return sorted(unique, key=lambda report: report.at)

    def is_cleanup(self, report: ErrorReport) -> bool:
        """Return True if the driver reports the clean-up after one of our workers."""
        workers = [worker for worker in self.worker_ends if worker.uuid == report.uuid]
        if report.message:
            delays = [report.at - worker.at for worker in workers]
            return messages()[report.message].after_kill and any(0 <= delay <= AFTER_KILL_SECONDS for delay in delays)
        # NVML does not report the pid, so any worker of the device that has ended may be meant
        return report.number in xids.CLEANUP and any(report.pid in (None, worker.pid) for worker in workers)

    def causes(self) -> list[ErrorReport]:
        """Return the reports of devices that others may follow from, one of each kind and second."""
        by_fault: dict[object, ErrorReport] = {}
        for report in self.reports:
            if report.uuid != NODE and not self.is_cleanup(report):
                kind = known(report).kind, xids.nearness(report.number, report.text)
                by_fault.setdefault((report.uuid, report.title, *kind, int(report.at)), report)
        return [*by_fault.values()]

    def cause(self, report: ErrorReport, causes: Sequence[ErrorReport]) -> ErrorReport | None:
        """Return the report, one of `causes`, that this report follows from; None if it stands for itself.

        The driver names an earlier Xid of the same device; a port, a switch or the driver report as well that a device
        failed, and so does the other end of an NVLink. No failure of one device follows from that of another, unless
        the driver could not reset a hive.
        """
        named_number, nearness = xids.caused_by(report.text), xids.nearness(report.number, report.text)
        message = messages().get(report.message)
        follows = message.follows if message and (report.uuid == NODE or message.follows == HIVE) else ""
        for other in causes if named_number or nearness or follows else ():
            delay = report.at - other.at
            if other.uuid == report.uuid:
                if named_number == other.number != report.number and delay >= 0:
                    return other
            elif abs(delay) <= TOGETHER_SECONDS and known(other).kind == xids.HARDWARE:
                excluded = (
                    (follows == EARLIER and delay < 0)
                    or (follows == BUS and known(other).code not in OF_BUS)
                    or (follows == HIVE and (delay <= 0 or other.message != report.message))
                )
                if (follows and not excluded) or 0 < nearness < xids.nearness(other.number, other.text):
                    return other
        return None

    def measurement(self, metric: str, subject: str, windows: Sequence[ReadingWindow]) -> Measurement:
        """Return the number of Xids, or kernel messages, of one kind (`metric`) on a device or node in `windows`."""
        kind, causes = _kind(metric), self.causes()
        reports = [report for report in self.reports_of(subject) if bool(report.message) != (metric in METRICS)]
        reports = [report for report in reports if known(report).kind == kind]
        reports = [report for report in reports if not (self.is_cleanup(report) or self.cause(report, causes))]
        if metric in METRICS:
            unheard = None if reports else self.gap_of(subject)
            trouble = Trouble("need", f"Xids cannot be observed: {unheard}") if unheard else None
            return _measured(metric, subject, reports, windows, trouble)
        deaf = self.deaf.get(SOURCE, "it is not followed here")
        silent = f"the kernel log cannot be read: {deaf}" if deaf else self.deaf_to.get((SOURCE, subject))
        trouble = Trouble("need", self.gap) if self.gap else None
        if silent:  # not unmeasured: counters, Xids and the devices themselves report most of the same errors
            trouble = Trouble("not_applicable", silent)
        if not windows and not reports:
            trouble = Trouble("not_applicable", "no probe ran that could have caused one")
        return _measured(metric, subject, reports, windows, None if reports else trouble)


def counts_reports(metric: str) -> bool:
    """Return True for a metric that counts Xids or messages of the kernel log."""
    return _kind(metric) is not None


def _kind(metric: str) -> str | None:
    return METRICS.get(metric) or LOGGED.get(parse(metric).variant)


def _measured(
    metric: str, subject: str, reports: Sequence[ErrorReport], windows: Sequence[ReadingWindow], trouble: Trouble | None
) -> Measurement:
    if trouble is None and not windows:
        trouble = Trouble("need", "no probe ran that could have caused one")
    if trouble:
        return Measurement(metric, subject, "", trouble=trouble)
    return Measurement(
        metric,
        subject,
        "count",
        len(reports),
        started=windows[0].started,
        ended=windows[-1].ended,
        notes=(Note("during", _sentence(reports[0], windows)),) if reports else (),
        details={"reports": [replace(report, during=_during(report, windows)) for report in reports[:MOST_SHOWN]]},
    )


def _during(report: ErrorReport, windows: Sequence[ReadingWindow]) -> str:
    """Return the probe that ran at the time of the report; the last one for a report that arrived afterwards."""
    return next((window.during for window in windows if report.at <= window.ended), windows[-1].during)


def _sentence(report: ErrorReport, windows: Sequence[ReadingWindow]) -> str:
    text = f" ({report.text})" if report.message else ""
    return f"{_during(report, windows)}: {report.title}, {known(report).means}; {known(report).do}{text}"
