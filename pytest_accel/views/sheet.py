"""A SKU as a sheet: what it is, what its vendor promises, what is accepted, and on whose word. Text or Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field

from pytest_accel.core.sku import LEVELS, DeclaredBy, Limit, Platform, Sku, Source
from pytest_accel.skus import peaks
from pytest_accel.skus.readiness import best_standing, lacking, standing

FIGURES = {
    "memory.type": ("memory", ""),
    "memory.gb": ("memory size", "GB"),
    "memory.gb_per_s": ("memory bandwidth", "GB/s"),
    "memory.clock_mhz": ("memory clock", "MHz"),
    "memory.bus_bits": ("memory bus", "bit"),
    "compute.units": ("compute units", ""),
    "compute.kind": ("kind of compute unit", ""),
    "compute.tensor_clock_mhz": ("clock of the tensor peak", "MHz"),
    "compute.tensor_flops_per_clock": ("tensor FLOPs per clock and unit", ""),
    "compute.fp32_clock_mhz": ("clock of the fp32 peak", "MHz"),
    "compute.fp32_flops_per_clock": ("fp32 FLOPs per clock and unit", ""),
    "compute.max_clock_mhz": ("highest clock reported", "MHz"),
    "power.watts": ("power", "W"),
    "power.min_watts": ("lowest settable power", "W"),
    "power.max_watts": ("highest settable power", "W"),
    "temperature.max_operating_c": ("highest operating temperature", "C"),
    "temperature.slowdown_c": ("slowdown from", "C"),
    "temperature.shutdown_c": ("shutdown at", "C"),
    "temperature.memory_max_c": ("highest memory temperature", "C"),
}
"""What the figures of a datasheet are called, and their units."""


@dataclass(frozen=True)
class Table:
    """A heading and rows under column names. `note` stands between them."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass
class _Sources:
    """The sources in the order in which they are first named; a row holds the number of its own."""

    found: list[Source] = field(default_factory=list)

    def number(self, source: Source | None) -> str:
        if source is None:
            return ""
        if source not in self.found:
            self.found.append(source)
        return f"[{self.found.index(source) + 1}]"


def listing(skus: Iterable[Sku]) -> Table:
    """One row for each SKU."""
    rows = [
        (
            sku.name,
            best_standing(sku),
            _shown(sku.datasheet.memory.get("gb"), "GB"),
            _shown(sku.datasheet.memory.get("gb_per_s"), "GB/s"),
            _shown(sku.datasheet.tflops.get("bf16") or sku.datasheet.tflops.get("fp16"), "TFLOPS"),
            " ".join(sku.platforms),
            sku.title,
        )
        for sku in skus
    ]
    return Table("", ("name", "standing", "memory", "bandwidth", "bf16 or fp16", "platforms", "product"), rows)


def sheet(sku: Sku) -> list[Table]:
    """Everything that the file holds for a reader, sources last."""
    sources = _Sources()
    tables = [_identity(sku, sources), _datasheet(sku, sources), _platforms(sku, sources), _limits(sku, sources)]
    if sku.not_applicable:
        tables.append(Table("Not applicable", ("metric", "why"), list(sku.not_applicable.items())))
    tables.append(_source_table(sources))
    tables.append(Table("Files", ("file", "SHA-256"), list(sku.files.items())))
    return [each for each in tables if each.rows]


def _identity(sku: Sku, sources: _Sources) -> Table:
    number = sources.number(Source(**sku.match["source"]) if "source" in sku.match else None)
    words = (
        ("names", "name"),
        ("pci_ids", "PCI id"),
        ("virtual_functions", "PCI id of a virtual function"),
        ("subsystems", "subsystem"),
        ("compute_units", "compute units"),
    )
    rows = [(word, " or ".join(map(str, sku.match[key])), number) for key, word in words if sku.match.get(key)]
    return Table("Recognised by", ("what", "value", "source"), rows)


def _datasheet(sku: Sku, sources: _Sources) -> Table:
    data = sku.datasheet
    rows = [
        (
            dtype,
            _shown(value, "TOPS" if dtype == "int8" else "TFLOPS"),
            sources.number(data.source_of(f"tflops.{dtype}")),
        )
        for dtype, value in data.tflops.items()
    ]
    if data.unsupported:
        rows.append(("no fast path", ", ".join(data.unsupported), sources.number(data.source_of("unsupported"))))
    for key, (label, unit) in FIGURES.items():
        group, _, name = key.partition(".")
        if name in (found := getattr(data, group)):
            rows.append((label, _shown(found[name], unit), sources.number(data.source_of(key))))
    return Table("Datasheet", ("what", "value", "source"), rows, "Per device, dense, as the vendor promises it.")


def _platforms(sku: Sku, sources: _Sources) -> Table:
    rows = [
        (
            each.name,
            each.title,
            str(each.devices or "any"),
            _host(each),
            _link(each),
            standing(sku, each),
            sources.number(each.source),
        )
        for each in sku.platforms.values()
    ]
    lacks = {each.name: lacking(sku, each) for each in sku.platforms.values()}
    note = "; ".join(f"{name}: no limit for {', '.join(probes)}" for name, probes in lacks.items() if probes)
    columns = ("platform", "what", "devices", "host link", "peer link", "standing", "source")
    return Table("Platforms", columns, rows, f"Nobody can accept on {note}." if note else "")


def _host(platform: Platform) -> str:
    if platform.host_link:
        return _join(platform.host_link.get("type"), _shown(platform.host_link.get("gb_per_s"), "GB/s"))
    gen, lanes = platform.pcie.get("gen"), platform.pcie.get("lanes")
    return _join(f"PCIe {gen} x{lanes}" if gen else "", _shown(platform.pcie.get("gb_per_s"), "GB/s"))


def _link(platform: Platform) -> str:
    link = platform.link
    count = f"x {link['count']}" if "count" in link else ""
    return _join(link.get("type"), count, link.get("topology"), _shown(link.get("gb_per_s"), "GB/s"))


def _limits(sku: Sku, sources: _Sources) -> Table:
    common = sorted(sku.limits.values(), key=lambda limit: limit.declared_by is DeclaredBy.VENDOR_FILE)
    rows = [_limit(limit, sku, None, sources) for limit in common]
    for platform in sku.platforms.values():
        rows += [_limit(limit, sku, platform, sources) for limit in platform.limits.values()]
    columns = ("metric", "platform", "limit", "reference", "of reference", "of datasheet", "levels", "source")
    return Table("Limits", columns, rows, "The declared limit is the effective one: nothing is added or taken off.")


def _limit(limit: Limit, sku: Sku, platform: Platform | None, sources: _Sources) -> Sequence[str]:
    peak = peaks.peak(sku, limit.metric, platform or next(iter(sku.platforms.values())))
    floor = limit.floor
    return (
        limit.metric + "".join(f" {key}={value}" for key, value in limit.conditions.items()),
        platform.name if platform else "all",
        _bounds(limit),
        _shown(limit.reference, limit.unit),
        f"{floor / limit.reference:.1%}" if floor and limit.reference else "",
        f"{floor / peak[0]:.1%}" if floor and peak and not limit.relative else "",
        "all" if limit.levels == LEVELS else " ".join(limit.levels) or "where measured",
        sources.number(limit.source),
    )


def _bounds(limit: Limit) -> str:
    found = []
    if limit.equals is not None:
        found.append(f"= {limit.equals}")
    if limit.version is not None:
        found.append(limit.version)
    if limit.same_on_all:
        found.append("the same on all")
    found += [
        f"{word} {_shown(bound, limit.unit)}"
        for word, bound in (("at least", limit.floor), ("at most", limit.ceiling), ("warn past", limit.warn))
        if bound is not None
    ]
    advice = " (warns only)" if limit.severity == "warn" else ""
    return ", ".join(found) + (" where supported" if limit.if_supported else "") + advice


def _source_table(sources: _Sources) -> Table:
    rows = []
    for source in sources.found:
        kind, by, date, software, conditions, url, devices, nodes = astuple(source)
        behind = _join(f"{devices} devices" if devices else "", f"{nodes} nodes" if nodes else "")
        rows.append(
            (sources.number(source), kind, by, date, ", ".join(filter(None, (software, conditions, behind, url))))
        )
    return Table("Sources", ("no", "kind", "by", "date", "what"), rows)


def _shown(value: float | str | None, unit: str) -> str:
    """A figure as the file states it: not rounded, as a measured one is."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:.10g} {'' if unit == '1' else unit}".strip()


def _join(*parts: str | None) -> str:
    return " ".join(filter(None, parts))


def text(tables: Sequence[Table]) -> str:
    """For a terminal: columns aligned, sections apart."""
    return "\n\n".join(_text(each) for each in tables)


def _text(table: Table) -> str:
    rows = [table.columns, *table.rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(table.columns))]
    indent = "  " if table.title else ""
    lines = [
        (indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]
    head = [table.title] if table.title else []
    return "\n".join([*head, *([indent + table.note] if table.note else []), *lines])


def markdown(sku: Sku, tables: Sequence[Table]) -> str:
    """For a contract: the same as an annex in Markdown."""
    head = f"# {sku.title}: limits of acceptance\n\nBy the threshold file `{sku.name}` ({best_standing(sku)})."
    return "\n\n".join([head, *map(_markdown, tables)]) + "\n"


def _markdown(table: Table) -> str:
    rows = [table.columns, ["---"] * len(table.columns), *table.rows]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n\n".join([f"## {table.title}", *([table.note] if table.note else []), "\n".join(lines)])
