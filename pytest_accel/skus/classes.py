"""Floors of a class: shares of the datasheet below which no healthy product of the class was ever published.

A row of `thresholds/classes.yaml` names metrics, the products that it holds for, and the published healthy figures. Its
floor always stands: by itself where a SKU's file has no limit on the metric, and beneath any limit that the file has.
Where no row holds for a product, the figures of all products of its vendor give the floor of the deciding metrics.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from pytest_accel.core import yaml_nodes
from pytest_accel.core.sku_types import ClassFloor, DeclaredBy, Limit, Platform, Sku, Source, Spread
from pytest_accel.core.yaml_nodes import Mistakes, count, number, positive, text
from pytest_accel.probes.declare import declaration_of, unit_of
from pytest_accel.skus import peaks
from pytest_accel.skus.budgets import levels_with_time
from pytest_accel.skus.readiness import DECIDING, HOST_LINK, MATRIX_UNITS, OTHER_TYPES, required_part
from pytest_accel.skus.schema import software_check

FILE = "classes.yaml"
"""The name of the file, beside those of the SKUs."""

_texts = yaml_nodes.list_of(text)
_published = {"by": text, "date": yaml_nodes.date, "url": text, "conditions": text}
_row = yaml_nodes.record_of(
    {
        "title": text,
        "metrics": _texts,
        "products": yaml_nodes.record_of(
            {
                "vendor": text,
                "architectures": _texts,
                "memory": _texts,
                "watts": yaml_nodes.list_of(positive),
                "without": _texts,
            },
        ),
        "platforms": yaml_nodes.record_of(
            {
                "devices": yaml_nodes.list_of(count),
                "pcie": yaml_nodes.list_of(count),
                "host_link": _texts,
                "link": _texts,
                "topology": _texts,
                "network": _texts,
            }
        ),
        "software": software_check,
        "note": text,
        "widest": yaml_nodes.record_of(
            {"share": positive, "raw": positive, "devices": count, **_published},
            required=("share", "by", "date", "conditions"),
        ),
        "figures": yaml_nodes.list_of(
            yaml_nodes.record_of(
                {
                    "sku": text,
                    "platform": text,
                    "metric": text,
                    "value": positive,
                    "share": positive,
                    "nodes": count,
                    "software": text,
                    **_published,
                },
                required=("sku", "value", "share", "by", "date"),
            )
        ),
        "excepted": yaml_nodes.list_of(
            yaml_nodes.record_of({"sku": text, "metric": text, "value": number, "reason": text}, required=("reason",))
        ),
    },
    required=("title", "metrics", "products", "figures"),
)
_floors = yaml_nodes.record_of(
    {
        "of_lowest": yaml_nodes.list_of(positive),
        "of_vendor": positive,
        "of_other_type": positive,
        "without": _texts,
    },
    required=("of_lowest", "of_vendor", "of_other_type", "without"),
)
_check = yaml_nodes.record_of({"floors": _floors, "rows": yaml_nodes.mapping_of(_row)}, required=("floors", "rows"))


@dataclass(frozen=True)
class ClassRow:
    """One row: the products and platforms that it holds for, and its healthy figures as shares of the datasheet."""

    name: str
    title: str
    metrics: Sequence[str]
    products: Mapping[str, Any]
    figures: Sequence[Mapping[str, Any]]
    origin: str
    """File and line."""
    of_lowest: Sequence[float]
    """The floor as a share of the lowest figure, by the number of publishers: one, two, and so on."""
    platforms: Mapping[str, Any] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    widest: Mapping[str, Any] | None = None
    """The widest range of products that was published inside a healthy node, as a share, with its source.

    `raw` is that of devices at any clock, where it is wider.
    """
    of_vendor: bool = False
    """True for the floor of a vendor, by figures of other products."""

    @property
    def lowest(self) -> float:
        """The lowest share that was published for a healthy product."""
        return min(float(figure["share"]) for figure in self.figures)

    @property
    def highest(self) -> float:
        """The highest share that was published for a healthy product."""
        return max(float(figure["share"]) for figure in self.figures)

    @property
    def publishers(self) -> tuple[str, ...]:
        """The publishers of the figures, each once."""
        return tuple(dict.fromkeys(figure["by"] for figure in self.figures))

    @property
    def factor(self) -> float:
        """The floor as a share of the lowest figure."""
        return self.of_lowest[min(len(self.publishers), len(self.of_lowest)) - 1]

    @property
    def floor(self) -> float:
        """The share below which a device is rejected, rounded down to two digits."""
        return math.floor(100 * self.factor * self.lowest + 1e-9) / 100

    def limits(self, metrics: Iterable[str]) -> bool:
        """Return True if the row has a floor for one of these metrics."""
        return not set(self.metrics).isdisjoint(metrics)

    def only(self, metrics: Container[str]) -> ClassRow:
        """Return the row with these of its metrics alone."""
        return replace(self, metrics=[metric for metric in self.metrics if metric in metrics])

    def holds_for(self, sku: Sku, platform: Platform) -> bool:
        """Return True if the product is of the class at the power of the platform, and not a part of a device."""
        facts = {"architectures": sku.architecture, "memory": sku.datasheet.memory.get("type")}
        watts = platform.power_watts or sku.datasheet.power.get("watts")
        low, high = self.products.get("watts", (0.0, math.inf))
        return (
            self.products.get("vendor", sku.vendor) == sku.vendor
            and all(value in self.products[key] for key, value in facts.items() if key in self.products)
            and ("watts" not in self.products or (watts is not None and low <= watts <= high))
            and not sku.matches_any(self.products.get("without", ()))
            and not platform.partition
            and self._joins(platform)
        )

    def _joins(self, platform: Platform) -> bool:
        facts = {
            "devices": platform.devices,
            "pcie": platform.pcie.get("gen"),
            "host_link": platform.host_link.get("type"),
            "link": platform.link.get("type"),
            "topology": platform.link.get("topology"),
            "network": platform.network.get("link"),
        }
        return all(facts[key] in accepted for key, accepted in self.platforms.items())


@dataclass(frozen=True)
class Classes:
    """The content of the file of the classes: its rows, and the factors of the floors by the evidence behind them."""

    rows: Sequence[ClassRow]
    of_vendor: float
    """The floor of a vendor as a share of the lowest figure of any of its products."""
    of_other_type: float
    """The most that it may be, as a share of what the class of a product shows in another matrix type."""
    without: Sequence[str]
    """The names or PCI ids of the products without a floor of their vendor."""
    origin: str
    """File and line of the factors."""
    digest: str = ""
    """SHA-256 of the file."""

    def of(self, sku: Sku, platform: Platform) -> list[ClassRow]:
        """Return the rows that hold for a product on a platform, those of its vendor last."""
        rows = [row for row in self.rows if row.holds_for(sku, platform)]
        if platform.partition or platform.power_watts or sku.matches_any(self.without):
            return rows  # a part of a device and a capped one reach less than any healthy product
        return [*rows, *self._of_vendor(sku, platform, rows)]

    def _of_vendor(self, sku: Sku, platform: Platform, class_rows: Sequence[ClassRow]) -> Iterator[ClassRow]:
        """Yield the floor of the vendor on each metric that decides a part, where no row of the class holds for it."""
        for part, one_type in ((part, metrics) for part, group in DECIDING.items() for metrics in group):
            metric = next((name for name in one_type if peaks.peak(sku, name, platform)), None)
            if metric is None or any(row.limits(one_type) for row in class_rows):
                continue
            if not (rows := self._published(sku.vendor, one_type)):
                continue
            lowest = min(rows, key=lambda row: row.lowest)
            shares = [row.lowest for row in class_rows if part == MATRIX_UNITS and row.limits(OTHER_TYPES)]
            yield ClassRow(
                name=f"{sku.vendor} {metric}",
                title=f"any product of {sku.vendor}",
                metrics=[metric],
                products={"vendor": sku.vendor},
                figures=[figure for row in rows for figure in row.figures],
                origin=self.origin,
                of_lowest=[min([self.of_vendor, *(self.of_other_type * share / lowest.lowest for share in shares)])],
                # the rate of a link is that of its platform, so that this row holds for no other
                platforms={"host_link": [platform.name]} if part == HOST_LINK else {},
                software=lowest.software,
                of_vendor=True,
            )

    def _published(self, vendor: str, metrics: Iterable[str]) -> list[ClassRow]:
        """Return the rows on one of these metrics, with the figures of the vendor's products alone."""
        of_vendor = [row for row in self.rows if row.products.get("vendor") == vendor]
        products = {figure["sku"] for row in of_vendor for figure in row.figures}
        rows = [row for row in self.rows if row.limits(metrics)]
        tables = [[figure for figure in row.figures if figure["sku"] in products] for row in rows]
        return [replace(row, figures=figures) for row, figures in zip(rows, tables, strict=True) if figures]


@cache
def read(path: Path) -> Classes:
    """Read the file of the classes. Raises BadFile with all mistakes."""
    root, digest = yaml_nodes.read(path, FILE, begins="floors:")
    mistakes = Mistakes()
    content = _check(root, "", mistakes) or {}
    mistakes.raise_if_any()
    located = root.data["rows"].data
    keys = ("title", "metrics", "products", "figures", "platforms", "software", "widest")
    factors, entry = content["floors"], root.data["floors"]
    of_lowest = factors.pop("of_lowest")
    fields = {name: {key: row[key] for key in keys if key in row} for name, row in content["rows"].items()}
    rows = [ClassRow(name, origin=located[name].where, of_lowest=of_lowest, **row) for name, row in fields.items()]
    return Classes(rows, **factors, origin=entry.where, digest=digest)


def with_floors(sku: Sku, classes: Classes) -> Sku:
    """Return the SKU with the floors of its classes on every platform, alone or beneath its own limits.

    The limits of the SKU itself get those that hold on all of its platforms.
    """
    rows_on = {name: classes.of(sku, platform) for name, platform in sku.platforms.items()}
    first, *row_lists = rows_on.values()
    common = [row for row in first if not row.platforms and all(row in rows for rows in row_lists)]
    platforms = {}
    for name, platform in sku.platforms.items():
        platform_rows = [row if row not in common else row.only(platform.limits) for row in rows_on[name]]
        limits = _limits(sku, platform, platform.limits, platform_rows, sku.limits)
        platforms[name] = replace(platform, limits=without_host_floors(limits) if platform.guest else limits)
    default = next(iter(sku.platforms.values()))
    widest = next((row.widest for row in first if row.widest), None)
    floored = replace(sku, limits=_limits(sku, default, sku.limits, common, {}), platforms=platforms)
    return replace(floored, widest=_widest(widest)) if widest else floored


def _widest(entry: Mapping[str, Any]) -> Spread:
    source = {**entry, "date": str(entry["date"])}
    share, raw = float(source.pop("share")), source.pop("raw", None)
    return Spread(Source("published", **source), widest=share, widest_raw=raw)


def without_host_floors(limits: Mapping[str, Limit]) -> dict[str, Limit]:
    """Return limits without the floors of a class on the host link, for devices in a virtual machine."""
    # A share of the link is one of the lesser capability of device and slot, and a guest sees an emulated port: on AWS
    # P5 healthy H100 copy 14.2 GB/s, through switches on PCIe 4 x8 (thresholds/h100-sxm.yaml).
    remaining = dict(limits)
    for metric, limit in limits.items():
        if limit.class_floor is None or required_part(metric) != HOST_LINK:
            continue
        if limit.declared_by is DeclaredBy.CLASS and limit.published is None:
            del remaining[metric]
        else:
            base = limit.without_bounds() if limit.declared_by is DeclaredBy.CLASS else limit
            remaining[metric] = replace(base, class_floor=None, published=limit.published)
    return remaining


def _limits(
    sku: Sku, platform: Platform, limits: Mapping[str, Limit], rows: Sequence[ClassRow], base: Mapping[str, Limit]
) -> dict[str, Limit]:
    """Return limits with the class floors of these rows, and a limit for each metric without a bound.

    `base` are the limits that those of the platform replace.
    """
    limits = dict(limits)
    for row, metric in [(class_row, name) for class_row in rows for name in class_row.metrics]:
        peak = peaks.peak(sku, peaks.measured_as(sku, metric), platform)
        if peak is None or peaks.why_not_applicable(sku, metric, platform):
            continue
        floor = ClassFloor(
            value=round(row.floor * peak[0], 4),
            unit=unit_of(metric) or "",
            share=row.floor,
            lowest=row.lowest,
            highest=row.highest,
            factor=row.factor,
            publishers=row.publishers,
            of_vendor=row.of_vendor,
            row=row.name,
            of=peak[1],
            origin=row.origin,
            software=row.software,
        )
        limit = limits.get(metric) or base.get(metric)
        levels = (limit.levels if limit else ()) or levels_with_time(declaration_of(metric), metric, sku.budgets)
        result = limit if limit and limit.bounded else _class_limit(platform, metric, row, floor)
        if limit:
            result = replace(result, published=limit.published, overridden=limit.overridden)
        limits[metric] = replace(result, class_floor=floor, levels=levels)
    return limits


def _class_limit(platform: Platform, metric: str, row: ClassRow, floor: ClassFloor) -> Limit:
    """Return the limit on a metric that only the floor of the class bounds."""
    probe = declaration_of(metric)
    lowest = min(row.figures, key=lambda figure: float(figure["share"]))
    basis = f"{row.factor:g} of {lowest['share']:g}, the lowest published: {lowest['sku']}, {lowest['value']:g}"
    return Limit(
        metric,
        floor.unit,
        floor=floor.value,
        source=Source("derived", ", ".join(row.publishers), str(lowest["date"]), conditions=f"{row.title}; {basis}"),
        conditions={"ranks": platform.devices} if probe and probe.runs == "ranks" and platform.devices else {},
        origin=row.origin,
        declared_by=DeclaredBy.CLASS,
    )
