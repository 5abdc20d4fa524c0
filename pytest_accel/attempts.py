"""The attempts at what a probe finds, and the rules by which one subject is judged on them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_accel.judge import judge
from pytest_accel.measurement import NODE, Device, Measurement
from pytest_accel.sku import Limit, Platform, Sku
from pytest_accel.verdict import WORST_FIRST, Status, Verdict


class ProbeError(Exception):
    """A probe raised something that says nothing about the hardware."""


@dataclass
class Result:
    """What became of one probe under one set of conditions: the attempts, by metric and subject."""

    attempts: dict[tuple[str, str], list[Measurement]] = field(default_factory=dict)
    repeated: bool = False
    rows: list[Measurement] = field(default_factory=list)
    """Of copies between peers, what the first go found, before anybody was blamed."""

    def add(self, measurement: Measurement) -> None:
        self.attempts.setdefault((measurement.metric, measurement.subject), []).append(measurement)

    def at(self, metric: str, subject: str) -> list[Measurement]:
        """The attempts at a metric. What broke before it found the metric is an attempt at it, and is kept as one."""
        key = metric, subject
        if key not in self.attempts:
            every = [each for attempts in self.attempts.values() for each in attempts]
            broken = [replace(each, metric=metric) for each in every if each.subject == subject and each.trouble]
            for place, each in enumerate(broken):
                if each not in broken[:place]:
                    self.add(each)
        return self.attempts.get(key, [])

    def judged(self, metric: str, subject: str, limit: Limit | None, software: Mapping[str, Any]) -> Verdict:
        """The verdict on one subject. Raises ProbeError if the probe itself was at fault."""
        attempts = self.at(metric, subject)
        if not attempts:
            why = f"{metric} was not among what the probe found"
            return Verdict(metric, subject, Status.UNMEASURED, why, limit=limit)
        for each in attempts:
            if each.trouble and each.trouble.kind == "bug":
                raise ProbeError(each.trouble.reason)
        return judge(attempts, limit, software)

    def short(self, metric: str, limit: Limit | None, software: Mapping[str, Any]) -> list[Verdict]:
        """The verdicts on subjects that fall short of the limit in a way that a repeat could tell more about."""
        if limit is None or self.repeated:
            return []
        found = []
        for (name, _), attempts in self.attempts.items():
            if name == metric and not any(each.trouble for each in attempts):
                found.append(judge(attempts, limit, software))
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
