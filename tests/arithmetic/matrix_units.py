"""Models of matrix units: how a unit sums the products along k, to the last bit.

They follow what MMA-Sim describes (arXiv 2511.10909), and tests/real/matrix_units.json has results of MMA-Sim that they
are held against. They are models of the arithmetic of a unit, never the unit.

Numbers are fp64 tensors that hold the numbers of the unit's own types exactly. A step is one instruction: it adds the
products of a and b (..., k) to accumulators c (...). `scales` are those of blocks along k, (..., k / block) each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

Step = Callable[..., Tensor]

LEAST_EXPONENT = {"fp32": -126, "tf32": -126, "bf16": -126, "fp16": -14, "e4m3": -6, "e4m3fnuz": -7, "e2m1": 0}
"""Exponent of the smallest normal number, which subnormal ones share."""
ZERO_EXPONENT = -126
"""Exponent of zero, as the unit takes it."""
FP64_BITS, FP64_BIAS = 52, 1023


class Operand(NamedTuple):
    """Rows of numbers along k, and the scales of their blocks where the format has some."""

    numbers: Tensor
    scales: Tensor | None = None


@dataclass(frozen=True)
class Unit:
    """A unit and a kernel that uses it: `depth` products an instruction."""

    name: str
    step: Step
    depth: int
    promoted: int = 0
    """After so many products the sum is added to another one in fp32 and begun anew; 0: never."""
    parts: int = 1
    """Parts of k that are summed by themselves (split-k)."""
    partial: torch.dtype = torch.float32
    """Dtype of the sums of the parts."""

    def product(self, a: Operand, b: Operand) -> Tensor:
        """Return the accumulators of A (m x k) times the transpose of B (n x k), in fp64 (m x n)."""
        k = a.numbers.shape[1]
        edges = [k * part // self.parts // self.depth * self.depth for part in range(self.parts)]
        sums = [self._part(a, b, begin, end) for begin, end in zip(edges, [*edges[1:], k], strict=True)]
        total = sums[0].to(self.partial).double() if self.parts > 1 else sums[0]
        for found in sums[1:]:
            total = nearest(total + found.to(self.partial).double())
        return total

    def _part(self, a: Operand, b: Operand, begin: int, end: int) -> Tensor:
        """Return the sums over the products `begin` to `end`."""
        k, shape = a.numbers.shape[1], (a.numbers.shape[0], b.numbers.shape[0])
        total = promoted = torch.zeros(shape, dtype=torch.float64)
        for at in range(begin, end, self.depth):
            block = slice(at, min(at + self.depth, end))
            operands = a.numbers[:, None, block], b.numbers[None, :, block]
            if a.scales is None or b.scales is None:
                total = self.step(*operands, total)
            else:
                per_scale = k // a.scales.shape[1]
                share = slice(at // per_scale, block.stop // per_scale)
                total = self.step(*operands, total, (a.scales[:, None, share], b.scales[None, :, share]))
            if self.promoted and (block.stop - begin) % self.promoted == 0:
                promoted, total = nearest(promoted + total), torch.zeros_like(total)
        return nearest(promoted + total) if self.promoted else total

    def with_step(self, changed: Callable[[Tensor], Tensor]) -> Unit:
        """Return the unit with its accumulators changed after each instruction."""
        return replace(self, step=lambda *operands: changed(self.step(*operands)))


# -- numbers


def nearest(numbers: Tensor) -> Tensor:
    """Round to the nearest number of fp32."""
    return numbers.float().double()


def cut_off(numbers: Tensor, bits: int) -> Tensor:
    """Truncate to `bits` bits behind the leading one."""
    kept = -(1 << (FP64_BITS - bits))
    return (numbers.view(torch.int64) & kept).view(torch.float64)


def to_tf32(numbers: Tensor) -> Tensor:
    """Truncate operands to the ten bits of tf32."""
    return cut_off(numbers, 10)


def power(exponents: Tensor) -> Tensor:
    """Return two to the power of whole numbers, exactly."""
    return ((exponents.long() + FP64_BIAS) << FP64_BITS).view(torch.float64)


def exponent(numbers: Tensor, kind: str) -> Tensor:
    """Return the exponent of numbers of a type."""
    found = (numbers.contiguous().view(torch.int64) >> FP64_BITS & 2047) - FP64_BIAS
    return torch.where(numbers == 0, ZERO_EXPONENT, found.clamp(min=LEAST_EXPONENT[kind]))


def aligned(numbers: Tensor, lowest: Tensor, rounding: Callable[[Tensor], Tensor] = torch.trunc) -> Tensor:
    """Cut numbers to multiples of two to the power `lowest`."""
    return rounding(numbers * power(-lowest)) * power(lowest)


# -- steps of units of CUDA


def chain(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Add fused products one after the other in fp32: CUDA cores, and MFMA of fp32. fp64 holds a product exactly."""
    for at in range(a.shape[-1]):
        c = nearest(a[..., at] * b[..., at] + c)
    return c


def chain_of_fp64(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Add products one after the other in fp64. Each product is rounded, so that it errs more than a fused one."""
    for at in range(a.shape[-1]):
        c = a[..., at] * b[..., at] + c
    return c


def fused(kind: str, bits: int, *, kept: int = 23, group: int = 0) -> Step:
    """Tensor cores: products and accumulator are cut `bits` bits below the largest exponent, summed exactly, and cut.

    `kept` bits stay behind the leading one of the sum. `group` products are summed at a time; 0: all of a step.
    """

    def add(a: Tensor, b: Tensor, c: Tensor, scale: Tensor | None) -> Tensor:
        products, exponents = a * b, exponent(a, kind) + exponent(b, kind)
        if scale is not None:
            products, exponents = products * scale, exponents + exponent(scale, "fp32")
        own = exponent(c, "fp32")
        lowest = torch.maximum(exponents.amax(-1), own) - bits
        return cut_off(aligned(products, lowest[..., None]).sum(-1) + aligned(c, lowest), kept)

    def step(a: Tensor, b: Tensor, c: Tensor, scales: tuple[Tensor, Tensor] | None = None) -> Tensor:
        if kind == "tf32":
            a, b = to_tf32(a), to_tf32(b)
        scale = scales[0] * scales[1] if scales else None
        for at in range(0, a.shape[-1], group or a.shape[-1]):
            part = slice(at, at + (group or a.shape[-1]))
            c = add(a[..., part], b[..., part], c, scale)
        return c

    return step


def fused_fp4(a: Tensor, b: Tensor, c: Tensor, scales: tuple[Tensor, Tensor]) -> Tensor:
    """Tensor cores of Blackwell, 4 bits: exact sums of 16 products, times their scales, are aligned and summed."""
    products = a * b
    sums = products.view(*products.shape[:-1], -1, 16).sum(-1)
    left, right = (scale.repeat_interleave(sums.shape[-1] // scale.shape[-1], -1) for scale in scales)
    kind = "e4m3" if a.shape[-1] // scales[0].shape[-1] == 16 else "fp32"
    exponents, own = exponent(left, kind) + exponent(right, kind), exponent(c, "fp32")
    lowest = torch.maximum(exponents.amax(-1), own) - 35
    return cut_off(aligned(sums * left * right, lowest[..., None]).sum(-1) + aligned(c, lowest), 23)


# -- steps of units of AMD


def flushed(numbers: Tensor, kind: str) -> Tensor:
    """Replace subnormal numbers by zero of their sign."""
    return torch.where(numbers.abs() < 2.0 ** LEAST_EXPONENT[kind], numbers * 0, numbers)


def pairwise(kind: str, group: int) -> Step:
    """CDNA2: products in fp32, summed in pairs within groups and then to the accumulator; subnormals are flushed."""

    def step(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        a, b, c = flushed(a, kind), flushed(b, kind), flushed(c, "fp32")
        for at in range(0, a.shape[-1], group):
            sums = nearest(a[..., at : at + group] * b[..., at : at + group])
            while sums.shape[-1] > 1:
                sums = flushed(nearest(sums[..., 0::2] + sums[..., 1::2]), "fp32")
            c = flushed(nearest(c + sums[..., 0]), "fp32")
        return c

    return step


def rounded_down(kind: str, group: int) -> Step:
    """CDNA3: the sum of a group and the accumulator are cut downwards at the larger exponent, added, and rounded."""

    def summed(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        exponents = exponent(a, kind) + exponent(b, kind)
        top = exponents.amax(-1)
        return aligned(a * b, top[..., None] - 24).sum(-1), top

    def step(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        if kind == "tf32":
            a, b = to_tf32(a), to_tf32(b)
        for at in range(0, a.shape[-1], group):
            left, right, own = a[..., at : at + group], b[..., at : at + group], exponent(c, "fp32")
            kept = torch.ones_like(own, dtype=torch.bool)
            if kind == "e4m3fnuz":  # even and odd products by themselves
                halves = [summed(left[..., odd::2], right[..., odd::2]) for odd in (0, 1)]
                top = torch.maximum(halves[0][1], halves[1][1])
                total = sum((aligned(part, top - 24, torch.floor) for part, _ in halves), torch.zeros_like(c))
                kept = own >= torch.maximum(top, own) - 25
            else:
                total, top = summed(left, right)
            top = torch.maximum(top, own)
            total = aligned(total, top - 31, torch.floor)
            c = nearest(total + torch.where(kept, aligned(c, top - 24, torch.floor), 0.0))
        return c

    return step


HOPPER, BLACKWELL = "H100, H200", "B200, RTX Blackwell"
UNITS: dict[str, list[Unit]] = {
    "fp64": [Unit("every unit", chain_of_fp64, 32)],
    "fp32": [
        Unit("CUDA cores, MFMA of MI250X and MI300X", chain, 32),
        Unit("the same, split-k 4", chain, 32, parts=4),
    ],
    "tf32": [
        Unit("A100, Ada", fused("tf32", 24, group=4), 8),
        Unit(f"{HOPPER}, {BLACKWELL}", fused("tf32", 25), 8),
        Unit(f"{HOPPER}, split-k 8", fused("tf32", 25), 8, parts=8),
        Unit("MI300X (xf32)", rounded_down("tf32", 4), 16),
    ],
    "bf16": [
        Unit("A100, Ada", fused("bf16", 24, group=8), 16),
        Unit(f"{HOPPER}, {BLACKWELL}", fused("bf16", 25), 16),
        Unit(f"{HOPPER}, split-k 8", fused("bf16", 25), 16, parts=8),
        Unit("MI250X", pairwise("bf16", 4), 16),
        Unit("MI300X", rounded_down("bf16", 8), 16),
    ],
    "fp16": [
        Unit("V100", fused("fp16", 23), 4),
        Unit("T4", fused("fp16", 24), 8),
        Unit("A100, Ada", fused("fp16", 24, group=8), 16),
        Unit(f"{HOPPER}, {BLACKWELL}", fused("fp16", 25), 16),
        Unit("MI250X", pairwise("fp16", 4), 16),
        Unit("MI300X", rounded_down("fp16", 8), 16),
    ],
    "fp8": [
        Unit(f"{HOPPER}, promoted every 128", fused("e4m3", 13, kept=13), 32, promoted=128),
        Unit(f"{HOPPER}, promoted every 512", fused("e4m3", 13, kept=13), 32, promoted=512),
        Unit("Ada, promoted every 128", fused("e4m3", 13, kept=13, group=16), 32, promoted=128),
        Unit("Ada, never promoted", fused("e4m3", 13, kept=13, group=16), 32),
        Unit(BLACKWELL, fused("e4m3", 25), 32),
        Unit("MI300X", rounded_down("e4m3fnuz", 16), 32),
    ],
    "mxfp8": [Unit(BLACKWELL, fused("e4m3", 25), 32)],
    "mxfp4": [Unit(BLACKWELL, fused_fp4, 64)],
    "nvfp4": [Unit(BLACKWELL, fused_fp4, 64)],
    "int8": [Unit("every unit", chain_of_fp64, 8192)],
}
"""Units by dtype. Splits of k and the distance of promotions are assumed: cuBLAS does not state its own."""
