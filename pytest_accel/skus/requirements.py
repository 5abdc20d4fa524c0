"""Limits that apply to a platform, and the verdicts that a level requires. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_accel.core.floor import NOTHING_KNOWN
from pytest_accel.core.levels import LEVELS
from pytest_accel.core.measurement import NODE, Device
from pytest_accel.core.sku_types import DeclaredBy, Limit, Platform, Sku
from pytest_accel.core.stats import ENOUGH_ALIKE
from pytest_accel.drivers import registry
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus import classes, implied
from pytest_accel.skus.peaks import why_not_applicable
from pytest_accel.skus.readiness import Readiness, too_few

NODE_FACTS = ("inventory.driver", "inventory.count", "inventory.packing_list")
"""Facts of the inventory whose subject is the node."""


PASSED_THROUGH = "passthrough"
"""The fact `virtualization` of a whole device in a virtual machine, for every vendor."""


def of_node(metric: str) -> bool:
    """Return True if the metric's subject is the node."""
    probe = declaration_of(metric)
    return metric in NODE_FACTS or (probe is not None and probe.node)


def device_count(platform: Platform, count: int) -> int:
    """Return the expected number of devices: that of the platform, else `count`, at least one."""
    return platform.devices or max(1, count)


def passed_through(devices: Sequence[Device]) -> bool:
    """Return True if all of these devices report that a hypervisor passes them through to a virtual machine."""
    return bool(devices) and all(device.facts.get("virtualization") == PASSED_THROUGH for device in devices)


def limits(sku: Sku | None, platform: Platform, devices: int, *, emulated_ports: bool = False) -> dict[str, Limit]:
    """Return every limit by metric, including those that no file writes: on the inventory, and the `implied` ones.

    `emulated_ports` says that the devices are seen to be in a virtual machine, whatever the platform declares.
    """
    if sku is None:
        return {"inventory.driver": _fact("inventory.driver", "ok", "the machine shows an accelerator")}
    origin = f"platform {platform.name} of {sku.name}"
    facts = {
        "inventory.driver": _fact("inventory.driver", "ok", origin),
        "inventory.count": replace(_fact("inventory.count", devices, origin), overridden=platform.overridden),
        "inventory.sku": replace(_fact("inventory.sku", sku.name, origin), overridden=sku.rematched),
    }
    facts |= implied.limits(sku, platform, emulated_ports=emulated_ports)
    file_limits = sku.limits_on(platform)
    return implied.merge(facts, classes.without_host_floors(file_limits) if emulated_ports else file_limits)


def required_at(level: str, limits: Mapping[str, Limit]) -> dict[str, Limit]:
    """Return the limits that the level requires.

    A run and `judge RECORD` never use the others; data sheets show them.
    """
    return {metric: limit for metric, limit in limits.items() if level in limit.levels}


def applying(limits: Mapping[str, Limit], sku: Sku | None, platform: Platform) -> dict[str, Limit]:
    """Return the limits on metrics that can exist on this SKU and platform, decided from the threshold file alone."""
    return {
        metric: limit
        for metric, limit in limits.items()
        if sku is None or why_not_applicable(sku, metric, platform) is None
    }


def _fact(metric: str, expected: str | int, origin: str) -> Limit:
    """Return a limit that requires a fact to equal a value."""
    unit = "count" if isinstance(expected, int) else "text"
    return Limit(metric, unit, equals=expected, origin=origin, declared_by=DeclaredBy.RUN)


def required(limits: Mapping[str, Limit], level: str, devices: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return the keys (metric, subject, origin) of the verdicts that the level requires.

    `devices` are UUIDs. A limit on a device's metric requires one verdict for each device. What only a network run
    measures is required of no node.
    """
    subjects = list(devices)
    return [
        (metric, subject, limit.origin)
        for metric, limit in limits.items()
        if level in limit.levels and not between_nodes(metric)
        for subject in ([NODE] if of_node(metric) else subjects)
    ]


def between_nodes(metric: str) -> bool:
    """Return True for a metric that a network run measures."""
    probe = declaration_of(metric)
    return probe is not None and probe.runs == "nodes"


def numbered(platform: Platform) -> Platform:
    """Return a platform of any number of devices as one of `ENOUGH_ALIKE`, which is enough for neighbours to judge."""
    return platform if platform.devices else replace(platform, name=f"{platform.name}N", devices=ENOUGH_ALIKE)


def accepting_levels(sku: Sku, platform: Platform) -> list[str]:
    """Return the levels at which a node of this platform can be accepted; none unless it has accelerators.

    One of any number of devices counts as `numbered`.
    """
    accelerator = registry.vendor(sku.vendor).accelerator
    return [level for level in LEVELS if accelerator and unfit(sku, numbered(platform), level) is None]


def unfit(sku: Sku | None, platform: Platform, level: str, software: Mapping[str, Any] = NOTHING_KNOWN) -> str | None:
    """Return the reason why a run with these versions cannot be an acceptance by this threshold file, or None."""
    if sku is None or not registry.vendor(sku.vendor).accelerator:
        return None  # such a run is never an acceptance
    if not sku.match:
        return f"{sku.name} has no `match`, so any device of the vendor would be accepted as it"
    if platform.devices is None:
        return (
            f"platform {platform.name} of {sku.name} does not say how many devices to expect; "
            "put their number behind its name, as in --accel-platform=pcie8"
        )
    ready = Readiness(sku, platform, [level], software)
    if missing := ready.lacking:
        return f"{sku.name} has no floor in force at level {level} for {', '.join(missing)}"
    return too_few(ready.strongest, platform.devices) or None
