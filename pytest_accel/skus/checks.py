"""What no single value of a threshold file shows: bounds that nothing breaks, units of another metric. Pure."""

from __future__ import annotations

from collections.abc import Collection

from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Platform, Sku
from pytest_accel.core.yaml_lines import Findings, Located, nearest
from pytest_accel.probes.declare import declaration_of, declarations, known_metrics, unit_of
from pytest_accel.skus.peaks import why_not_applicable

BOUNDS = ("floor", "ceiling", "equals", "version", "same_on_all")
KINDS = (("floor", "ceiling", "warn"), ("equals",), ("version",), ("same_on_all",))
"""A limit is of one of these kinds: of two, one would be judged and the other forgotten."""


def limits_of(root: Located) -> list[tuple[str, Located]]:
    """Every limit of a file as ("limits.METRIC" or "platforms.NAME.limits.METRIC", its mapping)."""
    found = []
    if "limits" in root.data:
        found += [(f"limits.{metric}", at) for metric, at in items_of(root.data["limits"])]
    for platform, at in items_of(root.data.get("platforms")):
        for metric, limit in items_of(at.data.get("limits") if isinstance(at.data, dict) else None):
            found.append((f"platforms.{platform}.limits.{metric}", limit))
    return found


def items_of(at: Located | None) -> list[tuple[str, Located]]:
    return list(at.data.items()) if at is not None and isinstance(at.data, dict) else []


def bounds_of(limit: Located) -> list[str]:
    """What bounds a limit, by key; `same_on_all: false` does not."""
    found = limit.data if isinstance(limit.data, dict) else {}
    names = [name for name in (*BOUNDS, "warn") if name in found and found[name].data is not None]
    return [name for name in names if name != "same_on_all" or found[name].data is not False]


def drop_other_kinds(under: Located, over: Located) -> None:
    """Take out of `under` the bounds of another kind than those that `over` puts in their place."""
    kinds = [kind for kind in KINDS if set(kind) & set(bounds_of(over))]
    for name in bounds_of(under) if kinds else ():
        if not any(name in kind for kind in kinds):
            del under.data[name]


def check_limits(root: Located, findings: Findings) -> None:
    for key, at in limits_of(root):
        limit = at.plain()
        metric = key.rpartition("limits.")[2]
        bounds = bounds_of(at)
        if not set(bounds) & set(BOUNDS):
            findings.add(at, f"{key}: needs one of {', '.join(BOUNDS)}")
        if sum(bool(set(kind) & set(bounds)) for kind in KINDS) > 1:
            findings.add(at, f"{key}: has {' and '.join(bounds)}, of which only one would be judged: choose")
        _check_equals(key, at, findings)
        if limit.get("version") and limit["unit"] != "version":
            findings.add(at.data["unit"], f"{key}: unit {limit['unit']} should be version")
        if limit.get("floor") == "derived":
            _check_derived(key, metric, at, findings)
        _check_bounds(key, at, findings)
        expected = unit_of(metric)
        declared = declaration_of(metric)
        if expected is None and declared and not declared.fact:
            alike = known_metrics(parse(metric).probe)
            findings.add(at, f"{key}: the suite measures no {metric}; {nearest(metric, alike or [declared.metric])}")
        if expected and limit["unit"] not in (expected, "of peak"):
            findings.add(at.data["unit"], f"{key}: unit {limit['unit']} should be {expected}")


def _check_equals(key: str, at: Located, findings: Findings) -> None:
    """A value of another type than the metric's is never met."""
    limit = at.plain()
    value, unit = limit.get("equals"), limit["unit"]
    if value is None:
        return
    wanted = "text" if unit in ("text", "version") else "a number"
    if isinstance(value, bool) or not isinstance(value, str if wanted == "text" else int | float):
        hint = "; YAML reads on, off, yes and no as true and false, put it in quotes" if isinstance(value, bool) else ""
        findings.add(at.data["equals"], f"{key}: equals {value!r}: expected {wanted}, the unit is {unit}{hint}")


def _check_derived(key: str, metric: str, at: Located, findings: Findings) -> None:
    declared = declaration_of(metric)
    if "reference" not in at.data:
        findings.add(at.data["floor"], f"{key}: a derived floor needs a reference")
    elif at.data["unit"].data == "of peak":
        findings.add(at.data["floor"], f"{key}: a derived floor is in the unit of its reference, not a share of a peak")
    elif declared is None or declared.derived_floor is None:
        known = ", ".join(sorted({each.family for each in declarations() if each.derived_floor}))
        findings.add(at.data["floor"], f"{key}: no rule derives a floor for {metric} (only for {known})")


def _check_bounds(key: str, at: Located, findings: Findings) -> None:
    """Bounds that no value could break, or that every value would."""
    limit = at.plain()
    numbers = {name: limit[name] for name in ("floor", "ceiling", "warn") if isinstance(limit.get(name), float | int)}
    floor, ceiling, warn = (numbers.get(name) for name in ("floor", "ceiling", "warn"))
    if floor is not None and floor <= 0:
        findings.add(at.data["floor"], f"{key}: floor {floor:g} is not above zero, so nothing could break it")
    if floor is not None and ceiling is not None and floor > ceiling:
        findings.add(at, f"{key}: floor {floor:g} is above ceiling {ceiling:g}")
    if warn is not None and ((ceiling is not None and warn > ceiling) or (floor is not None and warn < floor)):
        findings.add(at.data["warn"], f"{key}: warn {warn:g} is beyond the limit, so it would never be seen")
    for name, bound in numbers.items():
        if limit["unit"] == "of peak" and not 0 < bound <= 1:
            findings.add(at.data[name], f"{key}: {name} {bound:g} is no fraction of a peak in (0, 1]")


def check_probes(root: Located, findings: Findings) -> None:
    """Find conditions, budgets and spreads of probes that do not exist: nothing would ever read them."""
    measuring = {each.name: each for each in declarations() if each.packaged and not each.fact}
    for name, at in items_of(root.data.get("probes")):
        if name not in measuring:
            findings.add(at, f"probes.{name}: is no probe; {nearest(name, measuring)}")
            continue
        for condition, value in items_of(at):
            if condition not in measuring[name].conditions:
                known = nearest(condition, measuring[name].conditions)
                findings.add(value, f"probes.{name}.{condition}: {name} has no such condition; {known}")
    for level, budgets in items_of(root.data.get("budgets")):
        for name, at in items_of(budgets):
            if parse(name).probe not in measuring:
                findings.add(at, f"budgets.{level}.{name}: is no probe; {nearest(name, measuring)}")
    for metric, at in items_of(root.data.get("spread")):
        if declaration_of(metric) is None:
            known = nearest(metric, {each.family for each in measuring.values()})
            findings.add(at, f"spread.{metric}: nothing measures it; {known}")


def check_whole(root: Located, findings: Findings) -> None:
    """What is more than one value's own mistake."""
    if not root.data["platforms"].data:
        findings.add(root.data["platforms"], "platforms: needs at least one")
    match = root.data.get("match")
    if match is not None and not any(each.data for key, each in match.data.items() if key != "source"):
        findings.add(match, "match: needs names or pci_ids; without them every device of the vendor would do")


def check_applicable(sku: Sku, root: Located, own: Collection[str], findings: Findings) -> None:
    """What is called not applicable is never judged: taking a limit as it is found is what waivers are for.

    So it is for what is measured and has no limit, and the files `own`, which change another's limits, cannot say it.
    """
    for metric, at in items_of(root.data.get("not_applicable")):
        declared = declaration_of(metric)
        if declared and declared.fact:
            findings.add(at, f"not_applicable.{metric}: is stated, not measured; change its limit, or waive it")
        elif at.file in own:
            findings.add(at, f"not_applicable.{metric}: {root.file} extends another file, which says so or does not")
    anywhere = Platform("any", None)
    for key, at in limits_of(root):
        why = why_not_applicable(sku, key.rpartition("limits.")[2], anywhere)
        if why:
            findings.add(at, f"{key}: has a limit, but is not applicable: {why}")
