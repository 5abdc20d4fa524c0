"""A calibration as text and as the content of a threshold file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.core.printable import printable
from pytest_accel.core.sku_types import Platform, Sku
from pytest_accel.core.versions import spanning
from pytest_accel.core.words import counted
from pytest_accel.judging.records.calibration import CalibratedMetric, Calibration, CalibrationOutlier
from pytest_accel.probes.declare import finder_of
from pytest_accel.skus import requirements
from pytest_accel.skus.methods import method_of
from pytest_accel.skus.peaks import why_not_applicable
from pytest_accel.skus.schema import MOST_SPREAD
from pytest_accel.views.sheet import Table, text

REVIEW = "Review before use."
TIMED = "seconds"
"""The condition of a probe whose method follows the level."""
TERMS = ("ranks", "algorithm")
"""Conditions of a collective that its limit states."""


@dataclass(frozen=True)
class Provenance:
    """The origin of a calibration: records, SKU, software, and who made it."""

    sku: Sku
    platform: Platform
    extends: str
    """The SKU or the file that the new one extends: the name of a shipped SKU, or a path."""
    name: str
    """The SKU of the new file."""
    by: str
    date: str
    software: Mapping[str, Sequence[str]]
    """Every version of each software, by name."""
    levels: Sequence[str]
    sources: Sequence[str]
    """A line on each record that was read."""
    refused: Sequence[str]
    """A line on each file that was not, with the reason."""
    devices: Sequence[str] = ()
    """The UUIDs of the devices of the records."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """The text by which a reader finds a device, by its UUID."""
    simulated: bool = False


def versions(software: Mapping[str, Sequence[str]]) -> str:
    """Return versions as a range for each software: "torch 2.7.0 to 2.8.0, driver 570.1"."""
    ends = {name: dict.fromkeys((texts[0], texts[-1])) for name, texts in software.items() if texts}
    return ", ".join(f"{name} {' to '.join(texts)}" for name, texts in ends.items())


def limited(figure: CalibratedMetric, sku: Sku, platform: Platform) -> bool:
    """Return True for a metric that gets a limit: the SKU limits it, or its probe derives floors and is required.

    The best of a search stays information.
    """
    declaration = finder_of(figure.metric)
    if declaration is None or why_not_applicable(sku, figure.metric, platform):
        return False
    derives = bool(declaration.derived_floor) and (bool(declaration.required) or declaration.for_several)
    return figure.metric in sku.limits_on(platform) or derives


# -- text


def outlier(entry: CalibrationOutlier, labels: Mapping[str, str]) -> str:
    """Return a sentence for a device that is left out."""
    name = labels.get(entry.device, entry.device)
    reason = f"{entry.deviations:.1f} robust deviations" if math.isfinite(entry.deviations) else "all others are equal"
    suffix = f"; also in {', '.join(entry.other_metrics)}" if entry.other_metrics else ""
    return printable(
        f"{name}: {entry.metric} {entry.value:.5g} {entry.unit}, centre {entry.centre:.5g} "
        f"({entry.value / entry.centre - 1:+.1%}, {reason}; {entry.source}){suffix}"
    )


def lines(calibration: Calibration, origin: Provenance) -> Iterator[str]:
    """Yield what was calibrated, what was left out and why."""
    for line in origin.refused:
        yield printable(f"refused: {line}")
    for entry in calibration.outliers:
        yield f"outlier, left out of all: {outlier(entry, origin.labels)}"
    for metric, reason in calibration.skipped_metrics.items():
        yield printable(f"left out: {metric}: {reason}")
    columns = ("metric", "unit", "centre", "limit", "healthy", "devices", "nodes", "runs", "n")
    yield text([Table("", columns, [_row(figure, origin) for figure in calibration.metrics])])


def _row(figure: CalibratedMetric, origin: Provenance) -> Sequence[str]:
    bound = f"{figure.bound:g}" if limited(figure, origin.sku, origin.platform) else "none"
    spreads = map(_share, (figure.spreads.devices, figure.spreads.nodes, figure.spreads.runs))
    low, high = figure.healthy
    healthy, count = f"{low:g} to {high:g}", f"{figure.devices} x {figure.most_runs}"
    return figure.metric, figure.unit, f"{figure.centre:.5g}", bound, healthy, *spreads, count


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


# -- the threshold file


def header(calibration: Calibration, origin: Provenance) -> str:
    """Return the comment at the top of the file."""
    sku, platform = origin.sku.name, origin.platform.name
    comments = [
        f"Calibrated by pytest-accel from known-good nodes as {sku} on {platform}, {origin.date}.",
        f"{REVIEW} Were the nodes healthy? Is every limit below one that you would defend?",
    ]
    if origin.simulated:
        comments.append("SIMULATED NODES: for rehearsal only. No run on hardware is judged by this file.")
    outliers = [outlier(entry, origin.labels) for entry in calibration.outliers]
    comments += _section("Left out of every metric as outliers:", outliers)
    comments += _section("Read:", origin.sources)
    comments += _section("Refused:", origin.refused)
    gaps = [f"{metric}: {reason}" for metric, reason in calibration.skipped_metrics.items()]
    comments += _section("Metrics without a result:", gaps)
    return "".join(f"# {printable(comment)}\n" for comment in comments)


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)] if lines else []


def content(calibration: Calibration, origin: Provenance) -> dict[str, Any]:
    """Return the content of a threshold file that extends the SKU of the records."""
    common_limits: dict[str, Any] = {}
    platform_limits: dict[str, Any] = {}
    for figure in calibration.metrics:
        if limited(figure, origin.sku, origin.platform):
            limits = platform_limits if _of_platform(figure.metric, origin) else common_limits
            limits[figure.metric] = _limit(figure, origin)
    outliers = {outlier.device for outlier in calibration.outliers}
    data: dict[str, Any] = {"sku": origin.name, "title": origin.sku.title, "extends": origin.extends}
    parts: dict[str, Any] = {
        "calibrated_from": [uuid for uuid in origin.devices if uuid not in outliers],
        "spread": {figure.metric: entry for figure in calibration.metrics if (entry := _spread(figure, origin))},
        "limits": common_limits,
        "platforms": {origin.platform.name: {"limits": platform_limits}} if platform_limits else {},
    }
    return data | {name: part for name, part in parts.items() if part}


def _of_platform(metric: str, origin: Provenance) -> bool:
    """Return True for a metric that depends on where the device sits: links, collectives, copies from the host."""
    declaration = finder_of(metric)
    if metric in origin.platform.limits or declaration is None:
        return True
    return declaration.for_several or (bool(declaration.stresses) and declaration.stresses[0] in ("host", "link"))


def _limit(figure: CalibratedMetric, origin: Provenance) -> dict[str, Any]:
    bound = "floor" if figure.rate else "ceiling"
    return {
        bound: figure.bound,
        "warn": figure.warn,
        "reference": float(f"{figure.centre:.5g}"),
        "healthy": list(figure.healthy),
        "unit": figure.unit,
        **{name: figure.conditions[name] for name in TERMS if name in figure.conditions},
        **_software(figure, origin),
        "source": _source(figure, origin, judged(figure)),
    }


def _software(figure: CalibratedMetric, origin: Provenance) -> dict[str, Any]:
    """Return the versions that the limit holds for: of torch, whose kernels multiply, or of the collective library.

    On other versions the floor of the class judges in its place. Copies do not depend on either.
    """
    declaration = finder_of(figure.metric)
    stressed = declaration.stresses if declaration else ()
    names = ("torch",) * ("compute" in stressed) + ("nccl",) * (declaration is not None and declaration.runs == "ranks")
    ranges = {name: spanning(origin.software[name]) for name in names if name in origin.software}
    texts = {name: text for name, text in ranges.items() if text}
    return {"software": texts} if texts else {}


def judged(figure: CalibratedMetric) -> str:
    """Return a sentence on the strength of a limit, for its source."""
    kind = "floor" if figure.rate else "ceiling"
    caveat = "; one node: how far nodes differ is not known" if figure.nodes == 1 else ""
    distance = f"{figure.deviations:.1f} deviations from the centre, " if math.isfinite(figure.deviations) else ""
    return f"{kind} {distance}set by {figure.bound_basis}{caveat}"


def _source(figure: CalibratedMetric, origin: Provenance, note: str) -> dict[str, Any]:
    nodes, of_node, conditions = counted(figure.nodes, "node"), requirements.of_node(figure.metric), figure.conditions
    scope = counted(figure.devices, "node") if of_node else f"{counted(figure.devices, 'device')} of {nodes}"
    method = {name: conditions[name] for name in method_of(figure.metric, origin.sku.probes) if name in conditions}
    return {
        "kind": "measured",
        "by": origin.by,
        "date": origin.date,
        **({"software": versions(origin.software)} if origin.software else {}),
        "conditions": printable(f"{counted(figure.runs, 'run')} of {scope}; level {', '.join(origin.levels)}; {note}"),
        **({"simulated": True} if origin.simulated else {}),
        **({} if of_node else {"devices": figure.devices}),
        "nodes": figure.nodes,
        **({"levels": list(origin.levels)} if TIMED in conditions else {}),
        **({"method": method} if method else {}),
    }


def _spread(figure: CalibratedMetric, origin: Provenance) -> dict[str, Any] | None:
    """Return the spread of a metric as the file states it, None if it is not known or too large to state."""
    spread: dict[str, Any] = {}
    if figure.spreads.devices and figure.spreads.devices <= MOST_SPREAD:
        spread["between_devices"] = round(figure.spreads.devices, 5)
    if figure.spreads.runs and figure.most_runs > 1 and figure.spreads.runs <= MOST_SPREAD:
        spread |= {"between_runs": round(figure.spreads.runs, 5), "runs": figure.most_runs}
    if not spread:
        return None
    source = _source(figure, origin, "1.4826 times the median absolute deviation")
    return {**spread, "source": {name: value for name, value in source.items() if name != "method"}}
