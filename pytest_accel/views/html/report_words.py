"""Words and signs of the report: statuses, bounds, conditions, names, how the run was made. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.device_facts import DEVICE_FACTS
from pytest_accel.core.groups import grouped
from pytest_accel.core.method import words
from pytest_accel.core.run import Run
from pytest_accel.core.sentences import bounds, note_of, sentence_of
from pytest_accel.core.sku_types import Basis, Limit
from pytest_accel.core.verdict import WORST_FIRST, Result, Status, Verdict, show
from pytest_accel.probes.declare import declaration_of, finder_of
from pytest_accel.views.table import COUNTERS, FACTS, HOST, demanded, published_of


def bounds_of(verdict: Verdict, unit: str | None = None) -> str:
    """Return the bounds of a verdict in the unit of its value, or of its limit where it has none; empty without one.

    The unit is written as `unit` if that is given.
    """
    text = bounds(verdict, verdict.unit if unit is None else unit, "≥", "≤")
    limit = None if verdict.information else verdict.limit
    return text or (
        demanded(limit, limit.unit if unit is None or verdict.unit != limit.unit else unit) if limit else ""
    )


def by(verdict: Verdict) -> str:
    """Return who stands behind the floor that decided: the publishers of a class, or the source of the limit."""
    limit = verdict.limit
    if limit is None or verdict.failing_comparison:
        return ""
    if limit.class_floor and verdict.basis is Basis.CLASS:
        return ", ".join(limit.class_floor.publishers)
    return ", ".join(filter(None, (limit.source.by, limit.source.date))) if limit.source else limit.origin


def healthy(limit: Limit | None) -> tuple[str, float | None]:
    """Return the range of healthy figures, the reference, or what others published; also as a number to sort by."""
    if limit is None:
        return "", None
    if limit.published:
        return published_of(limit), limit.published.lowest
    if limit.healthy:
        low, high = limit.healthy
        text = show(high, "") if low == high else f"{show(low, '')} to {show(high, '')}"
        return f"{text} of peak" if limit.relative else text, float(high)
    return ("", None) if limit.reference is None else (show(limit.reference, ""), limit.reference)


def conditions(record: Run) -> Iterable[tuple[str, list[str]]]:
    """Return the conditions of all measurements, each with the metrics that were measured under them."""
    last = {(reading.metric, reading.subject): reading.conditions for reading in record.measurements if reading.samples}
    texts: dict[str, str] = {}
    for (metric, _), values in last.items():
        texts.setdefault(metric, ", ".join(f"{words(key)} {plain(value)}" for key, value in values.items()))
    return [(text, metrics) for text, metrics in grouped(texts, texts.__getitem__).items() if text]


def seconds(phases: object) -> str:
    """Return the seconds of a run by phase."""
    if not isinstance(phases, Mapping):
        return ""
    return ", ".join(f"{name.replace('_', '-')} {value:.0f} s" for name, value in phases.items() if value >= 0.5)


def simulated(node: Mapping[str, object]) -> str:
    """Return the node file and the faults of a simulated node, empty without one."""
    if not node:
        return ""
    faults = node.get("faults")
    texts = [
        f"{fault.get('name')} on device {plain(fault.get('devices'))}"
        for fault in (faults if isinstance(faults, list | tuple) else ())
        if isinstance(fault, Mapping)
    ]
    return f"{plain(node.get('node') or node.get('sku'))}: {'; '.join(texts) or 'no faults'}"


SIGNS = {
    Status.FAIL: "✖",
    Status.UNMEASURED: "○",
    Status.INCONCLUSIVE: "?",
    Status.MARGINAL: "▲",
    Status.PASS: "✔",
    Status.NOT_APPLICABLE: "-",
}
"""The sign of each status, so that no status is told by its colour alone."""

MEANINGS = {
    Result.ACCEPTED: "Every limit that the level requires was judged on every device, and holds.",
    Result.HELD: "Everything that ran holds, but this run was no acceptance.",
    Result.NOT_JUDGED: "No limit is broken, but something that is required could not be judged.",
    Result.BROKEN: "A software error ended the run. It is not a verdict on the hardware.",
    Result.INTERRUPTED: "The run was stopped before its end. Nothing was accepted.",
    None: "The record holds no closing line: the run has not ended, or it was killed.",
}
"""The meaning of each result; the key None is a record without one."""

KINDS: Mapping[Result | None, str] = {Result.ACCEPTED: "pass", Result.HELD: "marginal", Result.REJECTED: "fail"}
"""The colour of a result; every other one has that of what was not judged."""


@dataclass(frozen=True)
class Badge:
    """A status as it is shown: its word, its sign, and the name of its colour."""

    word: str
    sign: str
    kind: str


def badge(verdict: Verdict) -> Badge:
    """Return the badge of a verdict; information and waived failures have badges of their own."""
    if verdict.information:
        return Badge("info", "i", "info")
    if verdict.waiver:
        return Badge(f"{verdict.status.value} waived", "≈", "waived")
    return Badge(verdict.status.value, SIGNS[verdict.status], verdict.status.value.lower().replace(" ", "-"))


def counts(verdicts: Iterable[Verdict]) -> dict[Badge, int]:
    """Return the number of verdicts by status, worst first. What does not apply and information are not counted."""
    ordered = sorted(verdicts, key=lambda verdict: WORST_FIRST.index(verdict.status))
    return Counter(badge(verdict) for verdict in ordered if verdict.status is not Status.NOT_APPLICABLE)


def why(verdict: Verdict) -> str:
    """Return the sentence of a verdict that value and limit do not explain by themselves, and the note on it."""
    clear = verdict.status is Status.PASS or verdict.information
    note = f"note: {note_of(verdict)}" if verdict.note else ""
    return "; ".join(filter(None, ("" if clear else sentence_of(verdict), note)))


def is_fact(metric: str) -> bool:
    """Return True for facts and counters of a device or of the host, False for what a probe measures."""
    return metric.startswith((*FACTS, COUNTERS, *HOST))


def meaning(metric: str) -> str:
    """Return the meaning of a metric in one sentence; empty if no declaration has one."""
    family, _, fact = metric.partition(".")
    if is_fact(metric):
        entry = DEVICE_FACTS.get(fact) if f"{family}." in FACTS else None
        return entry.means if entry else ""
    probe = declaration_of(metric) or finder_of(metric)
    return (probe.function.__doc__ or "").strip().partition("\n")[0] if probe and probe.packaged else ""


def plain(value: Any) -> str:
    """Return data of a record as text: mappings and lists as "key value, key value"."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items())
    if isinstance(value, str) or not isinstance(value, Sequence):
        return "" if value is None else str(value)
    return ", ".join(map(plain, value))


def time_of(text: str) -> str:
    """Return a time in ISO 8601 as a person reads it: "2026-11-23 19:11 UTC"."""
    day, _, clock = text.partition("T")
    zone = " UTC" if clock.endswith(("+00:00", "Z")) else clock[8:]
    return f"{day} {clock[:5]}{zone}" if clock else text


def only(values: Mapping[str, Any], *names: str) -> str:
    """Return the values of some names, as far as there are any: "driver 570.1, torch 2.8.0"."""
    return ", ".join(f"{name} {plain(values[name])}" for name in names if values.get(name))


def tally(things: Iterable[str]) -> str:
    """Return things with the number of each: "8 x NVIDIA H100"."""
    return ", ".join(f"{number} x {thing}" for thing, number in Counter(things).items())
