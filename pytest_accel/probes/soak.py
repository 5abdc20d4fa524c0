"""Sustained matrix multiplication for as long as the level allows: drift, power, throttling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pytest_accel.core.details import ProbeDetails
from pytest_accel.core.stats import estimate_rate
from pytest_accel.probes.declare import SUSTAINED_SECONDS, SUSTAINED_WARMUP, Cost, probe
from pytest_accel.probes.device.gemm import Gemm
from pytest_accel.probes.device.torch_device import Compute, ProbeResult
from pytest_accel.probes.matmul import sustained_method

WINDOW_SECONDS = 10.0
"""Length of the windows of a soak that is long enough for `WINDOWS` of them."""
WINDOWS = 10
LEAST_BLOCKS = 6
"""Blocks that a window needs at least; with fewer of them it is longer."""


@probe(
    "soak.rate",
    unit="TFLOPS",
    stresses=["compute"],
    also={
        "soak.droop_slow": "1",
        "soak.slowest_window": "1",
        "soak.power": "W",
        "soak.throttle.hw_thermal": "s",
        "soak.throttle.sw_thermal": "1",
        "soak.throttle.power_brake": "s",
        "soak.throttle.hw_slowdown": "s",
        "soak.thermal_margin": "K",
    },
    budgets={"quick": 7.0, "standard": 300.0, "long": 3600.0},
    method=sustained_method,
    derived_floor=0.92,
    sustained=True,
    required="sustained load",
    verifies="products",
    cost=Cost("matmul.{dtype}"),
    small={"m": 32, "n": 32, "k": 32},
)
def soak(device: Compute, *, dtype: str = "bf16", m: int = 8192, n: int = 8192, k: int = 8192) -> list[ProbeResult]:
    """Measure `soak.rate`, the TFLOPS over the whole time, and how steady it is.

    droop_slow = 1 - (rate of the last third) / (rate of seconds 5 to 15, or of the first third of a shorter soak).
    slowest_window is the rate of the slowest of the windows of 10 s (or of a tenth of a shorter soak) as a share of
    their median; it leaves out the slowest block of each, which something else may have delayed. The sensor process
    reads power, temperature, clock and throttle counters meanwhile.
    """
    gemm = Gemm(device, dtype, m, n, k)
    result = device.sample(
        gemm,
        amount=gemm.operations / 1e12,
        unit="TFLOPS",
        metric="soak.rate",
        precision=0.0,  # for the whole budget, however precise the mean is before
        conditions={**gemm.conditions, "seconds": device.seconds},
    )
    result.details.update(device.counted_clock())
    gemm.check()
    # its first seconds are those of `matmul`, which a short level does not measure again
    return [result, droop(result), slowest_window(result), first_seconds(result)]


def first_seconds(rate: ProbeResult) -> ProbeResult:
    """Return the `matmul` of a `soak.rate`: its blocks up to the end of the shortest sustained load."""
    count = sum(end <= SUSTAINED_WARMUP + SUSTAINED_SECONDS for end in rate.details["ends"]) or 1
    conditions = {key: value for key, value in rate.conditions.items() if key != "seconds"}
    return replace(
        rate,
        metric=f"matmul.{conditions['dtype']}",
        samples=rate.samples[:count],
        seconds=rate.seconds[:count],
        conditions=conditions,
        details={**rate.details, "ends": rate.details["ends"][:count]},
    )


def droop(rate: ProbeResult) -> ProbeResult:
    """Return `soak.droop_slow` of a `soak.rate`."""
    blocks = list(zip(rate.details["ends"], rate.samples, strict=True))
    begin, end = blocks[0][0], blocks[-1][0]
    third = (end - begin) / 3
    window = (5.0, 15.0) if end > 45 else (begin, begin + third)
    early_rates = [sample for time, sample in blocks if window[0] <= time <= window[1]]
    late_rates = [sample for time, sample in blocks if time >= end - third]
    value = 1 - estimate_rate(late_rates).mean / estimate_rate(early_rates).mean
    conditions = dict(rate.conditions, early_seconds=list(window))
    details: ProbeDetails = {"late_seconds": (end - third, end)}
    return ProbeResult("soak.droop_slow", "1", value=value, conditions=conditions, details=details)


def slowest_window(rate: ProbeResult) -> ProbeResult:
    """Return `soak.slowest_window` of a `soak.rate`."""
    ends, rates = rate.details["ends"], rate.samples
    begin, end = ends[0], ends[-1]
    target = max(WINDOWS, int((end - begin) / WINDOW_SECONDS))
    count = max(1, min(target, len(rates) // LEAST_BLOCKS))
    windows = [_undelayed(window) for window in _windows(ends, rates, count) if window]
    rate.details["window_rates"] = [round(window, 4) for window in windows]
    conditions = dict(rate.conditions, window_seconds=round((end - begin) / count, 3))
    return ProbeResult("soak.slowest_window", "1", value=min(windows) / median(windows), conditions=conditions)


def _windows(ends: Sequence[float], rates: Sequence[float], count: int) -> list[list[float]]:
    """Return the rates of the blocks that ended in each of `count` windows of equal length."""
    begin, length = ends[0], (ends[-1] - ends[0]) / count or 1.0
    windows: list[list[float]] = [[] for _ in range(count)]
    for end, rate in zip(ends, rates, strict=True):
        windows[min(count - 1, int((end - begin) / length))].append(rate)
    return windows


def _undelayed(rates: Sequence[float]) -> float:
    """Return the rate of some blocks without the slowest of them."""
    # something else may have delayed it
    usable = sorted(rates)[1:] if len(rates) > LEAST_BLOCKS // 2 else rates
    return estimate_rate(usable).mean
