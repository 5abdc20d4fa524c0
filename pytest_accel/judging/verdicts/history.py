"""The earlier runs of the devices of a node, and the past of one metric of one device. Pure.

Runs are comparable by the method and the conditions of each metric (`key`). What else differs, such as the driver, does
not exclude an earlier figure and is said with it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from pytest_accel.core.measurement import NODE, Device, Measurement, is_rate
from pytest_accel.core.run import BaselineEntry, EarlierFigure, Past
from pytest_accel.core.stats import ENOUGH_ALIKE
from pytest_accel.core.summary import Summary
from pytest_accel.judging.verdicts.background import PastOf
from pytest_accel.judging.verdicts.like_devices import LATENCY, POWER, is_comparable, usable

VARYING = ("operations_per_block", "earlier_copies")
"""Conditions that differ from run to run, or from a measurement to its repeat, although the method is the same."""
TERMS = ("level", "platform", "driver", "torch", "cuda", "hip", "nccl", "rccl")
"""The terms that may differ between comparable runs; they are stated with an earlier figure then."""
ENOUGH_RUNS = 8
"""Earlier runs from which on the deviation from run to run is estimated from them."""
ABOVE = 1.5
"""The largest rate of a device as a multiple of the median of its node that is no error of the measurement."""
OF_NORMAL = 1.4826
"""The standard deviation of a normal distribution as a multiple of its median absolute deviation."""


def key(measurement: Measurement) -> str:
    """Return the key of a figure from run to run: metric, unit, and a hash of method and conditions."""
    return key_of(measurement.metric, measurement.unit, measurement.conditions)


def key_of(metric: str, unit: str, conditions: Mapping[str, Any]) -> str:
    """Return the key of a figure (see `key`) from its parts."""
    fixed = {name: value for name, value in conditions.items() if name not in VARYING}
    text = json.dumps(fixed, sort_keys=True, default=str)
    return f"{metric} {unit} {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def parts_of(key: str) -> tuple[str, str, str]:
    """Return metric, unit and hash of a key (see `key_of`); a unit may hold spaces."""
    metric, _, remainder = key.partition(" ")
    unit, _, method = remainder.rpartition(" ")
    return metric, unit, method


def is_baseline(measurement: Measurement) -> bool:
    """Return True for a figure that a later run is compared with: a rate or a time that says something of its device.

    Latencies and power depend on more than the device.
    """
    if not usable(measurement) or measurement.note("load") or measurement.how != "together":
        return False
    if measurement.subject == NODE:
        return is_rate(measurement.unit)
    return measurement.unit not in (LATENCY, POWER) and is_comparable(measurement)


def plausible(figures: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Return the figures of a run without rates that are far above those of the other devices."""
    believed = {}
    for name, values in figures.items():
        comparable = is_rate(parts_of(name)[1]) and len(values) >= ENOUGH_ALIKE
        # no device is that much better than its neighbours: every later run would be short of a wrong figure
        ceiling = ABOVE * median(values.values()) if comparable else math.inf
        believed[name] = {subject: value for subject, value in values.items() if value <= ceiling}
    return believed


def terms_of(level: str, platform: str, software: Mapping[str, Any]) -> dict[str, str]:
    """Return the `TERMS` of a run, as far as they are known."""
    terms = {**software, "level": level, "platform": platform}
    return {name: str(terms[name]) for name in TERMS if terms.get(name)}


def differing(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the terms that two runs both state and that differ, by name: old and new."""
    return {name: (old[name], new[name]) for name in TERMS if name in old and name in new and old[name] != new[name]}


def deviation_of_runs(series: Iterable[Sequence[float]]) -> float | None:
    """Return the standard deviation from run to run, as a fraction of the value; None where there is no change.

    `series` holds the values of every device in the order of its runs. The deviation is that of the change from one run
    to the next, over sqrt(2), as `OF_NORMAL` times the median absolute deviation over all changes.
    """
    # changes instead of values: a slow loss over months does not widen their deviation
    changes = [after / before - 1 for values in series for before, after in pairwise(values) if before > 0]
    if not changes:
        return None
    middle = median(changes)
    return float(OF_NORMAL * median(abs(change - middle) for change in changes) / 2**0.5)


class History:
    """The earlier runs of the devices of a node, oldest first."""

    def __init__(
        self,
        runs: Sequence[Summary],
        devices: Sequence[Device],
        terms: Callable[[], Mapping[str, str]],
    ) -> None:
        """`terms` returns those of this run as far as they are known by now: a worker states the version of torch."""
        self.runs = sorted(runs, key=lambda run: run.started)
        self._devices = {device.uuid: device for device in devices}
        self._terms = terms
        self._between: dict[str, float | None] = {}

    def past(self, measurement: Measurement) -> Past | None:
        """Return the earlier figures of a measurement's metric and device, None if there are none."""
        name, subject = key(measurement), measurement.subject
        runs = [run for run in self.runs if subject in run.figures.get(name, ()) and self._same(run, subject)]
        if not runs:
            return None
        accepted = [run for run in runs if run.result and run.result.holds]
        first, last = (self._figure(run, name, subject) for run in ((accepted or runs)[0], runs[-1]))
        if name not in self._between:
            self._between[name] = self._estimated(name)
        return Past(first if accepted else None, last, self._between[name], len(runs))

    def _same(self, run: Summary, subject: str) -> bool:
        """Return True if a subject of an earlier run is that of this one: the same device, or all the same devices."""
        if subject == NODE:
            return run.by_uuid.keys() == self._devices.keys()
        then, now = run.by_uuid.get(subject), self._devices.get(subject)
        if then is None or now is None:
            return False
        return not (then.serial and now.serial) or then.serial == now.serial

    def _figure(self, run: Summary, name: str, subject: str) -> EarlierFigure:
        return EarlierFigure(run.figures[name][subject], run.day, str(run.path), differing(run.terms, self._terms()))

    def _estimated(self, name: str) -> float | None:
        series: dict[str, list[float]] = {}
        for run in self.runs:
            for subject, value in run.figures.get(name, {}).items():
                if subject in self._devices or subject == NODE:
                    series.setdefault(subject, []).append(value)
        if max(map(len, series.values()), default=0) < ENOUGH_RUNS:
            return None
        return deviation_of_runs([values for values in series.values() if len(values) >= ENOUGH_RUNS])

    # -- what became of the devices


def stored_pasts(entry: BaselineEntry) -> PastOf:
    """Return the function that finds the earlier figures that a record keeps."""
    pasts = entry.get("pasts", {})
    return lambda measurement: pasts.get(key(measurement), {}).get(measurement.subject)
