"""The attempts of a run, and those at the metrics of one probe, each with what they are judged with. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.background import Background, PastOf, SpreadOf, no_past, no_spread
from pytest_accel.judging.verdicts.judge_attempts import Explain, judge, stored_cause
from pytest_accel.judging.verdicts.like_devices import Attempts, Kinds, kind_of, like, neighbours

MetricKey = tuple[str, str]
"""Metric and subject."""


class ProbeError(Exception):
    """A probe raised an error that says nothing about the hardware."""


@dataclass
class RunAttempts:
    """The attempts of a run by metric and subject, oldest first, and what they are judged with."""

    by_key: dict[MetricKey, list[Measurement]] = field(default_factory=dict)
    kinds: Kinds = field(default_factory=dict)
    """The kind of each device (`like_devices.kind_of`)."""
    spread_of: SpreadOf = no_spread
    """Returns the variation of a metric among healthy devices, None if it is not known."""
    past_of: PastOf = no_past
    """Returns the earlier figures of the metric and device of a measurement."""
    explain: Explain = stored_cause
    """Returns the cause of a shortfall."""
    software: Mapping[str, Any] = field(default_factory=dict)
    """The versions in use by name."""
    not_repeated: Mapping[str, str] = field(default_factory=dict)
    """The reason why what fell short was not measured again, by metric."""

    @classmethod
    def of(cls, measurements: Iterable[Measurement], devices: Iterable[Device], **judged_with: Any) -> RunAttempts:
        """Return the attempts of a run on these devices; `judged_with` has further fields."""
        measured = grouped(measurements, lambda measurement: (measurement.metric, measurement.subject))
        return cls(measured, {device.uuid: kind_of(device) for device in devices}, **judged_with)

    @classmethod
    def of_run(cls, run: Run, spread_of: SpreadOf, past_of: PastOf, explain: Explain = stored_cause) -> RunAttempts:
        """Return the attempts of a run, with its devices, software, and what it had no time to repeat."""
        attempts = cls.of(run.measurements, run.devices, software=run.software, not_repeated=run.not_repeated)
        return replace(attempts, spread_of=spread_of, past_of=past_of, explain=explain)

    def background(self, key: MetricKey) -> Background:
        """Return the references of a metric of a device besides its limit."""
        devices = like(self.by_key, self.kinds, *key), neighbours(self.by_key, self.kinds, *key)
        return Background(*devices, self.spread_of(key[0]), self.past_of, self.not_repeated.get(key[0], ""))

    def verdict(self, key: MetricKey, limit: Limit | None, attempts: Attempts | None = None) -> Verdict:
        """Return the verdict on the attempts at a key, or on those that are given in their stead."""
        measurements = self.by_key[key] if attempts is None else attempts
        return judge(measurements, limit, self.software, self.explain, self.background(key))


@dataclass
class RequestAttempts(RunAttempts):
    """The attempts at the metrics of one probe under one set of conditions."""

    rounds_ended: bool = False
    """True once all devices are measured together no more. One alone may be, which clears nothing."""
    rows: list[Measurement] = field(default_factory=list)
    """The rows of the peer matrix as first measured, before a device is blamed. Empty for other probes."""
    _unrecorded: list[Measurement] = field(default_factory=list)
    _verdicts: dict[MetricKey, list[tuple[Limit | None, dict[str, Any], Verdict]]] = field(default_factory=dict)
    """The verdicts since the last attempt, each with the limit and the versions that it was judged with."""

    def add(self, measurement: Measurement) -> None:
        """Keep an attempt, and drop the verdicts on its metric that were given without it."""
        self.by_key.setdefault((measurement.metric, measurement.subject), []).append(measurement)
        self._unrecorded.append(measurement)
        self._verdicts = {key: entries for key, entries in self._verdicts.items() if key[0] != measurement.metric}

    def add_reading(self, fact: Measurement) -> None:
        """Keep another reading of a fact, such as a counter, unless it is what the reading before it was."""
        earlier = self.by_key.get((fact.metric, fact.subject))
        if not earlier or replace(fact, started=earlier[-1].started, ended=earlier[-1].ended) != earlier[-1]:
            self.add(fact)

    def count_troubles_as_attempts(self, metric: str, subject: str) -> None:
        """Count the troubles of a subject as attempts at `metric`, if there is no other attempt at it.

        A probe that broke before it returned a metric has attempted that metric all the same.
        """
        if (metric, subject) in self.by_key:
            return
        # the sensor yields several metrics of a run; their troubles are one attempt
        runs: dict[tuple[float, float, str], Measurement] = {}
        for attempt in (attempt for attempts in self.by_key.values() for attempt in attempts):
            if attempt.subject == subject and attempt.trouble:
                runs.setdefault((attempt.started, attempt.ended, attempt.how), attempt)
        for attempt in runs.values():
            self.add(replace(attempt, metric=metric, value=None))

    def take_unrecorded(self) -> list[Measurement]:
        """Return the attempts that were added since the last call, for the record."""
        unrecorded, self._unrecorded = self._unrecorded, []
        return unrecorded

    def verdict_on(self, metric: str, subject: str, limit: Limit | None) -> Verdict:
        """Return the verdict on one subject. Raises ProbeError if the probe failed by an error in its own code."""
        attempts = self.by_key.get((metric, subject), [])
        if not attempts:
            return Verdict(metric, subject, Status.UNMEASURED, (Note("not_returned"),), limit=limit)
        for attempt in attempts:
            if attempt.trouble and attempt.trouble.kind == "bug":
                raise ProbeError(attempt.trouble.reason)
        return self._verdict((metric, subject), limit)

    def _verdict(self, key: MetricKey, limit: Limit | None) -> Verdict:
        """Return the verdict on the attempts so far; each is judged once and remembered."""
        entries = self._verdicts.setdefault(key, [])
        for its_limit, its_software, verdict in entries:
            if (its_limit, its_software) == (limit, self.software):
                return verdict
        entries.append((limit, dict(self.software), self.verdict(key, limit)))
        return entries[-1][-1]

    def end_rounds(self, not_repeated: str = "") -> None:
        """Note that there is no further round; `not_repeated` says why there is no time to repeat what falls short."""
        self.rounds_ended = True
        self.not_repeated = {metric: not_repeated for metric, _ in self.by_key} if not_repeated else {}
        self._verdicts.clear()

    def shortfalls(self, metric: str, limit: Limit | None) -> list[Verdict]:
        """Return the verdicts that a repeat could overturn or confirm; empty after the repeat.

        These are failures, and the devices that are behind their neighbours or their own past.
        """
        verdicts = [
            self._verdict((name, subject), limit)
            for (name, subject), attempts in ({} if self.rounds_ended else self.by_key).items()
            if name == metric and not any(attempt.trouble for attempt in attempts)
        ]
        return [verdict for verdict in verdicts if verdict.behind or verdict.status is Status.FAIL]
