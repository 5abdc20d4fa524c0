"""Dense matrix multiplication: 2 m n k operations a call, with operands that together exceed the last-level cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_accel.core.method import AS_FOUND
from pytest_accel.core.sku_types import MATMUL_DTYPES
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device import fast_paths
from pytest_accel.probes.device.gemm import Gemm, method_of, shape_name
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

MICRO_PEAK_SIDES = (256, 512, 768)
"""Sides of the cache-resident products, the fastest of which is the peak of a CPU."""
LONGEST_CALL = 0.2
"""Seconds that one product may take."""
PILOT_SIDE = 2048
"""The side of the product that shows how long a larger one would take."""
PILOT_SECONDS = 0.004
"""Seconds of a block that shows the rate of a product."""
PILOT_BLOCKS = 3
"""Number of these blocks, the fastest of which counts."""


def sustained_method(dtype: str, m: int, n: int, k: int) -> dict[str, Any]:
    """Return the method of `matmul`, which is also that of `soak`."""
    method = {"shape": shape_name((m, n, k)), **method_of(dtype), "cache": "operands exceed it"}
    return {**method, "timing": "sustained", "statistic": "mean", "tunable_op": AS_FOUND}


@probe(
    "matmul.{dtype}",
    unit="TFLOPS",
    stresses=["compute"],
    variants={"dtype": MATMUL_DTYPES},
    suite=[f"matmul.{dtype}" for dtype in MATMUL_DTYPES if dtype not in ("mxfp4", "nvfp4")],  # fp4 is one of these
    budgets={"quick": 0.0, "standard": 15.0, "long": 30.0},
    budgets_of={  # at `quick` the two products of training and inference
        "bf16": {"quick": 5.0, "standard": 15.0, "long": 30.0},
        "fp8": {"quick": 5.0, "standard": 15.0, "long": 30.0},
        "mxfp8": {"quick": 0.0, "standard": 5.0, "long": 15.0},
        "fp4": {"quick": 0.0, "standard": 12.0, "long": 30.0},
    },
    peak="tflops",
    method=sustained_method,
    derived_floor=0.92,
    sustained=True,
    required="matrix units",
    verifies="products",
    cost=Cost("peak", share=0.7),
    small={"m": 32, "n": 32, "k": 32},
    within={"quick": "soak"},  # except on a CPU: see run/request_completion.py
)
def matmul(device: Compute, *, dtype: str = "bf16", m: int = 8192, n: int = 8192, k: int = 8192) -> ProbeResult:
    """Measure sustained dense matrix multiplication in TFLOPS (for int8 in TOPS, counted alike).

    C (m x n) = A (m x k) B (k x n) with normally distributed data, mean 0, deviation 1 (int8: uniform -128 ... 127). A
    sample of the result, spread over the whole matrix, is compared with the product in fp64. On a CPU the peak is a
    cache-resident product of the same dtype, measured in blocks that alternate with the samples.

    Where one call in fp64 would take longer than 0.2 seconds, the sides are halved until it does not, and `shape` says
    so: a card whose vector units do fp64 at a 64th of the rate of fp32 takes four seconds for 8192 cubed.

    The conditions hold what affects the rate:

    - `dtype`, `m`, `n`, `k`, `data`
    - `operand_sets`: used in turn, together larger than the last-level cache
    - `layout`: row-major (A and B row by row) or TN (B column by column)
    - `scaling`: for fp8 tensor (one scale for each operand), for block formats 1x32 e8m0 or 1x16 e4m3
    - `format` of fp4: nvfp4 on CUDA, mxfp4 with ROCm
    - on a GPU `blas`: torch's preferred library, and `environment`: the variables that configure it
    - `accumulation`: fp8 is summed in fp32, without the fast accumulation of Hopper
    - `tunable_op`: whether torch chooses kernels by trying them
    - `allow`: the reduced precisions that torch may use; only tf32, and only for tf32

    Raises NotApplicable for a dtype that torch or the device has no fast path for, WrongResult for a wrong product.
    """
    fast_paths.refuse_slow(device, dtype)
    shape = _shape_within_time(device, dtype, m, n, k)
    gemm = Gemm(device, dtype, *shape)
    result = device.sample(
        gemm,
        amount=gemm.operations / 1e12,
        unit="TFLOPS",
        metric=f"matmul.{dtype}",
        beside=_micro_peak(device, dtype) if device.measures_peak else None,
        conditions={**gemm.conditions, **({"shape": shape_name(shape)} if shape != (m, n, k) else {})},
    )
    result.details.update(device.counted_clock())
    gemm.check()
    return result


def _shape_within_time(device: Compute, dtype: str, m: int, n: int, k: int) -> tuple[int, int, int]:
    """Return the shape, with its sides halved until a call takes at most `LONGEST_CALL` seconds."""
    # no other dtype is that slow on a GPU of which torch multiplies it, and the file of a CPU sets a shape
    if dtype != "fp64" or device.is_cpu or min(m, n, k) <= PILOT_SIDE:
        return m, n, k
    rate = Gemm(device, dtype, PILOT_SIDE, PILOT_SIDE, PILOT_SIDE).rate(device.clock, PILOT_SECONDS, PILOT_BLOCKS)
    while 2 * m * n * k / rate > LONGEST_CALL and min(m, n, k) > PILOT_SIDE:
        m, n, k = m // 2, n // 2, k // 2
    return m, n, k


def _micro_peak(device: Compute, dtype: str) -> tuple[Callable[[], object], float, str]:
    """Return the fastest of a few cache-resident products as (call, TFLOP per call, source of the figure).

    It is the peak of a CPU, which has no datasheet here.
    """
    gemms = [Gemm(device, dtype, side, side, side) for side in MICRO_PEAK_SIDES]
    fastest = max(gemms, key=lambda gemm: gemm.rate(device.clock, PILOT_SECONDS, PILOT_BLOCKS))
    source = f"{dtype} peak measured in alternation ({shape_name(fastest.shape)}), provisional"
    return fastest, fastest.operations / 1e12, source
