"""The schema of a threshold file: every key, the values that it may have, and the keys that are required.

The loader reads files by these checks, and scripts/schemas.py writes the JSON Schema that they state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import yaml

from pytest_accel.core import units, versions, yaml_nodes
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.sku import DTYPES, TOPOLOGIES, UNITS, Source
from pytest_accel.core.software import MEANINGS
from pytest_accel.core.yaml_nodes import Check, Findings, Located, StatedCheck, count, flag, positive, text
from pytest_accel.drivers import registry
from pytest_accel.probes.declare import declaration_of, declarations

SOURCE_KINDS = ("datasheet", "published", "measured", "agreed", "derived")

SOURCED_KEYS = ("floor", "ceiling", "equals", "one_of", "version", "reference", "healthy")
"""Keys of a limit that need a source beside them: a changed figure does not inherit that of the one it replaces."""

OF_SOURCE = ("healthy", "software")
"""Keys of a limit that speak of what the source of its figures measured: they do not outlive replaced figures."""

MOST_SPREAD = 0.2
"""The largest standard deviation that a file may state: devices that differ more tell nothing about each other."""

WHOLE = ("source",)
"""Mappings that a file replaces as a whole where it lies over another; all others are merged key by key."""


_method_value = yaml_nodes.that(
    lambda found: isinstance(found, str | int | float),
    "a text, a number, true or false",
    type=["string", "number", "boolean"],
)
_deviation = yaml_nodes.number_that(
    lambda found: 0 < found <= MOST_SPREAD,
    f"a share of the value in (0, {MOST_SPREAD:g}]",
    exclusiveMinimum=0,
    maximum=MOST_SPREAD,
)

_source_keys = yaml_nodes.record_of(
    {
        "kind": yaml_nodes.one_of(*SOURCE_KINDS).described("how the figure came about"),
        "by": text.described("who published or measured it"),
        "date": yaml_nodes.date.described("when it was measured, or read: a year, a month (2026-11) or a day"),
        "software": text.described("the software that it was measured with, with versions"),
        "conditions": text.described("how it was measured: shape, size, data, sustained or burst"),
        "url": text.described("where it can be read"),
        "method": yaml_nodes.mapping_of(_method_value).described(
            "How it was measured, in the words of the probe's own method (scripts/limits.py prints them): "
            "{shape: 8192x8192x8192, statistic: mean}. A floor whose method differs from the probe's, or is not "
            "stated, is refused: it is one of `figures`. A figure of kind measured without a method was measured by "
            "the probe itself."
        ),
        "devices": count.described("number of devices that it was measured on"),
        "nodes": count.described("number of nodes that it was measured on"),
        "levels": yaml_nodes.list_of(yaml_nodes.one_of(*LEVELS)).described(
            "The levels whose method it was measured by, where the method follows the level (the seconds of a soak). "
            "At the others it bounds nothing."
        ),
        "simulated": flag.described("true: measured on simulated nodes, so that no hardware is judged by it"),
    },
    required=("kind", "by", "date"),
).stating(title="source")


@yaml_nodes.accepts(_source_keys.schema)
def _source(at: Located, key: str, findings: Findings) -> Source | None:
    """Return a source."""
    known = len(findings.errors)
    found = _source_keys(at, key, findings)
    if len(findings.errors) > known:
        return None
    return Source(**{**found, "levels": tuple(found.get("levels", ()))})


@yaml_nodes.accepts({"type": "string", "pattern": versions.PATTERN})
def _range(at: Located, key: str, findings: Findings) -> str | None:
    """Return a range of versions such as ">=1.2"."""
    found = text(at, key, findings)
    try:
        return found and versions.parse(found).text
    except versions.BadRange as bad:
        findings.add(at, f"{key}: {bad}")
        return None


software_check = yaml_nodes.mapping_of(_range)
"""The check of versions by name, with a range for each."""


@yaml_nodes.accepts({"type": ["number", "string"], "exclusiveMinimum": 0, "pattern": "^derived$"})
def _floor(at: Located, key: str, findings: Findings) -> float | str | None:
    """Return a floor: a number, or "derived"."""
    return "derived" if at.data == "derived" else yaml_nodes.number(at, key, findings)


@yaml_nodes.accepts({"type": "string"})
def _vendor(at: Located, key: str, findings: Findings) -> str | None:
    """Return the name of a vendor that an installed package declares, even one whose driver cannot be used."""
    known = registry.registered()
    if not known.vendors:
        findings.add(at, f"{key}: no vendor is known: {'; '.join(known.problems.values())}")
        return None
    check: yaml_nodes.Check = yaml_nodes.one_of(*known.vendors, *known.problems)
    found: str | None = check(at, key, findings)
    return found


_fractions = ", ".join(sorted(f"{each.name} {each.derived_floor:g}" for each in declarations() if each.derived_floor))


def _other_bounds(level: str) -> StatedCheck[object]:
    bounds = {name: yaml_nodes.number.described(f"`{name}` at {level}") for name in ("floor", "ceiling", "warn")}
    return yaml_nodes.record_of(bounds).described(f"bounds at {level} alone")


_bounds: dict[str, Check] = {
    "floor": _floor.described(
        "The lowest value that holds, in `unit`. `derived` is a fraction of the lowest `healthy` value, or of "
        f"`reference` where there is no range. The fraction depends on the probe: {_fractions}."
    ),
    "ceiling": yaml_nodes.number.described("the highest value that holds, in `unit`"),
    "equals": yaml_nodes.anything.described("the one value that holds: a text, or a number in `unit`"),
    "one_of": yaml_nodes.list_of(yaml_nodes.anything).described(
        "the values that hold, such as the versions of the VBIOS that were validated; any other breaks the limit"
    ),
    "version": _range.described('the range of versions that holds, such as ">=550.54,<600"'),
    "same_on_all": flag.described("true: the devices of a node must have the same value"),
}
_alone = yaml_nodes.record_of(_bounds)


@yaml_nodes.accepts({"anyOf": [{"type": "number"}, _alone.schema]})
def _warn(at: Located, key: str, findings: Findings) -> Any:
    """Return a warning limit: a second bound as a number, or the only bound of a fact by its kind."""
    return (_alone if isinstance(at.data, dict) else yaml_nodes.number)(at, key, findings)


_levels = yaml_nodes.list_of(yaml_nodes.one_of(*LEVELS)).described(
    "The levels that require the metric, by default those that have time for it. []: no run and no `judge RECORD` uses "
    "the entry; only outputs of other tools are judged by it, and data sheets show it."
)
_ranks = count.described("the number of ranks of the collective")
_limit_keys = yaml_nodes.record_of(
    {
        **_bounds,
        "warn": _warn.described(
            "A value past this one holds, but is MARGINAL. Alone, for a fact that rejects nothing, it states a bound: "
            "{equals: 0}."
        ),
        "warn_per_kelvin": positive.described("added to `warn` for each kelvin that the device warmed meanwhile"),
        "at": yaml_nodes.record_of({level: _other_bounds(level) for level in LEVELS}).described(
            "other bounds at single levels: {quick: {floor: 0.9, warn: 0.95}}"
        ),
        "second_sign": flag.described("true: without a second sign, breaking the limit is MARGINAL (docs/checks.md)"),
        "if_supported": flag.described("true: a device on which the metric does not exist is not judged by the limit"),
        "reference": positive.described(
            "the usual value of healthy devices, in `unit` (default: the middle of `healthy`)"
        ),
        "healthy": yaml_nodes.list_of(positive).described(
            "the lowest and the highest value that was published for healthy devices by this method, in `unit`"
        ),
        "unit": yaml_nodes.one_of(*UNITS).described(
            'The unit of floor, ceiling, warn, equals and reference. "of peak": fractions of the peak of the metric, '
            'in the datasheet or measured beside; "1": any other ratio.'
        ),
        "levels": _levels,
        "source": _source.described("where the figures come from"),
        "ranks": _ranks,
        "algorithm": text.described("the algorithm of the collective that the limit is for, such as nvls or ring"),
        "by_ring": positive.described(
            "the lowest published value of a ring, in `unit`; the limit is for another algorithm"
        ),
        "software": software_check.described(
            'The versions that the limit was validated on, by name: {nccl: ">=2.18", driver: ">=570"}. With others '
            "the floor of the class is in force, if there is one. Known names: "
            f"{', '.join(MEANINGS)}."
        ),
    },
    required=("source",),
).stating(title="limit", dependentRequired={figure: ["source"] for figure in SOURCED_KEYS})

FABRICS = ("infiniband", "roce", "efa", "slingshot", "ethernet")
"""Ways in which NICs are connected."""

BOUNDS_IN_UNIT = ("floor", "ceiling", "warn", "reference", "by_ring")
"""Keys of a limit whose figures have its unit."""


@yaml_nodes.accepts(_limit_keys.schema)
def _limit(at: Located, key: str, findings: Findings) -> Any:
    """Return a limit. A unit that is only larger or smaller than ours is an error that says how the figures read."""
    keys = at.data if isinstance(at.data, dict) else {}
    unit = keys.get("unit")
    given = str(unit.data) if unit else ""
    ours = units.unit_meant(given)
    if effect := keys.get("effect"):
        findings.add(effect, f"{key}.effect: {_instead(key, keys)}")
        keys = {name: value for name, value in keys.items() if name not in ("effect", "because")}
        at = replace(at, data=keys)
    if unit is None or ours is None:
        return _limit_keys(at, key, findings)
    figures = {name: keys[name].data for name in BOUNDS_IN_UNIT if name in keys and keys[name].file == unit.file}
    findings.add(unit, f"{key}.unit: {given} is not used; write {units.rewritten(figures, given, ours)}")
    return _limit_keys(replace(at, data={**keys, "unit": replace(unit, data=ours)}), key, findings)


def _instead(key: str, keys: Mapping[str, Located]) -> str:
    """Return what to write in place of the `effect` of a limit."""
    metric = key.rpartition("limits.")[2]
    stated = {
        name: keys[name].data for name in ("equals", "same_on_all", "floor", "ceiling", "version") if name in keys
    }
    if keys["effect"].data != "advises":
        return "every limit rejects; leave the line out"
    declared = declaration_of(metric)
    if declared is None or declared.fact:
        bound = yaml.safe_dump(stated or {"equals": "..."}, default_flow_style=True).strip()
        return f"a fact that rejects nothing is a warning alone; write warn: {bound}"
    healthy = keys.get("healthy", keys.get("reference"))
    value = f"value: {healthy.plain()}" if healthy else f"at_least: {stated.get('floor', '...')}"
    unit = keys["unit"].data if "unit" in keys else "..."
    return f"what decides nothing is a figure; write, under figures, {metric}: {{{value}, unit: {unit}, source: ...}}"


_limits = yaml_nodes.mapping_of(_limit)


@yaml_nodes.accepts({"anyOf": [positive.schema, yaml_nodes.list_of(positive).schema]})
def _value(at: Located, key: str, findings: Findings) -> tuple[float, float] | None:
    """Return the lowest and the highest published value: a number is both."""
    found: Any = yaml_nodes.list_of(positive)(
        at if isinstance(at.data, list) else replace(at, data=[at]), key, findings
    )
    if not found or len(found) > 2 or None in found or found[0] > found[-1]:
        findings.add(at, f"{key}: expected a number, or [lowest, highest], found {at.plain()!r}")
        return None
    return found[0], found[-1]


_figure_keys = yaml_nodes.record_of(
    {
        "value": _value.described("the value that was published for healthy devices, or [lowest, highest], in `unit`"),
        "at_least": positive.described("in place of `value`: a pass bar, which healthy devices reach, in `unit`"),
        "unit": yaml_nodes.one_of(*UNITS).described("the unit of the metric"),
        "levels": _levels,
        "ranks": _ranks,
        "source": _source.described("who published it, by which method, on which software"),
    },
    required=("source",),
).stating(title="figure", oneOf=[{"required": ["value"]}, {"required": ["at_least"]}])


@yaml_nodes.accepts(_figure_keys.schema)
def _figure(at: Located, key: str, findings: Findings) -> Any:
    """Return what was published for a metric."""
    if isinstance(at.data, dict) and ("value" in at.data) == ("at_least" in at.data):
        findings.add(at, f"{key}: needs one of value and at_least")
    return _figure_keys(at, key, findings)


_figures = yaml_nodes.mapping_of(_figure)


def _link(to: str) -> StatedCheck[object]:
    return yaml_nodes.record_of(
        {
            "type": text.described("the name of the link, such as nvlink4 or xgmi3"),
            "topology": yaml_nodes.one_of(*TOPOLOGIES).described(
                "How the devices of a node are linked. switch: every pair at the full rate; mesh: one link for each "
                "pair; bridge: in twos; none: not at all."
            ),
            "count": count.described("number of links of one device"),
            "gb_per_s": positive.described("GB/s of all links of one device together, for each direction"),
        },
        required=("type",),
    ).described(to)


_platform = yaml_nodes.record_of(
    {
        "title": text.described("what the platform is, for people"),
        "devices": count.described(
            "number of devices that a node of this platform has; without it any number is right"
        ),
        "virtual": flag.described("true: the devices are virtual functions of a hypervisor"),
        "passed_through": flag.described("true: the devices are whole devices in a virtual machine"),
        "partition": yaml_nodes.record_of(
            {
                "compute": text.described("mode of the compute dies, such as CPX (default SPX, the whole device)"),
                "memory": text.described("mode of the memory, such as NPS4 (default NPS1, the whole memory)"),
            }
        ).described("how the devices are partitioned; without it they have to be whole"),
        "power_watts": positive.described("W: the power limit of this platform, where it is not that of the datasheet"),
        "pcie": yaml_nodes.record_of(
            {
                "gen": count.described("PCIe generation"),
                "lanes": count.described("number of PCIe lanes"),
                "gb_per_s": positive.described("GB/s for each direction"),
            }
        ).described("the PCIe link from the host to one device"),
        "host_link": _link("the link from the host to one device, where that is not PCIe"),
        "link": _link("the links from one device to the others"),
        "fabric": yaml_nodes.record_of(
            {
                "nics": count.described("number of NICs of a node for the traffic of its devices"),
                "gbit_per_s": positive.described("Gbit/s of one NIC, for each direction"),
                "link": yaml_nodes.one_of(*FABRICS).described("how the NICs are connected"),
                "nvls": flag.described("true: the switch between the devices of a node reduces (NVLink SHARP)"),
                "nvlink_domain": count.described("number of devices that NVLink joins, where that is several nodes"),
                "source": _source.described("where the figures come from"),
            },
            required=("source",),
        ).described("the network to other nodes, where a source states how nodes of this platform are cabled"),
        "limits": _limits.described("limits of this platform by metric; they replace those of the SKU"),
        "figures": _figures.described("published figures of this platform by metric; they replace those of the SKU"),
        "source": _source.described("where the figures of the platform come from"),
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
_GROUPS = {
    "memory": "the memory of one device",
    "compute": "the compute units of one device",
    "power": "the power limit of one device",
    "temperature": "the limits of temperature of one device",
}


def _group(group: str) -> StatedCheck[Any]:
    rows = {key.removeprefix(f"{group}."): row for key, row in DATASHEET.items() if key.startswith(f"{group}.")}
    told = {name: check.described(f"{what} in {unit}" if unit else what) for name, (check, what, unit) in rows.items()}
    return yaml_nodes.record_of(told).described(_GROUPS[group])


_datasheet = yaml_nodes.record_of(
    {
        "tflops": yaml_nodes.record_of(
            {
                each: positive.described(f"{'TOPS' if each.startswith('int') else 'TFLOPS'} of {each}, dense")
                for each in DTYPES
            }
        ).described("peak rate of matrix products by dtype, dense (never sparse)"),
        "unsupported": yaml_nodes.list_of(yaml_nodes.one_of(*DTYPES)).described("dtypes that have no fast path"),
        **{group: _group(group) for group in _GROUPS},
        "source": _source.described("where the figures of the datasheet come from"),
        "sources": yaml_nodes.mapping_of(_source).described(
            "sources of single figures (tflops.int8) or groups (memory) that have one of their own"
        ),
    }
)

_texts = yaml_nodes.list_of(text)

_match = yaml_nodes.record_of(
    {
        "names": _texts.described("whole names, as the management library reports them"),
        "pci_ids": _texts.described("PCI ids as vendor:device, such as 10de:2330"),
        "subsystems": _texts.described("PCI subsystem ids as vendor:device"),
        "virtual_functions": _texts.described("PCI ids of the virtual functions of the product"),
        "compute_units": yaml_nodes.list_of(count).described("numbers of compute units that devices report"),
        "source": _source_keys.described("where names and ids come from"),
    }
)

_FIELDS: dict[str, Check] = {
    "sku": text.described("the name of the SKU"),
    "title": text.described("what the product is, for people"),
    "vendor": _vendor.described("chooses the driver, and the vendor's limits that lie below"),
    "extends": text.described(
        "the name of a shipped SKU, or the path of a file beside this one: what this one changes"
    ),
    "architecture": text.described("the vendor's name of the architecture"),
    "card": flag.described("true: a card, which any host may have in its slots; without it, a part of a board"),
    "match": _match.described("what a device of this SKU reports of itself; what both sides state has to agree"),
    "datasheet": _datasheet.described("what the vendor states of one device"),
    "precision": positive.described(
        "a probe samples until the half-width of the interval of its mean is this share of the value (default 0.01)"
    ),
    "spread": yaml_nodes.mapping_of(
        yaml_nodes.record_of(
            {
                "between_devices": _deviation.described("standard deviation between the devices of a node"),
                "widest": positive.described("widest range of products at one clock inside a healthy node, as a share"),
                "widest_raw": positive.described("the same at any clock, where that is wider"),
                "at_clock": _deviation.described("the same of a matrix product's rate divided by the SM clock"),
                "between_runs": _deviation.described("standard deviation between runs of one device"),
                "runs": count.described("number of runs that between_runs was estimated from"),
                "source": _source.described("where the figures come from"),
            },
            required=("source",),
        )
    ).described("how far healthy devices, and runs of one, lie apart, by probe or metric"),
    "probes": yaml_nodes.mapping_of(
        yaml_nodes.mapping_of(yaml_nodes.anything.described("value of the argument"))
    ).described("arguments of the packaged tests by probe, such as {matmul: {m: 4096, n: 4096, k: 4096}}"),
    "budgets": yaml_nodes.record_of(
        {level: yaml_nodes.mapping_of(positive).described(f"seconds at level {level}, by probe") for level in LEVELS}
    ).described("how long a probe may measure one metric, where that is not the default of the level"),
    "calibrated_from": _texts.described(
        "The UUIDs of the devices that limits of kind measured were calibrated from. By those limits they are not "
        "accepted."
    ),
    "not_applicable": yaml_nodes.mapping_of(text).described("metrics that cannot exist on the product: the reason"),
    "limits": _limits.described("limits by metric, on every platform"),
    "figures": _figures.described(
        "What others published for a metric and measured otherwise than its probe. It decides nothing: a value below "
        "the lowest gets a note."
    ),
    "platforms": yaml_nodes.mapping_of(_platform).described("where the product sits, by name; the first is the usual"),
    "explained": yaml_nodes.list_of(
        yaml_nodes.record_of(
            {
                "rule": text.described("the rule, as `pytest-accel sku lint --list` names it"),
                "key": text.described("the key of the value; * stands for any characters"),
                "reason": text.described("why the value is right"),
            },
            required=("rule", "key", "reason"),
        )
    ).described("findings of `pytest-accel sku lint` that are right as they are"),
}

SKU = yaml_nodes.record_of(_FIELDS, required=("sku", "vendor", "platforms"))
