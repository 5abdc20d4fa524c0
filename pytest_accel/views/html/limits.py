"""The bounds of limits and verdicts as text, the conditions that were measured under, how the run was made. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_accel.core.groups import grouped
from pytest_accel.core.method import words
from pytest_accel.core.run import Run
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Verdict, show
from pytest_accel.views.html.words import plain
from pytest_accel.views.table import bounds


def bound(limit: Limit, unit: str | None = None) -> str:
    """Return what a limit demands, in its own unit, which is written as `unit` if that is given."""
    unit = limit.unit if unit is None else unit
    if limit.version is not None:
        return f"version {limit.version}"
    if limit.equals is not None:
        return f"equals {show(limit.equals, unit)}"
    if limit.one_of:
        return f"one of {', '.join(show(each, unit) for each in limit.one_of)}"
    both = [("at least", limit.floor), ("at most", limit.ceiling)]
    parts = [f"{word} {show(value, unit)}" for word, value in both if value is not None]
    return " and ".join([*parts, *(["the same on all devices"] if limit.same_on_all else [])])


def bounds_of(verdict: Verdict, unit: str | None = None) -> str:
    """Return the bounds of a verdict in the unit of its value, or of its limit where it has none; empty without one.

    The unit is written as `unit` if that is given.
    """
    text = bounds(verdict, verdict.unit if unit is None else unit, "≥", "≤")
    return text or (bound(verdict.limit, unit if verdict.unit == verdict.limit.unit else None) if verdict.limit else "")


def healthy(limit: Limit | None) -> tuple[str, float | None]:
    """Return the range of healthy figures, or the reference where no range is known; also as a number to sort by."""
    if limit is None:
        return "", None
    if limit.healthy:
        low, high = limit.healthy
        text = show(high, "") if low == high else f"{show(low, '')} to {show(high, '')}"
        return f"{text} of peak" if limit.relative else text, float(high)
    return ("", None) if limit.reference is None else (show(limit.reference, ""), limit.reference)


def conditions(record: Run) -> Iterable[tuple[str, list[str]]]:
    """Return the conditions of all measurements, each with the metrics that were measured under them."""
    newest = {(each.metric, each.subject): each.conditions for each in record.measurements if each.samples}
    texts: dict[str, str] = {}
    for (metric, _), found in newest.items():
        texts.setdefault(metric, ", ".join(f"{words(key)} {plain(value)}" for key, value in found.items()))
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
    told = [
        f"{each.get('name')} on device {plain(each.get('devices'))}"
        for each in (faults if isinstance(faults, list | tuple) else ())
        if isinstance(each, Mapping)
    ]
    return f"{plain(node.get('node') or node.get('sku'))}: {'; '.join(told) or 'no faults'}"
