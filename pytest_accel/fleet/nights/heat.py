"""All devices of a night as bytes that a page can draw: one for each device in each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pytest_accel.fleet.nights.analysis.groups import Group, standards
from pytest_accel.fleet.nights.database import literal
from pytest_accel.fleet.nights.extract import WORST
from pytest_accel.fleet.nights.queries import COMPARED, StoredNights

BYTES: Final = 2_400_000
"""Most bytes of all layers, so that the page stays below 4 MB: 80,000 devices have thirty layers."""
MIDDLE: Final = 128
"""The byte of a device at the median. 0 stands for no figure."""
FAR: Final = 100
"""Bytes from the median to the distance of an outlier; above `MIDDLE` a device is behind."""
OVERALL: Final = "worst of all metrics"
"""The title of the layer that is shown first."""


@dataclass(frozen=True)
class HeatNode:
    """A node, and how many cells of the map it has."""

    name: str
    sku: str
    cells: int


@dataclass(frozen=True)
class Layer:
    """A metric: a byte for each device, and the distance of an outlier by SKU, as a share."""

    title: str
    far: dict[str, float]
    scores: Sequence[int]


@dataclass(frozen=True)
class Heat:
    """The cells of a map in the order of SKU, node and device. `status` is the place of the worst in `STATUSES`."""

    nodes: Sequence[HeatNode]
    names: Sequence[str]
    name: Sequence[int]
    """The place of each device's name in `names`."""
    status: Sequence[int]
    layers: Sequence[Layer]
    left_out: int
    """Metrics that have no layer, since the page would be too large."""

    @property
    def cells(self) -> int:
        """The number of devices."""
        return len(self.status)


def heat(fleet: StoredNights, groups: Sequence[Group]) -> Heat:
    """Return the cells of the devices of a night. A node's own figures have no cell."""
    order = " ".join(f"WHEN {literal(status)} THEN {place}" for status, place in WORST.items())
    fleet.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE cells AS
        SELECT sku, node, name, device, min(CASE status {order} END) AS worst,
               row_number() OVER (ORDER BY sku, node, length(name), name, device) AS place
        FROM tonight WHERE name <> 'node' GROUP BY sku, node, name, device
        """  # noqa: S608
    )
    names = [row[0] for row in fleet.rows("SELECT DISTINCT name FROM cells ORDER BY name")][:255]
    known = {name: place for place, name in enumerate(names)}
    rows = fleet.rows("SELECT sku, node, name, worst FROM cells ORDER BY place")
    nodes: dict[tuple[str, str], int] = {}
    for sku, node, _, _ in rows:
        nodes[sku, node] = nodes.get((sku, node), 0) + 1
    layers, left_out = _layers(fleet, groups, len(rows))
    return Heat(
        [HeatNode(node, sku, cells) for (sku, node), cells in nodes.items()],
        names,
        [known.get(row[2], 0) for row in rows],
        [row[3] for row in rows],
        layers,
        left_out,
    )


def _layers(fleet: StoredNights, groups: Sequence[Group], cells: int) -> tuple[list[Layer], int]:
    """Return the layer of the worst metric and that of each metric, and how many metrics have none."""
    compared = standards(groups)
    fleet.table(
        "standards",
        "sku VARCHAR, platform VARCHAR, level VARCHAR, metric VARCHAR, unit VARCHAR, method VARCHAR, driver VARCHAR, "
        "middle DOUBLE, far DOUBLE, rate BOOLEAN",
        [
            (*_columns(each), "", each.middle, each.far, each.kind.more_is_better)
            for each in compared.values()
            if each.driver is None
        ],
    )
    fleet.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE scores AS
        SELECT c.place, t.metric, greatest(1, least(255, {MIDDLE} + round({FAR} * max(
                   CASE WHEN s.rate THEN 1 - t.value / s.middle ELSE 1 - s.middle / nullif(t.value, 0) END / s.far
               ))))::UTINYINT AS score
        FROM tonight t JOIN standards s USING (sku, platform, level, metric, unit, method)
             JOIN cells c USING (sku, node, name, device)
        WHERE t.{COMPARED} AND s.middle > 0 GROUP BY c.place, t.metric
        """  # noqa: S608
    )
    metrics = fleet.rows("SELECT metric FROM scores GROUP BY metric ORDER BY count_if(score > 228) DESC, metric")
    most = max(1, BYTES // max(1, cells))
    layers = [Layer(OVERALL, {}, _scores(fleet, "SELECT place, max(score) AS score FROM scores GROUP BY place"))]
    for (metric,) in metrics[: most - 1]:
        far = {
            each.kind.sku: each.far for each in compared.values() if each.driver is None and each.kind.metric == metric
        }
        layers.append(Layer(metric, far, _scores(fleet, "SELECT place, score FROM scores WHERE metric = ?", metric)))
    return layers, max(0, len(metrics) - most + 1)


def _scores(fleet: StoredNights, query: str, *parameters: object) -> list[int]:
    """Return the byte of each cell, 0 where there is no figure."""
    found = f"SELECT list(coalesce(s.score, 0) ORDER BY c.place) FROM cells c LEFT JOIN ({query}) s USING (place)"  # noqa: S608
    rows = fleet.rows(found, *parameters)
    return list(rows[0][0] or [])


def _columns(group: Group) -> tuple[Any, ...]:
    kind = group.kind
    return kind.sku, kind.platform, kind.level, kind.metric, kind.unit, kind.method
