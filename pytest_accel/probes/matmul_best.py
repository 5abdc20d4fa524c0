"""The fastest shape of a matrix product, found by a search and then measured on fresh samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial

from pytest_accel.core.method import AS_FOUND
from pytest_accel.core.sku_types import MATMUL_DTYPES
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device import fast_paths
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.gemm import OPERAND_BYTES, Gemm, Operands, shape_name
from pytest_accel.probes.device.shape_search import (
    ANCHORS,
    FIRST,
    KEPT,
    Search,
    Shape,
    full_waves,
    grid,
    neighbours,
    search,
    spread,
)
from pytest_accel.probes.device.timing import time_fastest, time_one_block
from pytest_accel.probes.device.torch_device import Compute, ProbeResult
from pytest_accel.probes.matmul import sustained_method

TILES = {
    "cuda8": ((128, 256), (256, 128), (128, 128)),
    "cuda9": ((128, 256), (256, 128), (128, 128), (192, 128), (128, 192), (256, 256)),
    "cuda10": ((256, 256), (256, 128)),
    "hip": ((256, 256), (256, 224), (256, 192), (128, 128)),
}
"""Tile sizes (m x n) of the fast kernels by CUDA compute capability; "hip": those of hipBLASLt for any CDNA GPU."""
PAIRED = "cuda10"
"""Architecture whose kernels run on pairs of SMs, so that half as many tiles run at once."""
OPERATION_SECONDS = (0.15e-3, 10e-3)
"""Shortest and longest product worth trying, in seconds: below, launch cost dominates; above, the rate does not
improve."""
CPU_SPACE = grid(range(256, 1537, 128), range(256, 3073, 256))
"""Shapes that are searched on a CPU."""


@probe(
    "matmul_best.{dtype}",
    unit="TFLOPS",
    stresses=["compute"],
    variants={"dtype": MATMUL_DTYPES},
    suite=["matmul_best.bf16", "matmul_best.fp8"],
    budgets={"quick": 0.0, "standard": 0.0, "long": 30.0},
    peak="tflops",
    method=lambda dtype: {"procedure": "search over shapes", **sustained_method(dtype, 0, 0, 0), "shape": AS_FOUND},
    derived_floor=0.92,
    verifies="products",
    cost=Cost("matmul.{dtype}"),
)
def matmul_best(
    device: Compute,
    *,
    dtype: str = "bf16",
    shapes: Sequence[Sequence[int]] | None = None,
    published: Mapping[str, Sequence[Sequence[int]]] | None = None,
) -> ProbeResult:
    """Search for the fastest shape (m, n, k), then measure its rate in TFLOPS on fresh samples.

    The search starts from `shapes`. By default these are shapes that fill whole waves of the device's compute units,
    and the best shapes that other sources report for the dtype (`published`). The details hold the finalists, the
    number of shapes within 2 % of the best, and the rates of the anchor shapes, each from one short measurement.

    Raises NotApplicable where torch tunes products (TunableOp): each of some fifty shapes would take minutes.
    """
    if device.tunes:
        reason = "torch would choose the kernel of every shape by trying all of them (TunableOp), minutes for each"
        raise NotApplicable(f"no search over shapes: {reason}; PYTORCH_TUNABLEOP_TUNING=0 leaves that out")
    fast_paths.refuse_slow(device, dtype)
    references = [(m, n, k) for m, n, k in (published or {}).get(dtype, ())]
    candidates = [(m, n, k) for m, n, k in shapes] if shapes else _candidates(device, dtype, references)
    result = _search(device, dtype, candidates)
    m, n, k = result.winner
    gemm = Gemm(device, dtype, m, n, k)
    gemm.check()
    return ProbeResult(
        f"matmul_best.{dtype}",
        "TFLOPS",
        samples=[rate / 1e12 for rate in result.samples],
        seconds=[gemm.operations / rate for rate in result.samples],
        conditions={**gemm.conditions, "shape": shape_name(result.winner), "searched": len(result.tried)},
        details={
            "finalists": {shape_name(shape): rate / 1e12 for shape, rate in result.finalists.items()},
            "within_2_percent": result.plateau,
            "anchors": {shape_name(shape): result.tried[shape] / 1e12 for shape in ANCHORS if shape in result.tried},
        },
    )


def _search(device: Compute, dtype: str, shapes: Sequence[Shape]) -> Search:
    """Search from `shapes`, with operands that are large enough for each of them and its neighbours."""
    adjacent = {shape: _adjacent(device, shape) for shape in shapes}
    all_shapes = [*shapes, *(shape for group in adjacent.values() for shape in group)]
    operands = Operands(device, dtype, max(max(m, n) * k for m, n, k in all_shapes))
    device.gate.ready()

    @lru_cache(maxsize=2 * KEPT)
    def gemm(shape: Shape) -> Gemm:
        return Gemm(device, dtype, *shape, operands=operands)

    def rate(time_it: Callable[..., float], shape: Shape, seconds: float) -> float:
        duration = time_it(gemm(shape), device.clock, seconds)
        device.gate.report_block(duration, True)
        return gemm(shape).operations / duration

    report = partial(rate, time_one_block)
    choose = partial(rate, time_fastest) if device.is_cpu else report  # other processes interrupt a CPU only
    return search(shapes, choose, device.seconds, now=device.clock.now, report=report, neighbours=adjacent.__getitem__)


def _adjacent(device: Compute, shape: Shape) -> list[Shape]:
    """Return the neighbours of a shape, one step in every direction; on a CPU those within the searched space."""
    if not device.is_cpu:
        return neighbours(shape, (128, 128) if device.other else TILES[_architecture(device)][0])
    return [neighbour for neighbour in neighbours(shape, (128, 128)) if neighbour in CPU_SPACE]


def _candidates(device: Compute, dtype: str, references: Sequence[Shape]) -> list[Shape]:
    """Return the shapes to start with: anchors, `references`, and shapes that fill whole waves of the device."""
    if device.is_cpu:
        return spread(CPU_SPACE, FIRST)
    if device.other:
        return _fitting(device, dtype, [*ANCHORS, *references])  # the tile sizes of its kernels are not known
    units = device.backend.get_device_properties(device.torch_device).multi_processor_count
    architecture = _architecture(device)
    rate = Gemm(device, dtype, *ANCHORS[0]).rate(device.clock, 0.05)
    waves = full_waves(
        units // 2 if architecture == PAIRED else units,
        TILES[architecture],
        (OPERATION_SECONDS[0] * rate, OPERATION_SECONDS[1] * rate),
    )
    candidates = dict.fromkeys([*ANCHORS, *references, *waves])
    return _fitting(device, dtype, list(candidates))[: FIRST + len(ANCHORS) + len(references)]


def _fitting(device: Compute, dtype: str, shapes: Sequence[Shape]) -> list[Shape]:
    """Return the shapes whose operands and two results take less than an eighth of the device's memory."""
    _, total = device.backend.mem_get_info(device.torch_device)
    size = OPERAND_BYTES[dtype]
    return [(m, n, k) for m, n, k in shapes if int((m * k + k * n + 2 * m * n) * size) < total / 8]


def _architecture(device: Compute) -> str:
    """Return the key of the device's architecture in `TILES`."""
    torch = device.torch
    if torch.version.hip:
        return "hip"
    major, _ = device.backend.get_device_capability(device.torch_device)
    return f"cuda{min(10, max(8, major))}"
