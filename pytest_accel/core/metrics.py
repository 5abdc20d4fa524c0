"""The vocabulary of metrics: the unit of each, and the probe that measures it. Pure."""

from __future__ import annotations

import re

from pytest_accel.core.sku import DTYPES, HOST_COPIES, SHEET

UNITS = {
    **{
        f"{name}.{dtype}": "TFLOPS" for name in ("matmul", "matmul_burst", "matmul_best") for dtype in (*DTYPES, *SHEET)
    },
    **{f"stream.{op}": "GB/s" for op in ("copy", "copy_kernel", "triad", "read", "write", "slowest_window")},
    **{f"{probe}.{way}": "GB/s" for probe in ("host_copy", "host_copy_all") for way in HOST_COPIES},
    **dict.fromkeys(("host_copy.latency", "host_copy.latency_p99"), "us"),
    **dict.fromkeys(("host_copy.pcie_gen", "host_copy.pcie_width"), "count"),
    **dict.fromkeys(("peer_copy.one_way", "peer_copy.both", "peer_copy_all.rounds", "peer_copy_all.all"), "GB/s"),
    "ddp.step_ms": "ms",
    "ddp.exposed": "1",
    "soak.rate": "TFLOPS",
    "soak.droop_slow": "1",
    "soak.power": "W",
    "soak.throttle.hw_thermal": "s",
    "soak.throttle.sw_thermal": "1",
    "soak.throttle.power_brake": "s",
}
"""The unit of each metric of the packaged suite, except all-reduce, which has one metric for each size."""

ALL_REDUCE = "all_reduce.busbw@8GiB"
"""An example of an all-reduce metric."""
_ALL_REDUCE = re.compile(r"all_reduce\.busbw@[1-9]\d*(KiB|MiB|GiB)")
_FINDS = {
    "ddp": "ddp_step",
    "stream.slowest_window": "stream_windows",
    "host_copy.latency": "host_latency",
    "host_copy.latency_p99": "host_latency",
}
"""The probes of metrics (or of families, their first word) that are not named after their probe."""


def unit_of(metric: str) -> str | None:
    """Return the unit of a metric of the packaged suite; None for facts and for users' own metrics."""
    return "GB/s" if _ALL_REDUCE.fullmatch(metric) else UNITS.get(metric)


def probe_of(metric: str) -> str:
    """Return the name of the probe that measures a metric."""
    name, family = metric.partition("@")[0], metric.partition(".")[0]
    return _FINDS.get(name) or _FINDS.get(family, family)
