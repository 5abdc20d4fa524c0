"""Rules on the consistency of a datasheet: peaks, clocks, the ratios between dtypes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from pytest_accel.core.sku_types import Sku
from pytest_accel.drivers import registry
from pytest_accel.skus.lint.linted_file import LintedFile, LintMessage, rule
from pytest_accel.skus.lint.physics import HALF_RATE
from pytest_accel.skus.lint.platforms import memory_rate, parts_of_peak

PEAK_WITHIN, MEMORY_WITHIN, RATIO_WITHIN = 0.005, 0.025, 0.02
CUT = (0.0, 0.05)
"""The range of fp64 as a fraction of fp32 on graphics parts, export parts and Blackwell Ultra."""
MEMORY = {
    "GDDR7": (700, 2_000),
    "GDDR6X": (700, 1_100),
    "GDDR": (150, 1_000),
    "HBM3e": (3_900, 8_200),
    "HBM3": (2_900, 5_400),
    "HBM2e": (1_200, 3_800),
    "HBM2": (700, 1_700),
    "HBM": (700, 30_000),
}
"""GB/s of the slowest and fastest parts by the first type of memory that fits: V100 and A100, Max 1550 and Gaudi3, H100
and MI300X, H100 NVL and B200; T4 and RTX 6000 Ada, RTX 3090 and 4090, RTX 5090."""
GIGABYTES = re.compile(r"(\d+) ?GB", re.IGNORECASE)
LACKING = {
    "Volta": ("bf16", "tf32", "fp8", "fp6", "fp4"),
    "Turing": ("bf16", "tf32", "fp8", "fp6", "fp4"),
    "Ampere": ("fp8", "fp6", "fp4"),
    "Ada Lovelace": ("fp6", "fp4"),
    "Hopper": ("fp6", "fp4"),
    "CDNA2": ("tf32", "fp8", "fp6", "fp4"),
    "CDNA3": ("fp6", "fp4"),
    "CDNA4": ("tf32",),
}
"""Dtypes without a fast path by architecture. Source: the vendors' architecture white papers."""


@rule
def peak_arithmetic(subject: LintedFile) -> Iterator[LintMessage]:
    """Require that a peak is units x clock x FLOPs per clock, within 0.5 %."""
    tflops = subject.sku.datasheet.tflops
    for kind, dtype in (("tensor", "bf16" if "bf16" in tflops else "fp16"), ("fp32", "fp32")):
        parts = parts_of_peak(subject.sku, kind)
        if dtype not in tflops or not parts:
            continue
        units, clock, flops = parts
        expected = units * clock * flops / 1e6
        if abs(tflops[dtype] / expected - 1) > PEAK_WITHIN:
            reason = f"expected {expected:.4g} = {units:g} x {clock:g} MHz x {flops:g} FLOPs per clock"
            yield subject.error(f"datasheet.tflops.{dtype}", tflops[dtype], reason)


@rule
def memory(subject: LintedFile) -> Iterator[LintMessage]:
    """Require the bandwidth that clock and width give and the type can have, and the size that the name states."""
    sheet = subject.sku.datasheet.memory
    low, high = next((MEMORY[kind] for kind in MEMORY if str(sheet.get("type")).startswith(kind)), (0, float("inf")))
    rate, expected, size = sheet.get("gb_per_s"), memory_rate(subject.sku), sheet.get("gb")
    if rate and not low <= rate <= high:
        yield subject.error("datasheet.memory.gb_per_s", rate, f"expected {low} to {high} for {sheet['type']}")
    elif rate and expected and abs(rate / expected - 1) > MEMORY_WITHIN:
        reason = f"expected {expected:.4g} = {sheet['clock_mhz']:g} MHz x 2 x {sheet['bus_bits']:g} bits / 8"
        yield subject.error("datasheet.memory.gb_per_s", rate, reason)
    sizes = [float(number) for number in GIGABYTES.findall(f"{subject.sku.name} {subject.sku.title}")]
    if size and sizes and all(abs(size / nominal - 1) > 0.05 for nominal in sizes):
        reason = f"expected {' or '.join(f'{nominal:g}' for nominal in sizes)}, as name or title state"
        yield subject.error("datasheet.memory.gb", size, reason)


@rule
def dtypes(subject: LintedFile) -> Iterator[LintMessage]:
    """Require peaks of dtypes with a fast path, in ratios that the architecture has; four times is sparse."""
    sheet, slow_dtypes = subject.sku.datasheet, LACKING.get(subject.sku.architecture, ())
    tflops = sheet.tflops
    base = "bf16" if "bf16" in tflops else "fp16"
    for dtype, other_dtype, ranges in _ratios(subject.sku, base):
        if dtype == other_dtype or not {dtype, other_dtype} <= tflops.keys():
            continue
        ratio = tflops[dtype] / tflops[other_dtype]
        if not any(low * (1 - RATIO_WITHIN) <= ratio <= high * (1 + RATIO_WITHIN) for low, high in ranges):
            choices = " or ".join(f"{low:g}" if low == high else f"{low:g} to {high:g}" for low, high in ranges)
            sparse = "; is this the sparse figure?" if ratio > ranges[0][1] else ""
            reason = f"expected {choices} x {other_dtype} ({tflops[other_dtype]:g}), not {ratio:.3g} x{sparse}"
            yield subject.error(f"datasheet.tflops.{dtype}", tflops[dtype], reason)
    for dtype in (name for name in tflops if name in (*sheet.unsupported, *slow_dtypes)):
        of_file = dtype in sheet.unsupported
        reason = "it is in unsupported" if of_file else f"{subject.sku.architecture} has no fast path for it"
        yield subject.error(f"datasheet.tflops.{dtype}", tflops[dtype], f"expected none: {reason}")


def _ratios(sku: Sku, base: str) -> Iterator[tuple[str, str, list[tuple[float, float]]]]:
    """Yield each dtype with the one it is compared with and the ranges of the ratio that exist, the usual one first."""
    half_rate = sku.datasheet.compute.get("tensor_flops_per_clock") == HALF_RATE
    equal: list[tuple[float, float]] = [(1, 1)] if registry.vendor(sku.vendor).equal_rates else []
    yield "fp16", "bf16", [(1, 1)]
    yield "fp8", base, [(2, 2), *equal]
    int8 = [(2.0, 2.0), *equal]
    if sku.architecture == "CDNA2":
        int8 = [(1, 1)]
    elif sku.architecture == "Blackwell Ultra":
        int8 = [(0.03, 0.1)]  # cut to a fraction
    elif half_rate:
        int8 = [(4, 4)]
    yield "int8", base, int8
    yield "tf32", base, [(0.5, 0.5), *equal]
    yield "fp6", "fp8", [(1, 2)]
    yield "fp4", "fp8", [(2, 3), *([(4, 4)] if half_rate else [])]
    yield "fp32", "tf32", [(0, 1)]
    yield "fp64", "fp32", [(1, 1), (0.5, 0.5), CUT]
    yield "fp64_vector", "fp32", [(0.5, 0.5), (1, 1), CUT]
    yield "fp64_vector", "fp64", [(0, 1)]


@rule
def power(subject: LintedFile) -> Iterator[LintMessage]:
    """Require power limits and temperatures in order, a platform's power between them, and 40 to 130 C."""
    watts, heat = subject.sku.datasheet.power, subject.sku.datasheet.temperature
    yield from _ordered(subject, "datasheet.power", watts, ("min_watts", "watts", "max_watts"))
    yield from _ordered(subject, "datasheet.temperature", heat, ("max_operating_c", "slowdown_c", "shutdown_c"))
    low, high = watts.get("min_watts", 0), watts.get("max_watts", watts.get("watts"))
    for platform in subject.sku.platforms.values():
        watt_limit = platform.power_watts
        if watt_limit is not None and high is not None and not low <= watt_limit <= high:
            yield subject.error(f"platforms.{platform.name}.power_watts", watt_limit, f"expected {low:g} to {high:g}")
    for name, value in heat.items():
        if not 40 <= value <= 130:
            yield subject.error(f"datasheet.temperature.{name}", value, "expected 40 to 130 C")


def _ordered(
    subject: LintedFile, group: str, values: Mapping[str, float], names: tuple[str, ...]
) -> Iterator[LintMessage]:
    """Yield a message for each value that is above the next one in the order of `names`."""
    keys = [name for name in names if name in values]
    for low, high in pairwise(keys):
        if values[low] > values[high]:
            yield subject.error(f"{group}.{low}", values[low], f"expected at most {high}, {values[high]:g}")
