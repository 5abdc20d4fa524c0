"""The session of one run: it discovers and locks the devices, has them measured, judges each, and closes the record.

`measuring.py` measures, `ledger.py` keeps what was found; what they call in `judging/` is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from typing import IO, Any

from pytest_accel.core.node_name import node_name
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import Circumstances
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.closing import Closing, Errors
from pytest_accel.judging.judge import judge
from pytest_accel.run import device_lock, earlier_records, resume
from pytest_accel.run.deadline import Deadline
from pytest_accel.run.ledger import RESUMABLE, Ledger
from pytest_accel.run.measuring import Measuring, of_siblings
from pytest_accel.run.options import NONE, Options, Refused
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.request import request_of
from pytest_accel.run.rounds import Rounds
from pytest_accel.run.setup import Setup

Tell = Callable[[str, float, float], None]
"""Shows progress: called with what is being done, the seconds spent and the seconds expected."""


class Session:
    """An acceptance run, of which pytest opens one: it measures the devices of its setup, judges and records them."""

    def __init__(
        self,
        options: Options,
        progress: Tell = lambda what, spent, expected: None,
        announce: Callable[[str], None] = lambda text: None,
        pool: WorkerPool | None = None,
    ) -> None:
        """`announce` is called with a line of text when a round of a long run begins."""
        self.setup = Setup(options)
        self.deadline = Deadline(options.time_limit)
        self.pool = pool or WorkerPool(SensorClient(options.patience, self.deadline), progress)
        self.ledger = Ledger(self.setup, self.pool)
        self.measuring = Measuring(self.setup, self.pool, self.deadline, self.ledger)
        self.errors = Errors()
        self.rounds = Rounds(self.setup, self.pool, self.deadline, self.ledger, self.measuring, announce=announce)
        self._changes: dict[str, list[Verdict]] = {}
        """Verdicts on facts that changed during the run and that no test has reported yet, by UUID."""
        self._counted = 0
        """The number of readings of the error counters when they were judged last."""
        self._locks: list[IO[bytes]] = []
        self.finished = False
        """True once the closing line is in the record, or could not be written."""

    # -- opening

    def open(self, *, measuring: bool = True) -> None:
        """Settle SKU, devices and platform; if `measuring`, also create the record and lock the devices.

        Raises Refused if the run cannot begin. No process, lock or empty record is left then.
        """
        try:
            self._open(measuring)
        except BaseException as error:
            self.stop()
            if not self.ledger.begun or isinstance(error, Refused | KeyboardInterrupt):
                self.ledger.folder.take_back()
            raise

    def _open(self, measuring: bool) -> None:
        self.setup.prepare()
        if not measuring:
            self.setup.discover(self.pool)
            return
        self.setup.check_torch()
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        host = node_name()
        name = f"{host}{'-simulated' * bool(self.setup.node)}-{stamp}"
        options, folders = self.setup.options, self.ledger.folder
        resumed = resume.find(options)
        folder = (
            folders.reopen(resumed.folder)
            if resumed
            else folders.create(options.output, host, name, shared=options.shared)
        )
        self.setup.discover(self.pool, folder)
        if resumed:
            resume.check(resumed, self.setup)
        try:
            names = [] if self.setup.node else [(device.uuid, device.name) for device in self.setup.devices]
            self._locks = device_lock.hold(names, f"record {folder}")
        except device_lock.DeviceLocked as held:
            raise Refused(f"{held}; wait for that run to end, or stop it") from None
        self.ledger.begin(folder, resumed)

    @property
    def resumable(self) -> bool:
        """True if a run that has ended can be resumed by its record: it was stopped, or its hours are not over."""
        around = self.ledger.record.circumstances
        left = around is not None and bool(around.interrupted or resume.unfinished(around))
        return left and "starts" in self.ledger.record.run

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
        binding = self.setup.terms.required
        request = request_of(function, given, metric, self.setup.terms.sku, self.setup.terms.level)
        own = binding.get(request.metric) if request.judged_by_sku else None
        limits = [replace(each, metric=request.metric) for each in (own, *markers) if each]
        if skipped := self.measuring.skipped(request, subject, binding=not all(each.only_warns for each in limits)):
            return [self.ledger.keep(replace(skipped, limit=limits[0] if limits else None))]
        result = self.measuring.result(request)
        software = self.ledger.record.software
        every = [*((request.metric, each) for each in limits or (None,)), *of_siblings(result, request, binding)]
        self.measuring.repeat(result, request, every)
        with self.pool.timeline.on("checks"):
            result.add_broken(request.metric, subject)
            judged = [result.judged(request.metric, subject, each, software) for each in (limits or (None,))]
            if request.metric == "inventory.count" and (resumed := self.ledger.resumed):
                gone = resumed.gone(self.setup.discovery.devices)
                judged = [each.worsened(Status.FAIL, Note("vanished", gone)) if gone else each for each in judged]
            verdicts = [self.ledger.keep(each) for each in judged]
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
        """Record what became of facts and counters during a measurement."""
        self._judge_changes()
        self._judge_counters()

    def _judge_counters(self) -> None:
        """Record error counters that break their limit by now: if a long run is killed, it reads them anew."""
        if self.setup.terms.level != RESUMABLE or self._counted == self.pool.sensor.counters.readings:
            return
        self._counted = self.pool.sensor.counters.readings
        for metric, limit in self.setup.terms.required.items():
            for device in self.setup.devices if metric.startswith("counters.") else ():
                found = self.pool.sensor.counted(metric, device)
                verdict = judge([found], replace(limit, metric=metric), self.ledger.record.software)
                if verdict.status is Status.FAIL and self.ledger.status(verdict.key) is not Status.FAIL:
                    self.ledger.add([found])
                    self.ledger.keep(verdict)
                    self.ledger.save()

    def _judge_changes(self) -> None:
        """Record and judge the facts of the devices that changed since this was last called."""
        binding, known = self.setup.terms.required, {device.uuid for device in self.setup.devices}
        for each in self.pool.sensor.facts.take():
            if each.subject not in known:
                continue
            attempts = self.ledger.attempts(each.metric, each.subject)
            self.ledger.add([each])
            verdict = judge([*attempts, each], binding.get(each.metric), self.ledger.record.software)
            self._changes.setdefault(each.subject, []).append(self.ledger.keep(verdict))

    def changes_of(self, subject: str) -> list[Verdict]:
        """Return the verdicts on facts of a device that changed since this was last asked for it."""
        return self._changes.pop(subject, [])

    def _keep_unreached(self) -> None:
        """Keep a verdict on every required limit that the run did not reach within its time limit."""
        around = self._circumstances(None, 0)
        for metric, subject, origin in around.required:
            if not self.ledger.status((metric, subject, origin)) and (limit := self.setup.terms.limits.get(metric)):
                limit = replace(limit, metric=metric, origin=origin)
                why = Note("out_of_time", self.deadline.unreached)
                self.ledger.keep(Verdict(metric, subject, Status.UNMEASURED, (why,), limit=limit))

    def wrong_sku(self) -> str | None:
        """Return a sentence if every device is another product than the SKU, so that measuring makes no sense."""
        sku, uuids = self.setup.terms.sku, {device.uuid for device in self.setup.devices}
        failed = [
            each for each in self.ledger.verdicts if each.metric == "inventory.sku" and each.status is Status.FAIL
        ]
        if not uuids or {each.subject for each in failed} != uuids:
            return None
        return f"none of the devices matches SKU {sku.name if sku else ''}: {sentence_of(failed[0])}"

    # -- the record

    def finish(self, interrupted: str | None = None, ended: int = 2, *, cut_short: bool = False) -> Closing:
        """End the processes, complete the record, and return the closing line.

        `interrupted` says why pytest ended early, None if it did not; `ended` is the exit status of such a run. A run
        that its time limit `cut_short` is judged by what it reached.
        """
        self._judge_changes()
        if cut_short and not self.setup.filtered:
            self._keep_unreached()
        self.stop()
        self.ledger.complete(interrupted=interrupted is not None)
        around = self._circumstances(interrupted, ended)
        return self._close(replace(around, cut_short=self.deadline.ended if cut_short else None))

    def broken_after(self, error: str) -> Closing:
        """Close a finished run again, because of an error that came later. A rejection stays one."""
        around = self.ledger.record.circumstances or Circumstances()
        return self._close(replace(around, broken_tests=[*around.broken_tests, error]))

    def _close(self, around: Circumstances) -> Closing:
        """Write the closing line into the record and return it."""
        closing = self.ledger.close(around)
        self.finished = True
        return closing

    def _circumstances(self, interrupted: str | None, ended: int) -> Circumstances:
        """Return everything besides the verdicts that decides the closing line."""
        setup, ledger, options = self.setup, self.ledger, self.setup.options
        starts = [each["boot"] for each in ledger.record.run.get("starts", [])]
        return replace(
            setup.terms.circumstances(),
            names=ledger.names,
            rejected_before=[]
            if setup.node and options.baseline == NONE  # a rehearsal has no past
            else earlier_records.rejected_before(ledger.record.earlier_attempts, ledger.names),
            day=ledger.record.run.get("started", "")[:10],
            no_acceptance=setup.no_acceptance,
            filtered=setup.filtered,
            broken_tests=self.errors.broken,
            failed_tests=self.errors.failed,
            record_problem=self.pool.sensor.telemetry.problem,
            wants_acceptance=setup.wants_acceptance,
            simulated=setup.node is not None,
            hours=options.hours or 0.0,
            hours_done=ledger.elapsed.seconds / 3600 if options.hours else 0.0,
            rounds=ledger.record.rounds.get("complete", 0),
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
