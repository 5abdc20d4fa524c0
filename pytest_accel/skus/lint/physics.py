"""Rules that compare limits with the maximum of the hardware."""

from __future__ import annotations

import math
from collections.abc import Iterator

from pytest_accel.core.metric_name import parse
from pytest_accel.core.sku_types import Limit, Platform, Sku
from pytest_accel.core.units import in_bytes
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus import peaks
from pytest_accel.skus.lint.linted_file import LintedFile, LintMessage, rule
from pytest_accel.skus.lint.platforms import memory_rate

RATES = ("TFLOPS", "TOPS", "GB/s")
POWER = "soak.power"
LOWEST = 0.4
"""Fraction of the hardware's maximum: every published floor below it turned out to be an error or a cut-down part."""
HALF_RATE = 512
"""Tensor FLOPs per clock and SM of GeForce parts: half the rate while accumulating in fp32, int8 at full rate."""
BOOST = 1.08
"""GeForce parts run above the clock of their published peak: an RTX 4090 at 2655 instead of 2520 MHz (NVIDIA/nvbench,
pull request 207), with published products of up to 1.05 of its peak."""
OF_MEASURED = 1.5
"""The most that a rate may be of a peak that is measured beside it: processors copy faster by a kernel than by the C
library."""
SMALL = 128 * 2**20
"""Messages of a collective below this size are limited by latency instead of by the links."""
WIDE = ("tf32", "fp32", "fp64")
"""Dtypes that no part multiplies faster than bf16."""
IN_NETWORK = ("nvls", "sharp", "tree-nvls", "nvlstree")
"""Algorithms that reduce in the switch: a device sends and receives its data once instead of 2(n-1)/n times."""


def reach(sku: Sku, limit: Limit, platform: Platform) -> tuple[float, str] | None:
    """Return the hardware's maximum for a limit's metric and its label; None if the file does not state it."""
    if limit.relative:
        return 1.0, "the peak"
    if parse(limit.metric).probe == "all_reduce":
        rate = _per_device(platform, int(limit.conditions.get("ranks") or platform.devices or 0))
        return None if rate is None else (rate, "link rate")
    if limit.metric == POWER:
        watts = platform.power_watts or sku.datasheet.power.get("watts")
        return (watts, "the power limit") if watts else None
    return peaks.peak(sku, peaks.measured_as(sku, limit.metric), platform)


def _headroom(sku: Sku, limit: Limit, platform: Platform) -> float:
    """Return the factor by which a healthy value may exceed the maximum that `reach` returns."""
    if parse(limit.metric).probe == "all_reduce":
        # a reduction in the switch has a bus bandwidth above the link rate
        ranks = int(limit.conditions.get("ranks") or platform.devices or 0)
        reduced = str(limit.conditions.get("algorithm", "")).lower() in IN_NETWORK
        return 2 * (ranks - 1) / ranks if reduced and ranks > 1 else 1.0
    if limit.metric == peaks.ALL_NODES:  # trees over few nodes, and one NVLink domain, reach the rate inside of a node
        inside, wire = 2 * platform.link.get("gb_per_s", 0.0), platform.wire_gb_per_s or 0.0
        return max(1.0, inside / wire) if wire else 1.0
    metric = peaks.measured_as(sku, limit.metric)
    if limit.relative:
        return 1.0 if peaks.peak(sku, metric, platform) else OF_MEASURED
    return max(1.0, _clocked(sku, metric))


def _clocked(sku: Sku, metric: str) -> float:
    """Return the peak at the clocks that the device reports, as a fraction of the datasheet's peak."""
    probe = declaration_of(metric)
    compute, memory = sku.datasheet.compute, sku.datasheet.memory
    if probe and probe.peak == "memory" and "gb_per_s" in memory:
        return (memory_rate(sku) or 0.0) / float(memory["gb_per_s"])
    clock = compute.get("fp32_clock_mhz" if parse(metric).variant == "fp32" else "tensor_clock_mhz")
    if not probe or probe.peak != "tflops" or not clock:
        return 1.0
    boost = BOOST if compute.get("tensor_flops_per_clock") == HALF_RATE else 1.0
    return float(compute.get("max_clock_mhz", boost * clock) / clock)


def _per_device(platform: Platform, ranks: int) -> float | None:
    """Return the rate in GB/s at which a device can send to its peers; in a mesh only to those that take part."""
    link = platform.link
    topology = link.get("topology")
    if not link or topology == "none" or (topology == "bridge" and ranks > 2):
        return platform.pcie.get("gb_per_s")
    pair = platform.pair_gb_per_s
    return pair * (ranks - 1) if topology == "mesh" and pair and ranks else link.get("gb_per_s")


def _implausible(subject: LintedFile) -> Iterator[tuple[str, float, float, float, str]]:
    """Yield every limit that is out of range: key, value, the hardware's maximum, with headroom, and its label."""
    for key, limit, platform in subject.limits():
        maximum = reach(subject.sku, limit, platform)
        figures = _figures(limit)
        if maximum is None:
            continue
        rate, label = maximum
        bound = rate * _headroom(subject.sku, limit, platform)
        if figures and max(figures) > bound:
            yield key, max(figures), rate, bound, label
        elif figures and min(figures) < LOWEST * rate and not 0 < in_bytes(parse(limit.metric).size) < SMALL:
            yield key, min(figures), rate, bound, label


def _figures(limit: Limit) -> list[float]:
    """Return floor and reference of a limit, or what others published where it has neither, as far as there is any."""
    published = (limit.published.lowest, limit.published.highest) if limit.published and not limit.bounded else ()
    return [figure for figure in (limit.floor, limit.reference, *published) if figure is not None]


MAGNITUDES = {
    "memory.gb_per_s": (50, 50_000),
    "memory.gb": (4, 2_000),
    "memory.clock_mhz": (300, 20_000),
    "compute.tensor_clock_mhz": (200, 6_000),
    "compute.fp32_clock_mhz": (200, 6_000),
    "compute.max_clock_mhz": (200, 6_000),
    "power.watts": (20, 5_000),
    "tflops.fp16": (10, 100_000),
    "tflops.bf16": (10, 100_000),
    "tflops.fp32": (1, 1_000),
}
"""Plausible ranges of datasheet figures, from the smallest to the largest accelerator, with room for future ones."""


@rule
def physics(subject: LintedFile) -> Iterator[LintMessage]:
    """Require figures between 0.4 and 1.0 of what the hardware can do; another unit or a lost digit is named."""
    for key, value, rate, bound, label in _implausible(subject):
        # the power of ten that brings a fraction of the maximum into the plausible range, or None
        slip = next((10.0**n for n in (1, -1, 2, -2, 3, -3, 6, -6) if LOWEST <= value / rate * 10.0**n <= 1.0), None)
        expected = f"{LOWEST * rate:.4g} to {bound:.4g}, from {LOWEST} of {label}"
        if slip is not None:
            hint = f"{value * slip:.4g} would be {value * slip / rate:.2f} of {label}"
            expected = f"another unit or digit: {hint}, this is {value / rate:.2g}"
        yield subject.error(key, value, f"expected {expected}")
    for key, (low, high) in MAGNITUDES.items():
        number = subject.plain(f"datasheet.{key}")
        if number is not None and not low <= number <= high:
            yield subject.error(f"datasheet.{key}", number, f"expected {low:g} to {high:g} in this unit")
    bf16 = subject.sku.datasheet.tflops.get("bf16", math.inf)
    for key, limit, platform in subject.limits():
        figure, wide = max(_figures(limit), default=0.0), parse(limit.metric).variant in WIDE
        if limit.unit == "TFLOPS" and wide and figure > bf16 and reach(subject.sku, limit, platform) is None:
            yield subject.error(key, figure, f"expected at most {bf16:g}, the bf16 peak")
