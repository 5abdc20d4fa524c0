"""Compares a user's own threshold file with the shipped file of the same product: what it judges otherwise. Pure.

A file that extends the shipped one replaces values by name. A copy of it with other values extends nothing, and differs
all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Datasheet, DeclaredBy, Limit, Platform, Sku, written
from pytest_accel.probes.declare import declaration_of

NOT_JUDGED_BY: dict[str, Any] = {
    "of_reference": None, "source": None, "origin": "", "declared_by": None, "overridden": False,
    "class_floor": None, "published": None,
}  # fmt: skip
"""Fields of a limit on which no verdict depends, with one value for all limits; the floor of the class is compared by
its value. The reference decides how large a shortfall is noise."""
EXPECTED = ("devices", "virtual", "passed_through", "partition", "power_watts", "pcie", "host_link", "link")
"""Fields of a platform from which limits on the facts of the devices are made or left out."""
STATED = ("tflops", "memory", "compute", "power", "temperature")
"""Groups of values of a datasheet."""


def same_product(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two files recognise (`match`) a device by the same name, or by the same PCI id without a name."""
    if one.get("names") and other.get("names"):
        return bool(set(one["names"]) & set(other["names"]))
    return bool(set(one.get("pci_ids", ())) & set(other.get("pci_ids", ())))


def compared(own: Sku, shipped: Sku, *, extends: bool) -> Sku:
    """Return the user's SKU with what differs from the shipped one marked as overridden.

    What a file that `extends` the shipped one changes is marked already where it was read, but for the network.
    """
    datasheet = tuple(_other_values(own.datasheet, shipped.datasheet))
    if extends:
        less = [name for name, each in own.platforms.items() if _less(each, shipped.platform_named(name))]
        platforms = {name: replace(own.platforms[name], overridden=True) for name in less}
        return replace(own, other_datasheet=datasheet, platforms={**own.platforms, **platforms})
    pairs = [(each, _alike(each, shipped)) for each in own.platforms.values()]
    of_platforms = [(written(one.limits), written(other.limits)) for one, other in pairs if other]
    expected = {metric for ours, theirs in of_platforms for metric in theirs if metric not in ours}
    wanted = dict.fromkeys([*written(shipped.limits), *sorted(expected)])
    alone = pairs[0][1] if len(pairs) == 1 else None  # all of the file's own limits hold on its only platform
    left_out = [metric for metric in wanted if metric not in written(own.limits)]
    return replace(
        own,
        limits=_marked(own, shipped, own.limits, shipped.limits_on(alone) if alone else shipped.limits),
        platforms={one.name: _platform(own, shipped, one, other) for one, other in pairs},
        rematched=own.rematched or _recognised_by(own) != _recognised_by(shipped),
        left_out=tuple(left_out),
        other_datasheet=datasheet,
    )


def _recognised_by(sku: Sku) -> tuple[Mapping[str, Any], object]:
    """Return everything by which a file recognises a device."""
    return {key: value for key, value in sku.match.items() if key != "source"}, sku.datasheet.memory.get("gb")


def _alike(own: Platform, shipped: Sku) -> Platform | None:
    """Return the shipped platform of the same name, else the first one of as many devices; None if there is none."""
    like = [each for each in shipped.platforms.values() if each.devices == own.devices]
    return shipped.platform_named(own.name) or next(iter(like), None)


def _platform(own: Sku, shipped: Sku, one: Platform, other: Platform | None) -> Platform:
    """Return a platform with its differing limits marked; a platform that nothing shipped is like as it is."""
    if other is None:
        return one
    limits = _marked(own, shipped, one.limits, {**shipped.limits, **other.limits})
    expects_others = any(getattr(one, name) != getattr(other, name) for name in EXPECTED)
    return replace(one, limits=limits, overridden=one.overridden or _less(one, other) or expects_others)


def _less(one: Platform, other: Platform | None) -> bool:
    """Return True if a platform states NICs of less rate in all than another."""
    return other is not None and (one.wire_gb_per_s or 0.0) < (other.wire_gb_per_s or 0.0)


def _marked(own: Sku, shipped: Sku, limits: Mapping[str, Limit], others: Mapping[str, Limit]) -> dict[str, Limit]:
    """Return limits by metric: those that judge or measure otherwise than the shipped ones as overridden.

    The others count as declared by the shipped file.
    """

    def marked(limit: Limit, other: Limit) -> Limit:
        ours, theirs = (
            (each.class_floor and (each.class_floor.value, each.class_floor.software), replace(each, **NOT_JUDGED_BY))
            for each in (limit, other)
        )
        if ours != theirs or _measured(own, limit.metric) != _measured(shipped, limit.metric):
            return replace(limit, overridden=True)
        return replace(limit, declared_by=other.declared_by, overridden=other.overridden)

    return {metric: marked(limit, others[metric]) if metric in others else limit for metric, limit in limits.items()}


def _measured(sku: Sku, metric: str) -> tuple[object, ...]:
    """Return how a file has a metric measured: precision, conditions and time; and its spread."""
    declared, spread = declaration_of(metric), sku.spread_of(metric)
    names = (metric, declared.name if declared else parse(metric).probe)
    budgets = [sku.budgets.get(level, {}).get(name) for level in LEVELS for name in names]
    of_spread = spread and replace(spread, declared_by=DeclaredBy.SKU_FILE)
    return sku.precision, [sku.probes.get(name) for name in names], budgets, of_spread


def _other_values(own: Datasheet, shipped: Datasheet) -> list[str]:
    """Return the values of a datasheet that differ from the shipped one's: "tflops.bf16"."""
    found = []
    for group in STATED:
        ours, theirs = getattr(own, group), getattr(shipped, group)
        found += [f"{group}.{key}" for key in theirs if ours.get(key) != theirs[key]]
    return found + [f"unsupported.{dtype}" for dtype in own.unsupported if dtype not in shipped.unsupported]
