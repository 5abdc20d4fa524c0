"""The session of one run: it discovers and locks the devices, measures them, judges each, and writes the record.

Files and processes are touched here; what the session calls in `judging/` is pure.
"""

from __future__ import annotations

import os
import platform
import pwd
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pytest_accel
from pytest_accel.core import clock
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.messages import Outcome, Pair, WorkerRequest
from pytest_accel.core.sku import DeclaredBy, Limit, Platform, Sku
from pytest_accel.core.software import versions_of
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging import neighbours, peer_matrix, preconditions, repeats, results
from pytest_accel.judging.background import no_spread
from pytest_accel.judging.closing import Circumstances, Closing, Errors, circumstances, close
from pytest_accel.judging.diagnosis import explaining
from pytest_accel.judging.evidence import with_evidence, with_excuse
from pytest_accel.judging.inventory import facts, host_fact, withheld
from pytest_accel.judging.judge import Attempts, judge, worst
from pytest_accel.judging.repeats import Repeats
from pytest_accel.probes.declare import Declaration
from pytest_accel.run import device_lock, earlier_records, record, simulation
from pytest_accel.run.deadline import Deadline
from pytest_accel.run.idle_gate import IdleCheck, check_idle
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes import environment
from pytest_accel.run.processes.readings import Telemetry
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.record_folder import RecordFolder
from pytest_accel.run.request import ProbeRequest, request_of
from pytest_accel.run.setup import Setup
from pytest_accel.skus import budgets, releases, requirements
from pytest_accel.skus.peaks import peak, why_not_applicable

if TYPE_CHECKING:
    from pytest_accel.simulate.node import Node

OF_COUNTERS = ("counters.", "host_counters.")
"""Prefixes of metrics that count events since the first probe."""

STARTING_SECONDS = 5.0
"""Seconds that a repeat may need beside its measuring, which the time limit of the run has to leave."""

Judged = tuple[str, "Limit | None"]
"""A metric, and the limit that it is judged by if there is one."""

Tell = Callable[[str, float, float], None]
"""Shows progress: called with what is being done, the seconds spent and the seconds expected."""


class Session:
    """An acceptance run, of which pytest opens one: it measures the devices of its setup, judges and records them."""

    def __init__(self, options: Options, progress: Tell | None = None) -> None:
        self.setup = Setup(options)
        self.deadline = Deadline(options.time_limit)
        sensor = SensorClient(options.patience, self.deadline)
        self.pool = WorkerPool(sensor, progress or (lambda what, spent, expected: None))
        self.folder = RecordFolder()
        self.record = record.Record(run={})
        self.errors = Errors()
        self.causes_told: dict[tuple[Status, str, str], str] = {}
        """Status and sentence of failures without a value, to the node id of the first test whose report tells it."""
        self.not_run: list[str] = []
        """Names of measuring tests that were skipped before they measured."""
        self.tests: dict[tuple[str, str, str], str] = {}
        """Name of the test that asked for a verdict, by the key of the verdict."""
        self._repeats = Repeats(self.options.level)
        self._idle_check: IdleCheck | None = None
        self._host_facts: dict[str, Any] | None = None
        self._results: dict[tuple[str, str], Attempts] = {}
        self._newest: dict[tuple[str, str], Measurement] = {}
        """The newest measurement in the record, by metric and subject."""
        self._verdicts: dict[tuple[str, str, str], Verdict] = {}
        self._changes: dict[str, list[Verdict]] = {}
        """Verdicts on facts that changed during the run and that no test has reported yet, by UUID."""
        self._locks: list[IO[bytes]] = []
        self._stood_still: str | None = None
        """A sentence if the whole run stood still during the last probe."""
        self.finished = False
        """True once the closing line is in the record, or could not be written."""

    # -- the setup

    @property
    def options(self) -> Options:
        """The options of the run."""
        return self.setup.options

    @property
    def node(self) -> Node | None:
        """The simulated node, None on real hardware."""
        return self.setup.node

    @property
    def sku(self) -> Sku | None:
        """The SKU that the node is judged as, None if none was recognised."""
        return self.setup.sku

    @property
    def platform(self) -> Platform:
        """The platform that the node is judged as."""
        return self.setup.platform

    @property
    def devices(self) -> list[Device]:
        """The devices that the user chose."""
        return self.setup.devices

    @property
    def names(self) -> dict[str, str]:
        """Display name by subject (the UUID of a device, or NODE)."""
        return self.setup.names

    @property
    def filtered(self) -> list[str]:
        """Everything that narrowed the run, such as -k, one sentence each. The plugin adds to it."""
        return self.setup.filtered

    def limited_facts(self, probe: str) -> list[str]:
        """Return the facts of `probe` that have a limit for each device, without the name of the probe: "vbios"."""
        return self.setup.limited_facts(probe)

    def all_reduce_sizes(self) -> list[str]:
        """Return the sizes of the all-reduces of this run: that of the packaged suite, and those that have a limit."""
        return self.setup.all_reduce_sizes()

    def budget(self, declared: Declaration, metric: str) -> float:
        """Return the seconds that a probe may take for a metric at the level of the run; 0 if it has no time for it."""
        return budgets.budget(declared, metric, self.options.level, self.sku)

    def host_facts(self) -> dict[str, Any]:
        """Return the facts of the host by name. The sensor reads them once in a run."""
        if self._host_facts is None:
            self._host_facts = self.pool.sensor.host()
        return self._host_facts

    # -- opening

    def open(self, *, measuring: bool = True) -> None:
        """Settle SKU, devices and platform; if `measuring`, also create the record and lock the devices.

        Raises Refused if the run cannot begin. No process, lock or empty record is left then.
        """
        try:
            self._open(measuring)
        except BaseException as error:
            self.stop()
            if not self.begun or isinstance(error, Refused | KeyboardInterrupt):
                self.folder.take_back()
            raise

    def _open(self, measuring: bool) -> None:
        self.setup.prepare()
        if not measuring:
            self.setup.discover(self.pool)
            return
        self.setup.check_torch()
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        host = socket.gethostname()
        name = f"{host}{'-simulated' * bool(self.node)}-{stamp}"
        folder = self.folder.create(self.options.output, host, name)
        self.setup.discover(self.pool, folder)
        try:
            names = [] if self.node else [(device.uuid, device.name) for device in self.devices]
            self._locks = device_lock.hold(names, f"record {folder}")
        except device_lock.DeviceLocked as held:
            raise Refused(f"{held}; wait for that run to end, or stop it") from None
        self._begin_record(folder)

    def _begin_record(self, folder: Path) -> None:
        """Write how the run was started into its record, and open the telemetry. Raises Refused if neither can be."""
        try:
            self.pool.sensor.telemetry = Telemetry(folder / record.TELEMETRY)
        except OSError as error:
            raise Refused(f"--accel-output: cannot write to {folder}: {error.strerror}") from None
        self.record.run = {
            "started": _now(),
            "host": socket.gethostname(),
            "command": list(self.options.command),
            "level": self.options.level,
            "platform": self.platform.name,
            "user": _user(),
            "output": str(folder),
        }
        cleared, kept = environment.found(os.environ)
        self.record.run["environment"] = {"cleared": cleared, "kept": kept}
        self.record.notes += environment.notes(os.environ)
        if self.options.time_limit is not None:
            self.record.run["time_limit"] = self.options.time_limit
        if self.node:
            self.record.run["simulated"] = simulation.for_record(self.node)
        if self.sku:
            self.record.sku = {
                "name": self.sku.name,
                "asked": self.options.sku,
                "thresholds": releases.version(),
                "files": self.sku.files,
            }
        self.record.devices = list(self.setup.discovery.devices)
        self.record.software = {
            "pytest_accel": pytest_accel.__version__,
            "kernel": platform.release(),
            "python": platform.python_version(),
            **versions_of(self.setup.discovery.devices),
        }
        earlier, uuids = earlier_records.read(folder), [device.uuid for device in self.devices]
        self.record.earlier_attempts = earlier.of(uuids, simulated=self.node is not None)
        self.record.notes += earlier.notes()
        self.save()
        if self.folder.problem:
            raise Refused(f"--accel-output: cannot write to {folder}: {self.folder.problem}")
        if self.options.output and folder != self.options.output.absolute():
            self.record.notes.append(f"{self.options.output} holds the record of another host; this one is in {folder}")

    @property
    def begun(self) -> bool:
        """True once the record says how the run was started and holds its devices."""
        return self.folder.path is not None and bool(self.record.run)

    # -- checking

    def check(
        self,
        function: Callable[..., Any],
        given: dict[str, Any],
        subject: str,
        markers: Sequence[Limit] = (),
        metric: str | None = None,
    ) -> list[Verdict]:
        """Judge one subject by the SKU's limit and the markers'. The first call measures on every device.

        Returns one verdict for each limit, or one without a limit. Raises TypeError for conditions that the probe does
        not have, and ProbeError for a bug in the probe.
        """
        request = request_of(function, given, metric, self.sku)
        binding = requirements.required_at(self.options.level, self.setup.limits)
        own = binding.get(request.metric) if request.packaged else None
        limits = [replace(each, metric=request.metric) for each in (own, *markers) if each]
        fact = request.declaration.fact
        why = preconditions.skip_verdict(request.metric, subject, self.sku, self.platform, self.devices, fact=fact)
        why = (
            why
            or self._no_time(request, subject, binding=any(each.severity == "fail" for each in limits))
            or self._stopped(request, subject)
            or self._unreached(request, subject)
        )
        if why:
            return [self._keep(replace(why, limit=limits[0] if limits else None))]
        result = self._result(request)
        software = self.record.software
        every = [*((request.metric, each) for each in limits or (None,)), *_of_siblings(result, request, binding)]
        if self._short(result, every):
            self._repeat(result, request, every)
        with self.pool.timeline.on("checks"):
            result.add_broken(request.metric, subject)
            judged = [result.judged(request.metric, subject, each, software) for each in (limits or (None,))]
            verdicts = [self._keep(each) for each in judged]
            self._save(result, soon=True)
        self._judge_changes()
        return verdicts

    def _judge_changes(self) -> None:
        """Record and judge the facts of the devices that changed since this was last called."""
        binding = requirements.required_at(self.options.level, self.setup.limits)
        known = {device.uuid for device in self.devices}
        for each in self.pool.sensor.facts.take():
            if each.subject not in known:
                continue
            place = each.metric, each.subject
            attempts = [one for one in self.record.measurements if (one.metric, one.subject) == place]
            self.record.measurements.append(each)
            self._newest[place] = each
            verdict = judge([*attempts, each], binding.get(each.metric), self.record.software)
            self._changes.setdefault(each.subject, []).append(self._keep(verdict))

    def changes_of(self, subject: str) -> list[Verdict]:
        """Return the verdicts on facts of a device that changed since this was last asked for it."""
        return self._changes.pop(subject, [])

    def _barred(self, request: ProbeRequest, subject: str) -> str | None:
        """Return why a device is left out of a probe: it is the wrong product, or its state would spoil the result."""
        wrong = preconditions.wrong_product(subject, self.sku, self.devices)
        return wrong or preconditions.stopped(request.declaration, subject, self.devices, self.platform)

    def _stopped(self, request: ProbeRequest, subject: str) -> Verdict | None:
        """Return UNMEASURED for a device that is left out of the probe, else None."""
        if request.declaration.fact or not (why := self._barred(request, subject)):
            return None
        return Verdict(request.metric, subject, Status.UNMEASURED, why)

    def _no_time(self, request: ProbeRequest, subject: str, binding: bool) -> Verdict | None:
        """Return a verdict if the level has no time for the probe: UNMEASURED if a limit is `binding`. Else None."""
        if request.declaration.fact or self.budget(request.declaration, request.metric):
            return None
        status = Status.UNMEASURED if binding else Status.NOT_APPLICABLE
        enough = [each for each in LEVELS if budgets.budget(request.declaration, request.metric, each, self.sku)]
        remedy = f"use --accel-level={enough[0]}" if enough else "set one under `budgets` in the threshold file"
        why = f"level {self.options.level} has no time budget for this probe; {remedy}"
        return Verdict(request.metric, subject, status, why)

    def _unreached(self, request: ProbeRequest, subject: str) -> Verdict | None:
        """Return UNMEASURED if the time limit of the run leaves nothing for a probe that was not run yet, else None."""
        if request.declaration.fact or request.key in self._results or not self.deadline.over:
            return None
        return Verdict(request.metric, subject, Status.UNMEASURED, self.deadline.unreached)

    def _keep_unreached(self) -> None:
        """Keep a verdict on every required limit that the run did not reach within its time limit."""
        around = self._circumstances(None, 0)
        for metric, subject, origin in around.required:
            if (metric, subject, origin) not in self._verdicts and (limit := self.setup.limits.get(metric)):
                limit = replace(limit, metric=metric, origin=origin)
                self._keep(Verdict(metric, subject, Status.UNMEASURED, self.deadline.unreached, limit=limit))

    def wrong_sku(self) -> str | None:
        """Return a sentence if every device is another product than the SKU, so that measuring makes no sense."""
        failed = [each for each in self.verdicts if each.metric == "inventory.sku" and each.status is Status.FAIL]
        if not self.devices or {each.subject for each in failed} != {device.uuid for device in self.devices}:
            return None
        return f"none of the devices matches SKU {self.sku.name if self.sku else ''}: {failed[0].sentence}"

    def _keep(self, verdict: Verdict) -> Verdict:
        """Apply the waivers to a verdict, keep the worst one that was given on its limit, and return the new one."""
        serials = [each.serial for each in self.devices if each.uuid == verdict.subject and each.serial]
        verdict = self.setup.waivers.apply(verdict, serials)
        self._verdicts[verdict.key] = worst(self._verdicts.get(verdict.key), verdict)
        self.record.verdicts = list(self._verdicts.values())
        return verdict

    @property
    def verdicts(self) -> list[Verdict]:
        """The worst verdict on each limit so far."""
        return list(self._verdicts.values())

    def last_measurement(self, verdict: Verdict) -> Measurement | None:
        """Return the newest measurement behind a verdict, None if there is none."""
        return self._newest.get((verdict.metric, verdict.subject))

    def _repeat(self, result: Attempts, request: ProbeRequest, limits: Sequence[Judged]) -> None:
        """Measure all devices again at once, still hot, then single ones that fall short again on their own.

        The repetition decides; the measurement of a device alone only helps to find the cause. Both take place only
        while there is time for repeats (`judging/repeats.py`).
        """
        declared, short = request.declaration, self._short(result, limits)
        if declared.fact:
            return
        floors = [each.floor for each in short if each.floor is not None]
        pairs = peer_matrix.accused(result.rows, max(floors, default=0.0))
        turns = len(self.devices) if declared.runs == "in_turn" else 1
        first = self.budget(declared, request.metric) * turns
        wanted = peer_matrix.seconds_again(pairs, first) if pairs else first
        seconds = self._repeats.together(wanted, repeats.least(declared, first))
        if not seconds or self.deadline.left < seconds + STARTING_SECONDS:
            result.leave(self.deadline.unreached if seconds else self._repeats.spent)
            self._save(result)
            return
        self._again(result, request, seconds=seconds / turns, pairs=pairs)
        if self.deadline.over:
            result.leave(self.deadline.stopped)
            self._save(result)
            return
        subjects = {each.subject for each in self._short(result, limits)}
        result.repeated = True
        if declared.runs == "together" and len(self.devices) > 1:
            measured = sum(not self._barred(request, device.uuid) for device in self.devices)
            self._alone(result, request, self._repeats.single_out(declared, subjects, measured))

    def _alone(self, result: Attempts, request: ProbeRequest, subjects: set[str]) -> None:
        """Measure each of the devices (UUIDs) on its own, as far as there is time."""
        enough = repeats.least(request.declaration, self.budget(request.declaration, request.metric))
        for device in self.devices:
            if device.uuid in subjects and (seconds := self._repeats.alone(enough)):
                self._again(result, request, seconds=seconds, alone=device)

    def _again(
        self,
        result: Attempts,
        request: ProbeRequest,
        seconds: float,
        alone: Device | None = None,
        pairs: Sequence[Pair] = (),
    ) -> None:
        """Measure again for at most `seconds` on each device, and take what it took from the time for repeats.

        On a simulated node that is what the devices worked by their own clock, which runs faster.
        """
        began, worked = clock.now(), self.pool.device_seconds
        self._measure(result, request, alone=alone, seconds=seconds, pairs=pairs)
        turns = len(self.devices) if request.declaration.runs == "in_turn" else 1
        busy = min(self.pool.device_seconds - worked, seconds * turns)
        self._repeats.spend(max(clock.now() - began, busy), alone=alone is not None)

    def _short(self, result: Attempts, limits: Sequence[Judged]) -> list[Verdict]:
        """Return the verdicts of all subjects that fall short of a limit, or far behind their neighbours, so far."""
        return [one for metric, limit in limits for one in result.short(metric, limit, self.record.software)]

    # -- measuring

    def _result(self, request: ProbeRequest) -> Attempts:
        """Return the attempts at a request; measures if no earlier test asked for the same."""
        key = request.key
        if request.metric.startswith("counters."):
            self.pool.count_links()
        if request.declaration.fact:
            key = (f"{key[0]} after {self.pool.sensor.counters.readings} readings", request.metric)
        if key not in self._results:
            kinds = {device.uuid: neighbours.kind_of(device) for device in self.devices}
            spread_of = self.sku.spread_of if self.sku else no_spread
            result = Attempts(explain=explaining(self.devices), kinds=kinds, spread_of=spread_of)
            if request.declaration.fact:
                for each in self._facts(request.metric):
                    result.add(each)
                self._save(result, soon=True)
            else:
                self._enter()
                self._measure(result, request)
            self._results[key] = result
        return self._results[key]

    def _facts(self, metric: str) -> list[Measurement]:
        """Return a fact of the host, or of every device, as measurements."""
        if metric.startswith("counters."):
            return withheld([self.pool.sensor.counted(metric, device) for device in self.devices], self.devices)
        if metric.startswith("host_counters."):
            return [self.pool.sensor.host_counted(metric)]
        name = metric.removeprefix("host.")
        if name != metric:
            return [host_fact(metric, self.host_facts()[name], clock.now())]
        return facts(metric, self.setup.discovery, self.sku, clock.now())

    def _enter(self) -> None:
        """Pass the idle gate, once in a run: before the first worker opens a device."""
        if self._idle_check is None:
            self._idle_check = check_idle(self.pool, self.devices)
            self.record.notes += self._idle_check.notes

    def _measure(
        self,
        result: Attempts,
        request: ProbeRequest,
        alone: Device | None = None,
        pairs: Sequence[Pair] = (),
        seconds: float | None = None,
    ) -> None:
        """Run the probe once, for its budget or for `seconds`, and add its measurements to `result`.

        It runs on all devices, or only on the device `alone`, or only between `pairs` of peers.
        """
        work = WorkerRequest(
            metric=request.metric,
            suffix=request.suffix,
            runs=request.declaration.runs,
            probe=request.probe,
            conditions=request.conditions,
            seconds=self.budget(request.declaration, request.metric) if seconds is None else seconds,
            precision=0.0 if pairs else self.sku.precision if self.sku else Sku.precision,
            pairs=pairs,
        )
        self._forget_counters()
        measured = [device for device in self.devices if not self._barred(request, device.uuid)]
        outcomes: list[Outcome] = []
        began = clock.now()
        try:
            links = "link" in request.declaration.stresses
            self.pool.measure(work, [alone] if alone else measured, outcomes.append, links=links)
        finally:
            lost = {device.uuid: device.name for device in self.devices if self.pool.sensor.counters.lost(device.uuid)}
            context = results.Context(work, self._peak, began, clock.now(), "alone" if alone else "together", lost)
            self._stood_still = self.pool.stood_still_since(began)
            with self.pool.timeline.on("checks"):
                self._gather(result, outcomes, context)

    def _forget_counters(self) -> None:
        """Forget the verdicts on error counters that hold, since a probe that runs now may raise a counter."""
        for key, each in list(self._verdicts.items()):
            ours = each.limit is not None and each.limit.declared_by is not DeclaredBy.MARKER
            if each.metric.startswith(OF_COUNTERS) and ours and not each.fails:
                del self._verdicts[key]
        kept = {key[:2] for key in self._verdicts}
        self._results = {key: each for key, each in self._results.items() if not key[1].startswith(OF_COUNTERS)}
        voided = {key for key in self._newest if key[0].startswith(OF_COUNTERS) and key not in kept}
        if voided:
            self.record.measurements = [
                each for each in self.record.measurements if (each.metric, each.subject) not in voided
            ]
            self._newest = {key: each for key, each in self._newest.items() if key not in voided}

    def _gather(self, result: Attempts, outcomes: Sequence[Outcome], context: results.Context) -> None:
        """Make measurements of the workers' outcomes, and add them to the result and to the record."""
        if context.request.runs == "ranks":
            disturbed = next((f"{each.name}: {why}" for each in self.devices if (why := self._foreign(each))), None)
            excuse = next((why for each in self.devices if (why := self._excuse(each))), None)
            for each in results.per_node(outcomes, context):
                under = with_excuse(replace(each, disturbance=disturbed), excuse)
                result.add(results.foreseen(under, self.sku))
        else:
            measurements = [each for outcome in outcomes for each in results.per_device(outcome, context)]
            compared = withheld(results.compared(measurements), self.devices)
            self._add(result, self._fairly(result, compared, context.request))
        self._save(result)

    def _fairly(self, result: Attempts, found: list[Measurement], request: WorkerRequest) -> list[Measurement]:
        """Return the measurements; those of peer copies count only the pairs that each device is to blame for."""
        if request.runs != "peers":
            return found
        if request.pairs:
            return peer_matrix.attributed_after_repeat(result.rows, found, self.names)
        result.rows = found
        return peer_matrix.attributed(found, self.names)

    def _peak(self, metric: str) -> tuple[float, str] | None:
        """Return the datasheet peak of a metric and its source, None where there is none."""
        return peak(self.sku, metric, self.platform) if self.sku else None

    def _add(self, result: Attempts, found: list[Measurement]) -> None:
        """Add each measurement with its evidence, and the metrics that the sensor's readings yield beside it."""
        devices = {device.uuid: device for device in self.devices}
        for each in found:
            device = devices[each.subject]
            readings = self.pool.sensor.telemetry.window(device.uuid, each.started, each.ended)
            window = self.pool.sensor.counters.last(device.uuid)
            measured, *beside = with_evidence(
                each,
                device,
                self.sku,
                readings=readings,
                earlier=self.record.measurements,
                foreign=self._foreign(device),
                excuse=self._excuse(device),
                moved=window.moved if window else {},
            )
            result.add(measured)
            for more in beside:
                if not (self.sku and why_not_applicable(self.sku, more.metric, self.platform)):
                    result.add(more)

    def _foreign(self, device: Device) -> str | None:
        """Return a sentence on what disturbed a device, before the run or during the last probe, or None."""
        if self._stood_still:
            return self._stood_still
        reason = self._idle_check.disturbed.get(device.uuid) if self._idle_check else None
        return f"before the run, {reason}" if reason else self.pool.sensor.foreign.get(device.uuid)

    def _excuse(self, device: Device) -> str | None:
        """Return a sentence on a load before the run that excuses a low speed of the device, or None."""
        return self._idle_check.excused.get(device.uuid) if self._idle_check else None

    # -- the record

    def _save(self, result: Attempts, *, soon: bool = False) -> None:
        """Add the new measurements of a result to the record, and write it."""
        for each in result.take_unrecorded():
            self.record.measurements.append(each)
            self._newest[each.metric, each.subject] = each
        self.save(soon=soon)

    def save(self, *, soon: bool = False) -> None:
        """Write the record. A failure is kept for the closing line, and the run goes on.

        If `soon` is set, the record is written only if the last write is about a second ago. That is enough for
        verdicts: there are hundreds, and they can be derived again from the measurements, which are written at once.
        """
        if self.folder.path is None or (soon and not self.folder.is_due()):
            return
        self.record.software.update(self.pool.software)
        self.record.waivers = self.setup.waivers.summary(self.verdicts)
        self.record.notes += [note for note in self.pool.sensor.notes if note not in self.record.notes]
        self.folder.save(self.record, self._give_up_telemetry)

    def _give_up_telemetry(self) -> bool:
        """Give up the file of the telemetry for the record on a full disk; return False if there is none."""
        self.record.telemetry = {}
        return self.pool.sensor.telemetry.give_up("its room was needed for the record on a full disk")

    def finish(self, interrupted: str | None = None, ended: int = 2, *, cut_short: bool = False) -> Closing:
        """End the processes, complete the record, and return the closing line.

        `interrupted` says why pytest ended early, None if it did not; `ended` is the exit status of such a run. A run
        that its time limit `cut_short` is judged by what it reached.
        """
        self._judge_changes()
        if cut_short and not self.filtered:
            self._keep_unreached()
        self.stop()
        self.pool.sensor.telemetry.close()
        if self.folder.path and not self.pool.sensor.telemetry.given_up:
            side = self.folder.path / record.TELEMETRY
            self.record.telemetry = {"file": record.TELEMETRY, "sha256": record.hash_file(side)}
        self.record.notes += self.setup.waivers.notes(self.verdicts)
        self.record.run["ended"] = _now()
        self.record.run = {**self.record.run, **self.pool.spent()}
        self.record.state = "interrupted" if interrupted else "finished"
        around = self._circumstances(interrupted, ended)
        return self._close(replace(around, cut_short=self.deadline.ended if cut_short else None))

    def broken_after(self, error: str) -> Closing:
        """Close a finished run again, because of an error that came later. A rejection stays one."""
        around = self.record.circumstances or Circumstances()
        return self._close(replace(around, broken_tests=[*around.broken_tests, error]))

    def _close(self, around: Circumstances) -> Closing:
        """Write the closing line into the record and return it; it is another one if the record cannot be written."""
        closing = self._conclude(around)
        problem = self.folder.lost or self.pool.sensor.telemetry.problem  # also what the attempt to write has shown
        if problem and problem != around.record_problem:
            closing = self._conclude(replace(around, record_problem=problem))
        self.finished = True
        return closing

    def _conclude(self, around: Circumstances) -> Closing:
        """Put the closing line under these circumstances into the record, and write it."""
        closing = close(self.verdicts, around)
        self.record.circumstances, self.record.closing = around, record.closing_entry(closing)
        self.save()
        return closing

    def _circumstances(self, interrupted: str | None, ended: int) -> Circumstances:
        """Return everything besides the verdicts that decides the closing line."""
        uuids = [device.uuid for device in self.setup.discovery.devices]
        skipped = len(self.not_run)
        not_run = [f"{skipped} test{'s' * (skipped > 1)} skipped before measuring anything"] if skipped else []
        return replace(
            circumstances(self.sku, self.platform, self.options.level, self.setup.limits, uuids),
            names=self.names,
            rejected_before=earlier_records.rejected_before(self.record.earlier_attempts, self.names),
            day=self.record.run.get("started", "")[:10],
            no_acceptance=[*self.setup.no_acceptance, *not_run],
            filtered=self.filtered,
            broken_tests=self.errors.broken,
            failed_tests=self.errors.failed,
            record_problem=self.pool.sensor.telemetry.problem,
            wants_acceptance=self.setup.wants_acceptance,
            simulated=self.node is not None,
            interrupted=interrupted,
            ended=ended,
        )

    def stop(self) -> None:
        """End every process of the run and unlock the devices. It may be called twice."""
        self.pool.stop()
        for lock in self._locks:
            lock.close()
        self._locks = []


def _user() -> str:
    """Return the name of the user who runs pytest, its number if it has no name."""
    named = os.environ.get("USER") or os.environ.get("LOGNAME")
    if named:
        return named
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _of_siblings(result: Attempts, request: ProbeRequest, binding: Mapping[str, Limit]) -> list[Judged]:
    """Return the other metrics of the same probe call, with their limits.

    A repetition measures all of these metrics again, so it has to come before the first of them is judged.
    """
    own = binding if request.packaged else {}
    siblings = sorted({metric for metric, _ in result.attempts} - {request.metric})
    return [(metric, replace(own[metric], metric=metric) if metric in own else None) for metric in siblings]


def _now() -> str:
    """Return the time in UTC, in ISO 8601 to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
