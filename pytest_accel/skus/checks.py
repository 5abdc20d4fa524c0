"""Checks of an entire threshold file: limits that no value can break, wrong units, names that do not exist. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pytest_accel.core.sku_types import Platform, Sku, Source
from pytest_accel.core.units import rewritten
from pytest_accel.core.yaml_nodes import Located, Mistakes, items_of, nearest
from pytest_accel.probes.conditions import wrong_values
from pytest_accel.probes.declare import Declaration, declaration_of, declarations, unit_of
from pytest_accel.skus.methods import differences_of, method_of
from pytest_accel.skus.names import why_unknown
from pytest_accel.skus.peaks import why_not_applicable

BOUNDS = ("floor", "ceiling", "equals", "one_of", "version", "same_on_all")
FIGURES = ("floor", "ceiling", "reference")
"""Figures of a limit that its source measured."""
DEVIATIONS = ("between_devices", "at_clock", "between_runs", "widest", "widest_raw")
"""The figures that a spread may state."""
ALONE = "warn alone"
"""The name of a warning that is the only bound of a fact."""
KINDS = (("floor", "ceiling", "warn"), ("equals",), ("one_of",), ("version",), ("same_on_all",), (ALONE,))
"""Kinds of limits. A limit has bounds of one kind only, because only one kind would be judged."""


def limit_nodes(root: Located, group: str = "limits") -> list[tuple[str, Located]]:
    """Return every limit of a file as ("limits.METRIC" or "platforms.NAME.limits.METRIC", its mapping).

    With `group` "figures" they are the published figures.
    """
    nodes = [(f"{group}.{metric}", entry) for metric, entry in items_of(root.data.get(group))]
    for platform, entry in items_of(root.data.get("platforms")):
        for metric, limit in items_of(entry.data.get(group) if isinstance(entry.data, dict) else None):
            nodes.append((f"platforms.{platform}.{group}.{metric}", limit))
    return nodes


def metric_of(key: str, group: str = "limits") -> str:
    """Return the metric of a key of `limit_nodes`: "matmul.bf16" of "platforms.pcie.limits.matmul.bf16"."""
    return key.rpartition(f"{group}.")[2]


def bounds_of(limit: Located) -> list[str]:
    """Return the keys that bound a limit. `same_on_all: false` is not a bound."""
    keys = limit.data if isinstance(limit.data, dict) else {}
    names = [name for name in (*BOUNDS, "warn") if name in keys and keys[name].data is not None]
    names = [ALONE if name == "warn" and isinstance(keys[name].data, dict) else name for name in names]
    return [name for name in names if name != "same_on_all" or keys[name].data is not False]


def drop_other_kinds(base: Located, overlay: Located) -> None:
    """Remove from `base` the bounds of other kinds than those of `overlay`, which replaces them."""
    kinds = [kind for kind in KINDS if set(kind) & set(bounds_of(overlay))]
    for name in bounds_of(base) if kinds else ():
        if not any(name in kind for kind in kinds):
            del base.data["warn" if name == ALONE else name]


REFINING = {"at": ("floor", "ceiling", "warn"), "warn_per_kelvin": ("warn",), "second_sign": ("ceiling",)}
"""Keys that refine bounds of a limit: they do not outlive these."""


def drop_of_source(base: Located, overlay: Located, keys: Collection[str]) -> None:
    """Remove the `keys` on the figures of a limit, if `overlay` replaces these and does not state the keys."""
    if not isinstance(overlay.data, dict) or not isinstance(base.data, dict):
        return
    dropped = [*keys] if {*FIGURES, "healthy"} & set(overlay.data) else []
    dropped += ["reference"] if "healthy" in overlay.data else []
    dropped += [key for key, bounds in REFINING.items() if {*bounds} & {*overlay.data}]
    for key in dropped:
        if key not in overlay.data:
            base.data.pop(key, None)


def check_limits(root: Located, mistakes: Mistakes) -> None:
    """Find limits without a bound, with contradicting bounds, of a wrong unit, or on a metric that does not exist."""
    for key, node in limit_nodes(root):
        metric, bounds = metric_of(key), bounds_of(node)
        probe = declaration_of(metric)
        entry = replace(node, data={**node.data, **node.data["warn"].data}) if ALONE in bounds else node
        if ALONE in bounds:
            del entry.data["warn"]
            if probe and not probe.fact and unit_of(metric) != "W":
                message = "only a fact or a power may warn alone; a published rate or time is one of the figures"
                mistakes.add(node.data["warn"], f"{key}.warn: {message}")
        limit = entry.plain()
        if not {*bounds_of(entry)} & {*BOUNDS}:
            mistakes.add(node, f"{key}: needs one of {', '.join(BOUNDS)}, or a warn of one")
        if sum(bool(set(kind) & set(bounds)) for kind in KINDS) > 1:
            mistakes.add(entry, f"{key}: has {' and '.join(bounds)}, but only one of them would be judged; keep one")
        _check_equals(key, entry, limit, mistakes)
        if limit.get("version") and limit["unit"] != "version":
            mistakes.add(entry.data["unit"], f"{key}: unit {limit['unit']} should be version")
        if limit.get("floor") == "derived":
            _check_derived(key, metric, entry, mistakes)
        _check_bounds(key, entry, limit, mistakes)
        for level, overrides in items_of(entry.data.get("at")):
            at_level = replace(entry, data={**entry.data, **overrides.data})
            _check_bounds(f"{key}.at.{level}", at_level, at_level.plain(), mistakes)
        _check_healthy(key, entry, limit, mistakes)
        expected = unit_of(metric)
        if reason := why_unknown(metric):
            mistakes.add(entry, f"{key}: {reason}")
        if expected and limit["unit"] not in (expected, "of peak"):
            figures = {name: limit[name] for name in FIGURES if name in limit}
            hint = rewritten(figures, limit["unit"], expected)
            message = f"unit {limit['unit']} should be {expected}{hint and f'; write {hint}'}"
            mistakes.add(entry.data["unit"], f"{key}: {message}")


def _check_equals(key: str, entry: Located, limit: dict[str, Any], mistakes: Mistakes) -> None:
    """Find a value whose type differs from that of the metric, so that it could never be equal."""
    if limit.get("one_of") == []:
        mistakes.add(entry.data["one_of"], f"{key}: one_of is empty, so every value would break it")
    expected = "text" if limit["unit"] in ("text", "version") else "a number"
    values = [("equals", limit["equals"])] if limit.get("equals") is not None else []
    for name, value in [*values, *(("one_of", item) for item in limit.get("one_of") or ())]:
        if isinstance(value, bool) or not isinstance(value, str if expected == "text" else int | float):
            hint = "; YAML reads on, off, yes and no as true and false: use quotes" if isinstance(value, bool) else ""
            reason = f"expected {expected}, since the unit is {limit['unit']}{hint}"
            mistakes.add(entry.data[name], f"{key}: {name} {value!r}: {reason}")


def _check_derived(key: str, metric: str, entry: Located, mistakes: Mistakes) -> None:
    """Find `floor: derived` on a limit from which no floor can be computed."""
    probe = declaration_of(metric)
    if "reference" not in entry.data and "healthy" not in entry.data:
        mistakes.add(entry.data["floor"], f"{key}: a derived floor needs a reference, or a range of healthy values")
    elif entry.data["unit"].data == "of peak":
        mistakes.add(entry.data["floor"], f"{key}: a derived floor has the unit of its reference, not 'of peak'")
    elif probe is None or probe.derived_floor is None:
        families = sorted({name for rule in declarations() if rule.derived_floor for name in rule.families})
        message = f"{metric} has no rule for a derived floor (only these have: {', '.join(families)})"
        mistakes.add(entry.data["floor"], f"{key}: {message}")


def _check_healthy(key: str, entry: Located, limit: dict[str, Any], mistakes: Mistakes) -> None:
    """Find a range of healthy values that is none, or that its reference or its floor contradicts."""
    healthy, floor = limit.get("healthy"), limit.get("floor")
    if healthy is None:
        return
    if len(healthy) != 2 or healthy[0] > healthy[1]:
        mistakes.add(entry.data["healthy"], f"{key}: healthy {healthy}: expected [lowest, highest]")
    elif "reference" in limit and not healthy[0] <= limit["reference"] <= healthy[1]:
        mistakes.add(entry.data["reference"], f"{key}: reference {limit['reference']:g} lies outside healthy {healthy}")
    elif isinstance(floor, int | float) and floor > healthy[0]:
        mistakes.add(entry.data["floor"], f"{key}: floor {floor:g} rejects a healthy device of {healthy[0]:g}")


def _check_bounds(key: str, entry: Located, limit: dict[str, Any], mistakes: Mistakes) -> None:
    """Find bounds that no value, or every value, would break."""
    numbers = {name: limit[name] for name in ("floor", "ceiling", "warn") if isinstance(limit.get(name), float | int)}
    floor, ceiling, warn = (numbers.get(name) for name in ("floor", "ceiling", "warn"))
    if floor is not None and floor <= 0:
        mistakes.add(entry.data["floor"], f"{key}: floor {floor:g} is not above zero, so nothing could break it")
    if floor is not None and ceiling is not None and floor > ceiling:
        mistakes.add(entry, f"{key}: floor {floor:g} is above ceiling {ceiling:g}")
    if warn is not None and ((ceiling is not None and warn > ceiling) or (floor is not None and warn < floor)):
        mistakes.add(entry.data["warn"], f"{key}: warn {warn:g} lies past the bound, so no value could be MARGINAL")
    for name, bound in numbers.items():
        if limit["unit"] == "of peak" and not 0 < bound <= 1:
            mistakes.add(entry.data[name], f"{key}: {name} {bound:g} is not a fraction of a peak in (0, 1]")


def check_spreads(root: Located, mistakes: Mistakes) -> None:
    """Find spreads that state no figure, and one between runs without their number."""
    for key, entry in items_of(root.data.get("spread")):
        figures = entry.plain()
        if not set(DEVIATIONS) & set(figures):
            mistakes.add(entry, f"spread.{key}: needs one of {', '.join(DEVIATIONS)}")
        if ("between_runs" in figures) != ("runs" in figures):
            mistakes.add(entry, f"spread.{key}: between_runs and runs belong together; one of them is missing")


def check_probes(root: Located, mistakes: Mistakes) -> None:
    """Add mistakes on conditions of probes that do not exist: nothing would ever read them.

    Only packaged probes take conditions from a threshold file. Budgets and spreads may be those of a user's own probes,
    which are not known here.
    """
    measuring = {probe.name: probe for probe in declarations() if probe.packaged and not probe.fact}
    for name, entry in items_of(root.data.get("probes")):
        if name not in measuring:
            mistakes.add(entry, f"probes.{name}: is no packaged probe; {nearest(name, measuring)}")
            continue
        _check_method(name, entry, measuring[name], mistakes)
        for condition, value in items_of(entry):
            if condition not in measuring[name].conditions:
                hint = nearest(condition, measuring[name].conditions)
                mistakes.add(value, f"probes.{name}.{condition}: {name} has no such condition; {hint}")
        if isinstance(entry.data, dict):
            for condition, reason in wrong_values(measuring[name], entry.plain()):
                mistakes.add(entry.data[condition], f"probes.{name}.{condition}: {reason}")


def _check_method(name: str, entry: Located, probe: Declaration, mistakes: Mistakes) -> None:
    """Find conditions of a type that the probe cannot use, such as a number where it needs a shape."""
    try:
        for metric in probe.names():
            probe.method_of(metric, entry.plain())
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        mistakes.add(entry, f"probes.{name}: a condition has a value of the wrong type: {error}")


def check_figures(root: Located, mistakes: Mistakes) -> None:
    """Find published figures of a wrong unit, or on a metric that does not exist."""
    for key, entry in limit_nodes(root, "figures"):
        metric, unit = metric_of(key, "figures"), entry.data["unit"]
        if reason := why_unknown(metric):
            mistakes.add(entry, f"{key}: {reason}")
        if (expected := unit_of(metric)) and unit.data != expected:
            mistakes.add(unit, f"{key}: unit {unit.data} should be {expected}")


def check_methods(
    root: Located, probes: Mapping[str, Mapping[str, Any]], own_files: Collection[str], mistakes: Mistakes
) -> None:
    """Find keys of a stated method that the probe's does not have, and floors by another method.

    Nothing would be compared with the first; the second would reject healthy devices.
    """
    nodes = [(group, *node) for group in ("limits", "figures") for node in limit_nodes(root, group)]
    for group, key, entry in nodes:
        metric = metric_of(key, group)
        source = entry.data.get("source") if isinstance(entry.data, dict) else None
        method = source.data.get("method") if source is not None and isinstance(source.data, dict) else None
        properties, probe = method_of(metric, probes), declaration_of(metric)
        for name, value in items_of(method):
            if name not in properties:
                hint = nearest(name, properties) if properties else f"{metric} has no method to compare"
                mistakes.add(value, f"{key}.source.method.{name}: is no property of the method of {metric}; {hint}")
        if group == "figures" or source is None or probe is None:
            continue
        conditions = dict(items_of(root.data.get("probes"))).get(probe.name)
        overridden = any(value.file in own_files for _, value in items_of(conditions))
        differs = differences_of(metric, Source(**{"date": "", **source.plain()}), probes)
        # the floor of a file below stays where an own file has its probe measure otherwise: it is a published figure
        if differs and (source.file in own_files or not overridden):
            mend = "put it under figures, or state a source of kind agreed or measured"
            mistakes.add(entry, f"{key}: its source measured otherwise than the probe: {', '.join(differs)}; {mend}")


def check_whole(root: Located, mistakes: Mistakes) -> None:
    """Find a missing platform, and a `match` without names and PCI ids."""
    if not root.data["platforms"].data:
        mistakes.add(root.data["platforms"], "platforms: needs at least one platform")
    match = root.data.get("match")
    if match is not None and not any(value.data for key, value in match.data.items() if key != "source"):
        mistakes.add(match, "match: needs names or pci_ids; without them every device of the vendor would match")


def check_applicable(sku: Sku, root: Located, own_files: Collection[str], mistakes: Mistakes) -> None:
    """Find metrics that must not be declared as not applicable, and limits on metrics that are not applicable.

    A metric that is not applicable is never judged. So facts, and the files that extend another file (`own_files`),
    cannot declare it; to accept a limit as it is found, use a waiver.
    """
    for metric, entry in items_of(root.data.get("not_applicable")):
        probe = declaration_of(metric)
        if probe and probe.fact:
            hint = "is a fact that the device or host reports; change its limit or use a waiver"
            mistakes.add(entry, f"not_applicable.{metric}: {hint}")
        elif entry.file in own_files:
            hint = "only the file that is extended may declare not_applicable; use a waiver"
            mistakes.add(entry, f"not_applicable.{metric}: {hint}")
    anywhere = Platform("any", None)
    for key, entry in limit_nodes(root):
        platforms = (sku.platforms[name] for name in sku.platforms if key.startswith(f"platforms.{name}.limits."))
        if reason := why_not_applicable(sku, metric_of(key), next(platforms, anywhere)):
            mistakes.add(entry, f"{key}: has a limit, but is not applicable: {reason}")
