"""The standing of a threshold file: that of the weakest limit that an acceptance needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.probes.declare import declaration_of, declarations

STANDINGS = ("validated", "published", "provisional", "catalogue")
"""Standings of a file, best first.

`validated`: measured by us on enough nodes. `published`: based on published figures of others. `provisional`: measured
by us on too few nodes. `catalogue`: a limit that an acceptance needs is missing, so the file cannot be used for one.
"""

ENOUGH_NODES = 3
"""Least number of nodes for a validated limit. Devices of one node are alike and say little about other nodes."""


def required_probes(sku: Sku, platform: Platform) -> list[str]:
    """Return the probes (first words of metrics) that an acceptance on this platform needs a limit for, sorted.

    These are the packaged probes that are declared as required, without those that cannot exist here.
    """
    several = (platform.devices or 1) > 1
    wanted = {
        each.family for each in declarations() if each.packaged and each.required and (several or not each.for_several)
    }
    return sorted(probe for probe in wanted if not _excluded(probe, sku))


def lacking(sku: Sku, platform: Platform, levels: Iterable[str] = LEVELS) -> list[str]:
    """Return the required probes without a limit that is required at one of `levels`.

    Limits on the inventory need no threshold file, so it is never among them.
    """
    limited = {_probe(each) for each in _binding(sku, platform, levels)}
    return [probe for probe in required_probes(sku, platform) if probe not in limited | {"inventory"}]


def standing(sku: Sku, platform: Platform) -> str:
    """Return the standing of a threshold file on one platform, one of `STANDINGS`."""
    if platform.devices is None or lacking(sku, platform):
        return "catalogue"
    wanted = required_probes(sku, platform)
    standings = [_standing_of(each) for each in _binding(sku, platform, LEVELS) if _probe(each) in wanted]
    return max(filter(None, standings), key=STANDINGS.index, default="published")


def best_standing(sku: Sku) -> str:
    """Return the best standing of a threshold file on any of its platforms."""
    return min((standing(sku, each) for each in sku.platforms.values()), key=STANDINGS.index)


def _binding(sku: Sku, platform: Platform, levels: Iterable[str]) -> list[Limit]:
    """Return the limits that one of the levels requires."""
    limits = sku.limits_on(platform).values()
    return [each for each in limits if set(levels) & set(each.levels) and each.required]


def _probe(limit: Limit) -> str:
    """Return the probe (first word of the metric) of a limit."""
    return parse(limit.metric).probe


def _excluded(probe: str, sku: Sku) -> bool:
    """Return whether the file declares that no metric of the probe can exist on this SKU."""
    return any(parse(metric).probe == probe for metric in sku.not_applicable) and not any(
        parse(metric).probe == probe
        for limits in (sku.limits, *(platform.limits for platform in sku.platforms.values()))
        for metric in limits
    )


def _standing_of(limit: Limit) -> str | None:
    """Return the standing of one limit, or None for a derived limit or a fact, which no measurement can support."""
    declared = declaration_of(limit.metric)
    if limit.source is None or limit.source.kind == "derived" or (declared and declared.fact):
        return None
    if limit.source.kind != "measured":
        return "published"
    return "validated" if (limit.source.nodes or 0) >= ENOUGH_NODES else "provisional"
