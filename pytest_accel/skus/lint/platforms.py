"""Rules on the links of a platform: type, count, generation, width and rate."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import DATASHEET_DTYPE, Platform, Sku
from pytest_accel.core.units import PCIE_LANE
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus.lint.linted_file import LintedFile, LintFinding, rule

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
WITHIN = 0.025


@rule
def pcie_rate(subject: LintedFile) -> Iterator[LintFinding]:
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
def link_rate(subject: LintedFile) -> Iterator[LintFinding]:
    """Require that the rate of a link is a possible number of links x the rate of one of its type, per direction."""
    for platform in subject.sku.platforms.values():
        link, key = platform.link, f"platforms.{platform.name}.link"
        rates = link_rates(link, subject.sku.architecture)
        most = MOST_LINKS.get(_kind(link, subject.sku.architecture), 0)
        count, rate = link.get("count"), link.get("gb_per_s")
        if most and count and count > most:
            yield subject.error(f"{key}.count", count, f"expected at most {most} {link['type']}")
            continue
        possible = [times * each for times in ([count] if count else range(1, most + 1)) for each in rates]
        if rate and possible and all(abs(rate / each - 1) > WITHIN for each in possible):
            one = " or ".join(map(str, rates))
            expected = f"expected 1 to {most} times {one} per direction, the rate of one {link['type']}"
            if count:
                rated = " or ".join(f"{count * each:g}" for each in rates)
                expected = f"expected {rated} per direction: {count} {link['type']} of {one}"
            yield subject.error(f"{key}.gb_per_s", rate, expected)


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


# -- peaks and rates that follow from what a file states: units and clocks, lanes, links, the peaks of other dtypes


OF_BF16 = {"bf16": 1, "fp16": 1, "fp32": 1, "tf32": 1, "fp64": 1, "fp8": 2, "int8": 4, "fp6": 4, "fp4": 8}
"""The highest ratio of a dense peak to that of bf16 (fp16) on any part: int8 and fp4 on GeForce, fp6 on CDNA4."""


def with_peaks(sku: Sku) -> Sku:
    """Return the SKU with the peaks that follow from its units and clocks, where the datasheet does not state them."""
    sheet = sku.datasheet
    tflops = {**_by_units(sku), **sheet.tflops}
    rate = memory_rate(sku)
    memory = {"gb_per_s": rate, **sheet.memory} if rate else sheet.memory
    return replace(sku, datasheet=replace(sheet, tflops=tflops, memory=memory))


def _by_units(sku: Sku) -> dict[str, float]:
    """Return the peaks in TFLOPS that are units x clock x FLOPs per clock."""
    found: dict[str, float] = {}
    for kind, dtypes in (("tensor", ("bf16", "fp16")), ("fp32", ("fp32",))):
        if parts := parts_of_peak(sku, kind):
            peak = math.prod(parts) / 1e6
            found |= {each: peak for each in dtypes if each not in sku.datasheet.unsupported}
    return found


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


def with_rates(platform: Platform, architecture: str) -> Platform:
    """Return the platform with the rates in GB/s that follow from its lanes and links, where it does not state them."""
    pcie, link = dict(platform.pcie), dict(platform.link)
    if {"gen", "lanes"} <= pcie.keys() and int(pcie["gen"]) in PCIE_LANE:
        pcie.setdefault("gb_per_s", PCIE_LANE[int(pcie["gen"])] * pcie["lanes"])
    rates = link_rates(link, architecture)
    if rates and "count" in link:
        link.setdefault("gb_per_s", link["count"] * max(rates))
    return replace(platform, pcie=pcie, link=link)


def most_of_siblings(sku: Sku, metric: str) -> tuple[float, str] | None:
    """Return a rate in TFLOPS that no part exceeds, from the peaks of other dtypes, and its label; None without one.

    It is a bound from above alone: the true peak may be far below it.
    """
    declared, variant = declaration_of(metric), parse(metric).variant
    dtype = DATASHEET_DTYPE.get(variant, variant)
    if declared is None or declared.peak != "tflops" or dtype not in OF_BF16:
        return None
    peaks = sku.datasheet.tflops
    bases = [each for each in ("bf16", "fp16") if each in peaks]
    bounds = [(peaks[each] * OF_BF16[dtype], f"what the {each} peak allows") for each in bases]
    if dtype in ("fp32", "fp64") and "tf32" in peaks:
        bounds.append((peaks["tf32"], "the tf32 peak"))
    return min(bounds, default=None)
