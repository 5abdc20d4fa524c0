"""What an acceptance on a platform needs a limit for, and what stands behind the limits that reject there. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Basis, DeclaredBy, Limit, Platform, Sku
from pytest_accel.probes.declare import REQUIRED, Declaration, declaration_of, declarations

WITHOUT_FABRIC = ("bridge", "none")
"""Topologies of devices that are linked in pairs or not at all: what is between them is the host's."""
BETWEEN_DEVICES = ("peer links", "collectives")
"""Parts that an acceptance needs no limit for where the platform has no fabric."""
HOST_LINK = "host link"
"""The part whose floors a virtual machine hides."""
READ = ("inventory", "health", "sustained load")
"""Parts that are read, or judged without a figure of the product."""
PLAIN = ("fp32", "fp64")
"""Dtypes whose products say nothing about matrix units of 16 and 8 bits."""
OF_MATRIX_UNITS = ("bf16", "fp16", "fp8", "int8", "tf32")
"""Dtypes of a datasheet that only matrix units reach."""


def required_parts(sku: Sku, platform: Platform, levels: Iterable[str] = LEVELS) -> list[str]:
    """Return the parts of the node that an acceptance on this platform needs a limit for, in the order of `REQUIRED`.

    They are those of the packaged probes, without the parts whose probes cannot exist here, and without `not_judged`.
    """
    without = not_judged(sku, platform, levels)
    return [part for part in _parts(sku, platform) if part not in without]


def not_judged(sku: Sku, platform: Platform, levels: Iterable[str] = LEVELS) -> list[str]:
    """Return the parts without a limit that rejects which an acceptance does without, as its line says.

    They are the parts between devices without a fabric, the peer links of a fabric that its collectives judge, and the
    host link in a virtual machine, which hides what the link is capable of.
    """
    fabric = platform.link and platform.link.get("topology") not in WITHOUT_FABRIC
    optional = {"peer links"} if rejecting(sku, platform, "collectives", levels) else set()
    optional |= set() if fabric else set(BETWEEN_DEVICES)
    optional |= {HOST_LINK} if platform.guest else set()
    return [part for part in _parts(sku, platform) if part in optional and not rejecting(sku, platform, part, levels)]


def lacking(sku: Sku, platform: Platform, levels: Iterable[str] = LEVELS) -> list[str]:
    """Return the required parts without a limit that rejects at one of `levels`.

    Limits on the inventory need no threshold file, so it is never among them.
    """
    wanted = required_parts(sku, platform, levels)
    return [part for part in wanted if part != "inventory" and not rejecting(sku, platform, part, levels)]


def rejecting(sku: Sku, platform: Platform, part: str, levels: Iterable[str] = LEVELS) -> list[Limit]:
    """Return the limits on a part that one of the levels requires and that reject, by themselves or by their class.

    Those that a frozen file holds as implied are left out, and so are plain products of a device that has matrix units.
    """
    at = set(levels)
    required = [
        each
        for each in sku.limits_on(platform).values()
        if each.may_reject
        and each.declared_by is not DeclaredBy.RUN
        and not at.isdisjoint(each.levels)
        and required_part(each.metric) == part
    ]
    if not set(OF_MATRIX_UNITS) & set(sku.datasheet.tflops):
        return required
    return [each for each in required if not is_plain(each.metric)]


def bases(sku: Sku, platform: Platform, part: str, levels: Iterable[str] = LEVELS) -> list[Basis]:
    """Return what stands behind the limits that reject on a part, the tightest first; empty if none states a figure."""
    found = {each.basis for each in rejecting(sku, platform, part, levels)}
    return [each for each in Basis if each in found]


def required_part(metric: str) -> str:
    """Return the part of the node that a metric is of, "" for one that no acceptance requires a limit on."""
    declared = declaration_of(metric)
    return declared.required if declared and declared.packaged and declared.finds(metric) else ""


def is_plain(metric: str) -> bool:
    """Return True for a matrix product of a dtype for which no matrix units of 16 or 8 bits are used."""
    return required_part(metric) == "matrix units" and parse(metric).variant in PLAIN


def _parts(sku: Sku, platform: Platform) -> list[str]:
    """Return the parts that the packaged probes measure here, in the order of `REQUIRED`."""
    several = (platform.devices or 1) > 1
    measuring = [each for each in declarations() if each.packaged and each.required]
    wanted = {each.required for each in measuring if (several or not each.for_several) and not _excluded(each, sku)}
    return [part for part in REQUIRED if part in wanted]


def _excluded(declared: Declaration, sku: Sku) -> bool:
    """Return whether the file declares that no metric of the probe can exist on this SKU."""
    platforms = [platform.limits for platform in sku.platforms.values()]
    limited = [metric for limits in (sku.limits, *platforms) for metric in limits]
    return any(parse(metric).probe in declared.families for metric in sku.not_applicable) and not any(
        parse(metric).probe in declared.families for metric in limited
    )
