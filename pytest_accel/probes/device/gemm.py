"""The operands and the call of one matrix product, and the check of its result."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pytest_accel.core.method import AS_FOUND
from pytest_accel.core.sku_types import MATMUL_DTYPES
from pytest_accel.probes.device import blas, block_formats
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult, main_line
from pytest_accel.probes.device.timing import Clock, time_one_block
from pytest_accel.probes.device.tolerance import tolerance
from pytest_accel.probes.device.torch_device import Compute

if TYPE_CHECKING:
    from torch import Tensor

Sample = Callable[[int, int], Any]

OPERAND_BYTES: dict[str, float] = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
OPERAND_BYTES |= {"mxfp8": 1, "fp4": 0.5, "nvfp4": 0.5, "mxfp4": 0.5}
RESULT_BYTES = {**OPERAND_BYTES, "fp8": 2, "int8": 4, **dict.fromkeys(block_formats.DTYPES, 2)}
_ALIGNED = 256
"""Elements. Every operand begins at a multiple of this number, as kernels that use vector loads require."""
CHECKED_SIDE = 64
"""Approximate number of rows, and of columns, of a product that are checked."""
TILES, GROUP = (64, 128, 192, 256), 8
"""Sides of the tiles in which kernels compute a product, and rows or columns of a tile that one instruction computes at
least (PTX ISA, shapes of mma and wgmma)."""
STEPS = 12
"""Odd distances of checked rows that are compared before shorter ones."""

CAPABILITY = {
    "tf32": (8, 0),
    "bf16": (8, 0),
    "fp8": (8, 9),
    "int8": (7, 5),
    **dict.fromkeys(block_formats.DTYPES, (10, 0)),
}
"""First CUDA compute capability whose tensor cores support the dtype (CUDA C++ programming guide)."""
TRIED_SIDE = 64
"""Side of the product that shows whether a library supports a dtype at all."""
MULTIPLE_OF = {"fp8": 16, "int8": 8}
"""Number that n and k have to be multiples of on a GPU, for torch._scaled_mm and torch._int_mm."""
SPLIT = 128
"""Side of the tiles, and a multiple of the steps along k, of cuBLAS. With fewer tiles than SMs it splits the sums, and
versions 12 and 13 may lose what is left of k behind the last step (facebookexperimental/triton#2767). Assumed: sums of
two steps are not split."""
COLUMN_MAJOR = ("fp8", "int8", *block_formats.DTYPES)
"""Dtypes whose kernels require that B lies column by column."""


def method_of(dtype: str) -> dict[str, Any]:
    """Return layout, data, accumulation and scaling of a `Gemm`, in the words of a method."""
    method = {
        "layout": "TN" if dtype in COLUMN_MAJOR else "row-major",
        "data": "uniform -128..127" if dtype == "int8" else "normal(0, 1)",
        "accumulation": blas.accumulation(dtype),
    }
    formats = {name: entry.scaling for name, entry in block_formats.FORMATS.items()}
    scaling = {"fp8": "tensor", "fp4": AS_FOUND, **formats}.get(dtype)
    return {**method, **({"scaling": scaling} if scaling else {})}


def shape_name(shape: Sequence[int]) -> str:
    """Return a shape as "8192x8192x8192": m, n, k."""
    return "x".join(map(str, shape))


class Operands:
    """Random operands, made once in two flat pieces from which the operands of any product are cut.

    `largest` is the number of elements of the largest operand. The pieces are large enough for as many sets as exceed
    the last-level cache. The data are normally distributed with mean 0 and deviation 1; for int8 uniform from -128 to
    127; for fp8 (e4m3) scaled so that the largest element is the largest number of the format, in block formats for
    each block.
    """

    def __init__(self, device: Compute, dtype: str, largest: int) -> None:
        self.dtype = dtype
        self.scales: tuple[Any, Any] | None = None
        self._device = device
        self.blocks: block_formats.Blocks | None = None
        elements = largest + int(4 * device.cache_bytes / OPERAND_BYTES[dtype]) + _ALIGNED
        self._elements = elements
        if dtype in block_formats.DTYPES:
            piece = (OPERAND_BYTES[dtype] + 1 / 16) * elements  # with scales
            device.require_memory(int(3 * piece) + 24 * block_formats.CHUNK)  # a piece is concatenated from its parts
            self.blocks = block_formats.Blocks(device, dtype, elements)
            return
        device.require_memory(int(2 * elements * (OPERAND_BYTES[dtype] + 4)))
        pieces = [self._piece(elements) for _ in range(2)]
        if dtype == "fp8":
            self.scales = (pieces[0][1], pieces[1][1])
        self._a, self._b = pieces[0][0], pieces[1][0]

    def _piece(self, elements: int) -> tuple[Tensor, Any]:
        """Return random elements and, for fp8, their scale."""
        torch, torch_device = self._device.torch, self._device.torch_device
        if self.dtype == "int8":
            return torch.randint(-128, 128, (elements,), dtype=torch.int8, device=torch_device), None
        kind = torch_dtype(self._device, self.dtype)
        drawn = kind if self.dtype == "fp64" else torch.float32  # or the lower half of each number would be zeros
        piece = torch.randn(elements, dtype=drawn, device=torch_device)
        if self.dtype != "fp8":
            return piece.to(kind), None
        scale = piece.abs().max() / torch.finfo(kind).max
        return (piece / scale).to(kind), scale

    def cut(self, index: int, m: int, n: int, k: int) -> tuple[Tensor, Tensor]:
        """Return A (m x k) and B (k x n) of set number `index`.

        B is column-major for fp8 and int8, as their kernels require.
        """
        a, b = (self._operand(piece, index, size) for piece, size in ((self._a, m * k), (self._b, n * k)))
        return a.view(m, k), b.view(n, k).t() if self.dtype in COLUMN_MAJOR else b.view(k, n)

    def _operand(self, piece: Tensor, index: int, size: int) -> Tensor:
        """Return operand number `index` of `size` elements."""
        begin = self.begin(index, size)
        return piece[begin : begin + size]

    def begin(self, index: int, size: int) -> int:
        """Return the index of the first element of operand number `index` of `size` elements."""
        step = -(-size // _ALIGNED) * _ALIGNED
        room = (self._elements - size) // _ALIGNED * _ALIGNED + _ALIGNED
        return index * step % room


class Gemm:
    """A matrix product C = A B that can be called repeatedly. It uses `sets` operand sets in turn."""

    def __init__(
        self, device: Compute, dtype: str, m: int, n: int, k: int, *, operands: Operands | None = None
    ) -> None:
        if dtype not in MATMUL_DTYPES:
            raise NotApplicable(f"dtype {dtype} is not supported by this probe (supported: {', '.join(MATMUL_DTYPES)})")
        self.device, self.dtype, self.shape = device, dtype, (m, n, k)
        refuse_unsupported(device, dtype, self.shape)
        if dtype in block_formats.DTYPES:
            block_formats.refuse(device, dtype, self.shape)
        self.operations = 2 * m * n * k
        self.tolerance = tolerance(device, dtype)
        set_bytes = OPERAND_BYTES[dtype] * (m * k + k * n) + RESULT_BYTES[dtype] * m * n
        self.sets = max(1, math.ceil(4 * device.cache_bytes / set_bytes))
        if device.other:
            _try(device, dtype)
        self._operands = operands or Operands(device, dtype, max(m * k, n * k))
        if operands is None:  # a caller that shares operands has checked that they fit
            device.require_memory(int(self.sets * RESULT_BYTES[dtype] * m * n))
        torch = device.torch
        blas.settle(torch, dtype, device.is_cpu or device.other)
        self._calls = [self._one_set(index) for index in range(self.sets)]
        self._turn = itertools.cycle([call for call, _ in self._calls])
        if self._operands.blocks:
            block_formats.attempt(self.fixed(), self._operands.blocks.name)
        elif device.is_cpu and dtype == "fp8":  # torch 2.6 multiplies it on GPUs only
            block_formats.attempt(self.fixed(), dtype)
        device.tune(self.fixed())

    def __call__(self) -> object:
        """Multiply the next operand set."""
        return next(self._turn)()

    @property
    def conditions(self) -> dict[str, Any]:
        """Conditions of a result, which affect its rate; see `matmul`."""
        m, n, k = self.shape
        method = {key: value for key, value in method_of(self.dtype).items() if key != "accumulation"}
        conditions = {"dtype": self.dtype, "m": m, "n": n, "k": k, "operand_sets": self.sets, **method}
        conditions.update(self._operands.blocks.conditions if self._operands.blocks else {})
        device = self.device
        return {**conditions, **device.blas, **blas.conditions(device.torch, self.dtype, device.is_cpu or device.other)}

    def rate(self, clock: Clock, seconds: float, blocks: int = 1) -> float:
        """Return operations per second, the best of some blocks of so many seconds. It only chooses, for no result."""
        # the best, since a busy processor often interrupts one block
        return self.operations / min(time_one_block(self, clock, seconds) for _ in range(blocks))

    def fixed(self) -> Callable[[], Any]:
        """Return the call of the first operand set, which has the same operands, kernel and result every time."""
        return self._calls[0][0]

    def _one_set(self, index: int) -> tuple[Callable[[], Any], Sample]:
        """Return the call of operand set number `index`, and a sample of its exact product."""
        device, scales, (m, n, k) = self.device, self._operands.scales, self.shape
        if self._operands.blocks:
            begins = self._operands.begin(index, m * k), self._operands.begin(index, n * k)
            return self._operands.blocks.one_set(begins, m, n, k)
        a, b = self._operands.cut(index, m, n, k)
        return _call(device, a, b, scales), _sample(device, a, b, (scales[0] * scales[1]).item() if scales else 1.0)

    def check(self) -> None:
        """Compare a sample of the product of every operand set with the same product in fp64. Raises WrongResult."""
        m, n, k = self.shape
        rows, columns = checked_step(m), checked_step(n)
        for index, (call, sample) in enumerate(self._calls):
            expected = sample(rows, columns)
            spoil(call())  # the next call writes there, also where it allocates its result
            actual = self.device.comparable(call()[::rows, ::columns]).double()
            label = f"{self.dtype} {shape_name(self.shape)}: operand set {index}"
            refuse_wrong(actual, expected, self.tolerance.allowed(k, expected), label)


def refuse_unsupported(device: Compute, dtype: str, shape: tuple[int, int, int]) -> None:
    """Raise NotApplicable if the GPU does not support the dtype, or torch the shape. Does nothing for a CPU."""
    torch, (m, n, k) = device.torch, shape
    if device.is_cpu or device.other:
        return  # for other libraries `_try` finds out with a small product
    capability = device.backend.get_device_capability(device.torch_device)
    if not torch.version.hip and capability < CAPABILITY.get(dtype, (0, 0)):
        raise NotApplicable(f"compute capability {capability[0]}.{capability[1]} has no {dtype} matmul")
    multiple = MULTIPLE_OF.get(dtype, 1)
    if n % multiple or k % multiple or (dtype == "int8" and m <= 16):
        text = f"n and k in multiples of {multiple}{', m over 16' if dtype == 'int8' else ''}"
        raise NotApplicable(f"{dtype} on a GPU needs {text}, not {m}x{n}x{k}")
    if k > 2 * SPLIT and k % SPLIT and not torch.version.hip:
        units = device.backend.get_device_properties(device.torch_device).multi_processor_count
        if math.ceil(m / SPLIT) * math.ceil(n / SPLIT) < units:
            text = f"k in multiples of {SPLIT}: cuBLAS splits the sums of so few tiles, and may lose the rest of k"
            raise NotApplicable(f"{m}x{n}x{k} needs {text}")


def refuse_wrong(actual: Tensor, expected: Tensor, bound: Tensor, label: str) -> None:
    """Raise WrongResult if an element of `actual` is further from `expected` than `bound`, or is no number."""
    error = (actual - expected).abs()
    passes = error <= bound
    if not bool(passes.all()):
        share = f"in {error.numel() - int(passes.sum())} of {error.numel()} checked elements"
        raise WrongResult(f"{label} is off by {error.max().item():.4g} from the product in fp64, {share}")


def spoil(result: Tensor) -> None:
    """Fill a result with what no product holds, so that a call that writes nothing is seen."""
    result.fill_(math.nan if result.is_floating_point() else -(2**31))


@lru_cache
def checked_step(side: int) -> int:
    """Return the distance of the rows, or of the columns, of a product that are checked.

    A fault of a part of each tile is seen only if that part is checked: of some odd distances the first one that misses
    the fewest groups of rows within tiles.
    """

    def missed(step: int) -> int:
        hit = sum(len({row % tile // GROUP for row in range(0, side, step)}) for tile in TILES)
        return sum(tile // GROUP for tile in TILES) - hit

    middle = side // CHECKED_SIDE | 1
    distance: int = min((*range(middle, middle + 2 * STEPS, 2), *range(middle - 2, 0, -2)), key=missed)
    return distance


def _call(device: Compute, a: Tensor, b: Tensor, scales: tuple[Any, Any] | None) -> Callable[[], Any]:
    """Return a call that multiplies two operands."""
    torch = device.torch
    if a.dtype == torch.int8:
        return lambda: torch._int_mm(a, b)  # noqa: SLF001  the only int8 matmul that torch has
    if scales:
        return lambda: torch._scaled_mm(  # noqa: SLF001  the public name is newer than torch 2.6
            a, b, scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16, use_fast_accum=False
        )
    c = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype, device=device.torch_device)
    return lambda: torch.mm(a, b, out=c)


def _try(device: Compute, dtype: str) -> None:
    """Multiply two small matrices, for a library whose dtypes no table lists. Raises NotApplicable with its message."""
    torch, torch_device = device.torch, device.torch_device
    try:
        kind = torch.int8 if dtype == "int8" else torch_dtype(device, dtype)
        square = torch.ones(TRIED_SIDE, TRIED_SIDE, device=torch_device).to(kind)
        scale = torch.ones((), device=torch_device)
        _call(device, square, square.t(), (scale, scale) if dtype == "fp8" else None)()
        device.synchronize()
    except (RuntimeError, NotImplementedError, TypeError, AttributeError) as error:
        text = f"{device.backend.name} cannot multiply {dtype}: {main_line(error)}"
        raise NotApplicable(text) from None


def torch_dtype(device: Compute, dtype: str) -> Any:
    """Return the torch type of the operands."""
    torch, torch_device = device.torch, device.torch_device
    if dtype == "fp8":
        gfx94 = bool(torch.version.hip) and "gfx94" in device.backend.get_device_properties(torch_device).gcnArchName
        return torch.float8_e4m3fnuz if gfx94 else torch.float8_e4m3fn
    return {"fp64": torch.float64, "bf16": torch.bfloat16, "fp16": torch.float16}.get(dtype, torch.float32)


def _sample(device: Compute, a: Tensor, b: Tensor, scale: float) -> Sample:
    """Return a function (rows, columns): every `rows`-th row and `columns`-th column of scale * A B in fp64."""
    return lambda rows, columns: (
        scale * (double(device.comparable(a[::rows])) @ double(device.comparable(b[:, ::columns])))
    )


def double(part: Tensor) -> Tensor:
    """Return an operand, or a result in fp8, in fp64, converted through fp32 where torch has no direct conversion."""
    return part if part.element_size() == 8 else part.float().double()
