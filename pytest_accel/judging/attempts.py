"""The attempts at what a probe finds, and the rules by which one subject is judged on them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict
from pytest_accel.judging.judge import Explain, judge, told


class ProbeError(Exception):
    """A probe raised something that says nothing about the hardware."""


@dataclass
class Result:
    """What became of one probe under one set of conditions: the attempts, by metric and subject."""

    attempts: dict[tuple[str, str], list[Measurement]] = field(default_factory=dict)
    repeated: bool = False
    rows: list[Measurement] = field(default_factory=list)
    """Of copies between peers, what the first go found, before anybody was blamed."""
    explain: Explain = told
    """Says why a measurement fell short."""
    _unrecorded: list[Measurement] = field(default_factory=list)
    _verdicts: dict[tuple[str, str], list[tuple[Limit | None, dict[str, Any], Verdict]]] = field(default_factory=dict)
    """What was judged since the last attempt: by which limit, with which software, and the verdict."""

    def add(self, measurement: Measurement) -> None:
        """Keep an attempt. What was judged without it is judged again."""
        key = measurement.metric, measurement.subject
        self.attempts.setdefault(key, []).append(measurement)
        self._unrecorded.append(measurement)
        self._verdicts.pop(key, None)

    def add_broken(self, metric: str, subject: str) -> None:
        """Count what broke before it found a metric as an attempt at it, if there is no other."""
        if (metric, subject) in self.attempts:
            return
        every = [each for attempts in self.attempts.values() for each in attempts]
        broken = [replace(each, metric=metric) for each in every if each.subject == subject and each.trouble]
        for place, each in enumerate(broken):
            if each not in broken[:place]:
                self.add(each)

    def take_unrecorded(self) -> list[Measurement]:
        """Return the attempts that were added since the last call, for the record."""
        taken, self._unrecorded = self._unrecorded, []
        return taken

    def judged(self, metric: str, subject: str, limit: Limit | None, software: Mapping[str, Any]) -> Verdict:
        """The verdict on one subject. Raises ProbeError if the probe itself was at fault."""
        attempts = self.attempts.get((metric, subject), [])
        if not attempts:
            why = f"{metric} was not among what the probe found"
            return Verdict(metric, subject, Status.UNMEASURED, why, limit=limit)
        for each in attempts:
            if each.trouble and each.trouble.kind == "bug":
                raise ProbeError(each.trouble.reason)
        return self._verdict(metric, subject, limit, software)

    def _verdict(self, metric: str, subject: str, limit: Limit | None, software: Mapping[str, Any]) -> Verdict:
        """The verdict on the attempts so far: given once, and remembered."""
        attempts, said = self.attempts[metric, subject], self._verdicts.setdefault((metric, subject), [])
        for by, known, verdict in said:
            if by == limit and known == software:
                return verdict
        verdict = judge(attempts, limit, software, self.explain)
        said.append((limit, dict(software), verdict))
        return verdict

    def short(self, metric: str, limit: Limit | None, software: Mapping[str, Any]) -> list[Verdict]:
        """The verdicts on subjects that fall short of the limit in a way that a repeat could tell more about."""
        if limit is None or self.repeated:
            return []
        found = [
            self._verdict(metric, subject, limit, software)
            for (name, subject), attempts in self.attempts.items()
            if name == metric and not any(each.trouble for each in attempts)
        ]
        return [each for each in found if each.status is Status.FAIL]


def why_not(
    metric: str, subject: str, sku: Sku | None, platform: Platform, devices: Iterable[Device], *, fact: bool
) -> Verdict | None:
    """A verdict without a measurement: what cannot exist here, and performance of the wrong product."""
    why = sku.why_not_applicable(metric, platform) if sku else None
    if why:
        return Verdict(metric, subject, Status.NOT_APPLICABLE, why)
    wrong = wrong_product(subject, sku, devices)
    if wrong and not fact:
        return Verdict(metric, subject, Status.UNMEASURED, f"not measured: {wrong}")
    return None


def wrong_product(subject: str, sku: Sku | None, devices: Iterable[Device]) -> str | None:
    """Why this device (or, for the node, the first such) is not the SKU that was named."""
    for device in devices:
        if sku and subject in (device.uuid, NODE) and (why := sku.why_not(device)):
            return f"{device.name} is no {sku.name}: {why}"
    return None


def worst(old: Verdict | None, new: Verdict) -> Verdict:
    """Of two verdicts on one limit the worse, the newer of equals; one that is waived is better than one that fails."""
    return new if old is None or _rank(new) <= _rank(old) else old


def _rank(verdict: Verdict) -> tuple[bool, int]:
    return not verdict.fails, WORST_FIRST.index(verdict.status)
