"""Compares a user's own threshold file with the shipped file of the same product: what it judges otherwise. Pure.

A file that extends the shipped one replaces values by name. A copy of it with other values extends nothing, and differs
all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pytest_accel.core.sku import Datasheet, Limit, Platform, Sku

JUDGED_BY = (
    "unit",
    "floor",
    "ceiling",
    "warn",
    "equals",
    "version",
    "same_on_all",
    "severity",
    "if_supported",
    "of_unit",
    "levels",
    "conditions",
    "software",
)
"""Fields of a limit on which a verdict depends."""
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

    Limits of a file that `extends` the shipped one are marked already, where it was read.
    """
    datasheet = tuple(_other_values(own.datasheet, shipped.datasheet))
    if extends:
        return replace(own, other_datasheet=datasheet)
    platforms = {name: _platform(each, shipped.platforms.get(name)) for name, each in own.platforms.items()}
    return replace(
        own,
        limits=_marked(own.limits, shipped.limits),
        platforms=platforms,
        left_out=tuple(metric for metric in shipped.limits if metric not in own.limits),
        other_datasheet=datasheet,
    )


def _platform(own: Platform, shipped: Platform | None) -> Platform:
    """Return a platform with its differing limits marked; a platform that is not shipped as it is."""
    if shipped is None:
        return own
    differs = any(getattr(own, name) != getattr(shipped, name) for name in EXPECTED)
    return replace(own, limits=_marked(own.limits, shipped.limits), overridden=own.overridden or differs)


def _marked(own: Mapping[str, Limit], shipped: Mapping[str, Limit]) -> dict[str, Limit]:
    """Return limits by metric, those that judge otherwise than the shipped ones marked."""
    return {
        metric: replace(limit, overridden=True) if metric in shipped and _differ(limit, shipped[metric]) else limit
        for metric, limit in own.items()
    }


def _differ(own: Limit, shipped: Limit) -> bool:
    return any(getattr(own, name) != getattr(shipped, name) for name in JUDGED_BY)


def _other_values(own: Datasheet, shipped: Datasheet) -> list[str]:
    """Return the values of a datasheet that differ from the shipped one's: "tflops.bf16"."""
    found = []
    for group in STATED:
        ours, theirs = getattr(own, group), getattr(shipped, group)
        found += [f"{group}.{key}" for key in theirs if ours.get(key) != theirs[key]]
    return found
