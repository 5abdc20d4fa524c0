"""Operands of 8 and 4 bits whose elements share a scale in blocks along k: mxfp8, mxfp4, nvfp4.

The formats of elements and scales, and the meaning of mx, are those of the OCP Microscaling Formats specification 1.0.
nvfp4 has blocks of 16 with e4m3 scales. The product is torch.nn.functional.scaled_mm. It has not run on a GPU so far;
torch's checks of shapes, layouts and recipes have.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.torch_device import Compute

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Format:
    """A block format: `bits` of an element, its `largest` number, elements per `block`, torch type of the `scales`."""

    bits: int
    largest: float
    block: int
    scales: str

    @property
    def elements(self) -> str:
        """Torch type of the elements. For 4 bits a byte holds two elements, the first in its lower half."""
        return "float8_e4m3fn" if self.bits == 8 else "float4_e2m1fn_x2"

    @property
    def scaling(self) -> str:
        """Elements that share a scale and the type of the scale, as the method of a product states it: 1x32 e8m0."""
        kind = self.scales.removeprefix("float8_").removesuffix("fnu").removesuffix("fn")
        return f"1x{self.block} {kind}"


FORMATS = {
    "mxfp8": Format(8, 448.0, 32, "float8_e8m0fnu"),
    "mxfp4": Format(4, 6.0, 32, "float8_e8m0fnu"),
    # without a second scale for the whole tensor, which would cost an extra kernel for each call
    "nvfp4": Format(4, 6.0, 16, "float8_e4m3fn"),
}
DTYPES = (*FORMATS, "fp4")
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Numbers that 4 bits represent, by the lower three bits. The highest bit is the sign."""
TILE = (128, 4)
"""Rows and columns of the tiles in which scales are read (cuBLAS, layout of 1D block scaling factors)."""
REFUSED = ("CUBLAS_STATUS_NOT_SUPPORTED", "Invalid scaling configuration")
"""Messages of cuBLAS and torch for a product that they do not have."""
CHUNK = 2**24
"""Elements that are encoded at a time."""


def format_of(torch: Any, dtype: str) -> str:
    """Return the format of a dtype: fp4 is nvfp4 on CUDA and mxfp4 with ROCm, which has no other."""
    return ("mxfp4" if torch.version.hip else "nvfp4") if dtype == "fp4" else dtype


def refuse(device: Compute, dtype: str, shape: tuple[int, int, int]) -> None:
    """Raise NotApplicable if torch, the device or the shape does not support the format."""
    torch, (m, n, k) = device.torch, shape
    if device.is_cpu or device.other:
        raise NotApplicable(f"torch multiplies {dtype} on GPUs only")
    name = format_of(torch, dtype)
    missing_types = [kind for kind in (FORMATS[name].elements, FORMATS[name].scales) if not hasattr(torch, kind)]
    if missing_types or not hasattr(torch.nn.functional, "scaled_mm"):
        missing = f"torch.{missing_types[0]}" if missing_types else "torch.nn.functional.scaled_mm"
        raise NotApplicable(f"torch {torch.__version__} cannot multiply {name}: it has no {missing}")
    hip = bool(torch.version.hip)
    if hip and "gfx95" not in torch.cuda.get_device_properties(device.torch_device).gcnArchName:
        raise NotApplicable(f"of AMD's GPUs only gfx950 can multiply {name}")
    side, deep = (32, 128) if hip else (16, 32)
    if n % side or k % deep or (hip and m % side):
        raise NotApplicable(f"{name} on a GPU needs n in multiples of {side}, k of {deep}, not {m}x{n}x{k}")


class Blocks:
    """Two encoded flat operands, from which the operands of any product are cut."""

    def __init__(self, device: Compute, dtype: str, elements: int) -> None:
        self.name = format_of(device.torch, dtype)
        self.format = FORMATS[self.name]
        self._torch, self._where = device.torch, device.torch_device
        self._pieces = [self._piece(-(-elements // 32) * 32) for _ in range(2)]

    @property
    def conditions(self) -> dict[str, str]:
        """Format and scaling, for the conditions of a result."""
        return {"format": self.name, "scaling": self.format.scaling}

    def _piece(self, elements: int) -> tuple[Tensor, Tensor]:
        """Return the codes and scales of random elements."""
        parts = []
        for begin in range(0, elements, CHUNK):
            values = self._torch.randn(min(CHUNK, elements - begin), dtype=self._torch.float32, device=self._where)
            parts.append(encode(self._torch, self.format, values))
        codes, scales = zip(*parts, strict=True)
        return self._torch.cat(codes), self._torch.cat(scales)

    def _cut(self, piece: int, begin: int, rows: int, k: int) -> tuple[Tensor, Tensor]:
        """Return the codes and scales of `rows` x `k` elements from element `begin` on."""
        (codes, scales), fmt = self._pieces[piece], self.format
        start, size = begin * fmt.bits // 8, rows * k * fmt.bits // 8
        block, count = begin // fmt.block, rows * k // fmt.block
        return codes[start : start + size].view(rows, -1), scales[block : block + count].view(rows, -1)

    def one_set(
        self, begins: tuple[int, int], m: int, n: int, k: int
    ) -> tuple[Callable[[], Any], Callable[[int, int], Any]]:
        """Return the product of the operands that begin at `begins`, and a sample of it in fp64.

        The sample is computed from the decoded elements.
        """
        torch, fmt = self._torch, self.format
        (a, scale_a), (b, scale_b) = self._cut(0, begins[0], m, k), self._cut(1, begins[1], n, k)
        functional = torch.nn.functional
        recipe = getattr(functional.ScalingType, f"BlockWise1x{fmt.block}")
        swizzle = functional.SwizzleType.NO_SWIZZLE if torch.version.hip else functional.SwizzleType.SWIZZLE_32_4_4
        ready_a, ready_b = (
            (scale.contiguous() if torch.version.hip else swizzled(torch, scale)).view(getattr(torch, fmt.scales))
            for scale in (scale_a, scale_b)
        )
        kind = getattr(torch, fmt.elements)
        left, right = a.view(kind), b.view(kind).t()

        def call() -> object:
            return functional.scaled_mm(
                left, right, ready_a, recipe, ready_b, recipe, swizzle, swizzle, output_dtype=torch.bfloat16
            )

        def sample(rows: int, columns: int) -> Any:
            parts = (
                decode(torch, fmt, a[::rows], scale_a[::rows]),
                decode(torch, fmt, b[::columns], scale_b[::columns]),
            )
            return parts[0] @ parts[1].t()

        return call, sample


def attempt(call: Callable[[], Any], name: str) -> None:
    """Call a product once. Raises NotApplicable if torch or cuBLAS has not implemented it, or not with these scales.

    That is not a fault of the device. With ROCm 7.13 and later, torch refuses the order of the scales that it took
    before (aten/src/ATen/native/cuda/ScaledBlas.cpp, is_blockwise_1x32_scaling).
    """
    try:
        call()
    except (RuntimeError, ValueError) as error:  # NotImplementedError is one of the former
        text = str(error).strip().splitlines()[0]
        if isinstance(error, NotImplementedError) or any(words in text for words in REFUSED):
            raise NotApplicable(f"this torch cannot multiply {name} on this device: {text}") from None
        raise


def encode(torch: Any, fmt: Format, values: Tensor) -> tuple[Tensor, Tensor]:
    """Return elements and scales as bytes. A scale brings the largest element of its block close to `largest`."""
    blocks = values.view(-1, fmt.block)
    ideal = blocks.abs().amax(1, keepdim=True).div_(fmt.largest).clamp_(min=2.0**-6)
    if fmt.scales == "float8_e8m0fnu":
        ideal = torch.exp2(torch.ceil(torch.log2(ideal)))
    scales = ideal.to(getattr(torch, fmt.scales))
    scaled = (blocks / scales.float()).clamp_(-fmt.largest, fmt.largest).flatten()
    if fmt.bits == 8:
        return scaled.to(torch.float8_e4m3fn).view(torch.uint8), scales.view(torch.uint8).flatten()
    middles = torch.tensor([(low + high) / 2 for low, high in itertools.pairwise(E2M1)], device=values.device)
    codes = torch.bucketize(scaled.abs(), middles, out_int32=True).to(torch.uint8) | ((scaled < 0).to(torch.uint8) << 3)
    return codes[::2] | (codes[1::2] << 4), scales.view(torch.uint8).flatten()


def decode(torch: Any, fmt: Format, codes: Tensor, scales: Tensor) -> Tensor:
    """Return the numbers that rows of elements and their scales represent, in fp64."""
    if fmt.bits == 8:
        numbers = codes.contiguous().view(torch.float8_e4m3fn).double()
    else:
        table = torch.tensor([*E2M1, *(-number for number in E2M1)], dtype=torch.float64, device=codes.device)
        numbers = torch.stack((table[(codes & 15).long()], table[(codes >> 4).long()]), -1).flatten(1)
    factors = scales.contiguous().view(getattr(torch, fmt.scales)).double()
    decoded: Tensor = numbers * factors.repeat_interleave(fmt.block, 1)
    return decoded


def swizzled(torch: Any, scales: Tensor) -> Tensor:
    """Return scales in the order in which Blackwell reads them: in a tile of 128 x 4, row 32 i + j is at 16 j + 4 i."""
    rows, columns = (-(-size // tile) for size, tile in zip(scales.shape, TILE, strict=True))
    padded = torch.zeros(rows * TILE[0], columns * TILE[1], dtype=scales.dtype, device=scales.device)
    padded[: scales.shape[0], : scales.shape[1]] = scales
    swapped: Tensor = padded.view(rows, 4, 32, columns, 4).permute(0, 3, 2, 1, 4).flatten()
    return swapped
