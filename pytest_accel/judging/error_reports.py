"""Xids, and other messages of failing hardware, that were reported while we measured: of which device, during which
probe, and whether we caused them. Pure."""

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
from pytest_accel.judging.error_counters import Window

METRICS = {"counters.xid_hardware": xids.HARDWARE, "counters.xid_application": xids.APPLICATION}

AFTER_KILL_SECONDS = 60.0
"""How long after the end of a worker the driver may still be busy with what it left."""
MOST_SHOWN = 50
"""So many reports are in the record; of a flood the rest is a number."""


@dataclass(frozen=True)
class ErrorReport:
    """One Xid of one device, or another `message` of a device or the node. `source` is who told; the kernel log alone
    has pid and text."""

    uuid: str
    number: int
    at: float
    source: str
    pid: int | None = None
    text: str = ""
    message: str = ""

    @property
    def title(self) -> str:
        return self.message or f"Xid {self.number}"

    @property
    def known(self) -> xids.Xid | Message:
        """What it means and what to do."""
        return MESSAGES[self.message] if self.message else xids.lookup(self.number, self.text)


@dataclass(frozen=True)
class Ended:
    """A worker process of a device that has ended, by us or by itself."""

    uuid: str
    pid: int
    at: float


@dataclass
class Reports:
    """What was heard. `deaf`: source to why it says nothing, None for one that is heard; `deaf_to`: of which devices
    it says nothing all the same; `missed`: why nobody listened for a while."""

    heard: list[ErrorReport] = field(default_factory=list)
    deaf: dict[str, str | None] = field(default_factory=dict)
    ended: list[Ended] = field(default_factory=list)
    deaf_to: dict[tuple[str, str], str] = field(default_factory=dict)
    missed: str | None = None

    def hear(self, event: Mapping[str, Any], addresses: Mapping[str, str | None]) -> str | None:
        """Enter an Xid or a line of the kernel log, of the devices at its address (`addresses` by UUID), else of the
        node if it concerns that. Returns what it says of a device that is none of ours."""
        name, address, text = event.get("message", ""), event.get("address", ""), event.get("text", "")
        found = [event["uuid"]] if "uuid" in event else []
        found += [uuid for uuid, place in addresses.items() if address and is_at(address, place)]
        if not found and name and MESSAGES[name].anywhere:
            found = [NODE]
        for subject in found:
            number, pid = event.get("number", 0), event.get("pid")
            self.heard.append(ErrorReport(subject, number, event["at"], event["source"], pid, text, name))
        what = f"{name or 'Xid ' + str(event.get('number'))} of {address or 'an unknown device'}"
        return None if found else f"{what}, which is none of the devices: {text}"

    def hearing(self, source: str, deaf: str | None, uuid: str | None = None) -> None:
        """A source is heard from now on, or says why not; of all devices, or of one."""
        if uuid is None:
            self.deaf[source] = deaf
        elif deaf:
            self.deaf_to[source, uuid] = deaf

    def unheard(self, uuid: str) -> str | None:
        """Why Xids of the device may have gone unheard, None if somebody listened all the time."""
        reasons = [why or self.deaf_to.get((source, uuid)) for source, why in self.deaf.items()]
        if reasons and None in reasons:
            return self.missed
        return "; ".join(filter(None, reasons)) or "nobody listens for them here"

    def of(self, uuid: str) -> list[ErrorReport]:
        """Each report of a device once: of two sources, the one that told of an Xid more often, with its text."""
        found: list[ErrorReport] = []
        own = [each for each in self.heard if each.uuid == uuid]
        for title in dict.fromkeys(each.title for each in own):
            same = [each for each in own if each.title == title]
            sources = dict.fromkeys(each.source for each in same)
            told: list[list[ErrorReport]] = [[each for each in same if each.source == source] for source in sources]
            best = max(told, key=lambda each: (len(each), any(report.text for report in each)))
            found += best
        return sorted(found, key=lambda report: report.at)

    def ours(self, report: ErrorReport) -> bool:
        """True for what the driver says of a worker of ours that has ended; NVML does not tell the pid."""
        ended = [each for each in self.ended if each.uuid == report.uuid]
        if report.message:
            after = [report.at - each.at for each in ended]
            return MESSAGES[report.message].after_kill and any(0 <= each <= AFTER_KILL_SECONDS for each in after)
        return report.number in xids.CLEANUP and any(report.pid in (None, each.pid) for each in ended)

    def measured(self, metric: str, device: Device, windows: Sequence[Window]) -> Measurement:
        """How many Xids of one kind there were."""
        found = self._counted(device.uuid, METRICS[metric], messages=False)
        unheard = None if found else self.unheard(device.uuid)
        trouble = Trouble("need", f"Xids cannot be heard: {unheard}") if unheard else None
        return _measured(metric, device.uuid, found, windows, trouble)

    def logged(self, metric: str, subject: str, windows: Sequence[Window]) -> Measurement:
        """How many other messages of one kind the kernel log had of a device, or of the node. Who may not read the log
        misses what counters, Xids and the devices themselves tell as a rule: it cannot be judged here."""
        found = self._counted(subject, LOGGED[parse(metric).variant], messages=True)
        deaf = self.deaf.get(SOURCE, "nobody follows it here")
        trouble = Trouble("need", self.missed) if self.missed else None
        if deaf:
            trouble = Trouble("not_applicable", f"the kernel log cannot be heard: {deaf}")
        if not windows and not found:
            trouble = Trouble("not_applicable", "no probe ran that could have caused one")
        return _measured(metric, subject, found, windows, None if found else trouble)

    def _counted(self, subject: str, kind: str, *, messages: bool) -> list[ErrorReport]:
        own = [each for each in self.of(subject) if bool(each.message) == messages]
        return [each for each in own if each.known.kind == kind and not self.ours(each)]


def _measured(
    metric: str, subject: str, found: Sequence[ErrorReport], windows: Sequence[Window], trouble: Trouble | None
) -> Measurement:
    if trouble is None and not windows:
        trouble = Trouble("need", "no probe ran that could have caused one")
    if trouble:
        return Measurement(metric, subject, "", trouble=trouble)
    details: Details = {"reports": [_shown(each, windows) for each in found[:MOST_SHOWN]]}
    if found:
        details["during"] = _said(found[0], windows)
    return Measurement(
        metric,
        subject,
        "count",
        len(found),
        started=windows[0].started,
        ended=windows[-1].ended,
        details=details,
    )


def _during(report: ErrorReport, windows: Sequence[Window]) -> str:
    """The probe that ran. An Xid that is told late is that of the last."""
    return next((each.during for each in windows if report.at <= each.ended), windows[-1].during)


def _said(report: ErrorReport, windows: Sequence[Window]) -> str:
    text = f" ({report.text})" if report.message else ""
    return f"{_during(report, windows)}: {report.title}, {report.known.means}; {report.known.do}{text}"


def _shown(report: ErrorReport, windows: Sequence[Window]) -> ReportedError:
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
