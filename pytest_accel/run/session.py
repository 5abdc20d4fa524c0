"""The session of one run: it discovers and locks the devices, has them measured, judges each, and closes the record.

`measuring.py` measures, `ledger.py` keeps what was found; what they call in `judging/` is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import IO, Any

from pytest_accel.core import clock
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.node_name import node_name
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import Circumstances
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Closing, Status, Verdict
from pytest_accel.judging.closing import series
from pytest_accel.judging.closing.line import Errors
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.run import device_lock, earlier_records
from pytest_accel.run.deadline import Deadline
from pytest_accel.run.fabric.run import FabricRun
from pytest_accel.run.ledger import Ledger
from pytest_accel.run.measuring import Measuring, of_siblings
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes.sensor_client import SensorClient
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.progress import Progress
from pytest_accel.run.request import request_of
from pytest_accel.run.setup import Setup


class Session:
    """An acceptance run, of which pytest opens one: it measures the devices of its setup, judges and records them."""

    def __init__(self, options: Options, progress: Progress | None = None, pool: WorkerPool | None = None) -> None:
        self.setup = Setup(options)
        self.deadline = Deadline(options.time_limit)
        self.pool = pool or WorkerPool(SensorClient(options.patience, self.deadline), progress)
        self.ledger = Ledger(self.setup, self.pool)
        self.fabric = FabricRun(self.setup, self.pool, self.ledger)
        self.measuring = Measuring(self.setup, self.pool, self.deadline, self.ledger, self.fabric)
        self.errors = Errors()
        self.own_tests = ""
        """The user's own tests that took a device and passed, in words."""
        self.loaded: Sequence[tuple[str, str]] = ()
        """The names of files, plugins and variables that may change what the run does, and each in full."""
        self._changes: dict[str, list[Verdict]] = {}
        """Verdicts on facts that changed during the run and that no test has reported yet, by UUID."""
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
        folder = folders.create(options.output, host, name, shared=options.shared)
        self.setup.discover(self.pool, folder)
        try:
            names = [] if self.setup.node else [(device.uuid, device.name) for device in self.setup.devices]
            self._locks = device_lock.hold(names, f"record {folder}")
        except device_lock.DeviceLocked as held:
            raise Refused(f"{held}; wait for that run to end, or stop it") from None
        self.ledger.begin(folder)
        self.fabric.meet()
        if before := self.setup.before:
            self.pool.sensor.follow(*series.counts(before, clock.boot_id(), clock.epoch()))
        self.measuring.note_host()

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
        __tracebackhide__ = True
        binding = self.setup.terms.required
        request = request_of(function, given, metric, self.setup.terms.sku, self.setup.terms.level)
        own = binding.get(request.metric) if request.judged_by_sku else None
        limits = [replace(each, metric=request.metric) for each in (own, *markers) if each]
        warns = all(each.warns for each in limits)
        if skipped := self.measuring.skipped(request, subject, binding=not warns):
            return [self.ledger.keep(replace(skipped, limit=limits[0] if limits else None))]
        attempts = self.measuring.attempts(request)
        software = self.ledger.record.software
        every = [*((request.metric, each) for each in limits or (None,)), *of_siblings(attempts, request, binding)]
        self.measuring.repeat(attempts, request, every)
        with self.pool.timeline.on("checks"):
            attempts.add_broken(request.metric, subject)
            judged = [attempts.judged(request.metric, subject, each, software) for each in (limits or (None,))]
            verdicts = [self.ledger.keep(each) for each in judged]
            self.measuring.save(attempts, soon=True)
        self._judge_changes()
        return verdicts

    def _judge_changes(self) -> None:
        """Record and judge the facts of the devices that changed since this was last called."""
        known = {device.uuid for device in self.setup.devices}
        for each in self.pool.sensor.facts.take():
            if each.subject in known:
                self._changes.setdefault(each.subject, []).append(self._judge_fact(each))

    def _judge_fact(self, fact: Measurement) -> Verdict:
        """Record and judge a fact that was read, beside all earlier readings of it."""
        attempts, limit = self.ledger.attempts(fact.metric, fact.subject), self.setup.terms.required.get(fact.metric)
        self.ledger.add([fact])
        return self.ledger.keep(judge([*attempts, fact], limit, self.ledger.record.software))

    def judge_facts(self, metrics: Sequence[str]) -> None:
        """Read and judge facts of the node and of all devices. No worker is started, and no file written."""
        self.ledger.enter_subjects()
        self.measuring.of_host = [each.removeprefix("host.") for each in metrics if each.startswith("host.")]
        for metric in metrics:
            for each in self.measuring.facts(metric):
                self._judge_fact(each)

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
        if self.loaded:
            self.ledger.record.run["loaded"] = [text for _, text in self.loaded]
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
        setup, ledger = self.setup, self.ledger
        returned = setup.boards.returned_among(setup.terms.devices) if setup.boards else []
        return replace(
            setup.terms.circumstances(ledger.record.software),
            names=ledger.names,
            rejected_before=[*returned, *earlier_records.rejected_before(ledger.record.earlier_attempts, ledger.names)],
            loaded=tuple(dict(self.loaded)),
            day=ledger.record.run.get("started", "")[:10],
            no_acceptance=setup.no_acceptance,
            filtered=setup.filtered,
            broken_tests=self.errors.broken,
            failed_tests=self.errors.failed,
            own_tests=self.own_tests,
            record_problem=self.pool.sensor.telemetry.problem,
            wants_acceptance=setup.wants_acceptance,
            simulated=setup.node is not None,
            interrupted=interrupted,
            ended=ended,
        )

    def stop(self) -> None:
        """End every process of the run and unlock the devices. It may be called twice."""
        self.pool.stop()
        self.fabric.stop()
        for lock in self._locks:
            lock.close()
        self._locks = []
