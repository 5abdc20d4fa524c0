"""Units that are multiples of another one, all of them decimal (not GiB/s); the rate of a PCIe lane; sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

EXACT = {
    "GB/s": {"TB/s": "1000", "GB/s": "1", "MB/s": "0.001"},
    "TFLOPS": {"PFLOPS": "1000", "TFLOPS": "1", "GFLOPS": "0.001"},
    "TOPS": {"POPS": "1000", "TOPS": "1", "GOPS": "0.001"},
    "GB": {"TB": "1000", "GB": "1", "MB": "0.001"},
    "MHz": {"GHz": "1000", "MHz": "1"},
    "s": {"s": "1", "ms": "0.001", "us": "0.000001"},
    "ms": {"s": "1000", "ms": "1", "us": "0.001"},
    "us": {"s": "1000000", "ms": "1000", "us": "1"},
}
"""For each unit of a metric the units that figures may have come in, and their factors."""
PCIE_LANE = {1: 0.25, 2: 0.5, 3: 0.9846, 4: 1.9692, 5: 3.9385, 6: 7.5625}
"""GB/s per lane and direction by generation, after line coding (8b/10b, 128b/130b, 242/256 of a FLIT): PCI-SIG base
specifications."""


def unit_meant(unit: object) -> str | None:
    """Return the unit of our metrics for one that is only larger or smaller, such as GB/s for MB/s; None for others."""
    return next((base for base, factors in EXACT.items() if unit in factors and unit not in EXACT), None)


def rewritten(figures: Mapping[str, Any], unit: str, target: str) -> str:
    """Return figures in `unit` as a file states them in `target`: "floor: 2.333, unit: GB/s"; empty if not known."""
    factor = EXACT.get(target, {}).get(unit)
    if factor is None:
        return ""
    numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
    texts = [f"{key}: {float(Decimal(str(value)) * Decimal(factor)):.12g}" for key, value in numbers.items()]
    return ", ".join([*texts, f"unit: {target}"])


OF_SIZES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
SIZE = r"([1-9]\d*)(KiB|MiB|GiB)"
"""The sizes of messages, written as "64KiB" or "8GiB"."""


def in_bytes(size: str) -> int:
    """Return a size in bytes; 0 for a text that is no size."""
    match = re.fullmatch(SIZE, size)
    return int(match[1]) * OF_SIZES[match[2]] if match else 0
