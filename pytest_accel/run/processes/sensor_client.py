"""What watches the devices while they work: the sensor process, asked, heard, and started again when it dies."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from pytest_accel.core import clock
from pytest_accel.core.host_facts import COUNTED_HOST_FACTS, HOST_FACTS
from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.messages import Message
from pytest_accel.core.metrics import parse
from pytest_accel.drivers.kernel_messages import LOGGED
from pytest_accel.judging import host_counters
from pytest_accel.judging.error_counters import Ledger
from pytest_accel.judging.error_reports import METRICS as XIDS
from pytest_accel.judging.error_reports import Reports
from pytest_accel.judging.host_counters import Seen
from pytest_accel.judging.preconditions import others_at_work
from pytest_accel.run.phases import Timeline
from pytest_accel.run.processes.programs import REAL, Processes
from pytest_accel.run.processes.readings import Telemetry
from pytest_accel.run.processes.supervisor import Child, listen


class SensorClient:
    """The sensor of a run, and what was heard from it: readings, counters, reports of errors, notes."""

    def __init__(self, patience: float) -> None:
        self.patience = patience
        self.processes = REAL
        self.log = Path(os.devnull)
        self.telemetry = Telemetry()
        self.counters = Ledger()
        self.reports = Reports()
        self.notes: list[str] = []
        self.profilers: list[Message] = []
        """Who profiled or diagnosed devices on this host when it was asked whether they are idle."""
        self.timeline = Timeline()
        self.foreign: dict[str, str] = {}
        """UUID to who else was at work on the device when the last probe had ended."""
        self.addresses: dict[str, str | None] = {}
        """Of every device that was ever found, on the PCI bus."""
        self._host_before: Seen | None = None
        self._host_after: Seen | None = None
        """Of the host's counters, after the last probe so far; None until somebody asks."""
        self._vendor: str | None = None
        self._sensors: list[Child] = []
        """Those that were started, the one that is asked last."""
        self._turn = 0

    def begin(self, processes: Processes, log: Path) -> None:
        """Say which program is the sensor and where it logs, before it is asked anything."""
        self.processes, self.log = processes, log

    @property
    def child(self) -> Child | None:
        """The sensor process, None before it is started; it may have ended."""
        return self._sensors[-1] if self._sensors else None

    @property
    def alive(self) -> list[Child]:
        """The sensor process if there is one to hear."""
        return [child for child in self._sensors[-1:] if child.ended is None]

    @property
    def pids(self) -> set[int]:
        """Of every sensor that was started."""
        return {child.pid for child in self._sensors}

    def discover(self, vendor: str | None) -> Message:
        """The sensor's answer: devices, problems, what the machine shows; or why there is none."""
        self._vendor = vendor
        self._sensors.append(self.processes.sensor(self.log))
        answer = self._ask("devices", "discover", want=vendor)
        self.addresses.update({each["uuid"]: each.get("pci_address") for each in answer.get("devices", [])})
        return answer

    def not_idle(self) -> dict[str, str] | None:
        """UUID to reason of every device that is in use before we begin; None if nobody can tell."""
        self._wake_sensor()
        answer = self._ask("idle", "idle")
        reasons, self.profilers = answer.get("reasons"), answer.get("profilers", [])
        if reasons is None:
            self.note("nobody could tell whether the devices were idle before the run")
        return None if reasons is None else dict(reasons)

    def health(self) -> dict[str, dict[str, Any]] | None:
        """UUID to the facts of each device that may have changed, {"lost": why} for one that does not answer.

        None if nobody can tell.
        """
        self._wake_sensor()
        facts = self._ask("health", "health").get("facts")
        return None if facts is None else dict(facts)

    def host(self, names: Iterable[str] = tuple(HOST_FACTS)) -> dict[str, Message]:
        """What the sensor could read of the host, by fact; why there is nothing under each that is missing."""
        self._wake_sensor()
        answer = self._ask("host", "host", names=list(names))
        facts: dict[str, Message] = answer.get("facts", {})
        silent = {"unreadable": f"the host could not be read: {answer.get('reason')}"}
        return {name: facts.get(name, silent) for name in names}

    def host_counted(self, metric: str) -> Measurement:
        """One metric `host_counters.*`: what the host counted, or the kernel said of it, since the first probe."""
        if parse(metric).variant in LOGGED:
            return self.reports.logged(metric, NODE, next(iter(self.counters.windows.values()), []))
        if self._host_after is None:
            self._host_after = self._host_counters()
        return host_counters.measured(metric, self._host_before, self._host_after)

    def _host_counters(self) -> Seen:
        answers = self.host(COUNTED_HOST_FACTS)
        return Seen(clock.now(), answers)

    def counted(self, metric: str, device: Device) -> Measurement:
        """One metric `counters.*` of one device: what it counted, or was reported of it, since the first probe."""
        windows = self.counters.windows.get(device.uuid, [])
        if metric in XIDS:
            return self.reports.measured(metric, device, windows)
        if parse(metric).variant in LOGGED:
            return self.reports.logged(metric, device.uuid, windows)
        return self.counters.measured(metric, device)

    def count(self, during: str, ours: Collection[int] = ()) -> None:
        """Read the counters of every device: after the readings of the telemetry, never beside what is timed.

        Those of the host are read at the start, and again when somebody asks what moved. `ours` are the processes of
        this run that may be on the devices.
        """
        if not self.counters.readings:
            self._host_before = self._host_counters()
        self._host_after = None
        answers = self.health()
        self.counters.read(clock.now(), during, answers, self.addresses)
        pids = self.pids.union(ours)
        self.foreign = {uuid: why for uuid, facts in (answers or {}).items() if (why := others_at_work(facts, pids))}

    def _ask(self, answer: str, event: str, patience: float | None = None, **fields: Any) -> Message:
        """Ask the sensor and wait for its answer, no longer than the patience of the run."""
        with self.timeline.on("starting" if event == "discover" else "waiting"):
            return self._answer(answer, event, patience, **fields)

    def _answer(self, answer: str, event: str, patience: float | None = None, **fields: Any) -> Message:
        if not self.alive:
            return {"event": "died", "reason": "the sensor process has ended"}
        (sensor,) = self.alive
        sensor.send(event, **fields)
        patience = self.patience if patience is None else patience
        until = time.monotonic() + patience
        while (left := until - time.monotonic()) > 0:
            arrived = [message for _, message in listen([sensor], min(left, 0.5))]
            for message in arrived:  # all of them: what came after the answer is heard as well
                self.hear(sensor, message)
            found = [message for message in arrived if message["event"] in (answer, "died", "error")]
            if found:
                return found[0]
        why = sensor.kill(f"the management library did not answer for {patience:g} s")
        self._miss(why)
        self.note(f"the sensor was stopped: {why}")
        return {"event": "died", "reason": why}

    def _wake_sensor(self) -> None:
        """A sensor that died or hung is started once more; what it missed is missing."""
        for child, message in listen(self.alive, 0.0):
            self.hear(child, message)
        if len(self._sensors) == 1 and not self.alive:
            self.discover(self._vendor)

    def watch(self, hz: float) -> None:
        """Have every device read `hz` times a second, until `rest`."""
        self._wake_sensor()
        self._turn += 1
        for sensor in self.alive:
            sensor.send("watch", turn=self._turn, hz=hz)

    def rest(self, patience: float) -> None:
        """Stop the readings."""
        self._ask("resting", "rest", patience, turn=self._turn)

    def hear(self, child: Child, message: Message) -> None:
        """Take in what the sensor says, asked or not; what another process says is none of its business."""
        if child is not self.child:
            return
        event = message["event"]
        if event == "reading":
            self.telemetry.hear(message)
        elif event in ("xid", "logged"):
            if foreign := self.reports.hear(message, self.addresses):
                self.note(foreign)
        elif event == "hearing":
            self.reports.hearing(message["source"], message["deaf"], message.get("uuid"))
        elif event == "unread":
            self.note(f"readings of {message['uuid']} ended: {message['reason']}")
        elif event in ("died", "error"):
            self.note(f"the sensor failed: {message['reason']}")
        if event == "died":
            self._miss(message["reason"])

    def stop(self) -> None:
        """End the process. One that cannot be killed is named in the notes."""
        for child in self._sensors:
            child.kill("the run is over")
            if child.left_behind:
                self.note(f"{child.name}: {child.ended}")

    def _miss(self, why: str) -> None:
        """Nobody listened for Xids any more, or for a while: a new sensor hears of none that came before it."""
        if self.counters.readings:
            self.reports.missed = f"the sensor ended: {why}"

    def note(self, note: str) -> None:
        """Keep a note for the record, once."""
        if note not in self.notes:
            self.notes.append(note)
