"""Threshold files: finding one by name, reading it, and listing every mistake in it."""

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
from pytest_accel.core.metrics import parse
from pytest_accel.core.printable import SHOWN, printable
from pytest_accel.core.sku import Datasheet, DeclaredBy, Figure, Limit, Platform, Sku, Spread
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
"""Groups of values of a datasheet, and the keys of a fabric that give the rate of a node."""
VENDOR_FILES = "vendor"
"""Folder of the files with what applies to all products of a vendor. A SKU's file is merged on top of its vendor's."""


def names() -> list[str]:
    """Return the names of the shipped SKUs, sorted."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml") if path.name != classes.FILE)


def load(name: str) -> Sku:
    """Load a SKU by its shipped name or by the path of a file. Raises BadFile with all mistakes."""
    return read(name)[0]


def read(name: str) -> tuple[Sku, Located]:
    """Load a SKU as `load` does, and return with it the merged contents of its files with their places.

    Raises BadFile with all mistakes.
    """
    path = find(name)
    mistakes = Mistakes()
    layers = _read(path, (), mistakes)
    root, own_file = layers.root, None if _shipped(path) else shown(path)
    for key, at in [*limit_nodes(root), *limit_nodes(root, "figures")]:
        unit = unit_of(re.split(r"(?:limits|figures)\.", key)[-1])
        if isinstance(at.data, dict) and unit:
            at.data.setdefault("unit", replace(at, data=unit))
        elif isinstance(at.data, dict) and "unit" not in at.data:
            mistakes.add(at, f"{key}: 'unit' is missing")
    skeleton.find_unfilled(root, mistakes)
    mistakes.raise_if_any()
    found = SKU(root, "", mistakes) or {}
    mistakes.raise_if_any()
    check_limits(root, mistakes)
    check_probes(root, mistakes)
    check_spreads(root, mistakes)
    mistakes.raise_if_any()
    check_figures(root, mistakes)
    check_methods(root, found.get("probes", {}), layers.own if own_file else (), mistakes)
    check_whole(root, mistakes)
    mistakes.raise_if_any()
    sku = _build(found, layers, own_file=own_file)
    check_applicable(sku, root, layers.own, mistakes)
    mistakes.raise_if_any()
    return _with_class_floors(sku), root


def _with_class_floors(sku: Sku) -> Sku:
    """Return the SKU with the floors of its classes, and with the file of the classes among its files."""
    if not (SHIPPED / classes.FILE).is_file():
        return sku
    every = classes.read(SHIPPED / classes.FILE)
    floored = classes.with_floors(sku, every)
    return floored if floored == sku else replace(floored, files={**sku.files, classes.FILE: every.digest})


def load_shipped() -> list[Sku]:
    """Load all shipped SKUs."""
    return [load(name) for name in names()]


def load_naming(words: Iterable[str]) -> list[Sku]:
    """Load those shipped SKUs whose file holds one of these words, such as the name or the PCI id of a device.

    Loading all takes about thirty times as long.
    """
    wanted = [word for word in words if word]
    texts = {name: find(name).read_text(encoding="utf-8") for name in names()}
    return [load(name) for name, text in texts.items() if any(word in text for word in wanted)]


def find(name: str) -> Path:
    """Return the path of a shipped SKU's file, or of the file at a path. Raises BadFile if there is none."""
    if name in names():
        return SHIPPED / f"{name}.yaml"
    stem, by_path = name.removesuffix(".yaml").removesuffix(".yml"), name.endswith((".yaml", ".yml")) or "/" in name
    if by_path and untrusted.exists(Path(name)):
        return Path(name)
    beside = stem if by_path else f"./{stem}"
    own = next((each for each in (f"{beside}.yaml", f"{beside}.yml") if untrusted.exists(Path(each))), None)
    hint = f"did you mean the file {printable(own, SHOWN)}? ({LISTED})" if own else ""
    if by_path:
        raise BadFile(f"{printable(name, SHOWN)}: there is no such threshold file{hint and f'; {hint}'}")
    hint = hint or yaml_nodes.nearest(name, [*names(), "auto"], LISTED)
    raise BadFile(f"no SKU named '{printable(name, SHOWN)}'; {hint}")


def _shipped(path: Path) -> bool:
    """Return whether a file is one of the shipped ones."""
    return path.resolve().parent in (SHIPPED.resolve(), (SHIPPED / VENDOR_FILES).resolve())


def shown(path: Path) -> str:
    """Return the name of a file for messages and the record. A user's file never has the name of a shipped one."""
    if _shipped(path):
        return str(path.resolve().relative_to(SHIPPED.resolve()))
    return str(path) if path.is_absolute() or path.parts[0] == ".." else f"./{path}"


@dataclass
class _Layers:
    """A file merged on top of the files that it extends.

    `files` are the names of all of them with their SHA-256, `kinds` says for each whether it is a shipped file or one
    of the user's, and `own` are the user's files that extend another one.
    """

    root: Located
    files: dict[str, str]
    kinds: dict[str, DeclaredBy]
    own: list[str] = field(default_factory=list)
    replaced: set[str] = field(default_factory=set)
    """Metrics whose limits a user's file replaced, and what it states otherwise of datasheet and network."""


def _read(path: Path, seen: tuple[Path, ...], mistakes: Mistakes) -> _Layers:
    """Read a file and merge it on top of the file that it extends, or else on top of its vendor's file."""
    name = shown(path)
    raw = untrusted.read_bytes(path, name, most=yaml_nodes.FILE_BYTES)
    root, digest = yaml_nodes.parse(raw, name), hashlib.sha256(raw).hexdigest()
    kind = DeclaredBy.SKU_FILE if _shipped(path) else DeclaredBy.OWN_FILE
    if "extends" in root.data:
        base = _base(path, root.data["extends"], mistakes)
        if base.resolve() in {*seen, path.resolve()}:
            at = root.data["extends"]
            raise BadFile(ErrorAt(at.file, at.line, f"extends: {at.data} leads back to this file"))
        under = _read(base, (*seen, path.resolve()), mistakes)
        own = [*under.own, *([] if _shipped(path) else [name])]
        check_platforms(root, under.root, mistakes)
    else:
        under, own = _vendor(root), []
    for key, limit in limit_nodes(root):
        _needs_source(key, limit, dict(limit_nodes(under.root)).get(key), mistakes)
    ours, theirs = ({key.rpartition("limits.")[2] for key, _ in limit_nodes(each)} for each in (root, under.root))
    merged = yaml_nodes.merge(under.root, root, whole=WHOLE)
    changed = _other_values(merged, under.root) if own else ()
    replaced = {*(ours & theirs), *changed} if own else set()
    both = dict(limit_nodes(merged))
    for key, limit in limit_nodes(root):
        drop_other_kinds(both[key], limit)
        drop_of_source(both[key], limit, OF_SOURCE)
    for key, at in items_of(root.data.get("spread")):
        known = _at(under.root, "spread", key)
        repeated = known is not None and known.plain() == at.plain()  # as in a resolved file: it stays the vendor's
        # as a whole: a spread has one source, as a published figure has
        merged.data["spread"].data[key] = known if repeated else at
    figures = dict(limit_nodes(merged, "figures"))
    for key, at in limit_nodes(root, "figures"):
        figures[key].data = at.data
    for key in ("explained", "calibrated_from"):
        lists = [each.data[key].data for each in (under.root, root) if key in each.data]
        if len(lists) == 2 and all(isinstance(each, list) for each in lists):  # a merge keeps only the list on top
            merged.data[key] = replace(root.data[key], data=lists[0] + lists[1])
    files, kinds = {**under.files, name: digest}, {**under.kinds, name: kind}
    return _Layers(merged, files, kinds, own, under.replaced | replaced)


def _other_values(merged: Located, under: Located) -> Iterator[str]:
    """Yield what differs from the file below: "tflops.bf16" of a datasheet, "NAME.fabric" of fewer or slower NICs."""
    for group in STATED:
        ours, theirs = (_stated(_at(root, "datasheet", group)) for root in (merged, under))
        other = [key for key, at in ours.items() if key not in theirs or at.plain() != theirs[key].plain()]
        yield from (f"{group}.{key}" for key in other)
    for name, _ in items_of(under.data.get("platforms")):
        ours, theirs = (dict(items_of(_at(root, "platforms", name, "fabric"))) for root in (merged, under))
        rates = [[each[key].data for key in WIRE if key in each] for each in (ours, theirs)]
        if all(isinstance(value, int | float) for rate in rates for value in rate):
            yield from [f"{name}.fabric"] * (math.prod(rates[0]) < math.prod(rates[1]))


def _stated(group: Located | None) -> dict[str, Located]:
    """Return what a group of a datasheet states by key; the dtypes of a list are keys, too."""
    of_list = group is not None and isinstance(group.data, list)
    return {str(at.data): at for at in group.data} if group and of_list else dict(items_of(group))


def _vendor(root: Located) -> _Layers:
    """Read the file of the vendor that a file names; empty if there is none."""
    named = str(root.data["vendor"].data) if "vendor" in root.data else ""
    path = SHIPPED / VENDOR_FILES / f"{named}.yaml"
    if not re.fullmatch(r"[\w-]+", named) or not untrusted.exists(path):
        return _Layers(Located({}, root.file, root.line), {}, {})
    under, digest = yaml_nodes.read(path, shown(path))
    return _Layers(under, {shown(path): digest}, {shown(path): DeclaredBy.VENDOR_FILE})


def extended(path: Path, root: Located) -> Path | None:
    """Return the path of the file that a file extends, given its merged contents; None if it extends none."""
    at = root.data.get("extends")
    return _base(path, at, Mistakes()) if at is not None and at.file == shown(path) else None


def _base(path: Path, extends: Located, mistakes: Mistakes) -> Path:
    """Return the path of the file that `path` extends: a file beside it, or a shipped one. Raises BadFile."""
    name = yaml_nodes.text(extends, "extends", mistakes)
    mistakes.raise_if_any()
    beside = path.parent / str(name)
    try:
        return find(str(beside) if beside.suffix in (".yaml", ".yml") else str(name))
    except BadFile as bad:
        raise BadFile(ErrorAt(extends.file, extends.line, f"extends: {bad}")) from None


def _needs_source(key: str, over: Located, under: Located | None, mistakes: Mistakes) -> None:
    """Find a changed figure without its own source, since the source of the replaced figure does not apply to it."""
    if under is None or not isinstance(over.data, dict):
        return
    changed = [name for name in SOURCED_KEYS if name in over.data]
    if changed and "source" not in over.data:
        mistakes.add(over, f"{key}: overrides {changed[0]}, so add source: {{kind: measured, by: us, date: 2026-11}}")


def _build(found: dict[str, Any], layers: _Layers, own_file: str | None) -> Sku:
    """Return the SKU of a checked file."""
    root, own = layers.root, layers.own
    sheet = found.get("datasheet", {})

    def limits(raw: dict[str, Any], at: Located | None) -> dict[str, Limit]:
        places, probes, budgets = dict(items_of(at)), found.get("probes", {}), found.get("budgets", {})
        levels = {metric: levels_with_time(declaration_of(metric), metric, budgets) for metric in raw}
        return {
            metric: _build_limit(metric, {"levels": levels[metric], **one}, places[metric], layers, probes)
            for metric, one in raw.items()
        }

    figures = partial(_published, layers=layers, found=found)
    every = limits(found.get("limits", {}), root.data.get("limits"))
    shared = figures(found.get("figures", {}), root.data.get("figures"), None)
    platforms = {}
    for name, at in items_of(root.data["platforms"]):
        raw = {"devices": None, **found["platforms"][name]}
        published = figures(raw.pop("figures", {}), at.data.get("figures"), raw["devices"])
        raw["limits"] = _beside(limits(raw.get("limits", {}), at.data.get("limits")), published, every, shared)
        overridden = any(_from(at.data.get(key), own) for key in EXPECTED) or f"{name}.fabric" in layers.replaced
        platforms[name] = Platform(**raw, name=name, overridden=overridden)
    spreads = items_of(root.data.get("spread"))
    other = [key for key in layers.replaced if key.partition(".")[0] in STATED]
    resolved: dict[str, Any] = {
        "title": found["sku"],
        **_fields(Sku, found),
        "datasheet": Datasheet(**{**sheet, "overridden": frozenset(other)}),
        "limits": _beside(every, shared),
        "platforms": platforms,
        "spread": {key: Spread(**found["spread"][key], declared_by=layers.kinds[at.file]) for key, at in spreads},
    }
    return Sku(
        **resolved,
        name=found["sku"],
        rematched=_from(root.data.get("match"), own) or _from(_at(root, "datasheet", "memory", "gb"), own),
        own_file=own_file,
        files=layers.files,
    )


def _fields(kind: type[Sku | Limit], raw: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a file that are fields of a class of that name."""
    return {each.name: raw[each.name] for each in fields(kind) if each.name in raw}


def _from(at: Located | None, own: list[str]) -> bool:
    """Return whether a value comes from one of the files `own`."""
    return at is not None and at.file in own


def _at(root: Located, *keys: str) -> Located | None:
    """Return the value under nested keys, or None."""
    found: Located | None = root
    for key in keys:
        found = dict(items_of(found)).get(key)
    return found


def _changed(metric: str, root: Located, own: list[str]) -> bool:
    """Return whether one of the files `own` changes how the metric is measured: shape, time, precision or spread."""
    declared = declaration_of(metric)
    probe = declared.name if declared else parse(metric).probe
    tables = [root.data.get("probes"), root.data.get("spread"), *(at for _, at in items_of(root.data.get("budgets")))]
    places = [at for table in tables for key, at in items_of(table) if key in (probe, metric)]
    return any(_from(at, own) for at in [*places, root.data.get("precision")])


def _build_limit(
    metric: str, raw: dict[str, Any], at: Located, layers: _Layers, probes: dict[str, dict[str, Any]]
) -> Limit:
    """Return a limit, with a derived floor computed from its reference.

    It is overridden if a user's file changed it, or how its metric is measured. `probes` are the conditions that the
    file sets, by probe.
    """
    if isinstance(raw.get("warn"), dict):
        raw = {**raw, **raw["warn"], "warn": None, "warns": True}
    floor, healthy, declared = raw.get("floor"), raw.get("healthy"), declaration_of(metric)
    reference = raw.get("reference", round(fmean(healthy), 4) if healthy else None)
    of_reference = None
    if floor == "derived" and reference is not None and declared and declared.derived_floor:
        of_reference = declared.derived_floor
        floor = round(of_reference * (healthy[0] if healthy else reference), 4)
    replaced = metric in layers.replaced and layers.kinds[at.file] is DeclaredBy.OWN_FILE
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
        origin=at.where,
        declared_by=layers.kinds[at.file],
        overridden=replaced or _from(at, layers.own) or _changed(metric, layers.root, layers.own),
    )
    differs = methods.differences_of(metric, raw["source"], probes)  # an own file has the probe measure otherwise
    return built.without_bounds(*differs) if differs else built


def _published(
    raw: dict[str, Any], at: Located | None, devices: int | None, *, layers: _Layers, found: dict[str, Any]
) -> dict[str, Limit]:
    """Return published figures by metric, each in a limit without bounds. `devices` is the number of a platform."""
    places, probes, budgets = dict(items_of(at)), found.get("probes", {}), found.get("budgets", {})
    limits = {}
    for metric, one in raw.items():
        declared, least, source = declaration_of(metric), one.get("at_least"), one["source"]
        lowest, highest = one.get("value", (least, None))
        differs = methods.differences_of(metric, source, probes)
        ranks = one.get("ranks", devices if declared and declared.runs == "ranks" else None)
        limits[metric] = Limit(
            metric,
            one["unit"],
            levels=tuple(one.get("levels", levels_with_time(declared, metric, budgets))),
            source=source,
            conditions={"ranks": ranks} if ranks else {},
            published=Figure(lowest, highest, one["unit"], source, differs),
            origin=places[metric].where,
            declared_by=layers.kinds[places[metric].file],
            overridden=_from(places[metric], layers.own) or _changed(metric, layers.root, layers.own),
        )
    return limits


def _beside(limits: dict[str, Limit], figures: dict[str, Limit], *under: dict[str, Limit]) -> dict[str, Limit]:
    """Return limits with the published figures of their metrics, and those figures without a limit.

    `under` are limits and figures that hold on all platforms, below those of one.
    """
    of_all, published = under or ({}, {})
    known = {**published, **figures}
    found = dict(figures)
    for metric in [*limits, *(set(figures) & set(of_all))]:
        limit = limits.get(metric) or of_all[metric]
        found[metric] = replace(limit, published=known[metric].published) if metric in known else limit
    return found
