"""The matrix product of mamf-finder, by its own procedure, so that the table of its results speaks of the same thing.

The tool is compute/accelerator/benchmarks/mamf-finder.py of stas00/ml-engineering. It calls what `matmul_best` searches
for the maximum achievable matmul FLOPS (MAMF).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_accel.core.method import AS_FOUND
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device import blas, fast_paths
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.gemm import (
    checked_step,
    double,
    refuse_unsupported,
    refuse_wrong,
    shape_name,
    torch_dtype,
)
from pytest_accel.probes.device.timing import time_calls
from pytest_accel.probes.device.tolerance import unknown
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

VERSION = 2
"""`benchmark_version` of the tool (January 2025, dacf05a; unchanged in July 2026, 15de338). Version 1 did not write to
the result before each call, its first revisions did not clear the cache, and they reported the fastest call."""
WARM_UP, CALLS = 50, 100
"""Calls of a shape before those that are timed, and those."""
CLEARED_MIB = 256
"""MiB that are written before each call, so that no operand is left in a cache."""
CLEARED_MIB_OF_CPU = 1
"""The same for a CPU, where it would take most of the time."""
ROUNDING = {"bf16": 2**-8, "fp8": 2**-4}
"""Largest error of an element of the result, which has the dtype of the operands, as a share of the element."""
SMALL = [32, 32, 32]


def _method(dtype: str, shapes: Mapping[str, Sequence[int]] | None) -> dict[str, Any]:
    """Return the method of `matmul_mamf`."""
    return {
        "procedure": f"mamf-finder {VERSION}",
        "shape": shape_name(shapes[dtype]) if shapes and dtype in shapes else "not set",
        "layout": "TN",
        "data": "normal(0, 1)",
        "accumulation": blas.accumulation(dtype),
        **({"scaling": "1 (no scaling)"} if dtype == "fp8" else {}),
        "cache": "cleared before each call",
        "timing": "burst",
        "warm_up": WARM_UP,
        "calls": CALLS,
        "statistic": "mean",
        "tunable_op": AS_FOUND,
    }


@probe(
    "matmul_mamf.{dtype}",
    unit="TFLOPS",
    stresses=["compute"],
    variants={"dtype": tuple(ROUNDING)},
    budgets={"quick": 1.0, "standard": 1.0, "long": 1.0},
    peak="tflops",
    method=_method,
    derived_floor=0.92,
    required="matrix units",
    verifies="products",
    cost=Cost("matmul.{dtype}"),
    small={"shapes": dict.fromkeys(ROUNDING, SMALL)},
)
def matmul_mamf(
    device: Compute, *, dtype: str = "bf16", shapes: Mapping[str, Sequence[int]] | None = None
) -> ProbeResult:
    """Measure a matrix product as mamf-finder does, at the shape that it published for the device, in TFLOPS.

    `shapes` maps a dtype to m, n, k; the threshold file sets it. The procedure is that of version 2 of the tool:

    - A and B are normally distributed with deviation 1, B lies column by column. For fp8 (e4m3) they are converted
      without a scale, both scales are 1, the result is fp8, and the fast accumulation of Hopper is off.
    - Torch's switches are as torch starts: reductions in bf16 are allowed.
    - Before each call 256 MiB are written, which clears the caches, and the result is overwritten.
    - 50 calls warm up. Each of the next 100 is timed by events of its own, and all 150 are queued at once. The value
      is the operations of a call, divided by the mean time of the 100.

    Where torch can, they are queued behind a spin that is not timed. The tool lets the device begin with the first
    call, so that on a host whose cores are busy the gaps between an event and its launch count as the product's time.

    The tool first works for 30 seconds, and searches for hours before it comes to the best shape; here the same calls
    are made for the budget of the probe, a second. A device that is still cool is faster, so this can only excuse. All
    devices work at the same time, which the tool's one device did not: the gaps between the calls keep the power below
    that of sustained products, and taking turns would cost a node of eight several times as long and let the devices
    cool.

    Elements that fp8 cannot represent are not checked. Raises NotApplicable for a dtype without a shape, or without a
    fast path, WrongResult for a wrong product.
    """
    shape = (shapes or {}).get(dtype)
    if not shape:
        raise NotApplicable(f"no shape of mamf-finder is known for {dtype} (probes: matmul_mamf: shapes: ...)")
    fast_paths.refuse_slow(device, dtype)
    with blas.defaults(device.torch, device.is_cpu or device.other):
        product = _Product(device, dtype, shape)
        device.tune(product)
        work, amount, clock = device.clocked(product, product.operations / 1e12, "TFLOPS")
        seconds, launch_bound = time_calls(
            work,
            clock,
            device.gate,
            prepare=product.clear,
            warm_up=WARM_UP,
            calls=CALLS,
            seconds=device.seconds,
        )
        product.check()
        conditions = {**device.blas, **blas.conditions(device.torch, dtype, device.is_cpu or device.other)}
    return ProbeResult(
        f"matmul_mamf.{dtype}",
        "TFLOPS",
        samples=[amount / duration for duration in seconds],
        seconds=seconds,
        conditions={"dtype": dtype, "cleared_mib": product.cleared_mib, **conditions},
        details={"launch_bound": True} if launch_bound else {},
    )


class _Product:
    """The product C = A B of mamf-finder, and what it does between two calls."""

    def __init__(self, device: Compute, dtype: str, shape: Sequence[int]) -> None:
        m, n, k = self.shape = (shape[0], shape[1], shape[2])
        refuse_unsupported(device, dtype, self.shape)
        self.device, self.dtype, self.operations = device, dtype, 2 * m * n * k
        self.cleared_mib = CLEARED_MIB_OF_CPU if device.is_cpu else CLEARED_MIB
        device.require_memory(self.cleared_mib * 2**20 + 6 * (m * k + n * k + 2 * m * n))
        torch, target, kind = device.torch, device.torch_device, torch_dtype(device, dtype)
        drawn = torch.float32 if dtype == "fp8" else kind
        self._cache = torch.empty(self.cleared_mib * 2**18, dtype=torch.int32, device=target)
        self._a = torch.randn(m, k, dtype=drawn, device=target).to(kind)
        self._b = torch.randn(n, k, dtype=drawn, device=target).to(kind).t()
        self._c = torch.empty(m, n, dtype=kind, device=target)
        self._other = torch.randn(m, n, device=target).to(kind)
        self._scale = torch.ones(1, device=target)
        self._largest = torch.finfo(kind).max

    def __call__(self) -> None:
        """Multiply."""
        torch = self.device.torch
        if self.dtype == "fp8":
            torch._scaled_mm(self._a, self._b, self._scale, self._scale, out=self._c)  # noqa: SLF001  as the tool does
        else:
            torch.mm(self._a, self._b, out=self._c)

    def clear(self) -> None:
        """Clear the caches and overwrite the result."""
        self._cache.zero_()
        self._c.copy_(self._other)

    def check(self) -> None:
        """Compare a sample of the product with the same in fp64. Raises WrongResult."""
        m, n, k = self.shape
        rows, columns = checked_step(m), checked_step(n)
        self.clear()
        self()
        a, b, c = (
            double(self.device.comparable(part))
            for part in (self._a[::rows], self._b[:, ::columns], self._c[::rows, ::columns])
        )
        expected = a @ b
        # the library may round partial sums to bf16, and the rounding of results in fp8 hides any finer error
        bound = replace(unknown(self.dtype), rounded=ROUNDING[self.dtype]).allowed(k, expected)
        fits = expected.abs() + bound < self._largest  # fp8 cannot represent the others
        label = f"{self.dtype} {shape_name(self.shape)} as mamf-finder multiplies it:"
        refuse_wrong(self.device.torch.where(fits, c, expected), expected, bound, label)
