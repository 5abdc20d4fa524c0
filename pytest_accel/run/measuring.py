"""Measures the devices of a run by probes: once all together, and again where something falls short."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from pytest_accel.core import clock
from pytest_accel.core.host_facts import HOST_FACTS
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.messages import Outcome, Pair
from pytest_accel.core.metric_name import OF_COUNTERS
from pytest_accel.core.reasons import NoBudget, Note, Reason
from pytest_accel.core.sku_types import Limit, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers.diagnostic_report import NoReport, Report
from pytest_accel.judging.causes import peer_matrix
from pytest_accel.judging.causes.diagnosis import explaining
from pytest_accel.judging.causes.evidence import from_outside, with_evidence
from pytest_accel.judging.closing import series_result
from pytest_accel.judging.facts import diagnostics, packing, preconditions, results
from pytest_accel.judging.facts.inventory import facts, host_fact, with_needs
from pytest_accel.judging.verdicts import repeats
from pytest_accel.judging.verdicts.attempts import RequestAttempts
from pytest_accel.judging.verdicts.like_devices import kind_of
from pytest_accel.judging.verdicts.repeats import Repeats
from pytest_accel.probes.declare import Declaration, finder_of
from pytest_accel.probes.request import Request
from pytest_accel.probes.vendor_diagnostic import LEVELS as DIAGNOSTIC_LEVELS
from pytest_accel.run.idle_gate import IdleCheck, check_idle
from pytest_accel.run.network.network_session import NetworkSession
from pytest_accel.run.processes.worker_pool import WorkerPool
from pytest_accel.run.setup import Inputs, Target
from pytest_accel.run.vendor_programs import VendorPrograms
from pytest_accel.run.verdict_ledger import Ledger
from pytest_accel.skus import budgets
from pytest_accel.skus.peaks import peak, why_not_applicable

STARTING_SECONDS = 5.0
"""Seconds that a repeat may need beside its measuring, which the time limit of the run has to leave."""

ToJudge = tuple[str, "Limit | None"]
"""A metric that is to be judged, and its limit; None for a metric without one."""


class Measuring:
    """Measures on the devices of a run, through its worker pool, and keeps the attempts at every request."""

    def __init__(
        self, inputs: Inputs, target: Target, pool: WorkerPool, ledger: Ledger, network: NetworkSession
    ) -> None:
        self._inputs, self._target, self._pool, self._deadline = inputs, target, pool, pool.deadline
        self._ledger, self._network = ledger, network
        self._devices, self._terms, self._repeats = target.devices, target.terms, Repeats(target.terms.level)
        self.vendor_programs = VendorPrograms(inputs, target, pool, ledger.folder)
        self._idle_check: IdleCheck | None = None
        self._attempts: dict[tuple[str, str], RequestAttempts] = {}
        """The attempts at every probe, by the key of its request."""
        self._facts: dict[str, RequestAttempts] = {}
        """The readings of every fact that a test asked for, by its metric."""
        self._left_out: dict[str, dict[str, str]] = {}
        """The reasons why devices are left out of a probe, by device, by the location of the probe."""
        self._stood_still: str | None = None
        """A sentence if the whole run stood still during the last probe."""
        self.of_host: Collection[str] = HOST_FACTS
        """The names of the facts of the host that are read."""

    def budget(self, probe: Declaration, metric: str) -> float:
        """Return the seconds that a probe may take for a metric at the level of the run; 0 if it has no time for it."""
        return budgets.budget(probe, metric, self._terms.level, self._terms.sku)

    def _turns(self, request: Request) -> int:
        """Return the number of devices that take turns at a probe; 1 if they are measured together."""
        return len(self._devices) if request.runs == "in_turn" else 1

    def expected_seconds(self, request: Request) -> float:
        """Return the seconds that a measurement may take on all devices."""
        return self.budget(request.declaration, request.metric) * self._turns(request)

    def _devices_for(self, request: Request) -> list[Device]:
        """Return the devices that a probe is run on."""
        barred = self._barred(request.declaration)
        return [device for device in self._devices if device.uuid not in barred]

    @cached_property
    def _host_facts(self) -> dict[str, Any]:
        """Return the facts of the host by name. The sensor reads them once in a run."""
        return self._pool.sensor.host(self.of_host)

    def note_host(self) -> None:
        """Enter the facts of the host that have no limit into the record: no test asks for them."""
        limits, now = self._terms.limits, clock.now()
        answers = {f"host.{name}": answer for name, answer in self._host_facts.items() if "absent" not in answer}
        self._ledger.add(host_fact(metric, answers[metric], now) for metric in answers if metric not in limits)

    def has_measured(self, request: Request) -> bool:
        """Return True if the request was measured already."""
        return request.key in self._attempts

    def skip_verdict(self, request: Request, subject: str, *, binding: bool) -> Verdict | None:
        """Return the verdict on a subject that is not measured, or None.

        If the level has no time for the probe, that is UNMEASURED where a limit is `binding`, else NOT APPLICABLE.
        """
        terms, probe, metric = self._terms, request.declaration, request.metric
        if terms.sku and (cause := why_not_applicable(terms.sku, metric, terms.platform)):
            return Verdict(metric, subject, Status.NOT_APPLICABLE, (Note("not_applicable", cause),))
        if probe.fact:
            return None
        status = Status.UNMEASURED
        reason: Reason | None = None
        if cause := self._wrong_products.get(subject):
            reason = Note("other_product", cause)
        elif not self.budget(probe, metric):
            status = Status.UNMEASURED if binding else Status.NOT_APPLICABLE
            levels = [level for level in LEVELS if budgets.budget(probe, metric, level, terms.sku)]
            reason = NoBudget(terms.level, levels[0] if levels else "")
        elif cause := self._barred(probe).get(subject):
            reason = Note("left_out", cause)
        elif not self.has_measured(request) and self._deadline.over:
            reason = Note("out_of_time", self._deadline.unreached_sentence)
        return Verdict(metric, subject, status, (reason,)) if reason else None

    @cached_property
    def _wrong_products(self) -> dict[str, str]:
        """The reason why a device is not the named SKU, by UUID; under NODE that of any device."""
        sku, subjects = self._terms.sku, [NODE, *(device.uuid for device in self._devices)]
        return {name: text for name in subjects if (text := preconditions.wrong_product(name, sku, self._devices))}

    def _barred(self, probe: Declaration) -> dict[str, str]:
        """Return the reasons why devices are left out of a probe, by UUID and NODE.

        That is the wrong product, or a state that spoils the probe. It is asked once for a probe: the facts that
        decide it are those of the discovery.
        """
        if probe.location not in self._left_out:
            platform, subjects = self._terms.platform, [NODE, *(device.uuid for device in self._devices)]
            causes = {name: preconditions.obstacle(probe, name, self._devices, platform) for name in subjects}
            obstacles = {name: text for name, text in causes.items() if text}
            self._left_out[probe.location] = obstacles | self._wrong_products
        return self._left_out[probe.location]

    def attempts(self, request: Request) -> RequestAttempts:
        """Return the attempts at a request; measures if no earlier test asked for the same, and reads a fact anew."""
        if request.declaration.fact:
            return self._read(request.metric)
        if not self.has_measured(request):
            attempts = self._no_attempts()
            self._pass_idle_gate()
            if request.runs == "nodes":
                attempts.add(self._network.measure(request))
                self.save(attempts)
            elif request.runs == "program":
                self._diagnose(attempts, request)
            else:
                self._measure(attempts, request)
            self._attempts[request.key] = attempts
        return self._attempts[request.key]

    def counter_attempts(self) -> list[tuple[str, RequestAttempts]]:
        """Return the metrics of the error counters that tests have asked for, with all readings up to now."""
        return [(metric, self._read(metric)) for metric in self._facts if metric.startswith(OF_COUNTERS)]

    def _read(self, metric: str) -> RequestAttempts:
        """Return the readings of a fact up to now: a probe may have raised a counter since the last one."""
        attempts = self._facts.setdefault(metric, self._no_attempts())
        if metric.startswith("counters."):
            self._pool.count_links()
        for fact in self.fact_readings(metric):
            attempts.add_reading(fact)
        self.save(attempts, soon=True)
        return attempts

    def _no_attempts(self) -> RequestAttempts:
        """Return attempts without any yet, whose figures will be compared with the baseline of the run."""
        return RequestAttempts(
            kinds={device.uuid: kind_of(device) for device in self._devices},
            spread_of=self._terms.spread_of,
            past_of=self._ledger.baseline.past_of,
            explain=explaining(self._devices),
            software=self._ledger.record.software,
        )

    def save(self, attempts: RequestAttempts, *, soon: bool = False) -> None:
        """Add the new measurements among the attempts to the record, and write it."""
        self._ledger.add(attempts.take_unrecorded())
        self._ledger.save(soon=soon)

    def fact_readings(self, metric: str) -> list[Measurement]:
        """Return a fact of the host, or of every device, as measurements."""
        sensor = self._pool.sensor
        if metric.startswith("counters."):
            return with_needs([sensor.counter(metric, device) for device in self._devices], self._devices)
        if metric.startswith("host_counters."):
            return [sensor.host_counter(metric)]
        if self._inputs.packing_list and metric in packing.METRICS:
            devices, host = self._terms.devices, self._ledger.record.info["host"]
            return packing.facts(metric, self._inputs.packing_list, devices, host, clock.now())
        if metric.startswith("host."):
            name, limit = metric.removeprefix("host."), self._terms.limits.get(metric)
            return [host_fact(metric, self._host_facts[name], clock.now(), limit)]
        return facts(metric, self._target.discovery, self._terms.sku, clock.now())

    def _pass_idle_gate(self) -> None:
        """Pass the idle gate, once in a run or in a series of them: before the first worker opens a device."""
        if self._idle_check is None:
            previous = self._inputs.previous_run  # which left the devices as idle as it found them
            follows = previous and series_result.directly(previous, clock.boot_id(), time.monotonic())
            self._idle_check = IdleCheck() if follows else check_idle(self._pool, self._devices)
            self._ledger.record.notes += self._idle_check.notes

    # -- again

    def _shortfalls(self, attempts: RequestAttempts, to_judge: Sequence[ToJudge]) -> list[Verdict]:
        """Return the verdicts of all subjects that another measurement could overturn or confirm, so far."""
        return [verdict for metric, limit in to_judge for verdict in attempts.shortfalls(metric, limit)]

    def repeat(self, attempts: RequestAttempts, request: Request, to_judge: Sequence[ToJudge]) -> None:
        """Measure all devices again at once, still hot, if one falls short; then those that do again on their own.

        The repetition decides; the measurement of a device alone only helps to find the cause. Both take place only
        while there is time for repeats (`judging/verdicts/repeats.py`).
        """
        probe, shortfalls = request.declaration, self._shortfalls(attempts, to_judge)
        if probe.fact or probe.runs in ("nodes", "program") or not shortfalls:  # a network run repeats by itself
            return
        floors = [verdict.floor for verdict in shortfalls if verdict.floor is not None]
        pairs = peer_matrix.pairs_below(attempts.rows, max(floors, default=0.0))
        budget = self.expected_seconds(request)
        needed = peer_matrix.seconds_again(pairs, budget) if pairs else budget
        seconds = self._repeats.together(probe, needed, repeats.min_seconds(probe, budget))
        if not seconds or self._deadline.seconds_left < seconds + STARTING_SECONDS:
            self._end_rounds(attempts, self._deadline.unreached_sentence if seconds else self._repeats.shortage(probe))
            return
        self._again(attempts, request, seconds=seconds / self._turns(request), pairs=pairs)
        if self._deadline.over:
            self._end_rounds(attempts, self._deadline.stopped_sentence)
            return
        subjects = {verdict.subject for verdict in self._shortfalls(attempts, to_judge)}
        attempts.end_rounds()
        if probe.runs == "together" and len(self._devices) > 1:
            count = len(self._devices_for(request))
            self._alone(attempts, request, self._repeats.single_out(probe, subjects, count))

    def _end_rounds(self, attempts: RequestAttempts, reason: str) -> None:
        """Note that there is no time to measure again."""
        attempts.end_rounds(reason)
        self._ledger.record.not_repeated.update(attempts.not_repeated)
        self.save(attempts)

    def _alone(self, attempts: RequestAttempts, request: Request, subjects: set[str]) -> None:
        """Measure each of the devices (UUIDs) on its own, as far as there is time."""
        enough = repeats.min_seconds(request.declaration, self.budget(request.declaration, request.metric))
        for device in self._devices:
            # asked for each device anew, since every repeat takes from the time that is left
            if device.uuid in subjects and (seconds := self._repeats.alone(enough)):
                self._again(attempts, request, seconds=seconds, alone=device)

    def _again(
        self,
        attempts: RequestAttempts,
        request: Request,
        seconds: float,
        alone: Device | None = None,
        pairs: Sequence[Pair] = (),
    ) -> None:
        """Measure again for at most `seconds` on each device, and take what it took from the time for repeats.

        On a simulated node that is what the devices worked by their own clock, which runs faster. What it takes beyond
        `seconds`, to start or because a device hung, is not taken from another repeat.
        """
        start, device_seconds = clock.now(), self._pool.device_seconds
        self._measure(attempts, request, alone=alone, seconds=seconds, pairs=pairs)
        used = max(clock.now() - start, self._pool.device_seconds - device_seconds)
        granted = seconds * self._turns(request)
        self._repeats.spend(request.declaration, min(used, granted), alone=alone is not None)

    # -- one probe

    def _measure(
        self,
        attempts: RequestAttempts,
        request: Request,
        alone: Device | None = None,
        pairs: Sequence[Pair] = (),
        seconds: float | None = None,
    ) -> None:
        """Run the probe once, for its budget or for `seconds`, and add its measurements to `attempts`.

        It runs on all devices, or only on the device `alone`, or only between `pairs` of peers.
        """
        sku, sensor = self._terms.sku, self._pool.sensor
        call = replace(
            request,
            seconds=self.budget(request.declaration, request.metric) if seconds is None else seconds,
            precision=0.0 if pairs else sku.precision if sku else Sku.precision,
            pairs=pairs,
            how="alone" if alone else "together",
            started=clock.now(),
        )
        outcomes: list[Outcome] = []

        def keep(outcome: Outcome) -> None:
            """Keep the results of a worker, without those that another probe measures at this level."""
            outcome.results = [result for result in outcome.results if self._belongs(request, result["metric"])]
            outcomes.append(outcome)

        try:
            self._pool.measure(call, [alone] if alone else self._devices_for(request), keep)
        finally:  # what was measured before an interrupt goes into the record as well
            lost_devices = {device.uuid: device.name for device in self._devices if sensor.counters.loss(device.uuid)}
            call = replace(call, ended=clock.now(), lost=lost_devices)
            self._stood_still = self._pool.standstill_since(call.started)
            with self._pool.timeline.phase("checks"):
                self._gather(attempts, outcomes, call)
                self.save(attempts)  # before anything is judged, so that a crash later loses no measurement

    def _diagnose(self, attempts: RequestAttempts, request: Request) -> None:
        """Add what the vendor's diagnostic says of each device."""
        start, devices = clock.now(), self._devices_for(request)
        level = request.conditions["level"] or DIAGNOSTIC_LEVELS[self._terms.level]
        report: Report | str
        try:
            report = self.vendor_programs.diagnostic_report(level, devices, self.expected_seconds(request))
        except NoReport as error:
            report = str(error)
        for measurement in diagnostics.measurements(report, devices, level):
            attempts.add(replace(measurement, metric=request.metric, started=start, ended=clock.now()))
        self.save(attempts)

    def _belongs(self, request: Request, metric: str) -> bool:
        """Return True if a metric that a probe yields is its own, or is measured within it at the level of the run."""
        finder = finder_of(metric)
        if finder in (None, request.declaration):
            return True
        return request.judged_by_sku and finder.within.get(self._terms.level) == request.declaration.name

    def _gather(self, attempts: RequestAttempts, outcomes: Sequence[Outcome], call: Request) -> None:
        """Make measurements of the workers' outcomes, and add them to the attempts."""
        if call.runs == "ranks":
            texts = (f"{device.name}: {text}" for device in self._devices if (text := self._foreign(device)))
            disturbance = next(texts, None)
            load = next(filter(None, map(self._load, self._devices)), None)
            for measurement in results.per_node(outcomes, call, self._peak):
                noted = replace(measurement, notes=(*measurement.notes, *from_outside(disturbance, load)))
                attempts.add(results.foreseen(noted, self._terms.sku))
        else:
            measurements = [entry for outcome in outcomes for entry in results.per_device(outcome, call, self._peak)]
            compared = with_needs(results.compare_checksums(measurements), self._devices)
            self._add(attempts, self._fairly(attempts, compared, call))

    def _fairly(self, attempts: RequestAttempts, measurements: list[Measurement], call: Request) -> list[Measurement]:
        """Return the measurements; those of peer copies count only the pairs that each device is to blame for."""
        if call.runs != "peers":
            return measurements
        if call.pairs:
            return peer_matrix.attributed_after_repeat(attempts.rows, measurements, self._target.discovery.names)
        attempts.rows = measurements
        return peer_matrix.attribute(measurements, self._target.discovery.names)

    def _peak(self, metric: str) -> tuple[float, str] | None:
        """Return the datasheet peak of a metric and its source, None where there is none."""
        return peak(self._terms.sku, metric, self._terms.platform) if self._terms.sku else None

    def _add(self, attempts: RequestAttempts, measurements: list[Measurement]) -> None:
        """Add each measurement with its evidence, and the metrics that the sensor's readings yield beside it.

        What cannot exist on the product is left out, also where another metric needs the same load.
        """
        devices, sku = {device.uuid: device for device in self._devices}, self._terms.sku
        for measurement in measurements:
            device = devices[measurement.subject]
            readings = self._pool.sensor.telemetry.window(device.uuid, measurement.started, measurement.ended)
            complete = with_evidence(
                measurement,
                device,
                sku,
                readings=readings,
                earlier=self._ledger.record.measurements,
                foreign=self._foreign(device),
                load=self._load(device),
            )
            for entry in complete:
                if not (sku and why_not_applicable(sku, entry.metric, self._terms.platform)):
                    attempts.add(entry)

    def _foreign(self, device: Device) -> str | None:
        """Return a sentence on what disturbed a device, before the run or during the last probe, or None."""
        if self._stood_still:
            return self._stood_still
        reason = self._idle_check.disturbances.get(device.uuid) if self._idle_check else None
        return f"before the run, {reason}" if reason else self._pool.sensor.foreign.get(device.uuid)

    def _load(self, device: Device) -> str | None:
        """Return a sentence on a load before the run that excuses a low speed of the device, or None."""
        return self._idle_check.excuses.get(device.uuid) if self._idle_check else None


def sibling_limits(attempts: RequestAttempts, request: Request, required: Mapping[str, Limit]) -> list[ToJudge]:
    """Return the other metrics of the same probe call, with their limits.

    A repetition measures all of these metrics again, so it has to come before the first of them is judged.
    """
    limits = required if request.judged_by_sku else {}
    siblings = sorted({metric for metric, _ in attempts.by_key} - {request.metric})
    return [(metric, replace(limits[metric], metric=metric) if metric in limits else None) for metric in siblings]
