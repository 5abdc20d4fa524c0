"""Peaks and rates that follow from what a file states: units and clocks, lanes, links, the peaks of other dtypes."""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import DATASHEET_DTYPE, Platform, Sku
from pytest_accel.core.units import PCIE_LANE
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus.lint.platforms import link_rates

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
