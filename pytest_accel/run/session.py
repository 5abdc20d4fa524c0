"""The session of one run: it discovers and locks the devices, has them measured, judges each, and closes the record.

`measuring.py` measures, `ledger.py` keeps what was found; what they call in `judging/` is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from typing import IO, TYPE_CHECKING, Any

from pytest_accel.core.display_names import Names
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.node_name import node_name
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.core.verdict import Status, Verdict, worsened
from pytest_accel.judging import preconditions
from pytest_accel.judging.closing import Closing, Errors, circumstances
from pytest_accel.judging.judge import judge
from pytest_accel.probes.request import Request
from pytest_accel.run import device_lock, earlier_records, resume
from pytest_accel.run.deadline import Deadline
from pytest_accel.run.ledger import RESUMABLE, Ledger
from pytest_accel.run.measuring import Measuring, of_siblings
from pytest_accel.run.options import NONE, Options, Refused
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.record import names_of
from pytest_accel.run.record_folder import RecordFolder
from pytest_accel.run.request import request_of
from pytest_accel.run.rounds import Rounds
from pytest_accel.run.setup import Setup
from pytest_accel.skus import budgets, requirements

if TYPE_CHECKING:
    from pytest_accel.simulate.node import Node

Tell = Callable[[str, float, float], None]
"""Shows progress: called with what is being done, the seconds spent and the seconds expected."""


class Session:
    """An acceptance run, of which pytest opens one: it measures the devices of its setup, judges and records them."""

    def __init__(self, options: Options, progress: Tell | None = None, pool: WorkerPool | None = None) -> None:
        self.setup = Setup(options)
        self.deadline = Deadline(options.time_limit)
        sensor = SensorClient(options.patience, self.deadline)
        self.pool = pool or WorkerPool(sensor, progress or (lambda what, spent, expected: None))
        self.ledger = Ledger(self.setup, self.pool)
        self.measuring = Measuring(self.setup, self.pool, self.deadline, self.ledger)
        self.errors = Errors()
        self.causes_told: dict[tuple[Status, str, str], str] = {}
        """Status and sentence of failures without a value, to the node id of the first test whose report tells it."""
        self.not_run: list[str] = []
        """Names of measuring tests that were skipped before they measured."""
        self.tests: dict[tuple[str, str, str], str] = {}
        """Name of the test that asked for a verdict, by the key of the verdict."""
        self.rounds = Rounds(self.setup, self.pool, self.deadline, self.ledger, self.measuring)
        self._changes: dict[str, list[Verdict]] = {}
        """Verdicts on facts that changed during the run and that no test has reported yet, by UUID."""
        self._counted = 0
        """The number of readings of the error counters when they were judged last."""
        self._locks: list[IO[bytes]] = []
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
    def names(self) -> Names:
        """Display name by subject (the UUID of a device, or NODE)."""
        return Names({**names_of(self.record), **self.setup.names})

    @property
    def record(self) -> Run:
        """The record of the run."""
        return self.ledger.record

    @property
    def folder(self) -> RecordFolder:
        """The folder of the record."""
        return self.ledger.folder

    @property
    def verdicts(self) -> list[Verdict]:
        """The worst verdict on each limit so far."""
        return self.ledger.verdicts

    def last_measurement(self, verdict: Verdict) -> Measurement | None:
        """Return the newest measurement behind a verdict, None if there is none."""
        return self.ledger.newest(verdict.metric, verdict.subject)

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
        host = node_name()
        name = f"{host}{'-simulated' * bool(self.node)}-{stamp}"
        resumed = resume.find(self.options)
        folder = (
            self.folder.reopen(resumed.folder)
            if resumed
            else self.folder.create(self.options.output, host, name, shared=self.options.shared)
        )
        self.setup.discover(self.pool, folder)
        if resumed:
            resume.check(resumed, self.setup)
        try:
            names = [] if self.node else [(device.uuid, device.name) for device in self.devices]
            self._locks = device_lock.hold(names, f"record {folder}")
        except device_lock.DeviceLocked as held:
            raise Refused(f"{held}; wait for that run to end, or stop it") from None
        self.measuring.resumed = resumed
        self.ledger.begin(folder, resumed)

    @property
    def resumable(self) -> bool:
        """True if a run that has ended can be resumed by its record: it was stopped, or its hours are not over."""
        around = self.record.circumstances
        left = around is not None and bool(around.interrupted or resume.unfinished(around))
        return left and "starts" in self.record.run

    @property
    def begun(self) -> bool:
        """True once the record says how the run was started and holds its devices."""
        return self.ledger.begun

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
        not have or cannot use, and ProbeError for a bug in the probe.
        """
        request = request_of(function, given, metric, self.sku, self.options.level)
        binding = requirements.required_at(self.options.level, self.setup.limits)
        own = binding.get(request.metric) if request.judged_by_sku else None
        limits = [replace(each, metric=request.metric) for each in (own, *markers) if each]
        fact = request.declaration.fact
        why = preconditions.skip_verdict(request.metric, subject, self.sku, self.platform, self.devices, fact=fact)
        why = (
            why
            or self._no_time(request, subject, binding=not all(each.only_warns for each in limits))
            or self._stopped(request, subject)
            or self._unreached(request, subject)
        )
        if why:
            return [self.ledger.keep(replace(why, limit=limits[0] if limits else None))]
        result = self.measuring.result(request)
        software = self.record.software
        every = [*((request.metric, each) for each in limits or (None,)), *of_siblings(result, request, binding)]
        if self.measuring.short(result, every):
            self.measuring.repeat(result, request, every)
        with self.pool.timeline.on("checks"):
            result.add_broken(request.metric, subject)
            judged = [result.judged(request.metric, subject, each, software) for each in (limits or (None,))]
            verdicts = [self.ledger.keep(self._with_vanished(each)) for each in judged]
            self.measuring.save(result, soon=True)
        self._judge_changes()
        if not request.declaration.fact:
            self._judge_counters()
            self.rounds.ask(request, [(request.metric, subject, each) for each in limits or (None,)])
        return verdicts

    def repeat_rounds(self, subject: str) -> list[Verdict]:
        """Repeat all measurements for the hours that the options ask for, once in a run.

        Returns the verdicts on a subject that became worse by it, or else one for information.
        """
        self.rounds.run(self._look_between)
        return self.ledger.of_rounds(subject) or [self.rounds.information(subject)]

    def _look_between(self) -> None:
        """Record what became of facts and counters during a measurement of a later round."""
        self._judge_changes()
        self._judge_counters()

    def _with_vanished(self, verdict: Verdict) -> Verdict:
        """Return the verdict; that on the number of devices fails if one has vanished since a resumed run began."""
        resumed = self.measuring.resumed
        why = resumed.gone(self.setup.discovery.devices) if resumed and verdict.metric == "inventory.count" else None
        return worsened(verdict, Status.FAIL, why) if why else verdict

    def _judge_counters(self) -> None:
        """Record error counters that break their limit by now: if a long run is killed, it reads them anew."""
        if self.options.level != RESUMABLE or self._counted == self.pool.sensor.counters.readings:
            return
        self._counted = self.pool.sensor.counters.readings
        for metric, limit in requirements.required_at(self.options.level, self.setup.limits).items():
            for device in self.devices if metric.startswith("counters.") else ():
                found = self.pool.sensor.counted(metric, device)
                verdict = judge([found], replace(limit, metric=metric), self.record.software)
                if verdict.status is Status.FAIL and not self.ledger.failed(verdict.key):
                    self.ledger.add([found])
                    self.ledger.keep(verdict)
                    self.ledger.save()

    def _judge_changes(self) -> None:
        """Record and judge the facts of the devices that changed since this was last called."""
        binding = requirements.required_at(self.options.level, self.setup.limits)
        known = {device.uuid for device in self.devices}
        for each in self.pool.sensor.facts.take():
            if each.subject not in known:
                continue
            attempts = self.ledger.attempts(each.metric, each.subject)
            self.ledger.add([each])
            verdict = judge([*attempts, each], binding.get(each.metric), self.record.software)
            self._changes.setdefault(each.subject, []).append(self.ledger.keep(verdict))

    def changes_of(self, subject: str) -> list[Verdict]:
        """Return the verdicts on facts of a device that changed since this was last asked for it."""
        return self._changes.pop(subject, [])

    def _stopped(self, request: Request, subject: str) -> Verdict | None:
        """Return UNMEASURED for a device that is left out of the probe, else None."""
        if request.declaration.fact or not (why := self.measuring.barred(request, subject)):
            return None
        return Verdict(request.metric, subject, Status.UNMEASURED, why)

    def _no_time(self, request: Request, subject: str, binding: bool) -> Verdict | None:
        """Return a verdict if the level has no time for the probe: UNMEASURED if a limit is `binding`. Else None."""
        if request.declaration.fact or self.measuring.budget(request.declaration, request.metric):
            return None
        status = Status.UNMEASURED if binding else Status.NOT_APPLICABLE
        enough = [each for each in LEVELS if budgets.budget(request.declaration, request.metric, each, self.sku)]
        remedy = f"use --accel-level={enough[0]}" if enough else "set one under `budgets` in the threshold file"
        why = f"level {self.options.level} has no time budget for this probe; {remedy}"
        return Verdict(request.metric, subject, status, why)

    def _unreached(self, request: Request, subject: str) -> Verdict | None:
        """Return UNMEASURED if the time limit of the run leaves nothing for a probe that was not run yet, else None."""
        if request.declaration.fact or self.measuring.reached(request) or not self.deadline.over:
            return None
        return Verdict(request.metric, subject, Status.UNMEASURED, self.deadline.unreached)

    def _keep_unreached(self) -> None:
        """Keep a verdict on every required limit that the run did not reach within its time limit."""
        around = self._circumstances(None, 0)
        for metric, subject, origin in around.required:
            if not self.ledger.has((metric, subject, origin)) and (limit := self.setup.limits.get(metric)):
                limit = replace(limit, metric=metric, origin=origin)
                self.ledger.keep(Verdict(metric, subject, Status.UNMEASURED, self.deadline.unreached, limit=limit))

    def wrong_sku(self) -> str | None:
        """Return a sentence if every device is another product than the SKU, so that measuring makes no sense."""
        failed = [each for each in self.verdicts if each.metric == "inventory.sku" and each.status is Status.FAIL]
        if not self.devices or {each.subject for each in failed} != {device.uuid for device in self.devices}:
            return None
        return f"none of the devices matches SKU {self.sku.name if self.sku else ''}: {failed[0].sentence}"

    # -- the record

    def finish(self, interrupted: str | None = None, ended: int = 2, *, cut_short: bool = False) -> Closing:
        """End the processes, complete the record, and return the closing line.

        `interrupted` says why pytest ended early, None if it did not; `ended` is the exit status of such a run. A run
        that its time limit `cut_short` is judged by what it reached.
        """
        self._judge_changes()
        if cut_short and not self.filtered:
            self._keep_unreached()
        self.stop()
        self.ledger.complete(interrupted=interrupted is not None)
        around = self._circumstances(interrupted, ended)
        return self._close(replace(around, cut_short=self.deadline.ended if cut_short else None))

    def broken_after(self, error: str) -> Closing:
        """Close a finished run again, because of an error that came later. A rejection stays one."""
        around = self.record.circumstances or Circumstances()
        return self._close(replace(around, broken_tests=[*around.broken_tests, error]))

    def _close(self, around: Circumstances) -> Closing:
        """Write the closing line into the record and return it."""
        closing = self.ledger.close(around)
        self.finished = True
        return closing

    def _circumstances(self, interrupted: str | None, ended: int) -> Circumstances:
        """Return everything besides the verdicts that decides the closing line."""
        uuids = [device.uuid for device in self.setup.discovery.devices]
        starts = [each["boot"] for each in self.record.run.get("starts", [])]
        skipped = len(self.not_run)
        not_run = [f"{skipped} test{'s' * (skipped > 1)} skipped before measuring anything"] if skipped else []
        return replace(
            circumstances(self.sku, self.platform, self.options.level, self.setup.limits, uuids),
            names=self.names,
            rejected_before=[]
            if self.node and self.options.baseline == NONE  # a rehearsal has no past
            else earlier_records.rejected_before(self.record.earlier_attempts, self.names),
            day=self.record.run.get("started", "")[:10],
            no_acceptance=[*self.setup.no_acceptance, *not_run],
            filtered=self.filtered,
            broken_tests=self.errors.broken,
            failed_tests=self.errors.failed,
            record_problem=self.pool.sensor.telemetry.problem,
            wants_acceptance=self.setup.wants_acceptance,
            simulated=self.node is not None,
            hours=self.options.hours or 0.0,
            hours_done=self.ledger.elapsed.seconds / 3600 if self.options.hours else 0.0,
            rounds=self.record.rounds.get("complete", 0),
            resumed=max(0, len(starts) - 1),
            reboots=sum(resume.boots_differ(one, other) for one, other in pairwise(starts)),
            interrupted=interrupted,
            ended=ended,
        )

    def stop(self) -> None:
        """End every process of the run and unlock the devices. It may be called twice."""
        self.pool.stop()
        for lock in self._locks:
            lock.close()
        self._locks = []
