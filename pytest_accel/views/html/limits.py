"""Every limit of a record with its source, method and basis, and the conditions that were measured under. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_accel.core.method import words
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Verdict, show
from pytest_accel.run.record import Record
from pytest_accel.views.html.words import is_fact, plain
from pytest_accel.views.table import limit_of

ADVICE = "advice "
"""The first word of the bounds that only advise."""


@dataclass(frozen=True)
class LimitRow:
    """A limit: what it demands, where it was declared, and where its figures come from."""

    place: int
    metric: str
    bound: str
    effect: str
    levels: str
    basis: str
    source: str
    details: Sequence[tuple[str, str]]
    origin: str
    fact: bool


def limits(verdicts: Sequence[Verdict]) -> tuple[list[LimitRow], dict[int, int]]:
    """Return the limits of all verdicts, each once, and the place of each verdict's limit by the verdict's identity."""
    found: dict[str, int] = {}
    rows: list[LimitRow] = []
    places: dict[int, int] = {}
    for each in verdicts:
        if each.limit is None:
            continue
        place = found.setdefault(repr(each.limit), len(rows))
        if place == len(rows):
            rows.append(_row(place, each.limit))
        places[id(each)] = place
    return rows, places


def _row(place: int, limit: Limit) -> LimitRow:
    source = limit.source
    told = ", ".join(filter(None, (source.by, source.date))) if source else ""
    return LimitRow(
        place,
        limit.metric,
        bound(limit),
        _effect(limit),
        ", ".join(limit.levels),
        limit.basis.value if limit.basis else source.kind if source else "not derived from figures",
        told,
        _details(limit),
        limit.origin,
        is_fact(limit.metric),
    )


def bound(limit: Limit) -> str:
    """Return what a limit demands, in its own unit."""
    if limit.version is not None:
        return f"version {limit.version}"
    if limit.equals is not None:
        return f"equals {show(limit.equals, limit.unit)}"
    if limit.one_of:
        return f"one of {', '.join(show(each, limit.unit) for each in limit.one_of)}"
    bounds = [("at least", limit.floor), ("at most", limit.ceiling)]
    parts = [f"{word} {show(value, limit.unit)}" for word, value in bounds if value is not None]
    return " and ".join([*parts, *(["the same on all devices"] if limit.same_on_all else [])])


def bounds_of(verdict: Verdict) -> str:
    """Return the bounds of a verdict in the unit of its value, or of its limit where it has none; empty without one."""
    text = limit_of(verdict).removeprefix(ADVICE.strip()).strip()
    if text:
        return text.replace("floor ", "≥ ").replace("ceiling ", "≤ ")
    return bound(verdict.limit) if verdict.limit else ""


def advises(verdict: Verdict) -> bool:
    """Return True for a verdict by a limit that does not reject."""
    return limit_of(verdict).startswith(ADVICE)


def _effect(limit: Limit) -> str:
    """Return what happens if the limit is broken."""
    return f"{limit.effect}, if supported" if limit.if_supported and not limit.advises else limit.effect


def class_floor(limit: Limit) -> str:
    """Return the floor of the class beneath a limit, empty without one."""
    floor = limit.beneath
    return f"{show(floor.value, limit.unit)} = {floor.share:g} of the {floor.of} ({floor.origin})" if floor else ""


def _details(limit: Limit) -> list[tuple[str, str]]:
    """Return everything else that is known of a limit, as labels with texts."""
    source = limit.source
    pairs = [
        ("derived as", _derived(limit)),
        ("healthy", _healthy(limit)),
        ("warns at", "" if limit.warn is None else show(limit.warn, limit.unit)),
        ("conditions", plain(limit.conditions)),
        ("validated on", plain(limit.software)),
        ("differs from our method", "; ".join(limit.differs)),
        ("class floor", class_floor(limit)),
        ("declared by", f"{limit.declared_by.value}{', overridden' if limit.overridden else ''}"),
    ]
    if source:
        count = [
            f"{number} {word}" for number, word in ((source.devices, "devices"), (source.nodes, "nodes")) if number
        ]
        pairs += [
            ("kind of source", source.kind),
            ("measured on", ", ".join(count)),
            ("software of the source", source.software),
            ("conditions of the source", source.conditions),
            ("method of the source", ", ".join(f"{words(key)} {value}" for key, value in source.method.items())),
            ("found at", source.url),
        ]
    return [(label, text) for label, text in pairs if text]


def _derived(limit: Limit) -> str:
    if limit.of_reference is None:
        return ""
    return f"{limit.of_reference:g} of the {'lowest healthy figure' if limit.healthy else 'reference'}"


def _healthy(limit: Limit) -> str:
    if limit.healthy:
        return f"{show(limit.healthy[0], '')} to {show(limit.healthy[1], limit.unit)}"
    return "" if limit.reference is None else show(limit.reference, limit.unit)


def conditions(record: Record) -> list[tuple[list[str], str]]:
    """Return the conditions of all measurements, each with the metrics that were measured under them."""
    newest = {(each.metric, each.subject): each.conditions for each in record.measurements if each.samples}
    texts: dict[str, str] = {}
    for (metric, _), found in newest.items():
        texts.setdefault(metric, ", ".join(f"{words(key)} {plain(value)}" for key, value in found.items()))
    groups: dict[str, list[str]] = {}
    for metric, text in texts.items():
        groups.setdefault(text, []).append(metric)
    return [(metrics, text) for text, metrics in groups.items() if text]


def software(record: Record) -> list[tuple[str, str]]:
    """Return the versions of the software, by name."""
    return [(str(name), plain(version)) for name, version in record.software.items()]


def settings(record: Record) -> list[tuple[str, str]]:
    """Return how the run was made: command, environment, files with their hashes, and the simulated node."""
    run, kept = record.run, record.run.get("environment", {})
    pairs = [
        ("command", " ".join(run.get("command", []))),
        ("environment kept", plain(kept.get("kept", {}))),
        ("environment cleared", plain(kept.get("cleared", {}))),
        ("time", _time(run.get("seconds", {}))),
        ("time limit", f"{run['time_limit']:g} s" if "time_limit" in run else ""),
        ("folder", run.get("output", "")),
        ("judged again from", plain(record.judged_from)),
        *((f"threshold file {name}", f"sha256 {sha256}") for name, sha256 in record.sku.get("files", {}).items()),
        ("waivers", _file(record.waivers.get("file"), record.waivers.get("sha256"))),
        ("telemetry", _file(record.telemetry.get("file"), record.telemetry.get("sha256"))),
        ("simulated node", _simulated(run.get("simulated", {}))),
        ("record", f"sha256 {record.sha256}, not signed" if record.sha256 else "states no hash"),
    ]
    return [(label, text) for label, text in pairs if text]


def _file(name: str | None, sha256: str | None) -> str:
    return f"{name}, sha256 {sha256 or 'not known'}" if name else ""


def _time(seconds: object) -> str:
    if not isinstance(seconds, Mapping):
        return ""
    return ", ".join(f"{name.replace('_', '-')} {value:.0f} s" for name, value in seconds.items() if value >= 0.5)


def _simulated(node: Mapping[str, object]) -> str:
    """Return the node file and the faults of a simulated node."""
    if not node:
        return ""
    faults = [each for each in _list(node.get("faults")) if isinstance(each, Mapping)]
    told = [f"{each.get('name')} on device {plain(each.get('devices'))}" for each in faults]
    return f"{plain(node.get('node') or node.get('sku'))}: {'; '.join(told) or 'no faults'}"


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()
