"""Sustained matrix multiplication for as long as the level allows: drift, power, throttling."""

from __future__ import annotations

from pytest_accel.core.stats import estimate_rate
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.gemm import Gemm
from pytest_accel.probes.device.torch_device import Compute, ProbeResult
from pytest_accel.probes.matmul import sustained


@probe(
    "soak.rate",
    unit="TFLOPS",
    stresses=["compute"],
    also={
        "soak.droop_slow": "1",
        "soak.power": "W",
        "soak.throttle.hw_thermal": "s",
        "soak.throttle.sw_thermal": "1",
        "soak.throttle.power_brake": "s",
        "soak.throttle.hw_slowdown": "s",
        "soak.thermal_margin": "K",
    },
    budgets={"quick": 7.0, "standard": 300.0, "long": 3600.0},
    method=sustained,
    derived_floor=0.92,
    sustained=True,
    required="sustained load",
    verifies="products",
    cost=Cost("matmul.{dtype}"),
    small={"m": 32, "n": 32, "k": 32},
)
def soak(device: Compute, *, dtype: str = "bf16", m: int = 8192, n: int = 8192, k: int = 8192) -> list[ProbeResult]:
    """Measure `soak.rate`, the TFLOPS over the whole time, and `soak.droop_slow`, the share of it that is lost to heat.

    droop_slow = 1 - (rate of the last third) / (rate of seconds 5 to 15, or of the first third of a shorter soak). The
    sensor process reads power, temperature and throttle counters meanwhile.
    """
    gemm = Gemm(device, dtype, m, n, k)
    result = device.sample(
        gemm,
        amount=gemm.operations / 1e12,
        unit="TFLOPS",
        metric="soak.rate",
        precision=0.0,
        conditions={**gemm.conditions, "seconds": device.seconds},
    )
    result.details.update(device.counted_clock())
    gemm.check()
    return [result, droop(result)]


def droop(rate: ProbeResult) -> ProbeResult:
    """Return `soak.droop_slow` of a `soak.rate`."""
    timed = list(zip(rate.details["ends"], rate.samples, strict=True))
    begin, end = timed[0][0], timed[-1][0]
    third = (end - begin) / 3
    window = (5.0, 15.0) if end > 45 else (begin, begin + third)
    early = [each for at, each in timed if window[0] <= at <= window[1]]
    late = [each for at, each in timed if at >= end - third]
    value = 1 - estimate_rate(late).mean / estimate_rate(early).mean
    conditions = dict(rate.conditions, early_seconds=list(window))
    return ProbeResult("soak.droop_slow", "1", value=value, conditions=conditions)
