"""A calibration as text and as the content of a threshold file."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.core.printable import printable
from pytest_accel.core.sku import Platform, Sku
from pytest_accel.core.versions import spanning
from pytest_accel.core.words import counted
from pytest_accel.judging.records.calibration import Calibrated, Calibration, CalibrationOutlier
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
    """What a calibration was made from."""

    sku: Sku
    platform: Platform
    extends: str
    """What the file extends: the name of a shipped SKU, or the path of a file."""
    name: str
    """The SKU of the new file."""
    by: str
    date: str
    software: Mapping[str, Sequence[str]]
    """Every version of each software, by name."""
    levels: Sequence[str]
    sources: Sequence[str]
    """What was read, one line each."""
    refused: Sequence[str]
    """What was not, with the reason, one line each."""
    devices: Sequence[str] = ()
    """The UUIDs of the devices of the records."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """What a reader finds a device by."""
    simulated: bool = False


def versions(software: Mapping[str, Sequence[str]]) -> str:
    """Return versions as a range for each software: "torch 2.7.0 to 2.8.0, driver 570.1"."""
    told = [
        f"{name} {some[0]}" + (f" to {some[-1]}" if len(some) > 1 else "") for name, some in software.items() if some
    ]
    return ", ".join(told)


def limited(one: Calibrated, sku: Sku, platform: Platform) -> bool:
    """Return True for a metric that gets a limit: the SKU limits it, or its probe derives floors and is required.

    The best of a search stays information.
    """
    declared = finder_of(one.metric)
    if declared is None or why_not_applicable(sku, one.metric, platform):
        return False
    derives = bool(declared.derived_floor) and (bool(declared.required) or declared.for_several)
    return one.metric in sku.limits_on(platform) or derives


# -- text


def outlier(one: CalibrationOutlier, labels: Mapping[str, str]) -> str:
    """Return a sentence for a device that is left out."""
    who = labels.get(one.device, one.device)
    far = f"{one.deviations:.1f} robust deviations" if math.isfinite(one.deviations) else "all others are equal"
    also = f"; also in {', '.join(one.also)}" if one.also else ""
    return printable(
        f"{who}: {one.metric} {one.value:.5g} {one.unit}, centre {one.centre:.5g} ({one.value / one.centre - 1:+.1%}, "
        f"{far}; {one.source}){also}"
    )


def lines(found: Calibration, made: Provenance) -> Iterator[str]:
    """Yield what was calibrated, what was left out and why."""
    for line in made.refused:
        yield printable(f"refused: {line}")
    for each in found.outliers:
        yield f"outlier, left out of all: {outlier(each, made.labels)}"
    for metric, why in found.left_out.items():
        yield printable(f"left out: {metric}: {why}")
    columns = ("metric", "unit", "centre", "limit", "healthy", "devices", "nodes", "runs", "n")
    yield text([Table("", columns, [_row(one, made) for one in found.metrics])])


def _row(one: Calibrated, made: Provenance) -> Sequence[str]:
    bound = f"{one.bound:g}" if limited(one, made.sku, made.platform) else "none"
    spreads = map(_share, (one.spreads.devices, one.spreads.nodes, one.spreads.runs))
    low, high = one.healthy
    healthy, count = f"{low:g} to {high:g}", f"{one.devices} x {one.most_runs}"
    return one.metric, one.unit, f"{one.centre:.5g}", bound, healthy, *spreads, count


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


# -- the threshold file


def header(found: Calibration, made: Provenance) -> str:
    """Return the comment at the top of the file."""
    told = [
        f"Calibrated by pytest-accel from known-good nodes as {made.sku.name} on {made.platform.name}, {made.date}.",
        f"{REVIEW} Were the nodes healthy? Is every limit below one that you would defend?",
    ]
    if made.simulated:
        told.append("SIMULATED NODES: for rehearsal only. No run on hardware is judged by this file.")
    if found.outliers:
        told += ["Left out of every metric as outliers:", *(f"  {outlier(one, made.labels)}" for one in found.outliers)]
    told += ["Read:", *(f"  {each}" for each in made.sources)]
    if made.refused:
        told += ["Refused:", *(f"  {each}" for each in made.refused)]
    if found.left_out:
        told += ["Metrics without a result:", *(f"  {metric}: {why}" for metric, why in found.left_out.items())]
    return "".join(f"# {printable(each)}\n" for each in told)


def content(found: Calibration, made: Provenance) -> dict[str, Any]:
    """Return the content of a threshold file that extends the SKU of the records."""
    everywhere: dict[str, Any] = {}
    here: dict[str, Any] = {}
    for one in found.metrics:
        if limited(one, made.sku, made.platform):
            place = here if _of_platform(one.metric, made) else everywhere
            place[one.metric] = _limit(one, made)
    gone = {each.device for each in found.outliers}
    stated: dict[str, Any] = {"sku": made.name, "title": made.sku.title, "extends": made.extends}
    if behind := [uuid for uuid in made.devices if uuid not in gone]:
        stated["calibrated_from"] = behind
    spread = {one.metric: each for one in found.metrics if (each := _spread(one, made))}
    if spread:
        stated["spread"] = spread
    if everywhere:
        stated["limits"] = everywhere
    if here:
        stated["platforms"] = {made.platform.name: {"limits": here}}
    return stated


def _of_platform(metric: str, made: Provenance) -> bool:
    """Return True for a metric that depends on where the device sits: links, collectives, copies from the host."""
    declared = finder_of(metric)
    if metric in made.platform.limits or declared is None:
        return True
    return declared.for_several or (bool(declared.stresses) and declared.stresses[0] in ("host", "link"))


def _limit(one: Calibrated, made: Provenance) -> dict[str, Any]:
    bound = "floor" if one.rate else "ceiling"
    return {
        bound: one.bound,
        "warn": one.warn,
        "reference": float(f"{one.centre:.5g}"),
        "healthy": list(one.healthy),
        "unit": one.unit,
        **{name: one.conditions[name] for name in TERMS if name in one.conditions},
        **_software(one, made),
        "source": _source(one, made, judged(one)),
    }


def _software(one: Calibrated, made: Provenance) -> dict[str, Any]:
    """Return the versions that the limit holds for: of torch, whose kernels multiply, or of the collective library.

    On other versions the floor of the class judges in its place. Copies do not depend on either.
    """
    declared = finder_of(one.metric)
    stressed = declared.stresses if declared else ()
    names = ("torch",) * ("compute" in stressed) + ("nccl",) * (declared is not None and declared.runs == "ranks")
    ranges = {name: spanning(made.software[name]) for name in names if name in made.software}
    known = {name: text for name, text in ranges.items() if text}
    return {"software": known} if known else {}


def judged(one: Calibrated) -> str:
    """Return what a limit is worth, in one sentence for its source."""
    kind = "floor" if one.rate else "ceiling"
    few = "; one node: how far nodes differ is not known" if one.nodes == 1 else ""
    far = f"{one.deviations:.1f} deviations from the centre, " if math.isfinite(one.deviations) else ""
    return f"{kind} {far}set by {one.why}{few}"


def _source(one: Calibrated, made: Provenance, what: str) -> dict[str, Any]:
    nodes, of_node = counted(one.nodes, "node"), requirements.of_node(one.metric)
    measured = counted(one.devices, "node") if of_node else f"{counted(one.devices, 'device')} of {nodes}"
    method = {name: one.conditions[name] for name in method_of(one.metric, made.sku.probes) if name in one.conditions}
    return {
        "kind": "measured",
        "by": made.by,
        "date": made.date,
        **({"software": versions(made.software)} if made.software else {}),
        "conditions": printable(f"{counted(one.runs, 'run')} of {measured}; level {', '.join(made.levels)}; {what}"),
        **({"simulated": True} if made.simulated else {}),
        **({} if of_node else {"devices": one.devices}),
        "nodes": one.nodes,
        **({"levels": list(made.levels)} if TIMED in one.conditions else {}),
        **({"method": method} if method else {}),
    }


def _spread(one: Calibrated, made: Provenance) -> dict[str, Any] | None:
    """Return the spread of a metric as the file states it, None if it is not known or too large to state."""
    stated: dict[str, Any] = {}
    if one.spreads.devices and one.spreads.devices <= MOST_SPREAD:
        stated["between_devices"] = round(one.spreads.devices, 5)
    if one.spreads.runs and one.most_runs > 1 and one.spreads.runs <= MOST_SPREAD:
        stated |= {"between_runs": round(one.spreads.runs, 5), "runs": one.most_runs}
    if not stated:
        return None
    source = _source(one, made, "1.4826 times the median absolute deviation")
    return {**stated, "source": {name: value for name, value in source.items() if name != "method"}}
