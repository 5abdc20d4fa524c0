"""What a threshold file is worth: derived from the weakest of the limits that an acceptance needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.core.sku import LEVELS, Limit, Platform, Sku

REQUIRED_PROBES = ("inventory", "health", "matmul", "stream", "host_copy", "soak")
REQUIRED_OF_SEVERAL = ("peer_copy", "all_reduce")
"""A SKU file is fit to accept against only if it has a sourced limit for each of these."""

FACTS = ("inventory", "health", "counters", "host_counters")
"""What devices and host state of themselves: no measurement makes a limit on it better founded."""

STANDINGS = ("validated", "published", "provisional", "catalogue")
"""Best first. `validated`: measured by us on enough nodes; `published`: on others' word; `provisional`: measured by
us on too few; `catalogue`: something that an acceptance needs has no limit, so nobody can accept against it."""

ENOUGH_NODES = 3
"""Devices of one node are alike: fewer nodes say little about the next one."""


def required_probes(sku: Sku, platform: Platform) -> list[str]:
    """The probes that an acceptance on this platform needs a limit for; not what cannot exist there."""
    wanted = [*REQUIRED_PROBES, *(REQUIRED_OF_SEVERAL if (platform.devices or 1) > 1 else ())]
    return [probe for probe in wanted if not _excluded(probe, sku)]


def lacking(sku: Sku, platform: Platform, levels: Iterable[str] = LEVELS) -> list[str]:
    """The required probes for which no limit is required at any of `levels`. The inventory's are made, not filed."""
    there = {_probe(each) for each in _binding(sku, platform, levels)}
    return [probe for probe in required_probes(sku, platform) if probe not in there | {"inventory"}]


def standing(sku: Sku, platform: Platform) -> str:
    """One of STANDINGS for one platform."""
    if platform.devices is None or lacking(sku, platform):
        return "catalogue"
    wanted = required_probes(sku, platform)
    found = [_of(each) for each in _binding(sku, platform, LEVELS) if _probe(each) in wanted]
    return max(filter(None, found), key=STANDINGS.index, default="published")


def best_standing(sku: Sku) -> str:
    """That of the platform that is known best."""
    return min((standing(sku, each) for each in sku.platforms.values()), key=STANDINGS.index)


def _binding(sku: Sku, platform: Platform, levels: Iterable[str]) -> list[Limit]:
    limits = sku.limits_on(platform).values()
    return [each for each in limits if set(levels) & set(each.levels) and each.required]


def _probe(limit: Limit) -> str:
    return limit.metric.partition(".")[0]


def _excluded(probe: str, sku: Sku) -> bool:
    """True if the file says that nothing of the probe can exist on this product."""
    return any(metric.partition(".")[0] == probe for metric in sku.not_applicable) and not any(
        metric.partition(".")[0] == probe
        for limits in (sku.limits, *(platform.limits for platform in sku.platforms.values()))
        for metric in limits
    )


def _of(limit: Limit) -> str | None:
    """The standing of one limit; None for a rule, which no measurement could make better."""
    if limit.source is None or limit.source.kind == "derived" or _probe(limit) in FACTS:
        return None
    if limit.source.kind != "measured":
        return "published"
    return "validated" if (limit.source.nodes or 0) >= ENOUGH_NODES else "provisional"
