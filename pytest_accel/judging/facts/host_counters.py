"""The increase of the host's error counters from before the first probe to after the last one. Pure.

In a series the end of the run before takes the place of the first reading. The host is read only twice, because an
RDMA NIC queries its firmware for every counter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_accel.core.fact_metrics import HOUR, Counter
from pytest_accel.core.host_facts import COUNTED_HOST_FACTS, HOST_FACTS
from pytest_accel.core.measurement import NODE, Measurement, Trouble, Value
from pytest_accel.core.metric_name import parse
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import HostCountedEntry
from pytest_accel.drivers.host import some

PER_HOUR = ("ecc_corrected", "pcie_corrected")
"""Counters that increase on healthy machines too, and so are rates."""

HOST_RATES = {
    name: Counter(name, unit="per h", per=HOUR) if name in PER_HOUR else Counter(name, unit=HOST_FACTS[name].unit)
    for name in COUNTED_HOST_FACTS
}
"""The counters by the variant of the metric `host_counters.*`; each is read from the host fact of the same name."""


def measurement(metric: str, before: HostCountedEntry | None, now: HostCountedEntry) -> Measurement:
    """Return the increase of one metric `host_counters.*`, with the parts (ports, controllers) that increased.

    A counter that could not be read before the first probe either is not applicable here. One that could be read then
    and no longer can is unmeasured.
    """
    counter = HOST_RATES.get(parse(metric).variant)
    if counter is None:
        return _troubled(metric, Trouble("need", "this version knows no such counter of the host"))
    if before is None:
        return _troubled(metric, Trouble("not_applicable", "no probe ran during which it could have increased"))
    first, last = before["answers"][counter.fact], now["answers"][counter.fact]
    if reason := _why(first):
        return _troubled(metric, Trouble("not_applicable", reason))
    if reason := _why(last):
        return _troubled(metric, Trouble("need", f"{reason}; it could be read before the first probe"))
    counts, after = _counts(first), _counts(last)
    if missing := sorted(set(counts) - set(after)):
        return _troubled(metric, Trouble("need", f"{some(missing)} was present before the first probe and is gone"))
    increases = {part: change for part in counts if (change := _increase(counts[part], after[part]))}
    parts = sorted(filter(None, increases), key=lambda part: -increases[part])
    return Measurement(
        metric=metric,
        subject=NODE,
        unit=counter.unit,
        value=counter.value_over(sum(increases.values()), now["at"] - before["at"]),
        started=before["at"],
        ended=now["at"],
        notes=(Note("at", some(parts)),) if parts else (),
        details={"moved": increases},
    )


def _why(answer: Mapping[str, Any]) -> str:
    return str(answer.get("absent") or answer.get("unreadable") or "")


def _counts(answer: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the counts by part; a fact without parts is a single part with an empty name."""
    value: Value = answer["value"]
    counts: Mapping[str, int] = answer["details"].get("counts", {"": value})
    return counts


def _increase(before: int, after: int) -> int:
    """Return the increase; a counter that decreased was reset in between, and its new value is the increase."""
    return after - before if after >= before else after


def _troubled(metric: str, trouble: Trouble) -> Measurement:
    return Measurement(metric, NODE, "", trouble=trouble)
