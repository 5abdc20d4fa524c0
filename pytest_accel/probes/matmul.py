"""Dense matrix multiplication: 2 m n k operations a call, operands rotated beyond the last-level cache."""

from __future__ import annotations

from collections.abc import Callable

from pytest_accel.core.sku import PRODUCTS
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.gemm import Product
from pytest_accel.probes.device.timing import time_bursts, time_once
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

MICRO_PEAK_SIDES = (256, 512, 768)
PILOTS = ((64, 0.05), (256, 1.2))
"""Side and least speed against fp32 of the products that show a fast path: a tiny one first, since an emulated
dtype may be thousands of times slower than fp32."""


@probe(
    "matmul.{dtype}",
    unit="TFLOPS",
    stresses=["compute"],
    variants={"dtype": PRODUCTS},
    budgets={"quick": 3.0, "standard": 15.0, "long": 30.0},
    budgets_of={  # those that only inform, or that no file limits at `quick`
        "mxfp8": {"quick": 0.0, "standard": 4.0, "long": 15.0},
        "fp4": {"quick": 0.0, "standard": 12.0, "long": 30.0},
    },
    peak="tflops",
    derived_floor=0.92,
    sustained=True,
    required=True,
    verifies="products",
    cost=Cost("peak", share=0.7),
    small={"m": 32, "n": 32, "k": 32},
)
def matmul(device: Compute, *, dtype: str = "bf16", m: int = 8192, n: int = 8192, k: int = 8192) -> ProbeResult:
    """Sustained dense matrix multiplication in TFLOPS (fp8 and int8 too: operations are counted alike).

    C (m x n) = A (m x k) B (k x n) with normal data, mean 0, deviation 1 (int8: uniform -128 ... 127). A sample of
    the result, spread over all of it, is compared with the product in fp64. On a CPU the peak is a cache-resident
    product of the same dtype, measured in blocks that alternate with the samples.

    The conditions hold what moves the rate: `dtype`, `m`, `n`, `k`, `data`, `operand_sets` (used in turn, together
    larger than the last-level cache), `layout` (row-major: A and B row by row; TN: B column by column), `scaling` of
    fp8 (tensor: one scale for each operand) and of formats with blocks (1x32 e8m0, 1x16 e4m3; fp4 says its `format`,
    nvfp4 on CUDA, mxfp4 with ROCm), and on a GPU `blas` (torch's preferred library), `environment`
    (what it tells that library), `accumulation` (fp8 is summed in fp32, without the fast accumulation of Hopper),
    `tunable_op` (torch chooses kernels by trying them) and `allow` (the reduced precisions that torch was allowed:
    none but tf32 for tf32).
    """
    if device.measures_peak:
        refuse_slow_path(device, dtype)
    product = Product(device, dtype, m, n, k)
    finding = device.sample(
        product,
        amount=product.operations / 1e12,
        unit="TFLOPS",
        metric=f"matmul.{dtype}",
        beside=_micro_peak(device, dtype) if device.measures_peak else None,
        conditions=product.conditions,
    )
    finding.details.update(device.counted_clock())
    product.check()
    return finding


@probe(
    "matmul_burst.{dtype}",
    unit="TFLOPS",
    stresses=["compute"],
    variants={"dtype": PRODUCTS},
    budgets={"quick": 0.0, "standard": 6.0, "long": 6.0},
    peak="tflops",
    derived_floor=0.92,
    verifies="products",
    cost=Cost("matmul.{dtype}"),
    small={"m": 32, "n": 32, "k": 32},
)
def matmul_burst(device: Compute, *, dtype: str = "bf16", m: int = 8192, n: int = 8192, k: int = 8192) -> ProbeResult:
    """The first 20 ms of a matrix product after a second of rest, in TFLOPS: faster than what is sustained.

    Published tables of best shapes and means of ten runs are bursts: to be compared with this, never with `matmul`.
    """
    if device.measures_peak:
        refuse_slow_path(device, dtype)
    product = Product(device, dtype, m, n, k)
    seconds = time_bursts(product, device.clock, device.gate, rest=1.0, burst=0.02, repeats=5)
    product.check()
    return ProbeResult(
        f"matmul_burst.{dtype}",
        "TFLOPS",
        samples=[product.operations / 1e12 / once for once in seconds],
        seconds=seconds,
        conditions={**product.conditions, "rest_s": 1.0, "burst_s": 0.02},
    )


def _micro_peak(device: Compute, dtype: str) -> tuple[Callable[[], object], float, str]:
    """The fastest of a few cache-resident products: the peak of a CPU, which has no datasheet here."""
    products = [Product(device, dtype, side, side, side) for side in MICRO_PEAK_SIDES]
    best = max(products, key=_rate)
    side = best.shape[0]
    return best, best.operations / 1e12, f"{dtype} peak measured beside ({side}x{side}x{side}), provisional"


def _rate(product: Product) -> float:
    """Operations per second, the best of three times 4 ms: on a busy processor one is often interrupted.

    A pilot, never a result.
    """
    return product.operations / min(time_once(product, product.device.clock, 0.004) for _ in range(3))


def refuse_slow_path(device: Compute, dtype: str) -> None:
    """Refuse a dtype that the CPU only emulates, found on a small product before a large one takes minutes."""
    if dtype in ("fp64", "fp32"):
        return
    for side, least in PILOTS:
        try:
            rate = _rate(Product(device, dtype, side, side, side))
        except (RuntimeError, NotImplementedError) as error:
            raise NotApplicable(f"torch has no {dtype} matmul on this CPU: {str(error).splitlines()[0]}") from None
        fp32 = _rate(Product(device, "fp32", side, side, side))
        if rate < least * fp32:
            text = f"{dtype} has no fast path on this CPU: {rate / fp32:.2g} of the speed of fp32 at {side}^3"
            raise NotApplicable(text)
