"""The child processes of a run: one sensor, one worker per device, one more that sees all devices."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_accel.measurement import Device, Trouble
from pytest_accel.telemetry import Telemetry
from pytest_accel.workers import Call, Child, Interrupted, Message, conduct, listen

HZ = {"cpu": 2.0}
DEFAULT_HZ = 10.0
"""Readings a second; a processor is read more rarely, since the reading runs on it."""

DEATHS_ALLOWED = 1
"""A device may take its worker with it once. After the second time it is not measured again."""

Group = tuple[Device, ...]
"""The devices that one worker holds."""


@dataclass(frozen=True)
class Request:
    """What is asked of the workers. `runs` is that of the probe's declaration, `suffix` ends every metric."""

    metric: str
    suffix: str
    runs: str
    probe: Mapping[str, str]
    conditions: Mapping[str, Any]
    seconds: float
    precision: float

    def message(self) -> Message:
        fields = {key: value for key, value in vars(self).items() if key not in ("runs", "suffix")}
        return {"event": "call", **fields}


@dataclass
class Outcome:
    """What the workers of one group made of a request, or why they could not even try."""

    group: Group
    blocks: list[Message] = field(default_factory=list)
    findings: list[Message] = field(default_factory=list)
    trouble: Message | None = None


class Crew:
    """Starts processes when they are needed, and ends all of them in `stop`."""

    def __init__(self, patience: float, progress: Callable[[str, float, float], None]) -> None:
        self.patience = patience
        self.progress = progress
        self.logs: Path | None = None
        self.telemetry = Telemetry()
        self.software: dict[str, Any] = {}
        self.notes: list[str] = []
        self.device_seconds = 0.0
        self._sensor: Child | None = None
        self._workers: dict[Group, Child] = {}
        self._unopened: dict[Group, Trouble] = {}
        self._deaths: Counter[str] = Counter()
        self._died_in: dict[str, list[str]] = {}
        self._turn = 0
        self._meetings = 0

    # -- the sensor

    def discover(self, vendor: str | None) -> Message:
        """The sensor's answer: devices, problems, what the machine shows; or why there is none."""
        log = self.logs / "sensor.log" if self.logs else Path(os.devnull)
        self._sensor = Child("sensor", "pytest_accel.sensor", log, {})
        return self._ask("devices", "discover", want=vendor)

    def not_idle(self) -> dict[str, str]:
        """UUID to reason of every device that is in use before we begin."""
        reasons = self._ask("idle", "idle").get("reasons", {})
        assert isinstance(reasons, dict)
        return reasons

    def _ask(self, answer: str, event: str, **fields: Any) -> Message:
        """Ask the sensor and wait for its answer, no longer than the patience of the run."""
        sensor = self._sensor
        if sensor is None or sensor.ended is not None:
            return {"event": "died", "reason": "the sensor process has ended"}
        sensor.send(event, **fields)
        until = time.monotonic() + self.patience
        while (left := until - time.monotonic()) > 0:
            for _, message in listen([sensor], left):
                if message["event"] in (answer, "died", "error"):
                    return message
                self._hear(sensor, message)
        why = sensor.kill(f"the management library did not answer for {self.patience:g} s")
        self.notes.append(f"the sensor was stopped: {why}")
        return {"event": "died", "reason": why}

    def _watch(self, hz: float) -> None:
        self._turn += 1
        if self._sensor and self._sensor.ended is None:
            self._sensor.send("watch", turn=self._turn, hz=hz)

    def _rest(self) -> None:
        self._ask("resting", "rest", turn=self._turn)

    def _hear(self, child: Child, message: Message) -> None:
        if child is self._sensor and message["event"] == "reading":
            self.telemetry.hear(message)
        elif child is self._sensor and message["event"] in ("died", "error"):
            self.notes.append(f"the sensor stopped: {message['reason']}")

    # -- the workers

    def measure(self, request: Request, devices: Sequence[Device], keep: Callable[[Outcome], None]) -> None:
        """Run a probe on `devices`, in the way it declares. Every outcome is kept as soon as it is known.

        Raises KeyboardInterrupt after what had been measured by then was kept.
        """
        rounds = [[device] for device in devices] if request.runs == "alone" else [list(devices)]
        self._watch(HZ.get(devices[0].driver, DEFAULT_HZ) if devices else DEFAULT_HZ)
        try:
            for each in rounds:
                groups: list[Group] = [tuple(each)] if request.runs == "peers" else [(device,) for device in each]
                self._round(request, groups, keep)
        finally:
            self.progress("", 0.0, 0.0)
            self._rest()

    def _round(self, request: Request, groups: list[Group], keep: Callable[[Outcome], None]) -> None:
        """One synchronous go at the probe."""
        self._start(groups)
        absent = [group for group in groups if group in self._unopened]
        for group in absent:
            trouble = self._unopened[group]
            keep(Outcome(group, trouble={"event": "error", "kind": trouble.kind, "reason": trouble.reason}))
        working = [group for group in groups if group not in absent]
        if request.runs == "ranks" and absent:
            return  # a collective needs every rank
        messages = [request.message() for _ in working]
        if request.runs == "ranks":
            meeting = self._meeting()
            for rank, message in enumerate(messages):
                message["ranks"] = {"rendezvous": meeting, "rank": rank, "world": len(messages)}
        began = time.monotonic()
        try:
            calls = conduct(
                [(self._workers[group], message) for group, message in zip(working, messages, strict=True)],
                patience=self.patience,
                others=[self._sensor] if self._sensor and self._sensor.ended is None else [],
                hear=self._hear,
                tick=lambda: self.progress(request.metric, time.monotonic() - began, request.seconds),
                all_or_none=request.runs == "ranks",
            )
        except Interrupted as interrupted:
            self._keep(request, working, interrupted.calls, keep)
            raise
        self._keep(request, working, calls, keep)

    def _keep(self, request: Request, groups: list[Group], calls: list[Call], keep: Callable[[Outcome], None]) -> None:
        self.device_seconds += _busy(calls)
        for group, call in zip(groups, calls, strict=True):
            trouble = call.trouble
            if trouble and trouble["event"] in ("died", "hung") and trouble.get("kind", "device") == "device":
                for device in group:
                    self._deaths[device.uuid] += 1
                    self._died_in.setdefault(device.uuid, []).append(request.metric)
            keep(Outcome(group, call.blocks, call.findings, trouble))

    def _meeting(self) -> str:
        """The file where the ranks meet: the same one as long as every worker of it lives."""
        assert self.logs
        return str(self.logs / f"rendezvous-{self._meetings}")

    def _start(self, groups: list[Group]) -> None:
        """Start a worker for every group that has none, all at once, and let it open its devices."""
        missing = [group for group in groups if self._needs_worker(group)]
        if not missing:
            return
        self.progress("starting the worker processes", 0.0, 0.0)
        opened = conduct(
            [(self._spawn(group), _opening(group)) for group in missing],
            patience=self.patience,
            others=[self._sensor] if self._sensor and self._sensor.ended is None else [],
            hear=self._hear,
        )
        for group, call in zip(missing, opened, strict=True):
            if call.trouble:
                call.child.kill("it could not open its device")
                reason = f"{call.trouble['reason']} (see {call.child.log.name})"
                self._unopened[group] = Trouble(call.trouble.get("kind", "device"), reason)
            else:
                self.software.update(call.findings[0]["software"])

    def _needs_worker(self, group: Group) -> bool:
        """True if a worker has to be started; a lost device gets none, and its trouble says why."""
        child = self._workers.get(group)
        if group in self._unopened or (child is not None and child.ended is None):
            return False
        for device in group:
            if self._deaths[device.uuid] > DEATHS_ALLOWED:
                where = " and ".join(self._died_in[device.uuid])
                self._unopened[group] = Trouble("device", f"not measured: {device.name} lost its worker in {where}")
                return False
        return True

    def _spawn(self, group: Group) -> Child:
        assert self.logs
        name = group[0].name if len(group) == 1 else "peers"
        child = Child(name, "pytest_accel.worker", self.logs / f"{name}.log", _environment(group))
        self._workers[group] = child
        self._meetings += 1
        return child

    def stop(self) -> None:
        """End every process. One that cannot be killed is named in the notes."""
        for child in [*self._workers.values(), *([self._sensor] if self._sensor else [])]:
            text = child.ended or child.kill("the run is over")
            if "left behind" in text and (note := f"{child.name}: {text}") not in self.notes:
                self.notes.append(note)


def _environment(group: Group) -> dict[str, str]:
    """A GPU's worker sees its own device only, by UUID; a CPU's sees no GPU."""
    if group[0].driver == "cpu":
        return {
            "CUDA_VISIBLE_DEVICES": "",
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": str(_threads(group)),
        }
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(device.uuid for device in group),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def _threads(group: Group) -> int:
    cores = sum(int(device.facts.get("cores", 0)) for device in group)
    return cores or min(8, max(1, len(group[0].cpus)))


def _opening(group: Group) -> Message:
    fields = [{**vars(device), "facts": dict(device.facts)} for device in group]
    return {"event": "open", "devices": fields, "threads": _threads(group)}


def _busy(calls: list[Call]) -> float:
    """Seconds between the first and the last block of a round: the time that the devices worked."""
    at = [block["at"] for call in calls for block in call.blocks]
    return max(at) - min(at) if at else 0.0
