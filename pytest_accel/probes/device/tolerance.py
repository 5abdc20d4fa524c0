"""The largest error that a matrix product of a healthy device may have, by what its unit does with k products.

The operands have deviation 1, so the elements of a product have deviation sqrt(k). The figures were held against models
of the units (tests/arithmetic), never against a unit, and against the largest errors that PyTorch's notes on CUDA state
for a GA100. docs/checks.md has the reasons.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_accel.probes.device import block_formats
from pytest_accel.probes.device.torch_device import Compute

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Tolerance:
    """The largest errors of a unit that is healthy; the error of an element is at most their sum."""

    lost: float = 0.0
    """Bits that operands, products and partial sums lose, as a share of sqrt(k)."""
    chained: float = 0.0
    """Rounding of a sum that takes one product after the other, as a share of k: an error of sqrt(k) roundings of a sum
    whose deviation is up to sqrt(k)."""
    rounded: float = 0.0
    """Rounding of an element to the dtype of the result, as a share of the element: half the distance to its neighbour.
    """

    def allowed(self, k: int, expected: Tensor) -> Tensor:
        """Return the largest error of each element of a product over `k`; `expected` is the exact product."""
        bound: Tensor = self.lost * k**0.5 + self.chained * k + self.rounded * expected.abs()
        return bound


TOLERANCES = {
    "fp64": Tolerance(lost=1e-12, rounded=2**-53),
    # A chain exceeds it in 3e-16 of the elements, for any k up to 33024; other orders err less. tf32 in its place errs
    # 57 times as much.
    "fp32": Tolerance(chained=10 * 2**-24, rounded=2**-24),
    "tf32": Tolerance(lost=8e-3, rounded=2**-24),  # 13 bits of each operand, cut off
    "bf16": Tolerance(lost=1e-3, rounded=2**-8),  # sums have the bits of fp32, cut off
    "fp16": Tolerance(lost=1e-3, rounded=2**-11),
    "fp8": Tolerance(lost=5e-3, rounded=2**-8),  # Hopper sums 13 bits, and adds these sums in fp32
    "int8": Tolerance(),
    **dict.fromkeys(block_formats.DTYPES, Tolerance(lost=1e-3, rounded=2**-8)),
}
"""Tolerances of modelled units, by dtype. Results of fp8 and of formats with scaled blocks are in bf16."""
UNKNOWN = {"bf16": 2e-2, "fp16": 4e-3, "fp8": 2e-2, **dict.fromkeys(block_formats.DTYPES, 2e-2)}
"""`lost` where the arithmetic is not known: partial sums may be rounded to the dtype of the operands."""

ADA = (8, 9)
"""Compute capability whose unit sums products of fp8 in 13 bits. No card has shown that libraries add these sums in
fp32."""


def tolerance(device: Compute, dtype: str) -> Tolerance:
    """Return the tolerance of a device for the products of a dtype.

    The models cover units of CUDA. No other device was measured: with ROCm, torch's switches do not reach hipBLASLt,
    and other libraries may sum in any way.
    """
    if device.is_cpu or device.other or device.torch.version.hip:
        return unknown(dtype)
    if dtype == "fp8" and device.backend.get_device_capability(device.torch_device) == ADA:
        return replace(unknown(dtype), chained=2 * 2**-13)
    return TOLERANCES[dtype]


def unknown(dtype: str) -> Tolerance:
    """Return the tolerance of a product whose sums the library may round as it likes."""
    return replace(TOLERANCES[dtype], lost=UNKNOWN.get(dtype, TOLERANCES[dtype].lost))
