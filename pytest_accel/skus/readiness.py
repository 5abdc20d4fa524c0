"""What a threshold file is worth: derived from the weakest of the limits that an acceptance needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import LEVELS, Limit, Platform, Sku
from pytest_accel.probes.declare import declaration_of, declarations

STANDINGS = ("validated", "published", "provisional", "catalogue")
"""Best first. `validated`: measured by us on enough nodes; `published`: on others' word; `provisional`: measured by
us on too few; `catalogue`: something that an acceptance needs has no limit, so nobody can accept against it."""

ENOUGH_NODES = 3
"""Devices of one node are alike: fewer nodes say little about the next one."""


def required_probes(sku: Sku, platform: Platform) -> list[str]:
    """Return the first words of the metrics that an acceptance on this platform needs a limit for, sorted.

    Those are what packaged probes declare as required, without what cannot exist here.
    """
    several = (platform.devices or 1) > 1
    wanted = {
        each.family for each in declarations() if each.packaged and each.required and (several or not each.for_several)
    }
    return sorted(probe for probe in wanted if not _excluded(probe, sku))


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
    return parse(limit.metric).probe


def _excluded(probe: str, sku: Sku) -> bool:
    """True if the file says that nothing of the probe can exist on this product."""
    return any(parse(metric).probe == probe for metric in sku.not_applicable) and not any(
        parse(metric).probe == probe
        for limits in (sku.limits, *(platform.limits for platform in sku.platforms.values()))
        for metric in limits
    )


def _of(limit: Limit) -> str | None:
    """Return the standing of one limit; None for a rule or a fact, which no measurement founds better."""
    declared = declaration_of(limit.metric)
    if limit.source is None or limit.source.kind == "derived" or (declared and declared.fact):
        return None
    if limit.source.kind != "measured":
        return "published"
    return "validated" if (limit.source.nodes or 0) >= ENOUGH_NODES else "provisional"
