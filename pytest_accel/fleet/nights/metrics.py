"""A night of a fleet as metrics for Prometheus: aggregates per SKU and metric, and numbers of findings.

No node and no device is a label: a fleet of 80,000 devices would be as many series. They are in the JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone

from pytest_accel.fleet.nights.extract import STATUSES
from pytest_accel.fleet.nights.findings import Group
from pytest_accel.fleet.nights.night import NOT_ENDED, Night
from pytest_accel.judging.closing import WORDS
from pytest_accel.views.exports import prometheus_text
from pytest_accel.views.exports.prometheus import UNITS
from pytest_accel.views.exports.prometheus_text import Family, Labels


def text(night: Night) -> str:
    """Return a night in the text format of Prometheus."""
    return prometheus_text.text(_families(night))


def _families(night: Night) -> Iterator[Family]:
    """Yield each metric with its help, and its labels and numbers."""
    moment = datetime.fromisoformat(night.night).replace(tzinfo=timezone.utc).timestamp()
    yield "accel_fleet_night_timestamp_seconds", "The night, as the time at which its day began in UTC.", [((), moment)]
    simulated = float(night.simulated)
    yield "accel_fleet_simulated", "1 if the nodes are simulated, else 0.", [((), simulated)]
    yield "accel_fleet_nights", "Nights that the findings are from.", [((), float(night.nights))]
    words = night.words
    runs = [((("result", word),), float(words.get(word, 0))) for word in (*WORDS, NOT_ENDED)]
    yield "accel_fleet_runs", "Runs of the night, by result.", runs
    gone = "Nodes without a run in the night that had one in each of the last nights before."
    yield "accel_fleet_nodes_gone", gone, [((), float(len(night.gone)))]
    yield "accel_fleet_devices", "Devices of the night.", [((), float(night.devices))]
    verdicts = [((("status", each),), float(night.verdicts.get(each, 0))) for each in STATUSES]
    yield "accel_fleet_verdicts", "Verdicts of the night, by status.", verdicts
    yield "accel_fleet_findings", "Findings of the night, by kind, SKU and metric.", _findings(night)
    totals = {
        "outlier": night.outliers,
        "trend": night.trends,
        "offender": night.offenders,
        "marginal_again": night.repeated,
        "update": night.updates,
        "fleet_trend": night.drifts,
        "limit_too_often": night.too_often,
        "limit_never": night.never,
        "rejected_before": night.rejected_before,
        "doubled": night.doubled,
    }
    counts = [((("kind", name),), float(len(found))) for name, found in totals.items()]
    yield "accel_fleet_findings_by_kind", "Findings of the night, by kind.", counts
    for base in dict.fromkeys(base for base, _ in UNITS.values()):
        some = [each for each in night.groups if UNITS.get(each.kind.unit, ("", 0.0))[0] == base]
        rows = [(_labels(each), each.middle * UNITS[each.kind.unit][1]) for each in some]
        yield f"accel_fleet_median_{base}", "Median over the devices of a SKU.", rows
    spreads = [(_labels(each), each.spread) for each in night.groups if each.enough]
    yield "accel_fleet_spread_ratio", "Robust standard deviation over the devices of a SKU, as a ratio.", spreads
    yield "accel_fleet_figures", "Figures of the night.", [(_labels(each), float(each.count)) for each in night.groups]


def _labels(group: Group) -> Labels:
    kind = group.kind
    return tuple((name, getattr(kind, name)) for name in ("sku", "platform", "level", "metric", "method"))


def _findings(night: Night) -> list[tuple[Labels, float]]:
    """Return how many devices are findings, by SKU and metric."""
    count = Counter(("outlier", each.kind.sku, each.kind.metric) for each in night.outliers)
    count.update(("trend", each.kind.sku, each.kind.metric) for each in night.trends)
    names = ("kind", "sku", "metric")
    return [(tuple(zip(names, key, strict=True)), float(number)) for key, number in sorted(count.items())]
