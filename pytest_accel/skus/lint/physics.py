"""Limits against what the hardware can do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Limit, Platform, Sku
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus import peaks
from pytest_accel.skus.lint.subject import Finding, Subject, rule

RATES = ("TFLOPS", "TOPS", "GB/s")
LOWEST = 0.4
"""Of physics: every floor in use that was looked at and lies below is a slip of the pen or a cut-down part."""
IN_NETWORK = ("nvls", "sharp", "tree-nvls", "nvlstree")
"""Algorithms that reduce in the switch: a device sends and receives its data once, not 2(n-1)/n times."""


def reach(sku: Sku, limit: Limit, platform: Platform) -> tuple[float, str] | None:
    """What the hardware can do in the metric of a limit, and what that is; None where nobody can say."""
    if limit.relative:
        return 1.0, "the peak"
    if parse(limit.metric).probe == "all_reduce":
        return _wire(limit, platform)
    if limit.metric == "soak.power":
        watts = platform.power_watts or sku.datasheet.power.get("watts")
        return (watts, "the power limit") if watts else None
    return peaks.peak(sku, _measured_as(sku, limit.metric), platform)


def soak_dtype(sku: Sku) -> str:
    """The dtype that a soak multiplies."""
    return str(sku.probes.get("soak", {}).get("dtype", "bf16"))


def _measured_as(sku: Sku, metric: str) -> str:
    return f"matmul.{soak_dtype(sku)}" if metric == "soak.rate" else metric


def _headroom(sku: Sku, limit: Limit, platform: Platform) -> float:
    """By how much a healthy value may exceed what `reach` says."""
    if parse(limit.metric).probe == "all_reduce":
        return _in_network(limit, platform)
    return 1.0 if limit.relative else max(1.0, _clocked(sku, _measured_as(sku, limit.metric)))


def _clocked(sku: Sku, metric: str) -> float:
    """What the clocks that the device reports come to, of what the datasheet states."""
    declared = declaration_of(metric)
    compute, memory = sku.datasheet.compute, sku.datasheet.memory
    if declared and declared.peak == "memory":
        return (memory_arithmetic(memory) or 0.0) / float(memory["gb_per_s"])
    clock = compute.get("fp32_clock_mhz" if parse(metric).variant == "fp32" else "tensor_clock_mhz")
    if not declared or declared.peak != "tflops" or not clock:
        return 1.0
    return float(compute.get("max_clock_mhz", clock) / clock)


def memory_arithmetic(memory: Mapping[str, Any]) -> float | None:
    """GB/s of a memory: two transfers a clock over the width of its bus; None where a part is not known."""
    if not {"clock_mhz", "bus_bits"} <= memory.keys():
        return None
    return float(memory["clock_mhz"] * memory["bus_bits"] * 2 / 8 / 1000)


def _wire(limit: Limit, platform: Platform) -> tuple[float, str] | None:
    """The bus bandwidth of an all-reduce at full use of the links."""
    rate = _per_device(platform, int(limit.conditions.get("ranks") or platform.devices or 0))
    return None if rate is None else (rate, "link rate")


def _in_network(limit: Limit, platform: Platform) -> float:
    """By how much a reduction in the switch may exceed the link rate, as bus bandwidth is counted."""
    ranks = int(limit.conditions.get("ranks") or platform.devices or 0)
    reduced = str(limit.conditions.get("algorithm", "")).lower() in IN_NETWORK
    return 2 * (ranks - 1) / ranks if reduced and ranks > 1 else 1.0


def _per_device(platform: Platform, ranks: int) -> float | None:
    """What a device can send to its peers at once: in a mesh, by the links to those that take part."""
    link = platform.link
    topology = link.get("topology")
    if not link or topology == "none" or (topology == "bridge" and ranks > 2):
        return platform.pcie.get("gb_per_s")
    pair = platform.pair_gb_per_s
    return pair * (ranks - 1) if topology == "mesh" and pair and ranks else link.get("gb_per_s")


def _beside_physics(subject: Subject) -> Iterator[tuple[str, float, float, float, str]]:
    """Every limit outside of physics: key, value, the figure that physics gives, the most it allows, what it is."""
    for key, limit, platform in subject.limits():
        found = reach(subject.sku, limit, platform)
        if found is None:
            continue
        rate, what = found
        most = rate * _headroom(subject.sku, limit, platform)
        figures = [figure for figure in (limit.floor, limit.reference) if figure is not None]
        if figures and max(figures) > most:
            yield key, max(figures), rate, most, what
        elif figures and min(figures) < LOWEST * rate and not _small(limit.metric):
            yield key, min(figures), rate, most, what


def _small(metric: str) -> bool:
    """Collectives of small messages are bounded by latency, not by the links."""
    size = re.fullmatch(r"(\d+)([KMG])iB", parse(metric).size)
    return size is not None and (size[2] == "K" or (size[2] == "M" and int(size[1]) < 128))


def _slip(share: float) -> float | None:
    """The power of ten that brings a share of physics to where shares lie."""
    return next((10.0**n for n in (1, -1, 2, -2, 3, -3, 6, -6) if LOWEST <= share * 10.0**n <= 1.0), None)


@rule
def physics(subject: Subject) -> Iterator[Finding]:
    """Floor and reference lie between 0.4 and 1.0 of what the hardware can do."""
    for key, value, rate, most, what in _beside_physics(subject):
        if _slip(value / rate) is None:
            yield subject.error(key, value, f"expected {LOWEST * rate:.4g} to {most:.4g}, from {LOWEST} of {what}")


@rule
def unbounded(subject: Subject) -> Iterator[Finding]:
    """A rate that no figure of the datasheet or platform bounds: a slip in it would not be seen."""
    for key, limit, platform in subject.limits():
        if limit.unit in RATES and limit.floor is not None and reach(subject.sku, limit, platform) is None:
            yield subject.note(key, limit.floor, "expected a peak or a link rate that bounds it")


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
"""Between what the smallest and the largest accelerator of today could state, with room for tomorrow's."""


@rule
def magnitude(subject: Subject) -> Iterator[Finding]:
    """A figure that is powers of ten off: TB/s written as GB/s, MB/s as GB/s, a lost digit."""
    for key, value, rate, _, what in _beside_physics(subject):
        slip = _slip(value / rate)
        if slip is not None:
            meant = f"{value * slip:.4g} would be {value * slip / rate:.2f} of {what}"
            yield subject.error(key, value, f"expected another unit or digit: {meant}, this is {value / rate:.2g}")
    for key, (low, high) in MAGNITUDES.items():
        stated = subject.plain(f"datasheet.{key}")
        if stated is not None and not low <= stated <= high:
            yield subject.error(f"datasheet.{key}", stated, f"expected {low:g} to {high:g} in this unit")


@rule
def burst(subject: Subject) -> Iterator[Finding]:
    """A sustained rate lies below the burst and the best shape of its dtype; equal means it was copied from there."""
    for key, limit, platform in subject.limits():
        probe, dtype = parse(limit.metric).probe, parse(_measured_as(subject.sku, limit.metric)).variant
        figure = limit.reference or limit.floor
        if (probe != "matmul" and limit.metric != "soak.rate") or figure is None:
            continue
        for other in ("matmul_best", "matmul_burst"):
            short = subject.sku.limits_on(platform).get(f"{other}.{dtype}")
            most = short and (short.reference or short.floor)
            if most and (figure >= most if dtype in ("bf16", "fp16") else figure > 0.97 * most):
                yield subject.error(key, figure, f"expected well below {other}.{dtype} ({most:g}): this is sustained")
