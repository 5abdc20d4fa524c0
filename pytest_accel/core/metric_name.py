"""The parts of a metric's name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

OF_COUNTERS = ("counters.", "host_counters.")
"""Prefixes of metrics that count events since the first probe."""


@dataclass(frozen=True)
class Metric:
    """The parts of a name such as "matmul.bf16", "all_reduce.busbw@8GiB" or "soak.throttle.hw_thermal".

    `probe` is the first word, which the metrics of one probe, or of related ones, share. `variant` tells them apart.
    `size` is that of a collective's payload, or the conditions by which a test of one's own differs from the packaged
    one ("m=4096,n=14336").
    """

    probe: str
    variant: str = ""
    size: str = ""

    @property
    def base(self) -> str:
        """The name without the size."""
        return f"{self.probe}.{self.variant}" if self.variant else self.probe

    def __str__(self) -> str:
        return f"{self.base}@{self.size}" if self.size else self.base


@cache
def parse(name: str) -> Metric:
    """Return the parts of a metric's name."""
    base, _, size = name.partition("@")
    probe, _, variant = base.partition(".")
    return Metric(probe, variant, size)
