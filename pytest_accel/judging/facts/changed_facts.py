"""The facts of a device that changed during the run. Pure.

A setting or a state that changes while the node is measured makes every figure before or after it one of another node:
a power limit that is lowered in mid-run, a link that is lost, a fabric that degrades.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pytest_accel.core.device_facts import DEVICE_FACTS, NOW
from pytest_accel.core.fact_metrics import ERROR_COUNTERS, FACT_METRICS
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.metric_name import parse
from pytest_accel.core.reasons import Note
from pytest_accel.core.verdict import show
from pytest_accel.judging.facts.inventory import Discovery, facts, read_fact

BY_LOAD: Mapping[str, str] = {
    "health.slowdown": "soak.throttle.*",
    "health.foreign_processes": "the disturbance of a measurement",
}
"""Metrics that change while the device works, each with the metric or note that judges it then."""
COUNTED: Mapping[str, str] = {
    "health.nvlink_up": "counters.nvlink_down",
    "health.xgmi_up": "counters.xgmi_down",
    "health.ecc_uncorrectable_aggregate": "counters.ecc_uncorrectable",
}
"""Metrics whose change an error counter of another fact counts."""
NOT_COMPARED = frozenset(NOW)
"""Facts that a device at rest and one that has just worked state differently."""

_COUNTED_FACTS = {fact for counter in ERROR_COUNTERS.values() for fact in (counter.fact, *counter.extras)}


def is_watched(metric: str) -> bool:
    """Return True for a metric `inventory.*` or `health.*` that must not change during a run."""
    figure = FACT_METRICS.get(metric)
    return figure is not None and metric not in (*BY_LOAD, *COUNTED) and not _COUNTED_FACTS & set(figure.facts)


WATCHED = tuple(filter(is_watched, FACT_METRICS))
FACTS = frozenset(name for metric in WATCHED for name in FACT_METRICS[metric].facts) - NOT_COMPARED
"""The facts of which these metrics are made."""

START, END = "the discovery", "the end"


class FactWatch:
    """The newest facts of every device, and the changes since they were last asked for."""

    def __init__(self) -> None:
        self._devices: dict[str, Device] = {}
        self._read: dict[tuple[str, str], str] = {}
        """The probe before the last reading of a fact, by UUID and fact."""
        self._changed: list[Measurement] = []

    def begin(self, devices: Iterable[Device]) -> None:
        """Enter the devices as they were discovered. One that is known already keeps its facts."""
        for device in devices:
            self._devices.setdefault(device.uuid, device)

    def enter(self, at: float, during: str, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Enter the facts that the devices state at `at` after the probe `during`, which is empty after the last one.

        A fact that is not among the answers is not compared: those of the links are not in every reading.
        """
        changes = []
        for uuid, answer in answers.items():
            if uuid in self._devices and not {"lost", "silent"} & set(answer):
                changes += [(uuid, *change) for change in self._enter(uuid, during or END, answer)]
        self._changed += [self._measured(*change, at) for change in changes]

    def _measured(self, uuid: str, metric: str, changed: str, at: float) -> Measurement:
        """Return the new value of a metric that changed, with the values of all devices."""
        measurements = facts(metric, Discovery(tuple(self._devices.values())), None, at)
        (measurement,) = [measurement for measurement in measurements if measurement.subject == uuid]
        return replace(measurement, notes=(Note("changed", changed),))

    def _enter(self, uuid: str, during: str, answer: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Exchange the facts of a device for those of an answer, and return the metrics that changed, with how."""
        device, new_facts = self._devices[uuid], {name: answer[name] for name in FACTS & set(answer)}
        changed = {name for name, value in new_facts.items() if device.facts.get(name) != value}
        updated = self._devices[uuid] = replace(device, facts={**device.facts, **new_facts})
        changes = []
        for metric in WATCHED:
            moved_facts = changed & set(FACT_METRICS[metric].facts)
            if not moved_facts:
                continue
            (unit, old, _), (_, new, _) = read_fact(metric, device), read_fact(metric, updated)
            if old is not None and new is not None and old != new:
                last = self._read.get((uuid, min(moved_facts)), START)
                name = parse(metric).variant.replace("_", " ")
                text = _number(moved_facts, device, updated) or f"{name} {show(old, unit)} -> {show(new, unit)}"
                changes.append((metric, f"{text} between {last} and {during}"))
        self._read.update({(uuid, name): during for name in new_facts})
        return changes

    def take(self) -> list[Measurement]:
        """Return the new values of the metrics that changed since the last call."""
        changes, self._changed = self._changed, []
        return changes


def _number(facts_moved: Collection[str], before: Device, after: Device) -> str | None:
    """Return the change of the one fact that changed, if it is a number: it says more than a metric made of it."""
    name, *others = facts_moved
    old, new = before.facts.get(name), after.facts.get(name)
    numbers = isinstance(old, int | float) and isinstance(new, int | float)
    if others or not numbers or isinstance(old, bool):
        return None
    unit = DEVICE_FACTS[name].unit
    ending = "" if unit == "count" else f"_{unit.lower().replace('/', '_per_')}"
    return f"{name.removesuffix(ending).replace('_', ' ')} {show(old, unit)} -> {show(new, unit)}"
