"""A night of a fleet as metrics for Prometheus: aggregates per SKU and metric, and numbers of anomalies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Final

from pytest_accel.core.verdict import Result
from pytest_accel.fleet.nights.extract import STATUSES
from pytest_accel.fleet.nights.night import NOT_ENDED, Night
from pytest_accel.fleet.nights.questions import DEVICE, MANY, Row
from pytest_accel.views.exports import prometheus
from pytest_accel.views.exports.prometheus import Family, Labels

UNITS: Final = {
    "TFLOPS": ("operations_per_second", 1e12),
    "TOPS": ("operations_per_second", 1e12),
    "GB/s": ("bytes_per_second", 1e9),
    "GB": ("bytes", 1e9),
    "s": ("seconds", 1.0),
    "ms": ("seconds", 1e-3),
    "us": ("seconds", 1e-6),
    "W": ("watts", 1.0),
    "K": ("kelvin", 1.0),
    "MHz": ("hertz", 1e6),
    "1": ("ratio", 1.0),
    "count": ("events", 1.0),
    "per s": ("events_per_second", 1.0),
    "per h": ("events_per_second", 1 / 3600),
}
"""The base unit of every unit, and the factor to it. Values in other units, as of a probe of one's own, have none."""


def text(night: Night) -> str:
    """Return a night in the text format of Prometheus."""
    return prometheus.text(_families(night))


def _families(night: Night) -> Iterator[Family]:
    """Yield each metric with its help, and its labels and numbers."""
    moment = datetime.fromisoformat(night.night).replace(tzinfo=timezone.utc).timestamp()
    yield "accel_fleet_night_timestamp_seconds", "The night, as the time at which its day began in UTC.", [((), moment)]
    simulated = float(night.simulated)
    yield "accel_fleet_simulated", "1 if the nodes are simulated, else 0.", [((), simulated)]
    yield "accel_fleet_nights", "Nights that the anomalies are from.", [((), float(night.nights))]
    results = (*(result.value for result in Result), NOT_ENDED)
    runs = [((("result", result),), float(night.results.get(result, 0))) for result in results]
    yield "accel_fleet_runs", "Runs of the night, by result.", runs
    description = "Nodes without a run in the night that had one in the night before."
    yield "accel_fleet_nodes_gone", description, [((), float(len(night.gone)))]
    yield "accel_fleet_devices", "Devices of the night.", [((), float(night.devices))]
    verdicts = [((("status", status),), float(night.verdicts.get(status, 0))) for status in STATUSES]
    yield "accel_fleet_verdicts", "Verdicts of the night, by status.", verdicts
    yield "accel_fleet_anomalies", "Anomalies of the night, by kind, SKU and metric.", _anomalies(night)
    counts = [((("kind", name),), float(len(rows))) for name, rows in night.anomalies.items()]
    yield "accel_fleet_anomalies_by_kind", "Anomalies of the night, by kind.", counts
    # A node or device is a label where it is slow alone: a fleet of 80,000 devices would be as many series.
    losses = [(_lost(name, row), row["lost"]) for name in ("behind", "losses") for row in night.anomalies[name]]
    yield "accel_fleet_lost_ratio", "Speed that a device or location lacks, as a ratio, by kind of anomaly.", losses
    for base in dict.fromkeys(base for base, _ in UNITS.values()):
        groups = [group for group in night.groups if UNITS.get(group["unit"], ("", 0.0))[0] == base]
        rows = [(_labels(group), group["middle"] * UNITS[group["unit"]][1]) for group in groups]
        yield f"accel_fleet_median_{base}", "Median over the devices of a SKU.", rows
    spreads = [(_labels(group), group["spread"]) for group in night.groups if group["devices"] >= MANY]
    yield "accel_fleet_spread_ratio", "Robust standard deviation over the devices of a SKU, as a ratio.", spreads
    figures = [(_labels(group), float(group["devices"])) for group in night.groups]
    yield "accel_fleet_figures", "Figures of the night.", figures


def _labels(row: Row) -> Labels:
    return tuple((name, row[name]) for name in ("sku", "platform", "level", "metric", "method"))


def _lost(kind: str, row: Row) -> Labels:
    """Return the labels of a loss: a device, a node or another location, and its node if it is in one."""
    location = (
        f"{row['what']} {row['location']}" if row.get("what", DEVICE) not in (DEVICE, "node") else row["location"]
    )
    return (
        ("kind", kind),
        ("location", location),
        ("node", row["node"]),
        ("sku", row["sku"]),
        ("metric", row["metric"]),
    )


def _anomalies(night: Night) -> list[tuple[Labels, float]]:
    """Return the number of anomalies of each kind, SKU and metric."""
    rows = ((name, row) for name, anomalies in night.anomalies.items() for row in anomalies if "sku" in row)
    count = Counter((name, row["sku"], row["metric"]) for name, row in rows)
    names = ("kind", "sku", "metric")
    return [(tuple(zip(names, key, strict=True)), float(number)) for key, number in sorted(count.items())]
