"""The session of one run: it discovers and locks the devices, has them measured, judges each, and closes the record.

`measuring.py` measures, `verdict_ledger.py` keeps the results; what they call in `judging/` is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from pytest_accel.core import clock
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.node_name import node_name
from pytest_accel.core.reasons import Note, OtherUnit
from pytest_accel.core.run import Circumstances, Objection, ObjectionKind
from pytest_accel.core.sentences import headline, sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Closing, Status, Verdict
from pytest_accel.judging.causes.diagnosis import explaining
from pytest_accel.judging.closing import series_result
from pytest_accel.judging.verdicts.attempts import RunAttempts
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run import device_lock, earlier_records
from pytest_accel.run.measuring import Measuring, sibling_limits
from pytest_accel.run.network.network_session import NetworkSession
from pytest_accel.run.options import Options, Refused
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.record_folder import RecordFolder
from pytest_accel.run.request_completion import request_of
from pytest_accel.run.setup import Inputs, Target, demand_torch, find_target, read_inputs, with_expected_devices
from pytest_accel.run.verdict_ledger import Ledger


class Session:
    """An acceptance run, of which pytest opens one: it measures the devices of a node, judges and records them."""

    def __init__(self, inputs: Inputs, target: Target, pool: WorkerPool, folder: RecordFolder) -> None:
        self.inputs, self.target, self.pool, self.deadline = inputs, target, pool, pool.deadline
        self.objections = [*target.objections]
        """The objections to an acceptance so far."""
        self.ledger = Ledger(inputs, target, pool, folder)
        self.network = NetworkSession(inputs, target, pool, self.ledger)
        self.measuring = Measuring(inputs, target, pool, self.ledger, self.network)
        self._changes: dict[str, list[Verdict]] = {}
        """Verdicts on facts that changed during the run and that no test has reported yet, by UUID."""
        self._locks = ExitStack()
        self.finished = False
        """True once the closing line is in the record, or could not be written."""

    # -- opening

    @classmethod
    def open(cls, options: Options, pool: WorkerPool, *, plan_only: bool = False) -> Session:
        """Return the session of a run after reading what is asked for and finding the devices; it has to `begin` next.

        With `plan_only` it measures nothing, and has no folder. Raises Refused if the run cannot begin; no process and
        no folder is left then.
        """
        folder = RecordFolder()
        try:
            inputs = read_inputs(options)
            if plan_only:
                return cls(inputs, with_expected_devices(find_target(inputs, pool)), pool, folder)
            demand_torch(inputs)
            stamp, host = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ"), node_name()
            name = f"{host}{'-simulated' * bool(inputs.simulated_node)}-{stamp}"
            # before the devices are found, since the sensor logs into it
            path = folder.create(options.output, host, name, shared=options.shares_folder)
            return cls(inputs, find_target(inputs, pool, path), pool, folder)
        except BaseException:
            pool.stop()
            folder.take_back()
            raise

    def begin(self) -> None:
        """Lock the devices, write the first version of the record, and meet the other nodes of a network run.

        Raises Refused if the run cannot begin. No process, lock or empty record is left then.
        """
        names = [] if self.inputs.simulated_node else [(device.uuid, device.name) for device in self.target.devices]
        try:
            for lock in device_lock.hold(names, f"record {self.ledger.folder.path}"):
                self._locks.enter_context(lock)
            self.ledger.begin()
            self.network.meet()
            if previous := self.inputs.previous_run:
                self.pool.sensor.follow(*series_result.counts(previous, clock.boot_id(), clock.epoch()))
            self.measuring.note_host()
        except BaseException as error:
            self.stop()
            if not self.ledger.begun or isinstance(error, Refused | KeyboardInterrupt):
                self.ledger.folder.take_back()
            if isinstance(error, device_lock.DeviceLocked):
                raise Refused(f"{error}; wait for that run to end, or stop it") from None
            raise

    def add_objection(self, kind: ObjectionKind, reason: str) -> None:
        """Note an objection to an acceptance, with its reason as a sentence."""
        self.objections.append(Objection(kind, reason))

    @property
    def narrowed(self) -> bool:
        """True if something is known already that narrowed the run, so that missing verdicts are expected."""
        return bool(Circumstances(against=self.objections).narrowed)

    # -- checking

    def check(
        self,
        function: Callable[..., Any],
        conditions: dict[str, Any],
        subject: str,
        marker_limits: Sequence[Limit] = (),
        metric: str | None = None,
    ) -> list[Verdict]:
        """Judge one subject by the SKU's limit and the markers'. The first call measures on every device.

        Args:
            function: The probe.
            conditions: Conditions that replace those of the SKU and the probe; all others stay as they are there.
            subject: UUID of a device, or NODE.
            marker_limits: Limits of the test's markers, which are judged beside the SKU's.
            metric: Metric to judge; None for the probe's main one.

        Returns one verdict for each limit, or one without a limit. Raises TypeError for conditions that the probe does
        not have or cannot use, and for a marker in another unit; ProbeError for a bug in the probe.
        """
        __tracebackhide__ = True
        required = self.target.terms.required
        request = request_of(function, conditions, metric, self.target.terms.sku, self.target.terms.level)
        sku_limit = required.get(request.metric) if request.judged_by_sku else None
        limits = [replace(limit, metric=request.metric) for limit in (sku_limit, *marker_limits) if limit]
        binding = any(not limit.warns for limit in limits)
        if skipped := self.measuring.skip_verdict(request, subject, binding=binding):
            return [self.ledger.keep(replace(skipped, limit=limits[0] if limits else None))]
        attempts = self.measuring.attempts(request)
        to_judge = [(request.metric, limit) for limit in limits or (None,)]
        # before any metric of the same call is judged, since a repeat measures all of them again
        self.measuring.repeat(attempts, request, [*to_judge, *sibling_limits(attempts, request, required)])
        with self.pool.timeline.phase("checks"):
            attempts.count_troubles_as_attempts(request.metric, subject)
            judgements = [attempts.verdict_on(metric, subject, limit) for metric, limit in to_judge]
            verdicts = [self.ledger.keep(verdict) for verdict in judgements]
            self.measuring.save(attempts, soon=True)
        self._judge_changes()
        for verdict in judgements:  # all verdicts were kept: a test that catches the error makes nothing green
            marker = verdict.status is Status.UNMEASURED and verdict.limit and verdict.limit.test
            if marker and isinstance(verdict.reasons[0], OtherUnit):
                raise TypeError(f"{verdict.metric}: {headline(verdict)}; state the limit of the marker in that")
        return verdicts

    def _judge_changes(self) -> None:
        """Record and judge the facts of the devices that changed since this was last called."""
        uuids = {device.uuid for device in self.target.devices}
        for fact in self.pool.sensor.facts.take():
            if fact.subject in uuids:
                self._changes.setdefault(fact.subject, []).append(self._judge_fact(fact))

    def _judge_fact(self, fact: Measurement) -> Verdict:
        """Record and judge a fact that was read, beside all earlier readings of it."""
        attempts, limit = self.ledger.attempts(fact.metric, fact.subject), self.target.terms.required.get(fact.metric)
        self.ledger.add([fact])
        return self.ledger.keep(judge([*attempts, fact], limit, self.ledger.record.software))

    def judge_facts(self, metrics: Sequence[str]) -> None:
        """Read and judge facts of the node and of all devices. No worker is started, and no file written."""
        self.ledger.enter_subjects()
        self.measuring.of_host = [metric.removeprefix("host.") for metric in metrics if metric.startswith("host.")]
        for metric in metrics:
            for fact in self.measuring.fact_readings(metric):
                self._judge_fact(fact)

    def changes_of(self, subject: str) -> list[Verdict]:
        """Return the verdicts on facts of a device that changed since this was last asked for it."""
        return self._changes.pop(subject, [])

    def _judge_counters(self) -> None:
        """Judge the error counters again that were judged before the last probe, which may have raised one."""
        verdicts = grouped(self.ledger.verdicts, lambda verdict: verdict.metric)
        for metric, attempts in self.measuring.counter_attempts():
            for verdict in verdicts.get(metric, ()):
                self.ledger.keep(attempts.verdict_on(metric, verdict.subject, verdict.limit))

    def _keep_unreached(self) -> None:
        """Keep a verdict on every required limit that no test asked for in time, by what was measured of it."""
        if self.narrowed:  # such a run is expected to lack verdicts
            return
        record, terms, past_of = self.ledger.record, self.target.terms, self.ledger.baseline.past_of
        attempts = RunAttempts.of_run(record, terms.spread_of, past_of, explaining(record.devices))
        reason = Note("out_of_time", self.deadline.unreached_sentence)
        for metric, subject, origin in terms.circumstances(record.software).required:
            if not self.ledger.status((metric, subject, origin)) and (limit := terms.limits.get(metric)):
                key, limit = (metric, subject), replace(limit, metric=metric, origin=origin)
                unreached = Verdict(*key, Status.UNMEASURED, (reason,), limit=limit)
                self.ledger.keep(attempts.verdict(key, limit) if key in attempts.by_key else unreached)

    def wrong_sku(self) -> str | None:
        """Return a sentence if every device is another product than the SKU, so that measuring makes no sense."""
        sku, uuids = self.target.terms.sku, {device.uuid for device in self.target.devices}
        verdicts = [verdict for verdict in self.ledger.verdicts if verdict.metric == "inventory.sku"]
        failures = [verdict for verdict in verdicts if verdict.status is Status.FAIL]
        if not uuids or {verdict.subject for verdict in failures} != uuids:
            return None
        return f"none of the devices matches SKU {sku.name if sku else ''}: {sentence_of(failures[0])}"

    # -- the record

    def finish(self, end: Circumstances | None = None, loaded: Sequence[tuple[str, str]] = ()) -> Closing:
        """End the processes, complete the record, and return the closing line.

        `end` holds what pytest knows of the end: why it ended early, and the tests that ended badly or were the user's
        own. `loaded` has the names of files, plugins and variables that may change what the run does, and each in full.
        A run that its time limit cut short is judged by what it reached.
        """
        end = end or Circumstances()
        self._judge_changes()
        if any(reason.kind == "time" for reason in self.objections):
            self._keep_unreached()
        elif end.interrupted is None:
            self._judge_counters()
            if self.inputs.options.bug_report and any(verdict.rejects for verdict in self.ledger.verdicts):
                self.ledger.record.notes.append(self.measuring.vendor_programs.bug_report())
        self.stop()  # before the record is completed: the sensor appends to the telemetry until it ends
        ledger, terms, packing_list = self.ledger, self.target.terms, self.inputs.packing_list
        ledger.complete(interrupted=end.interrupted is not None)
        if loaded:
            ledger.record.info["loaded"] = [text for _, text in loaded]
        names, returned = ledger.names, packing_list.returned_among(terms.devices) if packing_list else []
        of_run = replace(
            end,
            names=names,
            rejected_before=[*returned, *earlier_records.rejected_before(ledger.record.earlier_attempts, names)],
            loaded=tuple(dict(loaded)),
            day=ledger.record.started[:10],
            against=self.objections,
            record_problem=self.pool.sensor.telemetry.problem,
            simulated=self.inputs.simulated_node is not None,
        )
        closing = ledger.close(terms.circumstances(ledger.record.software, of_run))
        self.finished = True
        return closing

    def broken_after(self, error: str) -> Closing:
        """Close a finished run again, because of an error that came later. A rejection stays one."""
        circumstances = self.ledger.record.circumstances or Circumstances()
        return self.ledger.close(replace(circumstances, broken_tests=[*circumstances.broken_tests, error]))

    def stop(self) -> None:
        """End every process of the run and unlock the devices. It may be called twice."""
        self.pool.stop()
        self.network.stop()
        self._locks.close()
