"""The worker processes of a run: one for each device, and one more that sees all devices."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_accel.core import clock
from pytest_accel.core.measurement import LEFT_OUT, Device
from pytest_accel.core.messages import CallTrouble, FastPath, Group, Message, Outcome, fastest
from pytest_accel.core.run import TimeSpent
from pytest_accel.drivers import registry
from pytest_accel.judging.facts.error_reports import WorkerEnd
from pytest_accel.probes.request import GroupRank, Request
from pytest_accel.run.phases import around_silence, seconds_by_phase
from pytest_accel.run.processes.meeting_folder import MeetingFolder
from pytest_accel.run.processes.programs import REAL, Processes, visible_to
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.supervisor import Child, WorkerCall, conduct
from pytest_accel.run.progress import Progress

DEATHS_ALLOWED = 1
"""Number of workers that a device may lose. After one more, the device is not measured again. One that hung in a probe
of ours is not measured again at once: its first answer decides, and each more would take a whole deadline."""

LOADING_SECONDS = 300.0
"""Seconds that the import of torch may take at least: eight imports at once from a cold disk are slow."""

UNTIL_READY = 3.0
"""A probe may be silent for this many times the patience until it is ready to be timed: with the default, for 180 s,
and for the patience itself after most devices are ready. Its first calls load libraries and their kernels, and in the
first collective NCCL connects all ranks, which takes longer than a minute where disks, drivers, containers or the
network answer slowly."""

SILENT_SECONDS = 10.0
"""After this time, or a quarter of the patience, without a message of a worker the progress shows its silence."""
OPENING_SECONDS = 20.0
"""Seconds that a worker may be silent at least while it opens its device: the first context of a machine, or the first
one after a long rest, may take longer than a small --accel-patience."""

DISTURBING = 5.0
"""Seconds for which pytest has to stand still to spoil what is measured meanwhile."""

REST_SECONDS = 5.0
"""Seconds that the sensor may take to answer when the run is being interrupted."""


class WorkerPool:
    """The workers of a run, started when they are needed, and the sensor that watches the devices meanwhile."""

    def __init__(self, sensor: SensorClient, progress: Progress | None = None) -> None:
        self.sensor = sensor
        self.patience, self.timeline, self.deadline = sensor.patience, sensor.timeline, sensor.deadline
        self.progress = progress or Progress()
        self.processes = REAL
        self.logs: Path | None = None
        self._devices: Sequence[Device] = ()
        """Every device of the run. A worker whose vendor requires it sees all of them that are not lost."""
        self.software: dict[str, Any] = {}
        """Versions that the workers report."""
        self.fast_paths: dict[str, FastPath] = {}
        """On a CPU, which dtypes have a fast path. The first workers decide, and it holds for the whole run."""
        self.device_seconds = 0.0
        """Seconds in which the devices worked."""
        self._workers: dict[Group, Child] = {}
        self._visible: dict[Group, Group] = {}
        """The devices that the worker of a group sees, in the order in which torch counts them."""
        self._children: list[Child] = []
        """Every worker that was started."""
        self._unopened: dict[Group, CallTrouble] = {}
        """Groups that are not measured, and why. The first outcome that tells it changes the event to LEFT_OUT."""
        self._died_in: dict[Group, list[str]] = {}
        """The metrics that were measured when a group lost its worker."""
        self._meeting: MeetingFolder | None = None
        self._meetings = 0
        self._stood_still: list[tuple[float, float]] = []
        """(time, seconds) of each time that pytest itself stood still while workers were at work."""
        self._ranks: list[Child] = []
        """The workers that are in one process group of torch.distributed."""

    def begin(self, processes: Processes, logs: Path | None) -> None:
        """Set the programs to start and the folder of their logs. Called before the first is started."""
        self.processes, self.logs = processes, logs
        self.sensor.begin(processes, self._log("sensor"))

    def hold(self, devices: Sequence[Device]) -> None:
        """Set the devices of the run, before the first is measured."""
        self._devices = devices

    def measure(self, request: Request, devices: Sequence[Device], keep: Callable[[Outcome], None]) -> None:
        """Run a probe on `devices`, in the way that it declares, and pass each outcome to `keep` as it becomes known.

        The error counters are read before the first probe and after each one; those of the links between devices only
        after one that stresses them. An interrupt (KeyboardInterrupt) is raised after the outcomes up to then
        were kept.
        """
        if not self.sensor.counters.readings:
            self._count("the start")
        self.sensor.watch(self.processes.hz(devices))
        patience = REST_SECONDS  # if something is raised
        try:
            for groups in self._rounds(request.runs, devices):
                self._round(request, groups, keep)
            patience = self.patience
        finally:
            self.progress.done()
            self.sensor.rest(min(patience, self.patience))
        self._count(request.metric, links="link" in request.declaration.stresses)

    @contextmanager
    def workers_ended_for(self, metric: str) -> Iterator[None]:
        """End every worker for a program that has the devices to itself, and read the error counters around it."""
        if not self.sensor.counters.readings:
            self._count("the start")
        for group, worker in self._workers.items():
            if worker.ending is None:
                worker.kill("a program of the vendor has the devices to itself")
                self._ended(group, worker)
        self._ranks = []
        try:
            with self.timeline.phase("measuring"):
                yield
        finally:
            self.progress.done()
            self._count(metric)

    def count_links(self) -> None:
        """Read the counters of the links, unless nothing was measured since they were read."""
        if self.sensor.counters.links_stale:
            self._count("")

    def _count(self, activity: str, *, links: bool = True) -> None:
        """Read the error counters; `activity` names what ran since the last reading."""
        self.sensor.count(activity, {child.pid for child in self._children}, links=links)

    def _rounds(self, runs: str, devices: Sequence[Device]) -> list[list[Group]]:
        """Return the groups of each round; those of one round work at the same time.

        Peer copies run between the devices that are not lost. A lost device is a group of its own, which fails.
        """
        singles: list[Group] = [(device,) for device in devices]
        if runs == "peers":
            lost_groups = [group for group in singles if self._lost(group)]
            alive = tuple(device for group in singles if group not in lost_groups for device in group)
            return [[*lost_groups, alive] if alive else lost_groups]
        return [singles]

    def _round(self, request: Request, groups: list[Group], keep: Callable[[Outcome], None]) -> None:
        """Run the probe once in every group, all at the same time unless they take turns."""
        if request.declaration.collective:
            self._separate(groups)
        self._start(groups)
        unopened = [group for group in groups if group in self._unopened]
        for group in unopened:
            trouble = self._unopened[group]
            keep(Outcome(group, trouble=trouble))
            self._unopened[group] = replace(trouble, event=LEFT_OUT)
        working = [group for group in groups if group not in unopened]
        if request.declaration.collective and unopened:
            return  # a collective needs every rank
        if "dtype" in request.conditions:
            self._decide_fast_paths(working)
        calls = [
            WorkerCall(self._workers[group], {**request.message(), "fast_paths": self.fast_paths}, starting=UNTIL_READY)
            for group in working
        ]
        if request.declaration.collective:
            if not self._ranks:  # as long as the ranks are the same, they meet in the same file
                self._ranks, self._meetings = [call.child for call in calls], self._meetings + 1
            file = str(self.meeting / f"rendezvous-{self._meetings}")
            local_ranks = [GroupRank(file, rank, len(calls)) for rank in range(len(calls))]
            for call, rank in zip(calls, request.ranks or local_ranks, strict=True):
                call.request["ranks"] = vars(rank)
        start, in_turn = time.monotonic(), request.runs == "in_turn"
        seconds = request.seconds * (len(calls) if in_turn else 1)
        try:
            with self.timeline.phase("measuring"):
                self._conduct(
                    calls,
                    tick=lambda: self._tell(calls, request.metric, time.monotonic() - start, seconds),
                    all_or_none=request.declaration.collective,
                    in_turn=in_turn,
                )
        finally:
            if calls:
                self.timeline.account(request.metric, _phases(calls, start, time.monotonic(), in_turn=in_turn))
            self._keep(request, working, calls, keep)

    def _tell(self, calls: Sequence[WorkerCall], metric: str, elapsed: float, expected: float) -> None:
        """Show the progress of a probe, or the worker that is silent although the others wait for it."""
        silent = max(calls, key=lambda call: call.silence)
        limit = silent.patience(self.patience)
        if silent.silence < min(SILENT_SECONDS, limit / 4):
            self.progress.timed(metric, elapsed, expected)
            return
        doing = "choosing kernels (TunableOp)" if silent.tuning else "silent"
        message = f"{silent.child.name} {doing} for {silent.silence:.0f} s, given up at {round(limit, 1):g} s"
        self.progress.step(f"{metric}: {message}")

    def _conduct(self, calls: list[WorkerCall], patience: float | None = None, **options: Any) -> None:
        """Conduct calls to workers, and process the sensor's messages meanwhile."""
        conduct(
            calls,
            patience=patience or self.patience,
            sensors=self.sensor.alive,
            hear=self.sensor.hear,
            deadline=self.deadline,
            on_delay=self._late,
            **options,
        )

    def _late(self, seconds: float) -> None:
        """Remember that pytest stood still for so many seconds, up to now."""
        self._stood_still.append((clock.now(), seconds))
        if seconds >= DISTURBING:
            causes = "a paused container, a suspended job or a full pipe"
            self.sensor.note(f"the run stood still for {seconds:.0f} s ({causes})")

    def standstill_since(self, start: float) -> str | None:
        """Return a sentence if the run stood still after `start` for long enough to spoil a measurement, or None."""
        seconds = sum(delay for moment, delay in self._stood_still if moment >= start and delay >= DISTURBING)
        return f"the run stood still for {seconds:.0f} s meanwhile" if seconds else None

    def _keep(
        self, request: Request, groups: list[Group], calls: list[WorkerCall], keep: Callable[[Outcome], None]
    ) -> None:
        """Pass the outcome of each call to `keep`, and remember which groups lost their worker by their own fault."""
        _acquit(calls)
        times = [block["at"] for call in calls for block in call.blocks]
        self.device_seconds += max(times) - min(times) if times else 0.0
        for group, call in zip(groups, calls, strict=True):
            trouble, packaged = call.trouble, request.declaration.packaged
            if trouble and trouble.lost:
                call.child.kill("its device context is lost")
            if trouble and trouble.event and not trouble.culprit_unknown and (packaged or not trouble.exited):
                self._died_in.setdefault(group, []).append(request.metric)
                if trouble.event == "hung" and packaged:  # not asked, nor waited for, again
                    self._leave_out(group, f"the worker process of {_name(group)} hung in {request.metric}")
            if call.child.ending is not None:
                self._ended(group, call.child)
            keep(Outcome(group, call.blocks, call.results, call.trouble, call.step))

    def _separate(self, groups: list[Group]) -> None:
        """End the workers that are in a process group of other ranks than these, or in one that lost a rank.

        A rank that leaves such a group may wait for the lost one for ever (NCCL user guide, ncclCommDestroy: all ranks
        of a node have to call it).
        """
        unchanged = self._ranks == [self._workers.get(group) for group in groups]
        if unchanged and not any(child.ending for child in self._ranks):
            return
        for group in groups:
            child = self._workers.get(group)
            if child and child in self._ranks and child.ending is None:
                child.kill("its process group had lost a rank")
                self._ended(group, child)
        self._ranks = []

    def _ended(self, group: Group, child: Child) -> None:
        """Note for the error reports when a worker ended, since its end may cause an Xid."""
        self.sensor.reports.worker_ends += [WorkerEnd(device.uuid, child.pid, clock.now()) for device in group]

    @property
    def meeting(self) -> Path:
        """A temporary folder that all processes of the run can reach, in memory if possible."""
        if self._meeting is None:
            self._meeting = MeetingFolder()
        return self._meeting.path

    def _start(self, groups: list[Group]) -> None:
        """Start a worker for every group that needs one, all at once; each imports torch, then opens its devices.

        One that fails gets a second worker.
        """
        alive = {group for group, child in self._workers.items() if child.ending is None}
        missing = [group for group in groups if not self._lost(group) and group not in alive]
        if not missing:
            return
        self.progress.step("starting the worker processes")
        with self.timeline.phase("starting"):
            self._unopened.update(self._open_again(self._open(missing)))

    def _leave_out(self, group: Group, reason: str) -> None:
        """Remember why a group is not measured again."""
        self._unopened[group] = CallTrouble("device", reason, LEFT_OUT, untried=True)

    def _open(self, groups: Sequence[Group], visible: Sequence[Group] = ()) -> dict[Group, CallTrouble]:
        """Start a worker for each group, all at once; return what went wrong, by group. A worker that fails is killed.

        `visible` are the devices that each of them sees, by default those that its vendor requires.
        """
        sees = visible or [self._sees(group) for group in groups]
        loads = [WorkerCall(self._spawn(*pair), {"event": "load"}) for pair in zip(groups, sees, strict=True)]
        self._conduct(loads, max(self.patience, LOADING_SECONDS))
        for call in loads:
            if call.trouble and call.trouble.kind == "device":  # torch touched none yet: something else is missing
                call.trouble = CallTrouble("need", f"torch could not be loaded: {call.trouble.reason}")
        openings = [WorkerCall(call.child, self._opening(group)) for group, call in zip(groups, loads, strict=True)]
        self._conduct(
            [call for call, load in zip(openings, loads, strict=True) if not load.trouble],
            max(self.patience, OPENING_SECONDS),
        )
        troubles = {}
        for group, load, call in zip(groups, loads, openings, strict=True):
            trouble = load.trouble or call.trouble
            if trouble:
                call.child.kill("it could not open its device")
                # What all devices lack is told once, so it names no log of one device.
                log = "the log of its worker" if trouble.kind == "need" else call.child.log.name
                troubles[group] = CallTrouble(trouble.kind, f"{trouble.reason} (see {log})")
            else:
                self.software.update(call.results[-1]["software"])
        return troubles

    def _open_again(self, troubles: Mapping[Group, CallTrouble]) -> dict[Group, CallTrouble]:
        """Open devices once more that could not be opened, and return what went wrong again.

        A worker that sees its own device only is started as before. One that sees its neighbours too may have failed
        because of one of them, so each is first started with its own device in sight, one at a time. A device that
        fails then is at fault. The others are started once more without those; if they fail, it is not known why.
        """
        retries = [group for group, trouble in troubles.items() if trouble.kind in ("device", "external")]
        with_neighbours = [group for group in retries if len(self._visible[group]) > len(group)]
        if self.deadline.over or not retries:
            return dict(troubles)
        failures = {group: trouble for group, trouble in troubles.items() if group not in retries}
        failures.update(self._open([group for group in retries if group not in with_neighbours]))
        innocent = []
        for group in with_neighbours:
            alone = self._open([group], [group])  # out of sight of its neighbours, one of which may be the cause
            failures.update(alone)
            if not alone:
                self._workers[group].kill("it sees its own device only")
                innocent.append(group)
        self._unopened.update(failures)  # so that no other worker sees it
        for group, trouble in self._open(innocent).items():
            reason = f"{trouble.reason}; alone it opens, so it is not known which device is at fault"
            failures[group] = trouble.acquitted("external", reason)
        for group in retries:
            if group not in failures:
                self.sensor.note(f"{_name(group)} was opened on the second attempt only: {troubles[group].reason}")
        return failures

    def _decide_fast_paths(self, groups: list[Group]) -> None:
        """Have the CPUs among the groups try which dtypes they multiply fast, unless that was decided before.

        Accelerators state it in their datasheet. A worker that fails here fails in the probe again.
        """
        cpus = [group for group in groups if not registry.vendor(group[0].driver).accelerator]
        if self.fast_paths or not cpus:
            return
        calls = [WorkerCall(self._workers[group], {"event": "try dtypes"}) for group in cpus]
        with self.timeline.phase("starting"):
            self._conduct(calls)
        self.fast_paths = fastest(call.results[-1]["fast_paths"] for call in calls if not call.trouble)

    def _lost(self, group: Group) -> bool:
        """Return True if the group is not measured any more, and note why in `_unopened`.

        It could not be opened, it lost too many workers, or the management library reports its device as lost.
        """
        metrics = self._died_in.get(group, [])
        reason = self.sensor.counters.loss(group[0].uuid) if len(group) == 1 else None
        if reason and group not in self._unopened:
            self._leave_out(group, reason)
        if group not in self._unopened and len(metrics) > DEATHS_ALLOWED:
            self._leave_out(group, f"the worker process of {_name(group)} ended in {' and in '.join(metrics)}")
        return group in self._unopened

    def _sees(self, group: Group) -> Group:
        """Return the devices that the worker of a group sees: none that is lost or cannot be opened."""
        unfit = {device.uuid for other in self._unopened for device in other if len(other) == 1}
        unfit |= {device.uuid for device in self._devices if self.sensor.counters.loss(device.uuid)}
        return visible_to(group, [device for device in self._devices if device in group or device.uuid not in unfit])

    def _spawn(self, group: Group, visible: Group) -> Child:
        """Start the worker process of a group, which sees these devices."""
        name = _name(group)
        self._visible[group] = visible
        child = self.processes.worker(name, self._visible[group], self._log(name))
        self._workers[group] = child
        self._children.append(child)
        return child

    def _log(self, name: str, ending: str = "log") -> Path:
        """Return the log file of a process, or another one; /dev/null in a run that writes nothing."""
        return self.logs / f"{name}.{ending}" if self.logs else Path(os.devnull)

    def _opening(self, group: Group) -> Message:
        """Return the message that has a worker open the devices of its group."""
        fields = [{**vars(device), "facts": dict(device.facts)} for device in group]
        visible = [device.uuid for device in self._visible[group]]
        settings: Message = {"threads": self.processes.threads(group), "shared": str(self.meeting)}
        settings["tuned"] = str(self._log(_name(group), "tunableop.csv"))
        return {"event": "open", "devices": fields, "visible": visible, **settings}

    def time_spent(self) -> TimeSpent:
        """Return the seconds of the run by phase, metric and of the devices at work, and what the readings cost."""
        seconds = {**self.timeline.seconds(), "device": self.device_seconds}
        probes = {metric: _rounded(phases) for metric, phases in self.timeline.probes.items()}
        times: TimeSpent = {"seconds": _rounded(seconds), "probes": probes}
        cpus = {cpu for device in self._devices for cpu in device.cpus}
        if cost := self.sensor.sampling(len(cpus) or os.cpu_count() or 1):
            times["sampling"] = cost
        return times

    def stop(self) -> None:
        """End every process, the sensor included. A process that cannot be killed is named in the notes."""
        self.sensor.stop()
        for child in self._children:
            child.end_now()  # all of them, before it is waited for the first
        for child in self._children:
            child.kill("the run is over")
            if child.unkillable:
                self.sensor.note(f"{child.name}: {child.ending}")
        if self._meeting:
            self._meeting.remove()


def _name(group: Group) -> str:
    """Return the name of a worker: that of its device, or "peers" for the one that sees all."""
    return group[0].name if len(group) == 1 else "peers"


def _phases(calls: Sequence[WorkerCall], start: float, end: float, *, in_turn: bool) -> dict[str, float]:
    """Return the seconds of a round of calls by phase. The silence of a worker that hung is a phase of its own."""
    silences = [call.silent_between for call in calls if call.silent_between]
    by_time = sorted(calls, key=lambda call: call.heard)
    # the last call sets the pace; one that hung counts as silence
    paced = by_time if in_turn else [call for call in by_time if not call.silent_between][-1:] or by_time[-1:]
    pace = sorted(step for call in paced for step in call.pace)
    if not silences:
        return seconds_by_phase(start, end, pace)
    kill_time = max(stop for _, stop in silences)
    moments = [moment for call in calls for moment, _ in call.pace if moment <= kill_time]
    return around_silence(start, end, pace, (max([*moments, min(silences)[0]]), kill_time))


def _acquit(calls: Sequence[WorkerCall]) -> None:
    """Lay no error to a device that a fault of a program may have caused, unless another device got through the same.

    The devices of a run work with the same software, so one that fails where another does not is to blame. Nor is a
    crash laid to the devices if the process of each of several crashed. `unless_lost` is the trouble of a device that
    its management library calls lost.
    """
    troubles = [call.trouble for call in calls if call.trouble]
    if len(troubles) < len(calls):
        return
    crashed = len(calls) > 1 and all(trouble.event == "crashed" for trouble in troubles)
    for call, trouble in zip(calls, troubles, strict=True):
        if crashed or (trouble.kind == "device" and trouble.of_programs):
            reason = f"{trouble.reason}; no other device got through it, so the software may be at fault"
            call.trouble = replace(trouble.acquitted("external", reason), unless_lost=trouble)


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    """Return the values rounded to hundredths of a second."""
    return {name: round(value, 2) for name, value in seconds.items()}
