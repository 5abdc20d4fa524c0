"""The schema of a threshold file: every key, the values that it may have, and the keys that are required.

The loader reads files by these checks. scripts/schemas.py writes the JSON Schema that they state, with the descriptions
of scripts/threshold_keys.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import yaml

from pytest_accel.core import units, versions, yaml_nodes
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.sku_types import DELIVERY, DTYPES, TOPOLOGIES, UNITS, Source
from pytest_accel.core.yaml_nodes import Check, Located, Mistakes, StatedCheck, count, flag, positive, text
from pytest_accel.drivers import registry
from pytest_accel.probes.declare import declaration_of

SOURCE_KINDS = ("datasheet", "published", "measured", "agreed", "derived")

SOURCED_KEYS = ("floor", "ceiling", "equals", "one_of", "version", "reference", "healthy")
"""Keys of a limit that need a source beside them: a changed figure does not inherit that of the one it replaces."""

OF_SOURCE = ("healthy", "software")
"""Keys that describe the measurement behind the figures of a limit: they do not outlive replaced figures."""

MOST_SPREAD = 0.2
"""The largest standard deviation that a file may state: devices that differ more tell nothing about each other."""

WHOLE = ("source",)
"""Mappings that a file replaces as a whole where it lies over another; all others are merged key by key."""


_method_value = yaml_nodes.that(
    lambda value: isinstance(value, str | int | float),
    "a text, a number, true or false",
    type=["string", "number", "boolean"],
)
_deviation = yaml_nodes.number_that(
    lambda value: 0 < value <= MOST_SPREAD,
    f"a share of the value in (0, {MOST_SPREAD:g}]",
    exclusiveMinimum=0,
    maximum=MOST_SPREAD,
)

_same_on_all = yaml_nodes.that(
    lambda value: isinstance(value, bool) or value == DELIVERY,
    f"true, false or {DELIVERY}",
    type=["boolean", "string"],
    enum=[True, False, DELIVERY],
)

_source_keys = yaml_nodes.record_of(
    {
        "kind": yaml_nodes.one_of(*SOURCE_KINDS),
        "by": text,
        "date": yaml_nodes.date,
        "software": text,
        "conditions": text,
        "url": text,
        "method": yaml_nodes.mapping_of(_method_value),
        "devices": count,
        "nodes": count,
        "levels": yaml_nodes.list_of(yaml_nodes.one_of(*LEVELS)),
        "simulated": flag,
    },
    required=("kind", "by", "date"),
).stating(title="source")


@yaml_nodes.accepts(_source_keys.schema)
def _source(entry: Located, key: str, mistakes: Mistakes) -> Source | None:
    """Return a source."""
    start = len(mistakes.errors)
    source = _source_keys(entry, key, mistakes)
    if len(mistakes.errors) > start:
        return None
    return Source(**{**source, "levels": tuple(source.get("levels", ()))})


@yaml_nodes.accepts({"type": "string", "pattern": versions.PATTERN})
def _range(entry: Located, key: str, mistakes: Mistakes) -> str | None:
    """Return a range of versions such as ">=1.2"."""
    value = text(entry, key, mistakes)
    try:
        return value and versions.parse(value).text
    except versions.BadRange as bad:
        mistakes.add(entry, f"{key}: {bad}")
        return None


software_check = yaml_nodes.mapping_of(_range)
"""The check of versions by name, with a range for each."""


@yaml_nodes.accepts({"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": "^derived$"})
def _floor(entry: Located, key: str, mistakes: Mistakes) -> float | str | None:
    """Return a floor: a number, or "derived"."""
    return "derived" if entry.data == "derived" else yaml_nodes.number(entry, key, mistakes)


@yaml_nodes.accepts({"type": "string"})
def _vendor(entry: Located, key: str, mistakes: Mistakes) -> str | None:
    """Return the name of a vendor that an installed package declares, even one whose driver cannot be used."""
    installed = registry.registered()
    if not installed.vendors:
        mistakes.add(entry, f"{key}: no vendor is known: {'; '.join(installed.problems.values())}")
        return None
    return yaml_nodes.one_of(*installed.vendors, *installed.problems)(entry, key, mistakes)


_bounds: dict[str, Check] = {
    "floor": _floor,
    "ceiling": yaml_nodes.number,
    "equals": yaml_nodes.anything,
    "one_of": yaml_nodes.list_of(yaml_nodes.anything),
    "version": _range,
    "same_on_all": _same_on_all,
}
_alone = yaml_nodes.record_of(_bounds)
_other_bounds = yaml_nodes.record_of(dict.fromkeys(("floor", "ceiling", "warn"), yaml_nodes.number))


@yaml_nodes.accepts({"anyOf": [{"type": "number"}, _alone.schema]})
def _warn(entry: Located, key: str, mistakes: Mistakes) -> Any:
    """Return a warning limit: a second bound as a number, or the only bound of a fact by its kind."""
    return (_alone if isinstance(entry.data, dict) else yaml_nodes.number)(entry, key, mistakes)


_limit_keys = yaml_nodes.record_of(
    {
        **_bounds,
        "warn": _warn,
        "warn_per_kelvin": positive,
        "at": yaml_nodes.record_of(dict.fromkeys(LEVELS, _other_bounds)),
        "second_sign": flag,
        "if_supported": flag,
        "reference": positive,
        "healthy": yaml_nodes.list_of(positive),
        "unit": yaml_nodes.one_of(*UNITS),
        "levels": yaml_nodes.list_of(yaml_nodes.one_of(*LEVELS)),
        "source": _source,
        "ranks": count,
        "algorithm": text,
        "by_ring": positive,
        "software": software_check,
    },
    required=("source",),
).stating(title="limit", dependentRequired={figure: ["source"] for figure in SOURCED_KEYS})

NETWORKS = ("infiniband", "roce", "efa", "slingshot", "ethernet")
"""Ways in which NICs are connected."""

BOUNDS_IN_UNIT = ("floor", "ceiling", "warn", "reference", "by_ring")
"""Keys of a limit whose figures have its unit."""


@yaml_nodes.accepts(_limit_keys.schema)
def _limit(entry: Located, key: str, mistakes: Mistakes) -> Any:
    """Return a limit. A unit that is only larger or smaller than ours is an error that says how the figures read."""
    keys = entry.data if isinstance(entry.data, dict) else {}
    unit = keys.get("unit")
    spelling = str(unit.data) if unit else ""
    target = units.unit_meant(spelling)
    if effect := keys.get("effect"):
        mistakes.add(effect, f"{key}.effect: {_instead(key, keys)}")
        keys = {name: value for name, value in keys.items() if name not in ("effect", "because")}
        entry = replace(entry, data=keys)
    if unit is None or target is None:
        return _limit_keys(entry, key, mistakes)
    figures = {name: keys[name].data for name in BOUNDS_IN_UNIT if name in keys and keys[name].file == unit.file}
    mistakes.add(unit, f"{key}.unit: {spelling} is not used; write {units.rewritten(figures, spelling, target)}")
    return _limit_keys(replace(entry, data={**keys, "unit": replace(unit, data=target)}), key, mistakes)


def _instead(key: str, keys: Mapping[str, Located]) -> str:
    """Return the advice on the `effect` of a limit, which no file may state."""
    metric = key.rpartition("limits.")[2]
    bounds = ("equals", "same_on_all", "floor", "ceiling", "version")
    values = {name: keys[name].data for name in bounds if name in keys}
    if keys["effect"].data != "advises":
        return "every limit rejects; leave the line out"
    probe = declaration_of(metric)
    if probe is None or probe.fact:
        bound = yaml.safe_dump(values or {"equals": "..."}, default_flow_style=True).strip()
        return f"a fact that rejects nothing is a warning alone; write warn: {bound}"
    healthy = keys.get("healthy", keys.get("reference"))
    value = f"value: {healthy.plain()}" if healthy else f"at_least: {values.get('floor', '...')}"
    unit = keys["unit"].data if "unit" in keys else "..."
    return f"what decides nothing is a figure; write, under figures, {metric}: {{{value}, unit: {unit}, source: ...}}"


_limits = yaml_nodes.mapping_of(_limit)


@yaml_nodes.accepts({"anyOf": [positive.schema, yaml_nodes.list_of(positive).schema]})
def _value(entry: Located, key: str, mistakes: Mistakes) -> tuple[float, float] | None:
    """Return the lowest and the highest published value: a number is both."""
    numbers = entry if isinstance(entry.data, list) else replace(entry, data=[entry])
    values: Any = yaml_nodes.list_of(positive)(numbers, key, mistakes)
    if not values or len(values) > 2 or None in values or values[0] > values[-1]:
        mistakes.add(entry, f"{key}: expected a number, or [lowest, highest], found {entry.plain()!r}")
        return None
    return values[0], values[-1]


_figure_keys = yaml_nodes.record_of(
    {
        "value": _value,
        "at_least": positive,
        "unit": yaml_nodes.one_of(*UNITS),
        "levels": yaml_nodes.list_of(yaml_nodes.one_of(*LEVELS)),
        "ranks": count,
        "source": _source,
    },
    required=("source",),
).stating(title="figure", oneOf=[{"required": ["value"]}, {"required": ["at_least"]}])


@yaml_nodes.accepts(_figure_keys.schema)
def _figure(entry: Located, key: str, mistakes: Mistakes) -> Any:
    """Return the published figure of a metric."""
    if isinstance(entry.data, dict) and ("value" in entry.data) == ("at_least" in entry.data):
        mistakes.add(entry, f"{key}: needs one of value and at_least")
    return _figure_keys(entry, key, mistakes)


_figures = yaml_nodes.mapping_of(_figure)


_link = yaml_nodes.record_of(
    {"type": text, "topology": yaml_nodes.one_of(*TOPOLOGIES), "count": count, "gb_per_s": positive},
    required=("type",),
)
_platform = yaml_nodes.record_of(
    {
        "title": text,
        "devices": count,
        "virtual": flag,
        "passed_through": flag,
        "partition": yaml_nodes.record_of({"compute": text, "memory": text}),
        "power_watts": positive,
        "pcie": yaml_nodes.record_of({"gen": count, "lanes": count, "gb_per_s": positive}),
        "host_link": _link,
        "link": _link,
        "network": yaml_nodes.record_of(
            {
                "nics": count,
                "gbit_per_s": positive,
                "link": yaml_nodes.one_of(*NETWORKS),
                "nvls": flag,
                "nvlink_domain": count,
                "source": _source,
            },
            required=("source",),
        ),
        "limits": _limits,
        "figures": _figures,
        "source": _source,
    }
).stating(title="platform")


DATASHEET: Mapping[str, tuple[StatedCheck[Any], str, str]] = {
    "memory.type": (text, "memory", ""),
    "memory.gb": (positive, "memory size", "GB"),
    "memory.gb_per_s": (positive, "memory bandwidth", "GB/s"),
    "memory.shared": (flag, "memory shared with the processor", ""),
    "memory.clock_mhz": (positive, "memory clock", "MHz"),
    "memory.bus_bits": (positive, "memory bus", "bit"),
    "compute.units": (count, "compute units", ""),
    "compute.kind": (text, "kind of compute unit", ""),
    "compute.tensor_clock_mhz": (positive, "clock of the tensor peak", "MHz"),
    "compute.tensor_flops_per_clock": (positive, "tensor FLOPs per clock and unit", ""),
    "compute.fp32_clock_mhz": (positive, "clock of the fp32 peak", "MHz"),
    "compute.fp32_flops_per_clock": (positive, "fp32 FLOPs per clock and unit", ""),
    "compute.max_clock_mhz": (positive, "highest clock reported", "MHz"),
    "power.watts": (positive, "power", "W"),
    "power.min_watts": (positive, "lowest settable power", "W"),
    "power.max_watts": (positive, "highest settable power", "W"),
    "temperature.max_operating_c": (positive, "highest operating temperature", "C"),
    "temperature.slowdown_c": (positive, "slowdown temperature", "C"),
    "temperature.shutdown_c": (positive, "shutdown temperature", "C"),
    "temperature.memory_max_c": (positive, "highest memory temperature", "C"),
}
"""Check, label and unit of the values of a datasheet for one device, by key, beside the peaks by dtype."""


def _group(group: str) -> StatedCheck[Any]:
    keys = [key.partition(".") for key in DATASHEET]
    return yaml_nodes.record_of({name: DATASHEET[f"{group}.{name}"][0] for prefix, _, name in keys if prefix == group})


_datasheet = yaml_nodes.record_of(
    {
        "tflops": yaml_nodes.record_of(dict.fromkeys(DTYPES, positive)),
        "unsupported": yaml_nodes.list_of(yaml_nodes.one_of(*DTYPES)),
        **{group: _group(group) for group in ("memory", "compute", "power", "temperature")},
        "source": _source,
        "sources": yaml_nodes.mapping_of(_source),
    }
)

_texts = yaml_nodes.list_of(text)

_match = yaml_nodes.record_of(
    {
        "names": _texts,
        "pci_ids": _texts,
        "subsystems": _texts,
        "virtual_functions": _texts,
        "compute_units": yaml_nodes.list_of(count),
        "source": _source_keys,
    }
)

_FIELDS: dict[str, Check] = {
    "sku": text,
    "title": text,
    "vendor": _vendor,
    "extends": text,
    "architecture": text,
    "card": flag,
    "match": _match,
    "datasheet": _datasheet,
    "precision": positive,
    "spread": yaml_nodes.mapping_of(
        yaml_nodes.record_of(
            {
                "between_devices": _deviation,
                "widest": positive,
                "widest_raw": positive,
                "at_clock": _deviation,
                "between_runs": _deviation,
                "runs": count,
                "source": _source,
            },
            required=("source",),
        )
    ),
    "probes": yaml_nodes.mapping_of(yaml_nodes.mapping_of(yaml_nodes.anything)),
    "budgets": yaml_nodes.record_of({level: yaml_nodes.mapping_of(positive) for level in LEVELS}),
    "calibrated_from": _texts,
    "not_applicable": yaml_nodes.mapping_of(text),
    "limits": _limits,
    "figures": _figures,
    "platforms": yaml_nodes.mapping_of(_platform),
    "explained": yaml_nodes.list_of(
        yaml_nodes.record_of({"rule": text, "key": text, "reason": text}, required=("rule", "key", "reason"))
    ),
}

SKU = yaml_nodes.record_of(_FIELDS, required=("sku", "vendor", "platforms"))
