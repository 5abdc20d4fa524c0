"""Error counters of the host before the first probe and after the last: what moved while we measured. Pure.

The host is read twice and not after every probe: an RDMA NIC asks its firmware for every counter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.details import Details
from pytest_accel.core.host_facts import COUNTED_HOST_FACTS, HOST_FACTS
from pytest_accel.core.measurement import NODE, Measurement, Trouble, Value
from pytest_accel.core.metrics import parse
from pytest_accel.drivers.host import some
from pytest_accel.judging.error_counters import HOUR, Counter

PER_HOUR = ("ecc_corrected", "pcie_corrected")
"""What ticks on healthy machines too."""

HOST_RATES = {
    name: Counter(name, unit="per h", per=HOUR) if name in PER_HOUR else Counter(name, unit=HOST_FACTS[name].unit)
    for name in COUNTED_HOST_FACTS
}
"""By the variant of the metric `host_counters.*`; the facts are those of the host."""


@dataclass(frozen=True)
class Seen:
    """What the host stated at one moment: by fact, as the sensor answers."""

    at: float
    answers: Mapping[str, Mapping[str, Any]]


def measured(metric: str, before: Seen | None, now: Seen) -> Measurement:
    """How far one metric `host_counters.*` went between the two, with the parts (ports, controllers) that moved.

    What cannot be seen here had no value before either: it cannot be judged here. What could be seen and cannot any
    more is unmeasured.
    """
    counter = HOST_RATES.get(parse(metric).variant)
    if counter is None:
        return _troubled(metric, Trouble("need", "no such counter of the host is known to this version"))
    if before is None:
        return _troubled(metric, Trouble("not_applicable", "no probe ran that could have moved it"))
    first, last = before.answers[counter.fact], now.answers[counter.fact]
    if why := _why(first):
        return _troubled(metric, Trouble("not_applicable", why))
    if why := _why(last):
        return _troubled(metric, Trouble("need", f"{why}, which was not so before the first probe"))
    counts, after = _counts(first), _counts(last)
    if gone := sorted(set(counts) - set(after)):
        return _troubled(metric, Trouble("need", f"{some(gone)} was there before the first probe and is gone"))
    moved = {part: change for part in counts if (change := _moved(counts[part], after[part]))}
    details: Details = {"moved": moved}
    if worst := sorted(filter(None, moved), key=lambda part: -moved[part]):
        details["worst"] = some(worst)
    return Measurement(
        metric=metric,
        subject=NODE,
        unit=counter.unit,
        value=counter.over(sum(moved.values()), now.at - before.at),
        started=before.at,
        ended=now.at,
        details=details,
    )


def _why(answer: Mapping[str, Any]) -> str:
    return str(answer.get("absent") or answer.get("unreadable") or "")


def _counts(answer: Mapping[str, Any]) -> Mapping[str, int]:
    """By part; a fact without parts is one."""
    value: Value = answer["value"]
    counts: Mapping[str, int] = answer["details"].get("counts", {"": value})
    return counts


def _moved(before: int, after: int) -> int:
    """One that went back was reset in between, and has counted since."""
    return after - before if after >= before else after


def _troubled(metric: str, trouble: Trouble) -> Measurement:
    return Measurement(metric, NODE, "", trouble=trouble)
