"""Rules on the links and NICs of a platform: type, count, generation, width and rate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_accel.core.sku_types import Sku
from pytest_accel.core.units import PCIE_LANE
from pytest_accel.skus.lint.linted_file import LintedFile, LintMessage, rule

LINK = {
    "nvlink2": (25.0,),
    "nvlink3": (25.0, 14.0625),  # the second on GA102 boards: A40, RTX A6000
    "nvlink4": (25.0,),
    "nvlink5": (50.0,),
    "xgmi2": (50.0,),
    "xgmi3": (64.0,),
    "xgmi4": (76.5,),
}
"""GB/s per link and direction by type: NVIDIA's NVLink page, AMD's data sheets and ROCm's network tables."""
MOST_LINKS = {"nvlink2": 6, "nvlink3": 12, "nvlink4": 18, "nvlink5": 18, "xgmi2": 8, "xgmi3": 8, "xgmi4": 7}
"""The highest number of links of a device by type, from the same pages."""
XGMI = {"CDNA2": "xgmi2", "CDNA3": "xgmi3", "CDNA4": "xgmi4"}
"""The generation of a link that is named xgmi alone, by architecture."""
ETHERNET = re.compile(r"(\d+)gbe", re.IGNORECASE)
"""A type of link that names its rate in Gbit/s."""
NICS = (100, 200, 400, 800)
"""Gbit/s of one NIC of a node with accelerators. 50 would be GB/s of one of 400."""
WITHIN = 0.025


@rule
def pcie_rate(subject: LintedFile) -> Iterator[LintMessage]:
    """Require a PCIe rate that follows from generation (1 to 6) and lanes (x1 to x16)."""
    for platform in subject.sku.platforms.values():
        key, pcie = f"platforms.{platform.name}.pcie", platform.pcie
        if pcie.get("gen", 1) not in PCIE_LANE:
            yield subject.error(f"{key}.gen", pcie["gen"], f"expected 1 to {max(PCIE_LANE)}")
        elif pcie.get("lanes", 1) not in (1, 2, 4, 8, 16):
            yield subject.error(f"{key}.lanes", pcie["lanes"], "expected 1, 2, 4, 8 or 16")
        elif {"gen", "lanes", "gb_per_s"} <= pcie.keys():
            expected = PCIE_LANE[int(pcie["gen"])] * pcie["lanes"]
            if abs(pcie["gb_per_s"] / expected - 1) > WITHIN:
                reason = f"expected {expected:.4g} per direction: gen {pcie['gen']} x{pcie['lanes']}"
                yield subject.error(f"{key}.gb_per_s", pcie["gb_per_s"], reason)


@rule
def link_rate(subject: LintedFile) -> Iterator[LintMessage]:
    """Require that the rate of a link is a possible number of links x the rate of one of its type, per direction."""
    for platform in subject.sku.platforms.values():
        link, key = platform.link, f"platforms.{platform.name}.link"
        rates = link_rates(link, subject.sku.architecture)
        max_links = MOST_LINKS.get(_kind(link, subject.sku.architecture), 0)
        count, rate = link.get("count"), link.get("gb_per_s")
        if max_links and count and count > max_links:
            yield subject.error(f"{key}.count", count, f"expected at most {max_links} {link['type']}")
            continue
        possible = [times * per_link for times in ([count] if count else range(1, max_links + 1)) for per_link in rates]
        if rate and possible and all(abs(rate / total - 1) > WITHIN for total in possible):
            unit_rate = " or ".join(map(str, rates))
            expected = f"expected 1 to {max_links} times {unit_rate} per direction, the rate of one {link['type']}"
            if count:
                rated = " or ".join(f"{count * per_link:g}" for per_link in rates)
                expected = f"expected {rated} per direction: {count} {link['type']} of {unit_rate}"
            yield subject.error(f"{key}.gb_per_s", rate, expected)


@rule
def network(subject: LintedFile) -> Iterator[LintMessage]:
    """Require NICs of a rate that exists, an equal share of them for each device, and an NVLink domain of whole nodes.

    Floors above the wire rate are found by the rule `physics`.
    """
    for platform in subject.sku.platforms.values():
        key, network, devices = f"platforms.{platform.name}.network", platform.network, platform.devices
        nics, rate, domain = (network.get(name) for name in ("nics", "gbit_per_s", "nvlink_domain"))
        if rate and rate not in NICS:
            yield subject.error(f"{key}.gbit_per_s", rate, f"expected {', '.join(map(str, NICS))}: Gbit/s of one NIC")
        for name in ("nics", "gbit_per_s", "link"):
            if {"nics", "gbit_per_s"} & network.keys() and name not in network:
                yield subject.warning(key, f"no {name}", "expected nics, gbit_per_s and link together")
        if nics and devices and nics % devices and devices % nics:
            yield subject.error(f"{key}.nics", nics, f"expected a multiple or a divisor of {devices}, the devices")
        if domain and devices and (domain % devices or domain == devices):
            yield subject.error(f"{key}.nvlink_domain", domain, f"expected several times {devices}, the devices")


def link_rates(link: Mapping[str, Any], architecture: str) -> tuple[float, ...]:
    """Return the possible rates of one link in GB/s per direction; empty if its type is not known."""
    ethernet = ETHERNET.search(str(link.get("type", "")))
    if ethernet:
        return (int(ethernet[1]) / 8,)
    return LINK.get(_kind(link, architecture), ())


def _kind(link: Mapping[str, Any], architecture: str) -> str:
    """Return the type of a link as the tables above name it."""
    kind = re.sub(r"[^a-z0-9]", "", str(link.get("type", "")).lower())
    return XGMI.get(architecture, "") if kind == "xgmi" else kind


# -- figures that follow from others of the file


def parts_of_peak(sku: Sku, kind: str) -> list[float]:
    """Return units, clock in MHz and FLOPs per clock behind a peak ("tensor" or "fp32"); empty if one is not stated."""
    parts = [sku.datasheet.compute.get(name) for name in ("units", f"{kind}_clock_mhz", f"{kind}_flops_per_clock")]
    return [] if None in parts else [float(part or 0) for part in parts]


def memory_rate(sku: Sku) -> float | None:
    """Return the bandwidth of the memory in GB/s: two transfers per clock over the bus; None if a part is unknown."""
    memory = sku.datasheet.memory
    if not {"clock_mhz", "bus_bits"} <= memory.keys():
        return None
    return float(memory["clock_mhz"] * memory["bus_bits"] * 2 / 8 / 1000)
