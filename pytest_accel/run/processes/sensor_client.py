"""The client of the sensor process, which reads the devices and the host while the workers measure."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_accel.core import clock
from pytest_accel.core.host_facts import COUNTED_HOST_FACTS, HOST_FACTS
from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.messages import CallTrouble, Message
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.run import CountedEntry, HostCountedEntry, SamplingCost
from pytest_accel.drivers.kernel_messages import SOURCE
from pytest_accel.judging.facts import host_counters
from pytest_accel.judging.facts.changed_facts import FactWatch
from pytest_accel.judging.facts.error_counters import CounterReadings, ReadingWindow
from pytest_accel.judging.facts.error_reports import ErrorReports, counts_reports
from pytest_accel.judging.facts.preconditions import others_at_work
from pytest_accel.run.deadline import Deadline
from pytest_accel.run.phases import Timeline
from pytest_accel.run.processes.programs import REAL, Processes
from pytest_accel.run.processes.supervisor import KILL_SECONDS, Child, lateness, listen
from pytest_accel.run.telemetry_file import Telemetry


class SensorClient:
    """The sensor of a run, and everything received from it: readings, counters, error reports, notes.

    `patience` is how many seconds an answer may take. Unless it `listens`, it hears of no Xid and no message of the
    kernel that comes from now on.
    """

    def __init__(self, patience: float, deadline: Deadline | None = None, *, listens: bool = True) -> None:
        self.patience, self._listens = patience, listens
        self.deadline = deadline or Deadline()
        self.processes = REAL
        self.log = Path(os.devnull)
        self.telemetry = Telemetry()
        self.counters = CounterReadings()
        self.facts = FactWatch()
        self.reports = ErrorReports()
        self.notes: list[str] = []
        self.timeline = Timeline()
        self._sampled: dict[str, float] = {}
        """The cost of the current sensor's readings so far, as it stated at the end of the last phase of readings."""
        self.foreign: dict[str, str] = {}
        """Sentence about other processes that used a device when the last probe ended, by its UUID."""
        self.addresses: dict[str, str | None] = {}
        """PCI address of every device that was ever discovered, by UUID."""
        self._host_before: HostCountedEntry | None = None
        """The counters of the host before the first probe, or at the end of the run before in a series."""
        self._host_after: HostCountedEntry | None = None
        """The counters of the host after the last probe so far; None until a metric of them is asked for."""
        self._past: list[ReadingWindow] = []
        """The time before now in which errors are counted that the kernel has logged; empty where probes run."""
        self._vendor: str | None = None
        self._sensors: list[Child] = []
        """Every sensor that was started; the last one is the current one."""
        self._turn = 0
        """Number of the current phase of readings, so that the sensor's answers can be told apart."""

    def begin(self, processes: Processes, log: Path) -> None:
        """Set the program of the sensor and its log file. Called before any question."""
        self.processes, self.log = processes, log

    @property
    def child(self) -> Child | None:
        """The current sensor process, which may have ended; None before the first start."""
        return self._sensors[-1] if self._sensors else None

    @property
    def alive(self) -> list[Child]:
        """The sensor process in a list, which is empty if it has ended or was never started."""
        return [child for child in self._sensors[-1:] if child.ending is None]

    @property
    def pids(self) -> set[int]:
        """Process ids of every sensor that was started."""
        return {child.pid for child in self._sensors}

    def discover(self, vendor: str | None) -> Message:
        """Start the sensor and return its answer: devices, problems and hints of hardware; or why it failed.

        `vendor` is the one whose devices are wanted, None for any.
        """
        self._vendor = vendor
        self._sensors.append(self.processes.sensor(self.log))
        answer = self._ask("devices", "discover", want=vendor, listens=self._listens)
        devices = answer.get("devices", [])
        for device in devices:
            device["model"] = printable(str(device["model"]), SHOWN)  # what a device states may hold control characters
            self.addresses[device["uuid"]] = device.get("pci_address")
        self.facts.begin(Device(**device) for device in devices)
        return answer

    def not_idle(self) -> dict[str, str] | None:
        """Return the reasons why devices are in use before the run, by UUID; None if the sensor fails."""
        self._wake_sensor()
        reasons = self._ask("idle", "idle").get("reasons")
        if reasons is None:
            self.note("it is not known whether the devices were idle before the run")
        return None if reasons is None else dict(reasons)

    def health(self, *, links: bool = False) -> dict[str, dict[str, Any]] | None:
        """Return the facts of each device that may change during a run, by UUID; {"lost": why} for a lost device.

        Those of the links between devices are read only with `links`, since that may take longer than all others.
        Returns None if the sensor fails.
        """
        self._wake_sensor()
        facts = self._ask("health", "health", links=links).get("facts")
        return None if facts is None else dict(facts)

    def follow(self, entries: Mapping[str, CountedEntry], host: HostCountedEntry | None) -> None:
        """Count from the last readings of the run before in a series, and hear what the kernel has logged since."""
        self.counters.follow(entries)
        self._host_before = host
        self._hear_past(max((entry["at"] for entry in entries.values()), default=clock.now()))

    def look_back(self, activity: str, start: float) -> None:
        """Hear what the kernel has logged from a time until now, and count errors in it as those of an `activity`."""
        self.reports.hearing(SOURCE, self._hear_past(start))
        self._past = [ReadingWindow(activity, start, clock.now())]

    def _hear_past(self, start: float) -> str | None:
        """Enter what the kernel has logged since a time (seconds since the epoch); return why it cannot be read."""
        self._wake_sensor()
        answer = self._ask("kernel_past", "kernel_past")
        for report in answer.get("reports", []):
            if report["at"] >= start:
                self.reports.hear({**report, "source": SOURCE}, self.addresses)
        deaf: str | None = answer["trouble"].reason if "trouble" in answer else answer["deaf"]
        return deaf

    def host(self, names: Iterable[str] = tuple(HOST_FACTS)) -> dict[str, Message]:
        """Return the facts of the host by name: {"value": ...}, or the reason under "unreadable" or "absent"."""
        self._wake_sensor()
        answer = self._ask("host", "host", names=list(names))
        reason = answer["trouble"].reason if "trouble" in answer else "the sensor left it out"
        silent, facts = {"unreadable": f"the host could not be read: {reason}"}, answer.get("facts", {})
        return {name: facts.get(name, silent) for name in names}

    def host_counter(self, metric: str) -> Measurement:
        """Return one metric `host_counters.*`: what the host counted, or its kernel logged, since the first probe."""
        if counts_reports(metric):
            return self.reports.measurement(metric, NODE, next(iter(self.counters.windows.values()), self._past))
        if self._host_after is None:
            self._host_after = self._host_counters()
        return host_counters.measurement(metric, self._host_before, self._host_after)

    @property
    def host_now(self) -> HostCountedEntry | None:
        """The last reading of the counters of the host, None before there is one."""
        return self._host_after or self._host_before

    def _host_counters(self) -> HostCountedEntry:
        """Read the counters of the host now."""
        answers = self.host(COUNTED_HOST_FACTS)
        return {"at": clock.now(), "answers": answers}

    def counter(self, metric: str, device: Device) -> Measurement:
        """Return one metric `counters.*` of a device: errors counted by it or logged about it since the first probe."""
        windows = self.counters.windows.get(device.uuid, self._past)
        if counts_reports(metric):
            return self.reports.measurement(metric, device.uuid, windows)
        return self.counters.measurement(metric, device)

    def count(self, activity: str, run_pids: Collection[int] = (), *, links: bool = True) -> None:
        """Read the error counters and facts of every device, between probes and never while something is timed.

        `activity` is the metric that was measured since the last reading, if any. The counters of the links are read
        only with `links`. `run_pids` are the ids of this run's processes that may use the devices; any other process
        there is foreign. The counters of the host are read at the first call, and again when one of them is asked for.
        """
        if self._host_before is None:
            self._host_before = self._host_counters()
        self._host_after = None  # read again when a metric of the host is asked for
        answers = self.health(links=links)
        self.counters.enter(clock.now(), activity, answers, self.addresses, links=links)
        self.facts.enter(clock.now(), activity, answers or {})
        pids = self.pids.union(run_pids)
        self.foreign = {uuid: text for uuid, facts in (answers or {}).items() if (text := others_at_work(facts, pids))}

    def _ask(self, answer: str, event: str, patience: float | None = None, **fields: Any) -> Message:
        """Send `event` to the sensor and return the message `answer`, or "died" or "error" with its `trouble`.

        `patience` is in seconds, by default that of the run.
        """
        if not self.alive:
            return {"event": "died", "trouble": CallTrouble("device", "the sensor process has ended")}
        (sensor,) = self.alive
        sensor.send(event, **fields)
        allowance = self.patience if patience is None else patience
        patience = self.deadline.patience(allowance)
        end = time.monotonic() + patience
        with self.timeline.phase("starting" if event == "discover" else "waiting"):
            while (remaining := end - time.monotonic()) > 0:
                start = time.monotonic()
                messages = [message for _, message in listen([sensor], min(remaining, 0.5))]
                # for a silence while pytest itself stood still the sensor is not to blame
                end += lateness(start, min(remaining, 0.5))
                for message in messages:  # also those that came after the answer
                    self.hear(sensor, message)
                answers = [message for message in messages if message["event"] in (answer, "died", "error")]
                if answers:
                    return answers[0]
        cut = patience < allowance
        reason = self.deadline.stopped_sentence if cut else f"the management library did not answer for {patience:g} s"
        reason = sensor.kill(reason)
        self._miss(reason)
        self.note(f"the sensor was stopped: {reason}")
        return {"event": "died", "trouble": CallTrouble("need" if cut else "device", reason)}

    def _wake_sensor(self) -> None:
        """Start the sensor a second time if the first one has died or hung. What happened in between is lost."""
        for child, message in listen(self.alive, 0.0):
            self.hear(child, message)
        # once more, not again and again
        if len(self._sensors) == 1 and not self.alive and not self.deadline.over:
            self.discover(self._vendor)

    def watch(self, hz: float) -> None:
        """Have every device read `hz` times per second, until `rest`."""
        self._wake_sensor()
        self._turn += 1
        for sensor in self.alive:
            sensor.send("watch", turn=self._turn, hz=hz)

    def rest(self, patience: float) -> None:
        """Stop the readings, and wait at most `patience` seconds for the sensor to confirm it."""
        answer = self._ask("resting", "rest", patience, turn=self._turn)
        self._sampled = answer.get("sampling", self._sampled)

    def sampling(self, cpus: int) -> SamplingCost | None:
        """Return the cost of the readings, of the time of so many processors; None if there were none."""
        cost = self._sampled
        if not cost.get("readings") or not cost["watched_s"]:
            return None
        return {
            "readings": int(cost["readings"]),
            "seconds_per_reading": round(cost["reading_s"] / cost["readings"], 6),
            "cpu_share": round(cost["cpu_s"] / (cost["watched_s"] * max(1, cpus)), 6),
        }

    def hear(self, child: Child, message: Message) -> None:
        """Process one message of the sensor, asked for or not. Messages of other processes are ignored."""
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
            self.note(f"the sensor failed: {message['trouble'].reason}")
        if event == "died":
            self._miss(message["trouble"].reason)

    def stop(self, seconds: float = KILL_SECONDS) -> None:
        """End the sensor. A process that has not ended `seconds` after it was killed is named in the notes."""
        for child in self._sensors:
            child.kill("the run is over", seconds)
            if child.unkillable:
                self.note(f"{child.name}: {child.ending}")

    def _miss(self, reason: str) -> None:
        """Note that Xids may have been missed since the sensor ended: a new sensor hears of none before its start."""
        if self.counters.readings:
            self.reports.gap = f"the sensor ended: {reason}"

    def note(self, note: str) -> None:
        """Add a note for the record, unless it is there already."""
        if note not in self.notes:
            self.notes.append(note)
