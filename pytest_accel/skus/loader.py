"""Finds threshold files by name, reads them, and lists every mistake in them."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from pytest_accel.core import untrusted, yaml_nodes
from pytest_accel.core.metric_name import parse
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.sku_types import Datasheet, DeclaredBy, Figure, Limit, Platform, Sku, Spread
from pytest_accel.core.untrusted import BadFile, ErrorAt
from pytest_accel.core.yaml_nodes import Located, Mistakes, items_of
from pytest_accel.probes.declare import declaration_of, unit_of
from pytest_accel.skus import classes, methods, skeleton
from pytest_accel.skus.budgets import levels_with_time
from pytest_accel.skus.checks import (
    check_applicable,
    check_figures,
    check_limits,
    check_methods,
    check_probes,
    check_spreads,
    check_whole,
    drop_of_source,
    drop_other_kinds,
    limit_nodes,
    metric_of,
)
from pytest_accel.skus.names import check_platforms
from pytest_accel.skus.schema import OF_SOURCE, SKU, SOURCED_KEYS, WHOLE

_HERE = Path(__file__).parents[1]
SHIPPED = next((home for home in (_HERE / "thresholds", _HERE.parent / "thresholds") if home.is_dir()), _HERE)
"""Folder of the shipped threshold files: inside the wheel, or beside the package in a checkout."""

LISTED = "'pytest-accel sku list' shows all"
EXPECTED = ("devices", "virtual", "passed_through", "partition", "power_watts", "pcie", "host_link", "link")
"""Keys of a platform from which limits on the facts of the devices are made or left out."""
STATED, WIRE = ("tflops", "memory", "compute", "power", "temperature", "unsupported"), ("nics", "gbit_per_s")
"""Groups of values of a datasheet, and the keys of a network that give the rate of a node."""
VENDOR_FILES = "vendor"
"""Folder of the files with what applies to all products of a vendor. A SKU's file is merged on top of its vendor's."""


def names() -> list[str]:
    """Return the names of the shipped SKUs, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml") if path.name != classes.FILE)


def load(name: str) -> Sku:
    """Load a SKU by its shipped name or by the path of a file. Raises BadFile with all mistakes."""
    return read(name)[0]


def read(name: str) -> tuple[Sku, Located]:
    """Return a SKU as `load` does, and the merged contents of its files with their locations.

    Raises BadFile with all mistakes.
    """
    path = find(name)
    mistakes = Mistakes()
    layers = _read(path, (), mistakes)
    root, own_file = layers.root, None if _shipped(path) else display_name(path)
    for key, entry in [*limit_nodes(root), *limit_nodes(root, "figures")]:
        unit = unit_of(re.split(r"(?:limits|figures)\.", key)[-1])
        if isinstance(entry.data, dict) and unit:
            entry.data.setdefault("unit", replace(entry, data=unit))
        elif isinstance(entry.data, dict) and "unit" not in entry.data:
            mistakes.add(entry, f"{key}: 'unit' is missing")
    skeleton.find_unfilled(root, mistakes)
    mistakes.raise_if_any()
    content = SKU(root, "", mistakes) or {}
    mistakes.raise_if_any()
    check_limits(root, mistakes)
    check_probes(root, mistakes)
    check_spreads(root, mistakes)
    mistakes.raise_if_any()
    check_figures(root, mistakes)
    check_methods(root, content.get("probes", {}), layers.own_files if own_file else (), mistakes)
    check_whole(root, mistakes)
    mistakes.raise_if_any()
    sku = _build(content, layers, own_file=own_file)
    check_applicable(sku, root, layers.own_files, mistakes)
    mistakes.raise_if_any()
    return _with_class_floors(sku), root


def _with_class_floors(sku: Sku) -> Sku:
    """Return the SKU with the floors of its classes, and with the file of the classes among its files."""
    if not (SHIPPED / classes.FILE).is_file():
        return sku
    class_file = classes.read(SHIPPED / classes.FILE)
    floored = classes.with_floors(sku, class_file)
    return floored if floored == sku else replace(floored, files={**sku.files, classes.FILE: class_file.digest})


def load_shipped() -> list[Sku]:
    """Load all shipped SKUs."""
    return [load(name) for name in names()]


def load_naming(words: Iterable[str]) -> list[Sku]:
    """Load those shipped SKUs whose file holds one of these words, such as the name or the PCI id of a device."""
    terms = [word for word in words if word]
    # searched as text: to load all files takes about thirty times as long
    texts = {name: find(name).read_text(encoding="utf-8") for name in names()}
    return [load(name) for name, text in texts.items() if any(word in text for word in terms)]


def find(name: str) -> Path:
    """Return the path of a shipped SKU's file, or of the file at a path. Raises BadFile if there is none."""
    if name in names():
        return SHIPPED / f"{name}.yaml"
    stem, by_path = name.removesuffix(".yaml").removesuffix(".yml"), name.endswith((".yaml", ".yml")) or "/" in name
    if by_path and untrusted.exists(Path(name)):
        return Path(name)
    base = stem if by_path else f"./{stem}"
    file = next((path for path in (f"{base}.yaml", f"{base}.yml") if untrusted.exists(Path(path))), None)
    hint = f"did you mean the file {printable(file, SHOWN)}? ({LISTED})" if file else ""
    if by_path:
        raise BadFile(f"{printable(name, SHOWN)}: there is no such threshold file{hint and f'; {hint}'}")
    hint = hint or yaml_nodes.nearest(name, [*names(), "auto"], LISTED)
    raise BadFile(f"no SKU named '{printable(name, SHOWN)}'; {hint}")


def _shipped(path: Path) -> bool:
    """Return True if a file is one of the shipped ones."""
    return path.resolve().parent in (SHIPPED.resolve(), (SHIPPED / VENDOR_FILES).resolve())


def display_name(path: Path) -> str:
    """Return the name of a file for messages and the record. A user's file never has the name of a shipped one."""
    if _shipped(path):
        return str(path.resolve().relative_to(SHIPPED.resolve()))
    return str(path) if path.is_absolute() or path.parts[0] == ".." else f"./{path}"


@dataclass
class _Layers:
    """A file merged on top of the files that it extends.

    `files` are the names of all of them with their SHA-256, `kinds` tells shipped files from those of the user, and
    `own_files` are the user's files that extend another one.
    """

    root: Located
    files: dict[str, str]
    kinds: dict[str, DeclaredBy]
    own_files: list[str] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    """Metrics whose limits a user's file replaced, and the keys of its other values of datasheet and network."""


def _read(path: Path, visited: tuple[Path, ...], mistakes: Mistakes) -> _Layers:
    """Read a file and merge it on top of the file that it extends, or else on top of its vendor's file."""
    name = display_name(path)
    raw = untrusted.read_bytes(path, name, most=yaml_nodes.FILE_BYTES)
    root, digest = yaml_nodes.parse(raw, name), hashlib.sha256(raw).hexdigest()
    kind = DeclaredBy.SKU_FILE if _shipped(path) else DeclaredBy.OWN_FILE
    if "extends" in root.data:
        entry = root.data["extends"]
        base_path = _base_path(path, entry, mistakes)
        if base_path.resolve() in {*visited, path.resolve()}:
            raise BadFile(ErrorAt(entry.file, entry.line, f"extends: {entry.data} leads back to this file"))
        base = _read(base_path, (*visited, path.resolve()), mistakes)
        own_files = [*base.own_files, *([] if _shipped(path) else [name])]
        check_platforms(root, base.root, mistakes)
    else:
        base, own_files = _vendor(root), []
    limits, base_limits = dict(limit_nodes(root)), dict(limit_nodes(base.root))
    for key, limit in limits.items():
        _needs_source(key, limit, base_limits.get(key), mistakes)
    merged = yaml_nodes.merge(base.root, root, whole=WHOLE)
    metrics = {*map(metric_of, limits)} & {*map(metric_of, base_limits)}
    replaced = metrics.union(_other_values(merged, base.root)) if own_files else set()
    nodes = dict(limit_nodes(merged))
    for key, limit in limits.items():
        drop_other_kinds(nodes[key], limit)
        drop_of_source(nodes[key], limit, OF_SOURCE)
    for key, entry in items_of(root.data.get("spread")):
        inherited = _node(base.root, "spread", key)
        # one that a file repeats stays the vendor's, as in a resolved file
        repeated = inherited is not None and inherited.plain() == entry.plain()
        # as a whole: a spread has one source, as a published figure has
        merged.data["spread"].data[key] = inherited if repeated else entry
    figures = dict(limit_nodes(merged, "figures"))
    for key, entry in limit_nodes(root, "figures"):
        figures[key].data = entry.data
    for key in ("explained", "calibrated_from"):
        lists = [layer.data[key].data for layer in (base.root, root) if key in layer.data]
        if len(lists) == 2 and all(isinstance(item, list) for item in lists):  # a merge keeps only the list on top
            merged.data[key] = replace(root.data[key], data=lists[0] + lists[1])
    files, kinds = {**base.files, name: digest}, {**base.kinds, name: kind}
    return _Layers(merged, files, kinds, own_files, base.replaced | replaced)


def _other_values(merged: Located, base: Located) -> Iterator[str]:
    """Yield the keys of values that differ from the file below.

    They are "tflops.bf16" of a datasheet, and "NAME.network" of a platform with fewer or slower NICs.
    """
    for group in STATED:
        values, old_values = (_values(_node(root, "datasheet", group)) for root in (merged, base))
        yield from (f"{group}.{key}" for key in values if key not in old_values or values[key] != old_values[key])
    for name, _ in items_of(base.data.get("platforms")):
        networks = [dict(items_of(_node(root, "platforms", name, "network"))) for root in (merged, base)]
        rates = [[network[key].data for key in WIRE if key in network] for network in networks]
        if all(isinstance(value, int | float) for rate in rates for value in rate):
            yield from [f"{name}.network"] * (math.prod(rates[0]) < math.prod(rates[1]))


def _values(group: Located | None) -> dict[str, Any]:
    """Return the values of a group of a datasheet by key; the dtypes of a list are keys, too."""
    if group is not None and isinstance(group.data, list):
        return {str(entry.data): entry.plain() for entry in group.data}
    return {key: entry.plain() for key, entry in items_of(group)}


def _vendor(root: Located) -> _Layers:
    """Read the file of the vendor that a file names; empty if there is none."""
    vendor = str(root.data["vendor"].data) if "vendor" in root.data else ""
    path = SHIPPED / VENDOR_FILES / f"{vendor}.yaml"
    if not re.fullmatch(r"[\w-]+", vendor) or not untrusted.exists(path):
        return _Layers(Located({}, root.file, root.line), {}, {})
    root, digest = yaml_nodes.read(path, display_name(path))
    return _Layers(root, {display_name(path): digest}, {display_name(path): DeclaredBy.VENDOR_FILE})


def extended(path: Path, root: Located) -> Path | None:
    """Return the path of the file that a file extends, given its merged contents; None if it extends none."""
    entry = root.data.get("extends")
    return _base_path(path, entry, Mistakes()) if entry is not None and entry.file == display_name(path) else None


def _base_path(path: Path, extends: Located, mistakes: Mistakes) -> Path:
    """Return the path of the file that `path` extends: a file beside it, or a shipped one. Raises BadFile."""
    name = yaml_nodes.text(extends, "extends", mistakes)
    mistakes.raise_if_any()
    candidate = path.parent / str(name)
    try:
        return find(str(candidate) if candidate.suffix in (".yaml", ".yml") else str(name))
    except BadFile as bad:
        raise BadFile(ErrorAt(extends.file, extends.line, f"extends: {bad}")) from None


def _needs_source(key: str, overlay: Located, base: Located | None, mistakes: Mistakes) -> None:
    """Find a changed figure without its own source, since the source of the replaced figure does not apply to it."""
    if base is None or not isinstance(overlay.data, dict):
        return
    keys = [name for name in SOURCED_KEYS if name in overlay.data]
    if keys and "source" not in overlay.data:
        mistakes.add(overlay, f"{key}: overrides {keys[0]}, so add source: {{kind: measured, by: us, date: 2026-11}}")


def _build(content: dict[str, Any], layers: _Layers, own_file: str | None) -> Sku:
    """Return the SKU of a checked file."""
    root, own_files = layers.root, layers.own_files
    sheet = content.get("datasheet", {})

    def limits(raw: dict[str, Any], entry: Located | None) -> dict[str, Limit]:
        entries, probes, budgets = dict(items_of(entry)), content.get("probes", {}), content.get("budgets", {})
        levels = {metric: levels_with_time(declaration_of(metric), metric, budgets) for metric in raw}
        return {
            metric: _build_limit(metric, {"levels": levels[metric], **values}, entries[metric], layers, probes)
            for metric, values in raw.items()
        }

    figures = partial(_published, layers=layers, content=content)
    sku_limits = limits(content.get("limits", {}), root.data.get("limits"))
    sku_figures = figures(content.get("figures", {}), root.data.get("figures"), None)
    platforms = {}
    for name, entry in items_of(root.data["platforms"]):
        raw = {"devices": None, **content["platforms"][name]}
        published = figures(raw.pop("figures", {}), entry.data.get("figures"), raw["devices"])
        raw["limits"] = limits(raw.get("limits", {}), entry.data.get("limits"))
        raw["limits"] = _with_figures(raw["limits"], published, sku_limits, sku_figures)
        custom = f"{name}.network" in layers.replaced or any(_is_in(entry.data.get(key), own_files) for key in EXPECTED)
        platforms[name] = Platform(**raw, name=name, overridden=custom)
    declared_by = {key: layers.kinds[entry.file] for key, entry in items_of(root.data.get("spread"))}
    overridden_keys = [key for key in layers.replaced if key.partition(".")[0] in STATED]
    resolved: dict[str, Any] = {
        "title": content["sku"],
        **_fields(Sku, content),
        "datasheet": Datasheet(**{**sheet, "overridden": frozenset(overridden_keys)}),
        "limits": _with_figures(sku_limits, sku_figures),
        "platforms": platforms,
        "spread": {key: Spread(**content["spread"][key], declared_by=kind) for key, kind in declared_by.items()},
    }
    return Sku(
        **resolved,
        name=content["sku"],
        rematched=any(_is_in(_node(root, *keys), own_files) for keys in (["match"], ["datasheet", "memory", "gb"])),
        own_file=own_file,
        files=layers.files,
    )


def _fields(kind: type[Sku | Limit], raw: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a file that are fields of a class of that name."""
    return {item.name: raw[item.name] for item in fields(kind) if item.name in raw}


def _is_in(entry: Located | None, files: list[str]) -> bool:
    """Return True if a value comes from one of these files."""
    return entry is not None and entry.file in files


def _node(root: Located, *keys: str) -> Located | None:
    """Return the value under nested keys, or None."""
    value: Located | None = root
    for key in keys:
        value = dict(items_of(value)).get(key)
    return value


def _is_measured_otherwise(metric: str, root: Located, own_files: list[str]) -> bool:
    """Return True if one of the own files changes how the metric is measured: shape, time, precision or spread."""
    probe = declaration_of(metric)
    name = probe.name if probe else parse(metric).probe
    budgets = [entry for _, entry in items_of(root.data.get("budgets"))]
    tables = [root.data.get("probes"), root.data.get("spread"), *budgets]
    entries = [entry for table in tables for key, entry in items_of(table) if key in (name, metric)]
    return any(_is_in(entry, own_files) for entry in [*entries, root.data.get("precision")])


def _is_overridden(metric: str, entry: Located, layers: _Layers) -> bool:
    """Return True if an own file states the entry of a metric, or changes how it is measured."""
    return _is_in(entry, layers.own_files) or _is_measured_otherwise(metric, layers.root, layers.own_files)


def _build_limit(
    metric: str, raw: dict[str, Any], entry: Located, layers: _Layers, probes: dict[str, dict[str, Any]]
) -> Limit:
    """Return a limit, with a derived floor computed from its reference.

    It is overridden if a user's file changed it, or how its metric is measured. `probes` are the conditions that the
    file sets, by probe.
    """
    if isinstance(raw.get("warn"), dict):
        raw = {**raw, **raw["warn"], "warn": None, "warns": True}
    floor, healthy, probe = raw.get("floor"), raw.get("healthy"), declaration_of(metric)
    reference = raw.get("reference", round(fmean(healthy), 4) if healthy else None)
    of_reference = None
    if floor == "derived" and reference is not None and probe and probe.derived_floor:
        of_reference = probe.derived_floor
        floor = round(of_reference * (healthy[0] if healthy else reference), 4)
    replaced = metric in layers.replaced and layers.kinds[entry.file] is DeclaredBy.OWN_FILE
    resolved: dict[str, Any] = {
        **_fields(Limit, raw),
        "floor": floor,
        "reference": reference,
        **{key: tuple(raw[key]) for key in ("one_of", "healthy", "levels") if key in raw},
    }
    built = Limit(
        **resolved,
        metric=metric,
        of_reference=of_reference,
        conditions={
            **{key: raw[key] for key in ("ranks", "algorithm", "by_ring") if key in raw},
            **methods.known_to_a_run(metric, raw["source"], probes),
        },
        origin=entry.where,
        declared_by=layers.kinds[entry.file],
        overridden=replaced or _is_overridden(metric, entry, layers),
    )
    differs = methods.differences_of(metric, raw["source"], probes)  # an own file has the probe measure otherwise
    return built.without_bounds(*differs) if differs else built


def _published(
    raw: dict[str, Any], entry: Located | None, devices: int | None, *, layers: _Layers, content: dict[str, Any]
) -> dict[str, Limit]:
    """Return published figures by metric, each in a limit without bounds. `devices` is the number of a platform."""
    entries, probes, budgets = dict(items_of(entry)), content.get("probes", {}), content.get("budgets", {})
    limits = {}
    for metric, values in raw.items():
        probe, minimum, source = declaration_of(metric), values.get("at_least"), values["source"]
        lowest, highest = values.get("value", (minimum, None))
        differs = methods.differences_of(metric, source, probes)
        ranks = values.get("ranks", devices if probe and probe.runs == "ranks" else None)
        limits[metric] = Limit(
            metric,
            values["unit"],
            levels=tuple(values.get("levels", levels_with_time(probe, metric, budgets))),
            source=source,
            conditions={"ranks": ranks} if ranks else {},
            published=Figure(lowest, highest, values["unit"], source, differs),
            origin=entries[metric].where,
            declared_by=layers.kinds[entries[metric].file],
            overridden=_is_overridden(metric, entries[metric], layers),
        )
    return limits


def _with_figures(limits: dict[str, Limit], figures: dict[str, Limit], *shared: dict[str, Limit]) -> dict[str, Limit]:
    """Return limits with the published figures of their metrics, and those figures without a limit.

    `shared` are limits and figures that hold on all platforms, below those of one.
    """
    sku_limits, sku_figures = shared or ({}, {})
    all_figures = {**sku_figures, **figures}
    joined = dict(figures)
    for metric in [*limits, *(set(figures) & set(sku_limits))]:
        limit = limits.get(metric) or sku_limits[metric]
        joined[metric] = replace(limit, published=all_figures[metric].published) if metric in all_figures else limit
    return joined
