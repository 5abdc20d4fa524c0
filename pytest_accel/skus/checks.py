"""Checks of a whole threshold file: limits that no value can break, wrong units, names that do not exist. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from pytest_accel.core.sku import Platform, Sku, Source
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
    listed = [(f"{group}.{metric}", at) for metric, at in items_of(root.data.get(group))]
    for platform, at in items_of(root.data.get("platforms")):
        for metric, limit in items_of(at.data.get(group) if isinstance(at.data, dict) else None):
            listed.append((f"platforms.{platform}.{group}.{metric}", limit))
    return listed


def bounds_of(limit: Located) -> list[str]:
    """Return the keys that bound a limit. `same_on_all: false` is not a bound."""
    keys = limit.data if isinstance(limit.data, dict) else {}
    names = [name for name in (*BOUNDS, "warn") if name in keys and keys[name].data is not None]
    names = [ALONE if name == "warn" and isinstance(keys[name].data, dict) else name for name in names]
    return [name for name in names if name != "same_on_all" or keys[name].data is not False]


def drop_other_kinds(under: Located, over: Located) -> None:
    """Remove from `under` the bounds of other kinds than those of `over`, which replaces them."""
    kinds = [kind for kind in KINDS if set(kind) & set(bounds_of(over))]
    for name in bounds_of(under) if kinds else ():
        if not any(name in kind for kind in kinds):
            del under.data["warn" if name == ALONE else name]


REFINING = {"at": ("floor", "ceiling", "warn"), "warn_per_kelvin": ("warn",), "second_sign": ("ceiling",)}
"""Keys that refine bounds of a limit: they do not outlive these."""


def drop_of_source(under: Located, over: Located, keys: Collection[str]) -> None:
    """Remove the `keys` that speak of the figures of a limit, if `over` replaces these and does not state the keys."""
    if not isinstance(over.data, dict) or not isinstance(under.data, dict):
        return
    gone = [*keys] if {*FIGURES, "healthy"} & set(over.data) else []
    gone += ["reference"] if "healthy" in over.data else []
    gone += [key for key, bounds in REFINING.items() if {*bounds} & {*over.data}]
    for key in gone:
        if key not in over.data:
            under.data.pop(key, None)


def check_limits(root: Located, mistakes: Mistakes) -> None:
    """Find limits without a bound, with contradicting bounds, of a wrong unit, or on a metric that does not exist."""
    for key, stated in limit_nodes(root):
        metric, bounds = key.rpartition("limits.")[2], bounds_of(stated)
        declared = declaration_of(metric)
        at = replace(stated, data={**stated.data, **stated.data["warn"].data}) if ALONE in bounds else stated
        if ALONE in bounds:
            del at.data["warn"]
            if declared and not declared.fact and unit_of(metric) != "W":
                only = "only a fact or a power may warn alone; a published rate or time is one of the figures"
                mistakes.add(stated.data["warn"], f"{key}.warn: {only}")
        limit = at.plain()
        if not {*bounds_of(at)} & {*BOUNDS}:
            mistakes.add(stated, f"{key}: needs one of {', '.join(BOUNDS)}, or a warn of one")
        if sum(bool(set(kind) & set(bounds)) for kind in KINDS) > 1:
            mistakes.add(at, f"{key}: has {' and '.join(bounds)}, but only one of them would be judged; keep one")
        _check_equals(key, at, limit, mistakes)
        if limit.get("version") and limit["unit"] != "version":
            mistakes.add(at.data["unit"], f"{key}: unit {limit['unit']} should be version")
        if limit.get("floor") == "derived":
            _check_derived(key, metric, at, mistakes)
        _check_bounds(key, at, limit, mistakes)
        for level, own in items_of(at.data.get("at")):
            there = replace(at, data={**at.data, **own.data})
            _check_bounds(f"{key}.at.{level}", there, there.plain(), mistakes)
        _check_healthy(key, at, limit, mistakes)
        expected = unit_of(metric)
        if why := why_unknown(metric):
            mistakes.add(at, f"{key}: {why}")
        if expected and limit["unit"] not in (expected, "of peak"):
            figures = {name: limit[name] for name in FIGURES if name in limit}
            hint = rewritten(figures, limit["unit"], expected)
            mistakes.add(
                at.data["unit"], f"{key}: unit {limit['unit']} should be {expected}{hint and f'; write {hint}'}"
            )


def _check_equals(key: str, at: Located, limit: dict[str, Any], mistakes: Mistakes) -> None:
    """Find a value whose type differs from that of the metric, so that it could never be equal."""
    if limit.get("one_of") == []:
        mistakes.add(at.data["one_of"], f"{key}: one_of is empty, so every value would break it")
    wanted = "text" if limit["unit"] in ("text", "version") else "a number"
    values = [("equals", limit["equals"])] if limit.get("equals") is not None else []
    for name, value in [*values, *(("one_of", each) for each in limit.get("one_of") or ())]:
        if isinstance(value, bool) or not isinstance(value, str if wanted == "text" else int | float):
            hint = "; YAML reads on, off, yes and no as true and false: use quotes" if isinstance(value, bool) else ""
            why = f"expected {wanted}, since the unit is {limit['unit']}{hint}"
            mistakes.add(at.data[name], f"{key}: {name} {value!r}: {why}")


def _check_derived(key: str, metric: str, at: Located, mistakes: Mistakes) -> None:
    """Find `floor: derived` on a limit from which no floor can be computed."""
    declared = declaration_of(metric)
    if "reference" not in at.data and "healthy" not in at.data:
        mistakes.add(at.data["floor"], f"{key}: a derived floor needs a reference, or a range of healthy values")
    elif at.data["unit"].data == "of peak":
        mistakes.add(at.data["floor"], f"{key}: a derived floor has the unit of its reference, not 'of peak'")
    elif declared is None or declared.derived_floor is None:
        known = ", ".join(sorted({name for each in declarations() if each.derived_floor for name in each.families}))
        mistakes.add(at.data["floor"], f"{key}: {metric} has no rule for a derived floor (only these have: {known})")


def _check_healthy(key: str, at: Located, limit: dict[str, Any], mistakes: Mistakes) -> None:
    """Find a range of healthy values that is none, or that its reference or its floor contradicts."""
    healthy, floor = limit.get("healthy"), limit.get("floor")
    if healthy is None:
        return
    if len(healthy) != 2 or healthy[0] > healthy[1]:
        mistakes.add(at.data["healthy"], f"{key}: healthy {healthy}: expected [lowest, highest]")
    elif "reference" in limit and not healthy[0] <= limit["reference"] <= healthy[1]:
        mistakes.add(at.data["reference"], f"{key}: reference {limit['reference']:g} lies outside healthy {healthy}")
    elif isinstance(floor, int | float) and floor > healthy[0]:
        mistakes.add(at.data["floor"], f"{key}: floor {floor:g} rejects a healthy device of {healthy[0]:g}")


def _check_bounds(key: str, at: Located, limit: dict[str, Any], mistakes: Mistakes) -> None:
    """Find bounds that no value, or every value, would break."""
    numbers = {name: limit[name] for name in ("floor", "ceiling", "warn") if isinstance(limit.get(name), float | int)}
    floor, ceiling, warn = (numbers.get(name) for name in ("floor", "ceiling", "warn"))
    if floor is not None and floor <= 0:
        mistakes.add(at.data["floor"], f"{key}: floor {floor:g} is not above zero, so nothing could break it")
    if floor is not None and ceiling is not None and floor > ceiling:
        mistakes.add(at, f"{key}: floor {floor:g} is above ceiling {ceiling:g}")
    if warn is not None and ((ceiling is not None and warn > ceiling) or (floor is not None and warn < floor)):
        mistakes.add(at.data["warn"], f"{key}: warn {warn:g} lies past the bound, so no value could be MARGINAL")
    for name, bound in numbers.items():
        if limit["unit"] == "of peak" and not 0 < bound <= 1:
            mistakes.add(at.data[name], f"{key}: {name} {bound:g} is not a fraction of a peak in (0, 1]")


def check_spreads(root: Located, mistakes: Mistakes) -> None:
    """Find spreads that state no figure, and one between runs without their number."""
    for key, at in items_of(root.data.get("spread")):
        stated = at.plain()
        if not set(DEVIATIONS) & set(stated):
            mistakes.add(at, f"spread.{key}: needs one of {', '.join(DEVIATIONS)}")
        if ("between_runs" in stated) != ("runs" in stated):
            mistakes.add(at, f"spread.{key}: between_runs and runs belong together; one of them is missing")


def check_probes(root: Located, mistakes: Mistakes) -> None:
    """Add mistakes on conditions of probes that do not exist: nothing would ever read them.

    Only packaged probes take conditions from a threshold file. Budgets and spreads may be those of a user's own probes,
    which are not known here.
    """
    measuring = {each.name: each for each in declarations() if each.packaged and not each.fact}
    for name, at in items_of(root.data.get("probes")):
        if name not in measuring:
            mistakes.add(at, f"probes.{name}: is no packaged probe; {nearest(name, measuring)}")
            continue
        _check_method(name, at, measuring[name], mistakes)
        for condition, value in items_of(at):
            if condition not in measuring[name].conditions:
                known = nearest(condition, measuring[name].conditions)
                mistakes.add(value, f"probes.{name}.{condition}: {name} has no such condition; {known}")
        if isinstance(at.data, dict):
            for condition, why in wrong_values(measuring[name], at.plain()):
                mistakes.add(at.data[condition], f"probes.{name}.{condition}: {why}")


def _check_method(name: str, at: Located, declared: Declaration, mistakes: Mistakes) -> None:
    """Find conditions of a type that the probe cannot use, such as a number where it needs a shape."""
    try:
        for metric in declared.names():
            declared.method_of(metric, at.plain())
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        mistakes.add(at, f"probes.{name}: a condition has a value of the wrong type: {error}")


def check_figures(root: Located, mistakes: Mistakes) -> None:
    """Find published figures of a wrong unit, or on a metric that does not exist."""
    for key, at in limit_nodes(root, "figures"):
        metric, unit = key.rpartition("figures.")[2], at.data["unit"]
        if unknown := why_unknown(metric):
            mistakes.add(at, f"{key}: {unknown}")
        if (expected := unit_of(metric)) and unit.data != expected:
            mistakes.add(unit, f"{key}: unit {unit.data} should be {expected}")


def check_methods(
    root: Located, probes: Mapping[str, Mapping[str, Any]], own: Collection[str], mistakes: Mistakes
) -> None:
    """Find keys of a stated method that the probe's does not have, and floors by another method.

    Nothing would be compared with the first; the second would reject healthy devices. A floor of the file below stays
    where one of the files `own` has its probe measure otherwise: it is a published figure then.
    """
    nodes = [(group, *each) for group in ("limits", "figures") for each in limit_nodes(root, group)]
    for group, key, at in nodes:
        metric = key.rpartition(f"{group}.")[2]
        source = at.data.get("source") if isinstance(at.data, dict) else None
        stated = source.data.get("method") if source is not None and isinstance(source.data, dict) else None
        ours, declared = method_of(metric, probes), declaration_of(metric)
        for name, value in items_of(stated):
            if name not in ours:
                known = nearest(name, ours) if ours else f"{metric} has no method to compare"
                mistakes.add(value, f"{key}.source.method.{name}: is no property of the method of {metric}; {known}")
        if group == "figures" or source is None or declared is None:
            continue
        conditions = dict(items_of(root.data.get("probes"))).get(declared.name)
        changed = any(value.file in own for _, value in items_of(conditions))
        differs = differences_of(metric, Source(**{"date": "", **source.plain()}), probes)
        if differs and (source.file in own or not changed):
            mend = "put it under figures, or state a source of kind agreed or measured"
            mistakes.add(at, f"{key}: its source measured otherwise than the probe: {', '.join(differs)}; {mend}")


def check_whole(root: Located, mistakes: Mistakes) -> None:
    """Find a missing platform, and a `match` without names and PCI ids."""
    if not root.data["platforms"].data:
        mistakes.add(root.data["platforms"], "platforms: needs at least one platform")
    match = root.data.get("match")
    if match is not None and not any(each.data for key, each in match.data.items() if key != "source"):
        mistakes.add(match, "match: needs names or pci_ids; without them every device of the vendor would match")


def check_applicable(sku: Sku, root: Located, own: Collection[str], mistakes: Mistakes) -> None:
    """Find metrics that must not be declared as not applicable, and limits on metrics that are not applicable.

    A metric that is not applicable is never judged. So facts, and the files `own` that extend another file, cannot
    declare it; to accept a limit as it is found, use a waiver.
    """
    for metric, at in items_of(root.data.get("not_applicable")):
        declared = declaration_of(metric)
        if declared and declared.fact:
            mistakes.add(
                at,
                f"not_applicable.{metric}: is a fact that the device or host reports; change its limit or use a waiver",
            )
        elif at.file in own:
            mistakes.add(
                at,
                f"not_applicable.{metric}: only the file that is extended may declare not_applicable; use a waiver",
            )
    anywhere = Platform("any", None)
    for key, at in limit_nodes(root):
        on = [each for name, each in sku.platforms.items() if key.startswith(f"platforms.{name}.limits.")]
        why = why_not_applicable(sku, key.rpartition("limits.")[2], on[0] if on else anywhere)
        if why:
            mistakes.add(at, f"{key}: has a limit, but is not applicable: {why}")
