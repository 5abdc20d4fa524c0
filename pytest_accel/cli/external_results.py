"""Figures of other tools, read from a table (device, metric, value, unit, conditions) and judged. Pure."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from pytest_accel.cli.rejudge import other_conditions
from pytest_accel.core.measurement import NODE, Measurement, Peak
from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.core.yaml_lines import nearest
from pytest_accel.judging.closing import Circumstances, Closing, close
from pytest_accel.judging.judge import judge
from pytest_accel.probes.declare import known_metrics, unit_of
from pytest_accel.skus import peaks, requirements
from pytest_accel.skus.requirements import of_node

COLUMNS = ("device", "metric", "value", "unit")

EXACT = {
    "GB/s": {"TB/s": "1000", "GB/s": "1", "MB/s": "0.001"},
    "TFLOPS": {"PFLOPS": "1000", "TFLOPS": "1", "GFLOPS": "0.001"},
    "s": {"s": "1", "ms": "0.001", "us": "0.000001"},
    "ms": {"s": "1000", "ms": "1", "us": "0.001"},
    "us": {"s": "1000000", "ms": "1000", "us": "1"},
}
"""Our unit, the units that it can be had from, and the factor. Decimal all of them: GiB/s is no choice."""

_PRODUCT = re.compile(r"\s*([A-Za-z][\w-]*)[ =]+v?(\d[\w.+-]*)\s*")


class BadFigures(Exception):
    """A file of figures that cannot be used; the text lists every finding with file and line."""


@dataclass(frozen=True)
class ExternalFigure:
    """One figure and the versions of the software that it was measured with, where the file says so."""

    measurement: Measurement
    software: Mapping[str, str]
    line: int


def parse(text: str, shown: str, limits: Mapping[str, Limit]) -> list[ExternalFigure]:
    """The figures of a CSV file that messages call `shown`. Raises BadFigures with all findings.

    Lines that begin with # are comments. Columns beyond COLUMNS are taken as conditions.
    """
    rows = [(place, line) for place, line in enumerate(text.splitlines(), 1) if not _comment(line)]
    if not rows:
        raise BadFigures(f"{shown}:1: the file is empty; it begins with the header {','.join(COLUMNS)}")
    header = _header(rows[0][1], f"{shown}:{rows[0][0]}")
    known = {metric: str(unit_of(metric)) for metric in known_metrics()}
    units = {**known, **{metric: limit.unit for metric, limit in limits.items() if not limit.relative}}
    found, wrong = [], []
    for place, line in rows[1:]:
        try:
            found.append(_figure(_row(line, header), place, units))
        except BadFigures as bad:
            wrong.append(f"{shown}:{place}: {bad}")
    wrong += _twice(found, shown)
    if wrong or not found:
        raise BadFigures("\n".join(wrong) or f"{shown}:{rows[0][0]}: there is no figure below the header")
    return found


def judge_figures(
    figures: Sequence[ExternalFigure], sku: Sku, platform: Platform, level: str
) -> tuple[list[Verdict], Closing, list[str]]:
    """The verdicts, the closing line, and the required limits that the file has no figure for.

    Never an acceptance: how another tool measured is not known here.
    """
    devices = names(figures)
    limits = requirements.limits(sku, platform, requirements.device_count(platform, len(devices)))
    verdicts = [_verdict(each, limits.get(each.measurement.metric), sku, platform) for each in figures]
    required = requirements.required(requirements.applying(limits, sku, platform), level, devices)
    around = Circumstances(
        required=required,
        expected_devices=requirements.device_count(platform, len(devices)),
        filtered=["figures of another tool"],
        own_file=sku.own_file,
        overridden=sum(limit.overridden for limit in limits.values()),
    )
    there = {(each.metric, each.subject) for each in verdicts}
    lacking = [f"{subject} {metric}" for metric, subject, _ in required if (metric, subject) not in there]
    return verdicts, close(verdicts, around), lacking


def names(figures: Iterable[ExternalFigure]) -> list[str]:
    """The devices that the figures are of, in the order of the file; not the node."""
    return [each for each in dict.fromkeys(figure.measurement.subject for figure in figures) if each != NODE]


def _verdict(figure: ExternalFigure, limit: Limit | None, sku: Sku, platform: Platform) -> Verdict:
    found = figure.measurement
    other = other_conditions(found, sku) if limit else None
    if other:
        return Verdict(found.metric, found.subject, Status.UNMEASURED, other, found.unit, found.value, limit=limit)
    peak = peaks.peak(sku, found.metric, platform)
    return judge([replace(found, peak=Peak(*peak) if peak else None)], limit, figure.software)


def _comment(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _header(line: str, where: str) -> list[str]:
    header = [cell.strip().lower() for cell in _cells(line.lstrip("\ufeff"))]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise BadFigures(f"{where}: column '{missing[0]}' is missing; the header needs {', '.join(COLUMNS)}")
    if len(set(header)) < len(header):
        raise BadFigures(f"{where}: a column is given twice")
    return header


def _cells(line: str) -> list[str]:
    return next(csv.reader([line], skipinitialspace=True))


def _row(line: str, header: list[str]) -> dict[str, str]:
    cells = [cell.strip() for cell in _cells(line)]
    if len(cells) > len(header) or len(cells) < len(COLUMNS):
        raise BadFigures(f"{len(cells)} cells under {len(header)} columns")
    return dict(zip(header, cells, strict=False))


def _figure(row: Mapping[str, str], line: int, units: Mapping[str, str]) -> ExternalFigure:
    device, metric = row.get("device", ""), row.get("metric", "")
    unit = units.get(metric) or unit_of(metric)
    if unit is None:
        raise BadFigures(f"metric {metric!r} is not known; {nearest(metric, units)}")
    if not device:
        raise BadFigures(f"the device is missing; it is a name such as gpu0, or {NODE}")
    if of_node(metric) != (device == NODE):
        whose = f"the node: its device is {NODE!r}" if of_node(metric) else f"a device, not of {device!r}"
        raise BadFigures(f"{metric} is a metric of {whose}")
    if unit in ("text", "version"):
        raise BadFigures(f"{metric} is {unit}, no figure")
    value = _converted(_number(row.get("value", "")), row.get("unit", ""), unit, metric)
    conditions = {name: _plain(cell) for name, cell in row.items() if name not in COLUMNS and cell}
    return ExternalFigure(Measurement(metric, device, unit, value, conditions=conditions), _software(row), line)


def _number(text: str) -> Decimal:
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite():
        raise BadFigures(f"value {text!r} is no number (such as 672.4; a dot, no separators, the unit in its column)")
    return value


def _converted(value: Decimal, given: str, wanted: str, metric: str) -> float:
    """The value in our unit, exactly."""
    factors = EXACT.get(wanted, {wanted: "1"})
    if given not in factors:
        raise BadFigures(f"unit {given!r} is none that {metric} can be had from; choose {' or '.join(factors)}")
    found = float(value * Decimal(factors[given]))
    if not math.isfinite(found) or (found < 0 and wanted != "1"):
        raise BadFigures(f"value {value} {given} is nothing that {metric} can be")
    return found


def _plain(cell: str) -> Any:
    """A condition: a whole number where it is one, else the text."""
    return int(cell) if re.fullmatch(r"-?\d+", cell) else cell


def _software(row: Mapping[str, str]) -> dict[str, str]:
    """Names and versions from the column `software`: "nccl 2.18.5; torch 2.7.0"; what is put otherwise says nothing."""
    found = [_PRODUCT.fullmatch(part) for part in row.get("software", "").split(";")]
    return {each[1].lower(): each[2] for each in found if each}


def _twice(figures: Iterable[ExternalFigure], shown: str) -> list[str]:
    seen: dict[tuple[str, str], int] = {}
    wrong = []
    for figure in figures:
        key = figure.measurement.subject, figure.measurement.metric
        if key in seen:
            wrong.append(f"{shown}:{figure.line}: {' '.join(key)} is given twice (first in line {seen[key]})")
        seen.setdefault(key, figure.line)
    return wrong
