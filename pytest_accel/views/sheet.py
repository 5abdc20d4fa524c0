"""The data sheet of a SKU as text: identity, datasheet values, platforms, limits and their sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_accel.core.floor import Floor
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.method import words
from pytest_accel.core.sku_types import DeclaredBy, Limit, Platform, Sku, Source
from pytest_accel.probes.declare import REQUIRED
from pytest_accel.skus import requirements
from pytest_accel.skus.readiness import READ, Backing, Readiness
from pytest_accel.skus.schema import DATASHEET
from pytest_accel.views.table import demanded, published_of

FIRST = ("memory.type", "memory.gb", "memory.gb_per_s", "power.watts")
"""The values of a datasheet that the short sheet has, beside the peaks."""
MEASURED = tuple(part for part in REQUIRED if part not in READ)
"""The parts that floors judge."""


@dataclass(frozen=True)
class Table:
    """A table with a title, column names and rows. `note` is printed between title and table.

    The short sheet has the first `short` columns only, and no table where this is 0. Cells beyond the columns of a
    table are not printed.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    short: int = 0


def listing(skus: Iterable[Sku]) -> Table:
    """Return a table with one row for each SKU; `sku show` has the platforms besides the usual one."""
    rows = [
        (
            sku.name,
            accepts(sku),
            _shown(sku.datasheet.memory.get("gb"), ""),
            _shown(sku.datasheet.memory.get("gb_per_s"), ""),
            _shown(sku.datasheet.tflops.get("bf16") or sku.datasheet.tflops.get("fp16"), ""),
            next(iter(sku.platforms)),
        )
        for sku in skus
    ]
    return Table("", ("name", "accepts", "GB", "GB/s", "TFLOPS", "platform"), rows)


def sheet(sku: Sku, *, full: bool = True) -> list[Table]:
    """Return the content of a SKU's threshold file as tables; sources and files last.

    The short sheet has what a person wants first: recognition, datasheet, platforms, what an acceptance is worth.
    """
    sources: list[Source] = []
    tables = [
        _product(sku, sources, full=full),
        _platforms(sku, sources),
        _acceptance(sku),
        _limits(sku, sources),
        _other_than_shipped(sku),
        Table("Not applicable", ("metric", "why"), list(sku.not_applicable.items())),
        _source_table(sources),
        Table("Files", ("file", "SHA-256"), list(sku.files.items())),
    ]
    if not full:
        tables = [replace(table, columns=table.columns[: table.short]) for table in tables if table.short]
    return [table for table in tables if table.rows]


def _number(sources: list[Source], source: Source | None) -> str:
    """Return the number of a source in brackets, empty for no source. A new one gets the next number."""
    if source is None:
        return ""
    if source not in sources:
        sources.append(source)
    return f"[{sources.index(source) + 1}]"


def _product(sku: Sku, sources: list[Source], *, full: bool) -> Table:
    """Return the table of what a device is recognised by, and of the vendor's datasheet."""
    data, match = sku.datasheet, dict(sku.match)
    number = _number(sources, Source(**match.pop("source")) if "source" in match else None)
    words = {"names": "name", "pci_ids": "PCI id", "virtual_functions": "PCI id of a virtual function"}
    rows = [
        (words.get(key, key.replace("_", " ")), " or ".join(map(str, values)), number)
        for key, values in match.items()
        if values
    ]
    rows += [
        (
            dtype,
            _shown(value, "TOPS" if dtype == "int8" else "TFLOPS"),
            _number(sources, data.source_of(f"tflops.{dtype}")),
        )
        for dtype, value in data.tflops.items()
    ]
    if data.unsupported:
        rows.append(("no fast path", ", ".join(data.unsupported), _number(sources, data.source_of("unsupported"))))
    for key, (_, label, unit) in DATASHEET.items():
        group, _, name = key.partition(".")
        if name in (values := getattr(data, group)) and (full or key in FIRST):
            rows.append((label, _shown(values[name], unit), _number(sources, data.source_of(key))))
    note = "By what a device is recognised, and the vendor's values for one device, without sparsity."
    return Table("SKU", ("what", "value", "source"), rows, note, short=2)


def _platforms(sku: Sku, sources: list[Source]) -> Table:
    """Return the table of the platforms: devices, links, and the levels at which a node can be accepted."""
    rows = [
        (
            platform.name,
            str(platform.devices or "any"),
            _host(platform),
            _link(platform),
            next(iter(requirements.accepting_levels(sku, platform)), "no"),
            platform.title,
            _number(sources, platform.source),
        )
        for platform in sku.platforms.values()
    ]
    unfit = [platform for platform in sku.platforms.values() if not requirements.accepting_levels(sku, platform)]
    causes = {platform.name: requirements.unfit(sku, requirements.numbered(platform), "standard") for platform in unfit}
    note = "; ".join(f"{name}: {reason or 'it is no accelerator'}" for name, reason in causes.items())
    columns = ("platform", "devices", "host link, GB/s", "peer link, GB/s", "accepts", "what", "source")
    note = f" A run cannot be ACCEPTED on these platforms: {note}." if note else ""
    note = f"accepts: the level from which on a node can be accepted.{note}"
    return Table("Platforms", columns, rows, note, short=5)


def accepts(sku: Sku) -> str:
    """Return the shortest level at which a node of some platform can be accepted, "no" if there is none."""
    levels = {level for platform in sku.platforms.values() for level in requirements.accepting_levels(sku, platform)}
    return next((level for level in LEVELS if level in levels), "no")


def _acceptance(sku: Sku) -> Table:
    """Return the table of what an acceptance rests on, part by part."""
    platforms: dict[tuple[str, ...], list[str]] = {}
    for platform in map(requirements.numbered, sku.platforms.values()):
        ready = Readiness(sku, platform)
        for part in (part for part in MEASURED if part in (*ready.required, *ready.not_judged)):
            nothing = (f"{part}: nothing", "", "not judged" if part in ready.not_judged else "", "")
            for row in map(_floor, ready.floors[part]) if ready.floors[part] else [nothing]:
                platforms.setdefault((part, *row), []).append(platform.name)
    rows = [
        (*row[1:4], "all" if len(names) == len(sku.platforms) else " ".join(names), row[0], row[4])
        for row, names in sorted(platforms.items(), key=lambda row: MEASURED.index(row[0][0]))
    ]
    note = (
        "One known-good node makes all of it tighter: pytest-accel calibrate RECORD, with the record of "
        f"pytest --accel-sku={sku.name} --accel-level=standard."
    )
    columns = ("rejects", "levels", "by", "platforms", "part", "of the datasheet, by publishers")
    return Table("What an acceptance rests on", columns, rows, note, short=4)


def _floor(floor: Floor) -> tuple[str, ...]:
    """Return limit, levels, evidence, and the share of the datasheet with its publishers, of a floor in force."""
    backing = Backing(floor.bound.metric, floor.basis, floor.bound.class_floor) if floor.basis else None
    evidence, share, source = backing.words if backing else "", "", backing.floor if backing else None
    if source:
        evidence += "" if source.excludes_half else "; half speed not excluded"
        share = f"{source.share:g} = {source.factor:.3g} x {source.lowest:g} {', '.join(source.publishers)}"
    return f"{floor.bound.metric} {_rejects_below(floor.bound)}", _levels(floor.bound), evidence, share


def _rejects_below(limit: Limit) -> str:
    return _bounds(limit) if limit.floor is None else f"< {_shown(limit.floor, limit.unit)}"


def _host(platform: Platform) -> str:
    if platform.host_link:
        return _join(platform.host_link.get("type"), _shown(platform.host_link.get("gb_per_s"), ""))
    gen, lanes = platform.pcie.get("gen"), platform.pcie.get("lanes")
    return _join(f"PCIe {gen}" if gen else "", f"x{lanes}" if lanes else "", _shown(platform.pcie.get("gb_per_s"), ""))


def _link(platform: Platform) -> str:
    """Return type, number, topology and bandwidth of the links between devices."""
    link = platform.link
    count = f"x {link['count']}" if "count" in link else ""
    return _join(link.get("type"), count, link.get("topology"), _shown(link.get("gb_per_s"), ""))


def _limits(sku: Sku, sources: list[Source]) -> Table:
    """Return the table of all limits: first those of all platforms, then those of each."""
    common = sorted(sku.limits.values(), key=lambda limit: limit.declared_by is DeclaredBy.VENDOR_FILE)
    rows = [_limit(limit, None, sources) for limit in common]
    for platform in sku.platforms.values():
        rows += [_limit(limit, platform, sources) for limit in platform.limits.values()]
    columns = ("metric", "platform", "limit", "healthy", "of healthy", "levels", "class floor", "source", "published")
    note = (
        "A value is compared with exactly this limit, or with the class floor where that is higher or the limit does "
        "not hold for the software in use. What others published by another method decides nothing."
    )
    return Table("Limits", columns, rows, note)


def _other_than_shipped(sku: Sku) -> Table:
    """Return the table of the values of a user's own file that differ from the shipped file of the product."""
    other = "another limit, or measured otherwise"
    limits = [("all", limit) for limit in sku.limits.values()]
    limits += [(platform.name, limit) for platform in sku.platforms.values() for limit in platform.limits.values()]
    rows = [(limit.metric, name, other) for name, limit in limits if limit.overridden]
    rows += [(key, "all", "another datasheet") for key in sorted(sku.datasheet.overridden)]
    note = "The closing line of a run counts them as overridden."
    return Table("Other than the shipped file", ("metric or value", "platform", "difference"), rows, note, short=3)


def _limit(limit: Limit, platform: Platform | None, sources: list[Source]) -> Sequence[str]:
    """Return the row of a limit; `platform` is None for a limit of all platforms."""
    floor = limit.floor
    return (
        limit.metric + "".join(f" {key}={value}" for key, value in limit.conditions.items()),
        platform.name if platform else "all",
        _bounds(limit),
        _healthy(limit),
        f"{floor / (limit.healthy[0] if limit.healthy else limit.reference):.1%}" if floor and limit.reference else "",
        _levels(limit),
        _shown(limit.class_floor.value, limit.class_floor.unit) if limit.class_floor else "",
        _number(sources, limit.source),
        _join(published_of(limit), _number(sources, limit.published.source), *limit.published.differs)
        if limit.published
        else "",
    )


def _levels(limit: Limit) -> str:
    return "all" if limit.levels == LEVELS else " ".join(limit.levels) or "tables only"


def _healthy(limit: Limit) -> str:
    """Return the figures of healthy devices: a range, or one figure."""
    if limit.healthy is None or limit.healthy[0] == limit.healthy[1]:
        return _shown(limit.reference, limit.unit)
    return f"{limit.healthy[0]:.10g} to {_shown(limit.healthy[1], limit.unit)}"


def _bounds(limit: Limit) -> str:
    return demanded(limit, limit.unit, _shown) + (" where supported" if limit.if_supported else "")


def _source_table(sources: list[Source]) -> Table:
    """Return the table of the sources that the other tables refer to."""
    rows = []
    for source in sources:
        method = ", ".join(f"{words(key)} {value}" for key, value in source.method.items())
        simulated = "simulated nodes" if source.simulated else ""
        devices = f"{source.devices} devices" if source.devices else ""
        nodes = f"{source.nodes} nodes" if source.nodes else ""
        parts = (simulated, source.software, source.conditions, method, _join(devices, nodes), source.url)
        text = ", ".join(filter(None, parts))
        rows.append((_number(sources, source), source.kind, source.by, source.date, text))
    return Table("Sources", ("no", "kind", "by", "date", "what"), rows)


def _shown(value: float | str | None, unit: str) -> str:
    """Return a value of the file with its unit, not rounded to four digits as measured values are."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.10g} {'' if unit == '1' else unit}".strip()


def _join(*parts: str | None) -> str:
    return " ".join(filter(None, parts))


def text(tables: Sequence[Table]) -> str:
    """Return the tables for a terminal, with aligned columns."""
    return "\n\n".join(map(_text, tables))


def _text(table: Table) -> str:
    rows = [table.columns, *table.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
    indent = "  " if table.title else ""
    lines = [
        (indent + "  ".join(cell.ljust(width) for cell, width in zip(row[: len(widths)], widths, strict=True))).rstrip()
        for row in rows
    ]
    head = [table.title] if table.title else []
    return "\n".join([*head, *([indent + table.note] if table.note else []), *lines])
