"""The levels: how long each probe may measure. The one place where time is budgeted."""

from __future__ import annotations

from pytest_accel.core.sku import Sku

BUDGETS: dict[str, dict[str, float]] = {
    #            nightly,        handover,          burn-in: seconds per metric, warm-up included; 0: not measured
    "matmul": {"quick": 3.0, "standard": 15.0, "long": 30.0},
    "matmul_burst": {"quick": 0.0, "standard": 6.0, "long": 6.0},
    "matmul_best": {"quick": 0.0, "standard": 10.0, "long": 30.0},
    "exact_matmul": {"quick": 2.0, "standard": 30.0, "long": 300.0},
    "memory_pattern": {"quick": 2.0, "standard": 15.0, "long": 120.0},
    "stream_windows": {"quick": 1.0, "standard": 3.0, "long": 5.0},
    "stream": {"quick": 1.0, "standard": 3.0, "long": 10.0},
    "host_copy": {"quick": 0.5, "standard": 1.0, "long": 3.0},
    "host_latency": {"quick": 0.1, "standard": 0.2, "long": 0.5},
    "host_copy_all": {"quick": 1.0, "standard": 2.0, "long": 5.0},
    "peer_copy_all": {"quick": 0.0, "standard": 5.0, "long": 10.0},
    "peer_copy": {"quick": 10.0, "standard": 30.0, "long": 60.0},
    "all_reduce": {"quick": 3.0, "standard": 8.0, "long": 20.0},
    "ddp_step": {"quick": 3.0, "standard": 10.0, "long": 30.0},
    "soak": {"quick": 15.0, "standard": 300.0, "long": 3600.0},
    # single metrics of a probe: those that only inform, or that no file limits at `quick`
    "matmul.mxfp8": {"quick": 0.0, "standard": 4.0, "long": 15.0},
    "matmul.fp4": {"quick": 0.0, "standard": 12.0, "long": 30.0},
    "stream.write": {"quick": 0.0, "standard": 1.5, "long": 5.0},
    "stream.copy_kernel": {"quick": 0.0, "standard": 1.5, "long": 5.0},
}
FACTS = ("inventory", "health", "host", "counters", "host_counters")
"""Read, not sampled: they take no time of their own."""
OWN_PROBE = {"quick": 2.0, "standard": 5.0, "long": 15.0}
"""For a user's own probe."""


def budget(probe: str, level: str, sku: Sku | None, variant: str = "") -> float:
    """Seconds that one metric of `probe` may be sampled for; the SKU's file may say otherwise.

    `variant` is what follows the point in the metric's name: some have a budget of their own.
    """
    if probe in FACTS:
        return 0.0
    own = sku.budgets.get(level, {}) if sku else {}
    for name in (f"{probe}.{variant.partition('@')[0]}", probe):
        if name in own or name in BUDGETS:
            return own[name] if name in own else BUDGETS[name][level]
    return OWN_PROBE[level]
