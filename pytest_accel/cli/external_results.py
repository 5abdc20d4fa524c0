"""Results of other tools: reads them from a CSV table, judges them, and finds the limits that the table lacks.

The columns are device, metric, value, unit and conditions. Pure: no file is opened here.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation

from pytest_accel.cli.rejudge import other_conditions
from pytest_accel.core import exits, metrics, untrusted
from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Measurement, Peak
from pytest_accel.core.printable import printable
from pytest_accel.core.reasons import Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.core.units import EXACT
from pytest_accel.core.untrusted import BadFile
from pytest_accel.core.verdict import Closing, Status, Verdict
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.background import Background
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.judging.verdicts.like_devices import Attempt
from pytest_accel.judging.verdicts.references import held
from pytest_accel.probes.declare import declaration_of, known_metrics, unit_of
from pytest_accel.run.terms import Terms
from pytest_accel.skus import peaks
from pytest_accel.skus.requirements import of_node

ONCE = "another tool measured it once"
"""Why a device that is behind the others is not rejected for it."""

OTHER_WORDS = {
    "d2h": "host_copy.d2h",
    "h2d": "host_copy.h2d",
    "pcie": "host_copy.h2d",
    "p2p": "peer_copy.one_way",
    "d2d": "peer_copy.one_way",
    "reduce": "all_reduce.busbw@8GiB",
    "nccl": "all_reduce.busbw@8GiB",
    "rccl": "all_reduce.busbw@8GiB",
    "hbm": "stream.copy_kernel",
    "memory": "stream.copy_kernel",
    "membw": "stream.copy_kernel",
    "gemm": "matmul.bf16",
    "flops": "matmul.bf16",
    "power": "soak.power",
}
"""Words in the names that other tools give their results, and our metric of the same part."""


def meant(metric: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown metric: the nearest names, and where all of them are listed."""
    names = sorted(known)
    alike = [name for name in names if metrics.parse(name).probe == metrics.parse(metric).probe]
    other = next((ours for word, ours in OTHER_WORDS.items() if word in metric.lower()), None)
    near = difflib.get_close_matches(
        metric[:80], alike or ([other] if other else names), n=3, cutoff=0.0 if other else 0.5
    )
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"{hint}({len(names)} are known; 'pytest-accel sku show NAME' lists those with a limit)"


def lacking(entries: Sequence[tuple[str, str]], devices: Sequence[str]) -> str:
    """Return the required limits that a table has no value for, given as metric and device.

    Metrics that a tool can measure are named, with their devices unless all lack them; of the facts, which only a run
    on the node reads, their number is.
    """
    by_metric = grouped(entries, lambda entry: entry[0])
    measured = {metric: [name for _, name in some] for metric, some in by_metric.items() if measurable(metric)}
    whole = {metric for metric, names in measured.items() if {*names} >= {*devices} or names == ["node"]}
    texts = [metric if metric in whole else f"{metric} ({', '.join(names)})" for metric, names in measured.items()]
    facts = len(by_metric) - len(measured)
    return "; and ".join(
        [", ".join(texts)] * bool(texts)
        + [f"{facts} facts and counters, which only a run on the node reads"] * bool(facts)
    )


def measurable(metric: str) -> bool:
    """Return True for the main figure of a probe, which another tool can measure; facts and counters are none."""
    declared = declaration_of(metric)
    return (
        declared is not None
        and metric not in declared.also
        and bool(declared.peak or declared.required)
        and not declared.fact
    )


def not_judged(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a line for each reason that figures were not judged for, with the figures."""
    short = [verdict for verdict in verdicts if verdict.status in (Status.UNMEASURED, Status.INCONCLUSIVE)]
    reasons = grouped(short, lambda verdict: (verdict.metric, sentence_of(verdict)))
    return [
        f"not judged: {metric} of {', '.join(each.subject for each in own)}: {why}"
        for (metric, why), own in reasons.items()
    ]


def alternatives(sku: Sku, platform: Platform) -> list[Platform]:
    """Return the other platforms of a SKU for as many devices: a table does not tell them apart."""
    return [each for each in sku.platforms.values() if each.name != platform.name and each.devices == platform.devices]


def by_platform(closings: Mapping[str, Closing]) -> Closing:
    """Return the closing line of a table whose platform nobody named: the first, unless another one ends otherwise.

    A figure that one platform rejects and another one accepts says nothing of the hardware until the platform is known.
    """
    first, *others = closings.values()
    if all(each.exit == first.exit for each in others):
        return first
    ends = "; ".join(f"as {name}: {each.line}" for name, each in closings.items())
    return Closing(
        f"NOT JUDGED the platform decides: name it by --accel-platform; {ends}", exits.NOT_JUDGED, "NOT JUDGED"
    )


COLUMNS = ("device", "metric", "value", "unit")

LARGEST_EXPONENT = 100
"""Power of ten of the largest value of a table."""

_PRODUCT = re.compile(r"\s*([A-Za-z][\w-]*)[ =]+v?(\d[\w.+-]*)\s*")


@dataclass(frozen=True)
class ExternalFigure:
    """A value from a table, the versions of the software that it was measured with if given, and its line."""

    measurement: Measurement
    software: Mapping[str, str]
    line: int


def parse(text: str, shown: str, limits: Mapping[str, Limit]) -> list[ExternalFigure]:
    """Return the values of a CSV table. Raises BadFile with all errors at once.

    `shown` is the name of the file in messages, `limits` are those of the SKU by metric. Lines that begin with # are
    comments. Columns beyond COLUMNS are conditions.
    """
    rows = [
        (place, line)
        for place, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not rows:
        raise BadFile(f"{shown}:1: the file is empty; it begins with the header {','.join(COLUMNS)}")
    header = _header(rows[0][1], f"{shown}:{rows[0][0]}")
    known = {metric: str(unit_of(metric)) for metric in known_metrics()}
    units = {**known, **{metric: limit.unit for metric, limit in limits.items() if not limit.relative}}
    figures, errors = [], []
    for place, line in rows[1:]:
        try:
            figures.append(_figure(_row(line, header), place, units))
        except BadFile as error:
            errors.append(f"{shown}:{place}: {error}")
    errors += _duplicates(figures, shown)
    if errors or not figures:
        raise BadFile(*errors or [f"{shown}:{rows[0][0]}: there is no row below the header"])
    return figures


def judge_figures(
    figures: Sequence[ExternalFigure], sku: Sku, terms: Terms
) -> tuple[list[Verdict], Closing, list[tuple[str, str]]]:
    """Return the verdicts, the closing line, and the required limits that the table has no value for.

    Those are given as "device metric". The result is never an acceptance, since it is not known how the other tool
    measured. A required value that a tool can measure has to be there: its test may have failed.
    """
    alike: dict[object, list[Attempt]] = {}  # all devices of a table are judged as one product
    for each in figures:
        alike.setdefault(_like(each), []).append([each.measurement])
    verdicts = [
        _verdict(each, terms.limits.get(each.measurement.metric), sku, terms.platform, alike[_like(each)])
        for each in figures
    ]
    around = terms.circumstances()
    judged = {(verdict.metric, verdict.subject) for verdict in verdicts}
    lacking = [(metric, subject) for metric, subject, _ in around.required if (metric, subject) not in judged]
    around = replace(
        around,
        required=[key for key in around.required if measurable(key[0])],
        wants_acceptance=terms.accelerator,
        no_acceptance=["measured by another tool"],
    )
    return verdicts, close(verdicts, around), lacking


def names(figures: Iterable[ExternalFigure]) -> list[str]:
    """Return the names of the devices in the order of the table, without the node."""
    subjects = dict.fromkeys(figure.measurement.subject for figure in figures)
    return [subject for subject in subjects if subject != NODE]


def _like(figure: ExternalFigure) -> object:
    """Return the metric of a value and its conditions: values of the same ones are compared."""
    return figure.measurement.metric, repr(sorted(figure.measurement.conditions.items()))


def _verdict(
    figure: ExternalFigure, limit: Limit | None, sku: Sku, platform: Platform, alike: Sequence[Attempt]
) -> Verdict:
    """Judge a value; it is UNMEASURED if it was measured under other conditions than those of the limit.

    Like devices are compared as in a run, where a repeat has to confirm that one is behind: the tool made none.
    """
    measurement = figure.measurement
    metric, subject = measurement.metric, measurement.subject
    if limit and (other := other_conditions(measurement, sku)):
        why = (Note("other_conditions", other),)
        verdict = Verdict(metric, subject, Status.UNMEASURED, why, measurement.unit, measurement.value, limit=limit)
    else:
        peak = peaks.peak(sku, metric, platform)
        verdict = judge([replace(measurement, peak=Peak(*peak) if peak else None)], limit, figure.software)
    once = replace(measurement, details={**measurement.details, "not_repeated": ONCE})
    return held(verdict, [once], Background(alike, alike, sku.spread_of(metric)))


def _header(line: str, where: str) -> list[str]:
    """Return the names of the columns, in lower case. Raises BadFile if one is missing or given twice."""
    try:
        header = [printable(cell).lower() for cell in untrusted.cells(line)]
    except BadFile as bad:
        raise BadFile(*bad.behind(where)) from None
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise BadFile(f"{where}: column '{missing[0]}' is missing; the header needs {', '.join(COLUMNS)}")
    if len(set(header)) < len(header):
        raise BadFile(f"{where}: a column is given twice")
    return header


def _row(line: str, header: list[str]) -> dict[str, str]:
    """Return the cells of a line by column. Raises BadFile if their number does not fit the header."""
    cells = untrusted.cells(line)
    if len(cells) > len(header) or len(cells) < len(COLUMNS):
        raise BadFile(f"the row has {len(cells)} cells, but the header has {len(header)} columns")
    return dict(zip(header, map(printable, cells), strict=False))


def _figure(row: Mapping[str, str], line: int, units: Mapping[str, str]) -> ExternalFigure:
    """Return the value of a row in the unit of its metric. Raises BadFile with what is wrong in the row."""
    device, metric = row.get("device", ""), row.get("metric", "")
    unit = units.get(metric) or unit_of(metric)
    if unit is None:
        raise BadFile(f"metric {metric!r} is not known; {meant(metric, units)}")
    if not device:
        raise BadFile(f"the device is missing; it is a name such as gpu0, or {NODE}")
    if of_node(metric) != (device == NODE):
        wanted = f"the node; write {NODE!r} as its device" if of_node(metric) else f"a device, not of {device!r}"
        raise BadFile(f"{metric} is a metric of {wanted}")
    if unit in ("text", "version"):
        raise BadFile(f"{metric} is a {unit}; only numbers can be judged from a table")
    value = _converted(_number(row.get("value", "")), row.get("unit", ""), unit, metric)
    conditions = {name: untrusted.whole_number(cell) for name, cell in row.items() if name not in COLUMNS and cell}
    return ExternalFigure(Measurement(metric, device, unit, value, conditions=conditions), _software(row), line)


def _number(text: str) -> Decimal:
    """Return a cell as an exact, finite number. Raises BadFile."""
    try:
        value = Decimal(text) if len(text) <= untrusted.NUMBER_CHARACTERS else Decimal("nan")
    except InvalidOperation:
        value = Decimal("nan")
    if not value.is_finite():
        raise BadFile(f"value {text!r} is not a number; write it like 672.4, without separators and without a unit")
    return value


def _converted(value: Decimal, given: str, wanted: str, metric: str) -> float:
    """Return a value in the unit `wanted`, converted exactly. Raises BadFile if the metric cannot have it."""
    factors = EXACT.get(wanted, {wanted: "1"})
    if given not in factors:
        raise BadFile(f"unit {given!r} is not a unit of {metric}; choose {' or '.join(factors)}")
    if value.adjusted() > LARGEST_EXPONENT:  # a product of it would raise Overflow
        raise BadFile(f"value {value} {given} is not possible for {metric}")
    converted = float(value * Decimal(factors[given]))
    if not math.isfinite(converted) or (converted < 0 and wanted != "1"):
        raise BadFile(f"value {value} {given} is not possible for {metric}")
    return converted


def _software(row: Mapping[str, str]) -> dict[str, str]:
    """Return versions by name from the column `software`, such as "nccl 2.18.5; torch 2.7.0"; other text is ignored."""
    products = [_PRODUCT.fullmatch(part) for part in row.get("software", "").split(";")]
    return {product[1].lower(): product[2] for product in products if product}


def _duplicates(figures: Iterable[ExternalFigure], shown: str) -> list[str]:
    """Return an error for each value whose device and metric have been given before."""
    seen: dict[tuple[str, str], int] = {}
    errors = []
    for figure in figures:
        key = figure.measurement.subject, figure.measurement.metric
        if key in seen:
            errors.append(f"{shown}:{figure.line}: {' '.join(key)} is given twice (first in line {seen[key]})")
        seen.setdefault(key, figure.line)
    return errors
