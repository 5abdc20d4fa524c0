"""Rules on the links of a platform: type, count, generation, width and rate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_accel.skus.lint.subject import Finding, Subject, rule

PCIE_LANE = {1: 0.25, 2: 0.5, 3: 0.9846, 4: 1.9692, 5: 3.9385, 6: 7.5625}
"""GB/s per lane and direction after line coding (8b/10b, 128b/130b, 242/256 of a FLIT), PCI-SIG base specifications."""
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
XGMI = {"CDNA2": "xgmi2", "CDNA3": "xgmi3", "CDNA4": "xgmi4"}
"""The generation of a link that is named xgmi alone, by architecture."""
ETHERNET = re.compile(r"(\d+)gbe", re.IGNORECASE)
"""A type of link that names its rate in Gbit/s."""
WITHIN = 0.025


@rule
def pcie_rate(subject: Subject) -> Iterator[Finding]:
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
                why = f"expected {expected:.4g} per direction: gen {pcie['gen']} x{pcie['lanes']}"
                yield subject.error(f"{key}.gb_per_s", pcie["gb_per_s"], why)


@rule
def link_rate(subject: Subject) -> Iterator[Finding]:
    """Require that the rate of a link is the number of links x the rate of one of its type, per direction."""
    for platform in subject.sku.platforms.values():
        link = platform.link
        rates = _one_link(link, subject.sku.architecture)
        if not rates or not {"count", "gb_per_s"} <= link.keys():
            continue
        if all(abs(link["gb_per_s"] / (link["count"] * rate) - 1) > WITHIN for rate in rates):
            expected = " or ".join(f"{link['count'] * rate:g}" for rate in rates)
            why = f"expected {expected} per direction: {link['count']} {link['type']} of {' or '.join(map(str, rates))}"
            yield subject.error(f"platforms.{platform.name}.link.gb_per_s", link["gb_per_s"], why)


def _one_link(link: Mapping[str, Any], architecture: str) -> tuple[float, ...]:
    """Return the possible rates of one link in GB/s per direction; empty if its type is not known."""
    kind = re.sub(r"[^a-z0-9]", "", str(link.get("type", "")).lower())
    ethernet = ETHERNET.search(str(link.get("type", "")))
    if ethernet:
        return (int(ethernet[1]) / 8,)
    return LINK.get(XGMI.get(architecture, "") if kind == "xgmi" else kind, ())
