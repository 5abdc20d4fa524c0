"""Prints the method of each metric, and the limits that do not tell healthy parts from short ones."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.method import AS_FOUND, words
from pytest_accel.core.sku_types import Basis, Limit, Platform, Sku
from pytest_accel.core.verdict import Status, show
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.probes.declare import REQUIRED, Declaration, conditions_of, declarations
from pytest_accel.skus import classes, loader, peaks, requirements
from pytest_accel.skus.methods import method_of
from pytest_accel.skus.readiness import READ, Backing, Readiness
from pytest_accel.views.markdown import table

SHORT = 0.9
"""The share of its healthy rate that a part which is 10 % short reaches."""
HEAD = (
    "Printed by `scripts/limits.py` from the threshold files and the declarations of the probes.",
    "",
    "The source of a floor measured by the method of our probe. With other software than the stated versions the floor",
    "of the class is in force, if there is one. docs/verdicts.md has the rule.",
)

ACCEPTS = (
    "The shortest level at which a node can be accepted, and for each part the share of the datasheet below which a",
    "device is rejected however many are slow alike, with what stands behind the floor: figures by our method, which",
    "may hold for some versions alone, a class, or other products of the vendor. For `pcieN` their number is named, as",
    "in `--accel-platform=pcie8`. An empty part needs no limit there, or has none that rejects (lacks).",
)


@dataclass(frozen=True)
class Told:
    """A limit with the verdicts that healthy parts get by it, and parts that lost 10 %.

    `healthy` are the verdicts on the lowest and the highest healthy figure, `short` those on 0.9 of them.
    """

    metric: str
    platform: str
    limit: Limit
    healthy: tuple[Status, Status]
    short: tuple[Status, Status]

    @property
    def overlap(self) -> str:
        """The parts that the limit judges wrongly, empty if it rejects every short part and no healthy one."""
        if Status.FAIL in self.healthy:
            return "rejects healthy parts"
        passing = [status for status in self.short if status.holds]
        return ["", "the best parts pass when 10 % short", "parts pass when 10 % short"][len(passing)]

    @property
    def width(self) -> float:
        """0.9 of the highest healthy figure as a multiple of the floor: above 1, such a part passes."""
        return SHORT * _range(self.limit)[1] / (self.limit.floor or 1)


def told(sku: Sku) -> list[Told]:
    """Return every limit of a SKU with a floor and a healthy figure that a level requires, on every platform."""
    places: list[tuple[str, Mapping[str, Limit]]] = [("all", sku.limits)]
    places += [(platform.name, platform.limits) for platform in sku.platforms.values()]
    return [
        Told(metric, name, limit, _verdicts(limit, 1.0), _verdicts(limit, SHORT))
        for name, limits in places
        for metric, limit in limits.items()
        if limit.floor and limit.reference and limit.levels and not limit.relative
    ]


def _range(limit: Limit) -> tuple[float, float]:
    return limit.healthy or (limit.reference or 0.0, limit.reference or 0.0)


def _verdicts(limit: Limit, share: float) -> tuple[Status, Status]:
    lowest, highest = (_judged(limit, share * value) for value in _range(limit))
    return lowest, highest


def _judged(limit: Limit, value: float) -> Status:
    """Return the status that the judge gives to a value without noise."""
    conditions = {"ranks": limit.conditions["ranks"]} if "ranks" in limit.conditions else {}
    measurement = Measurement(limit.metric, "", limit.unit, value, (value,) * 3, conditions=conditions)
    return judge([measurement], limit).status


def page() -> str:
    """Return the whole page in Markdown."""
    shipped = loader.load_shipped()
    skus = [sku for sku in shipped if told(sku)]
    lines = ["# Limits and methods", "", *HEAD, "", "## Methods of the probes", "", *_methods(), ""]
    lines += ["## What can be accepted against", "", *ACCEPTS, "", *_readiness(shipped), ""]
    lines += ["## Floors of the classes", "", *_classes(), ""]
    for sku in skus:
        lines += [f"## {sku.name}", "", *table(COLUMNS, [_row(row) for row in told(sku)]), ""]
    return "\n".join(lines)


COLUMNS = ("metric", "platform", "levels", "floor", "healthy", "with", "healthy part", "10 % short", "overlap")


def _row(row: Told) -> Sequence[str]:
    limit, (low, high) = row.limit, _range(row.limit)
    healthy = show(low, limit.unit) if low == high else f"{low:.10g} to {high:.10g} {limit.unit}"
    return (
        f"`{row.metric}`",
        row.platform,
        " ".join(limit.levels),
        show(limit.floor, limit.unit),
        healthy,
        _versions(limit),
        _both(row.healthy),
        _both(row.short),
        row.overlap,
    )


def _versions(limit: Limit) -> str:
    return " and ".join(f"{name} {text}" for name, text in limit.software.items())


def _both(statuses: tuple[Status, Status]) -> str:
    return " to ".join(dict.fromkeys(status.value for status in statuses))


def _methods() -> list[str]:
    packaged = [probe for probe in declarations() if probe.method and probe.packaged]
    metrics = [metric for probe in packaged for metric in [*probe.names()] or _usual(probe) if metric not in probe.also]
    rows = [(metric, method_of(metric, {})) for metric in metrics]
    return table(("metric", "method"), list(_alike(rows)))


def _usual(probe: Declaration) -> list[str]:
    """Return the metrics under the probe's own conditions, for a probe whose metrics cannot be listed."""
    conditions, _ = conditions_of(probe.function, {}, {})
    return [form.format(**conditions) for form in probe.forms]


def _alike(rows: Sequence[tuple[str, Mapping[str, object]]]) -> Iterator[tuple[str, str]]:
    """Yield a row for each method, with all metrics that are measured by it."""
    groups = grouped(
        rows,
        lambda row: ", ".join(
            f"{words(key)} {'(of the run)' if value == AS_FOUND else value}" for key, value in row[1].items()
        ),
    )
    yield from ((", ".join(f"`{metric}`" for metric, _ in group), text) for text, group in groups.items())


def _readiness(skus: Sequence[Sku]) -> list[str]:
    rows = []
    for sku in skus:
        for platform in map(requirements.numbered, sku.platforms.values()):
            levels = requirements.accepting_levels(sku, platform)
            lacks = ", ".join(Readiness(sku, platform, ["standard"]).lacking)
            rows.append((f"`{sku.name}`", platform.name, levels[0] if levels else "no", *_parts(sku, platform), lacks))
    columns = (
        "SKU",
        "platform",
        "accepts from",
        "matmul",
        "memory",
        "host link",
        "peer links",
        "collectives",
        "lacks",
    )
    return table(columns, rows)


def _parts(sku: Sku, platform: Platform) -> list[str]:
    """Return for each part the share of the datasheet below which a device is rejected, and the evidence behind it."""
    parts = Readiness(sku, platform, ["standard"]).required
    return [_part(sku, platform, part) if part in parts else "" for part in REQUIRED if part not in READ]


def _classes() -> list[str]:
    """Return the rows of the classes with the figures behind them."""
    rows = [
        (
            f"`{row.name}`",
            ", ".join(row.metrics),
            f"{row.lowest:g}",
            f"{row.floor:.2f}",
            f"{row.factor:g}",
            str(len(row.publishers)),
            "; ".join(
                f"{figure['sku']} {figure['value']:g} = {figure['share']:g} ({figure['by']})" for figure in row.figures
            ),
        )
        for row in classes.read(loader.SHIPPED / classes.FILE).rows
    ]
    columns = ("class", "metrics", "lowest healthy", "floor", "factor", "publishers", "figures and their shares")
    return table(columns, rows)


def _part(sku: Sku, platform: Platform, part: str) -> str:
    """Return the highest share of the datasheet below which the part is rejected, with basis and versions."""
    shares = []
    for floor in Readiness(sku, platform, ["standard"]).floors[part]:
        peak, limit = peaks.peak(sku, floor.bound.metric, platform), floor.bound
        if peak and limit.floor and floor.basis:
            versions = "" if floor.basis is Basis.CLASS else _versions(limit)
            backing = Backing(limit.metric, floor.basis, limit.class_floor)
            basis = floor.basis.value if backing.floor is None or backing.publishers else "vendor"
            shares.append((limit.floor / peak[0], f"{basis}{versions and f' ({versions})'}"))
    return "{:.2f} {}".format(*max(shares)) if shares else ""


if __name__ == "__main__":
    sys.stdout.write(page())
