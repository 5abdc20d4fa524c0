"""Limits that no file writes: they follow from the figures of platform and datasheet. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pytest_accel.core.sku_types import DeclaredBy, Limit, Platform, Sku


@dataclass(frozen=True)
class ImpliedFigure:
    """A figure of the datasheet that a device states about itself: `metric` must not be below the value at `key`.

    A device that does not state it is not judged by it.
    """

    metric: str
    unit: str
    key: str
    """Group and name of the figure in the datasheet: "power.watts"."""
    warns: bool = False
    """True if a lower figure does not reject: what temperatures cost shows under load."""


RATE = "gb_per_s"
"""The condition of the limit on the NICs of a node: GB/s of each."""
OF_DATASHEET = (
    ImpliedFigure("inventory.power_limit_default", "W", "power.watts"),
    ImpliedFigure("inventory.power_limit_max", "W", "power.max_watts"),
    ImpliedFigure("inventory.clock_max", "MHz", "compute.max_clock_mhz"),
    ImpliedFigure("inventory.memory_clock_max", "MHz", "memory.clock_mhz"),
    ImpliedFigure("inventory.memory_bus", "count", "memory.bus_bits"),
    ImpliedFigure("inventory.compute_units", "count", "compute.units"),
    ImpliedFigure("inventory.slowdown_temperature", "C", "temperature.slowdown_c", warns=True),
    ImpliedFigure("inventory.shutdown_temperature", "C", "temperature.shutdown_c", warns=True),
)
"""A device below one of these is a lesser product."""


def limits(sku: Sku, platform: Platform, *, emulated_ports: bool = False) -> dict[str, Limit]:
    """Return the limits that follow from the datasheet of the SKU, and from links and NICs of the platform, by metric.

    `emulated_ports` says that the devices are seen to be in a virtual machine, whatever the platform declares.
    """
    origin = f"platform {platform.name} of {sku.name}"
    emulated = emulated_ports or platform.passed_through
    links = [
        replace(limit, origin=origin, source=platform.source, overridden=platform.overridden)
        for limit in _of_links(platform, emulated, card=sku.card)
    ]
    nics = [] if emulated_ports and not platform.guest else _of_network(platform, origin)
    derived = [*_of_datasheet(sku, platform), *links, *nics]
    return {limit.metric: replace(limit, declared_by=DeclaredBy.RUN) for limit in derived}


def merge(implied: Mapping[str, Limit], file_limits: Mapping[str, Limit]) -> dict[str, Limit]:
    """Return the limits of both; a limit of a file with a bound replaces an implied one of the same metric.

    One that passes a value that the implied one rejects counts as overridden, also in a file that stands alone.
    """
    file_limits = {metric: limit for metric, limit in file_limits.items() if limit.bounded or metric not in implied}
    # a limit that only demands the same value on all devices leaves open which: it keeps the implied floor
    merged = {
        metric: replace(implied[metric], same_on_all=limit.same_on_all, if_supported=limit.if_supported)
        for metric, limit in file_limits.items()
        if metric in implied and limit.same_on_all and implied[metric].floor is not None
    }
    overrides = {metric: _override(implied.get(metric), limit) for metric, limit in file_limits.items()}
    return {**implied, **overrides, **merged}


def _override(implied: Limit | None, limit: Limit) -> Limit:
    """Return a limit of a file; one of a user's file that demands less than the implied one counts as overridden."""
    if implied is None or limit.declared_by is not DeclaredBy.OWN_FILE:
        return limit  # a shipped file differs on purpose, such as where the maker of a board sets its power
    bound = limit.floor if limit.equals is None else limit.equals
    if implied.floor is None:
        holds = limit.equals == implied.equals
    else:
        holds = isinstance(bound, int | float) and bound >= implied.floor
    binds = limit.warns == implied.warns and set(implied.levels) <= set(limit.levels)
    binds = binds and (implied.if_supported or not limit.if_supported)
    return limit if holds and binds else replace(limit, overridden=True)


def _of_datasheet(sku: Sku, platform: Platform) -> Iterator[Limit]:
    """Yield a floor for each figure that a source states. The power limit of a platform replaces the datasheet's."""
    if platform.partition:
        return  # a part of a divided device states less than the whole
    for figure in OF_DATASHEET:
        group, _, name = figure.key.partition(".")
        value, source = getattr(sku.datasheet, group).get(name), sku.datasheet.source_of(figure.key)
        overridden = figure.key in sku.datasheet.overridden
        watts = platform.power_watts
        if watts is not None and (
            figure.key == "power.watts" or (figure.key == "power.max_watts" and watts < (value or 0))
        ):
            value, source, overridden = watts, platform.source or source, platform.overridden
        if value and source and source.kind != "derived":  # a derived figure is nobody's statement
            yield Limit(
                figure.metric,
                figure.unit,
                floor=float(value),
                warns=figure.warns,
                if_supported=True,
                source=source,
                origin=f"datasheet of {sku.name}: {figure.key}",
                overridden=overridden,
            )


def _of_links(platform: Platform, emulated_ports: bool, *, card: bool) -> Iterator[Limit]:
    """Yield limits on the link facts of the devices."""
    if platform.virtual:
        return  # a virtual function has no links of its own
    # A device that is passed through has its links to the peers, but the port above it is the hypervisor's: generation
    # and width that the guest sees, if any, depend on how the virtual machine was started (AMDESE/AMDSEV issue 135).
    pcie, link = ({} if emulated_ports else platform.pcie), platform.link
    if "lanes" in pcie:
        # The slot of a card may have fewer lanes or an older generation, which is no fault of the card: only lanes that
        # both ends have and the link does not use are one.
        yield Limit("health.pcie_width", "count", equals=int(pcie["lanes"]), warns=card)
        if card:
            yield Limit("health.pcie_lanes_lost", "count", equals=0, if_supported=True)
    if "gen" in pcie:
        yield Limit("inventory.pcie_gen_max", "count", floor=int(pcie["gen"]), warns=card)
    kind = str(link.get("type", ""))
    xgmi = kind.startswith("xgmi")
    if "count" in link and (xgmi or kind.startswith("nvlink")):  # no library counts the links of another kind
        links_up = "health.xgmi_up" if xgmi else "health.nvlink_up"  # not every kernel states those of xGMI
        yield Limit(links_up, "count", equals=int(link["count"]), if_supported=xgmi)
        # One link in whole MB/s, as NVML states it: the raw rate, 26.562 for 25 GB/s, which is never below the payload.
        if rate := math.floor(1000 * float(link.get("gb_per_s", 0.0)) / float(link["count"])) / 1000:
            metric = "inventory.xgmi_speed" if xgmi else "inventory.nvlink_speed"
            yield Limit(metric, "GB/s", floor=rate, warns=xgmi, if_supported=True)
    if link.get("topology") == "switch":
        yield Limit("health.fabric", "text", equals="completed", if_supported=True)


def _of_network(platform: Platform, origin: str) -> Iterator[Limit]:
    """Yield a floor on the active NICs of a node, by number and rate, where the platform states both.

    It rejects, since no method lies between the kernel's statement and the platform's, and others take such nodes out:
    NHC2002 to NHC2004 of Azure/azurehpc-health-checks (0e0a1ac). The kernel lists no NICs of Slingshot as RDMA devices,
    and older drivers state 100 Gbit/s for every EFA.
    """
    network = platform.network
    if network.get("link") in ("infiniband", "roce") and platform.wire_gb_per_s:
        rate = {RATE: network["gbit_per_s"] / 8}
        demanded = Limit("host.nics_active", "count", floor=network["nics"], conditions=rate, source=network["source"])
        yield replace(demanded, origin=f"network of {origin}", overridden=platform.overridden)
