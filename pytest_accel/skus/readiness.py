"""The standing of a threshold file: that of the weakest limit that an acceptance needs. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import DeclaredBy, Limit, Platform, Sku
from pytest_accel.probes.declare import REQUIRED, Declaration, declaration_of, declarations

STANDINGS = ("validated", "published", "provisional", "advisory", "catalogue")
"""Standings of a file, best first.

`validated`: measured by us on enough nodes. `published`: figures that others published and measured by our method.
`provisional`: measured by us on too few nodes. `advisory`: every limit on the matrix units, or on the memory, was
measured by another method than ours. `catalogue`: a limit that an acceptance needs is missing. Files of the last two
standings cannot be used for an acceptance.
"""

ENOUGH_NODES = 3
"""Least number of nodes for a validated limit. Devices of one node are alike and say little about other nodes."""

DECISIVE = ("matrix units", "memory")
"""Parts that need a limit which may reject. Limits on the other parts may advise."""


def required_parts(sku: Sku, platform: Platform) -> list[str]:
    """Return the parts of the node that an acceptance on this platform needs a limit for, in the order of `REQUIRED`.

    They are those of the packaged probes, without the parts whose probes cannot exist here.
    """
    several = (platform.devices or 1) > 1
    wanted = {each.required for each in _measuring() if (several or not each.for_several) and not _excluded(each, sku)}
    return [part for part in REQUIRED if part in wanted]


def lacking(sku: Sku, platform: Platform, levels: Iterable[str] = LEVELS) -> list[str]:
    """Return the required parts without a limit that is required at one of `levels`.

    Limits on the inventory need no threshold file, so it is never among them.
    """
    limited = {part_of(each) for each in _binding(sku, platform, levels)} | {"inventory"}
    return [part for part in required_parts(sku, platform) if part not in limited]


def advised_only(sku: Sku, platform: Platform, levels: Iterable[str] = LEVELS) -> dict[str, list[Limit]]:
    """Return the parts of `DECISIVE` whose limits at `levels` only advise, with these limits."""
    binding = _binding(sku, platform, levels)
    found = {part: [each for each in binding if part_of(each) == part] for part in DECISIVE}
    return {part: limits for part, limits in found.items() if limits and all(each.differs for each in limits)}


def standing(sku: Sku, platform: Platform) -> str:
    """Return the standing of a threshold file on one platform, one of `STANDINGS`."""
    if platform.devices is None or lacking(sku, platform):
        return "catalogue"
    if advised_only(sku, platform):
        return "advisory"
    wanted = required_parts(sku, platform)
    rejecting = [each for each in _binding(sku, platform, LEVELS) if part_of(each) in wanted and not each.differs]
    return max(filter(None, map(standing_of, rejecting)), key=STANDINGS.index, default="published")


def best_standing(sku: Sku) -> str:
    """Return the best standing of a threshold file on any of its platforms."""
    return min((standing(sku, each) for each in sku.platforms.values()), key=STANDINGS.index)


def standing_of(limit: Limit) -> str | None:
    """Return the standing of one limit, or None for a derived limit or a fact, which no measurement can support."""
    declared = declaration_of(limit.metric)
    if limit.source is None or limit.source.kind == "derived" or (declared and declared.fact):
        return None
    if limit.differs:
        return "advisory"
    if limit.source.kind != "measured":
        return "published"
    return "validated" if (limit.source.nodes or 0) >= ENOUGH_NODES else "provisional"


def part_of(limit: Limit) -> str:
    """Return the part of the node that a limit is on, "" for one that no acceptance requires."""
    declared = declaration_of(limit.metric)
    return declared.required if declared and declared.packaged and declared.finds(limit.metric) else ""


def _measuring() -> list[Declaration]:
    return [each for each in declarations() if each.packaged and each.required]


def _binding(sku: Sku, platform: Platform, levels: Iterable[str]) -> list[Limit]:
    """Return the limits that one of the levels requires, without those that a frozen file holds as implied."""
    limits = [each for each in sku.limits_on(platform).values() if each.declared_by is not DeclaredBy.RUN]
    return [each for each in limits if set(levels) & set(each.levels) and each.required]


def _excluded(declared: Declaration, sku: Sku) -> bool:
    """Return whether the file declares that no metric of the probe can exist on this SKU."""
    platforms = [platform.limits for platform in sku.platforms.values()]
    limited = [metric for limits in (sku.limits, *platforms) for metric in limits]
    return any(parse(metric).probe == declared.family for metric in sku.not_applicable) and not any(
        parse(metric).probe == declared.family for metric in limited
    )
