"""The check of a product sees these faults of a unit. The units are models (matrix_units.py)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

pytest.importorskip("torch")

import torch
from matrix_units import HOPPER, UNITS, Unit, cut_off
from modelled import Changed, device_with, margins, same, skip_without
from torch import Tensor

from pytest_accel.probes.device.error_class import WrongResult
from pytest_accel.probes.device.gemm import Gemm

PLACE = 4096
"""Place along k of what is lost."""


@dataclass(frozen=True)
class Seen:
    """The faults of products over 8192 that the check sees.

    `lost` is the share of the checked elements that are out of tolerance if every element has lost one product: what
    one multiplier less loses is more. `accumulator` is a number of bits of sums that is seen as too few. `mantissa`
    is the number of bits of an operand behind the leading one; `stuck` tells whether the lowest of A is seen if it is
    always 0. `bit` is the lowest bit of an element of median size that is seen if it flips.
    """

    lost: float
    accumulator: int
    mantissa: int
    stuck: bool
    bit: int


FAULTS = {
    "fp32": Seen(lost=0.95, accumulator=20, mantissa=23, stuck=False, bit=11),
    "tf32": Seen(lost=0.27, accumulator=16, mantissa=10, stuck=False, bit=18),
    "bf16": Seen(lost=0.50, accumulator=16, mantissa=7, stuck=True, bit=1),
    "fp16": Seen(lost=0.70, accumulator=17, mantissa=10, stuck=True, bit=3),
    "fp8": Seen(lost=0.22, accumulator=8, mantissa=3, stuck=True, bit=2),
    "mxfp8": Seen(lost=0.45, accumulator=15, mantissa=3, stuck=True, bit=1),
    "nvfp4": Seen(lost=0.45, accumulator=14, mantissa=1, stuck=True, bit=1),
}
"""A little below what one seed shows. Hopper sums products of fp8 in 13 bits by design."""
DTYPES = [pytest.param(dtype, marks=() if dtype == "bf16" else pytest.mark.nightly) for dtype in FAULTS]


def unit_of(dtype: str) -> Unit:
    """Return the unit of an H100, or of a B200 for formats with blocks."""
    return next((unit for unit in UNITS[dtype] if unit.name.startswith(HOPPER)), UNITS[dtype][0])


def share_seen(dtype: str, unit: Unit, operand: Changed = same) -> float:
    """Return the share of the checked elements that are out of tolerance."""
    skip_without(dtype)
    torch.manual_seed(0)
    with margins(), pytest.MonkeyPatch.context() as monkeypatch:
        try:
            Gemm(device_with(unit, monkeypatch, operand=operand), dtype, 64, 64, 8192).check()
        except WrongResult as wrong:
            count, of = re.findall(r"(\d+) of (\d+) checked elements", str(wrong))[0]
            return int(count) / int(of)
    return 0.0


def without(where: slice) -> Changed:
    """Return a change that makes columns of A zero."""

    def changed(numbers: Tensor) -> Tensor:
        numbers = numbers.clone()
        numbers[:, where] = 0
        return numbers

    return changed


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_product_that_is_lost_is_seen(dtype: str) -> None:
    assert share_seen(dtype, unit_of(dtype), without(slice(PLACE, PLACE + 1))) >= FAULTS[dtype].lost


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", FAULTS)
def test_sums_of_too_few_bits_are_seen(dtype: str) -> None:
    assert share_seen(dtype, unit_of(dtype).with_step(lambda sums: cut_off(sums, FAULTS[dtype].accumulator))) > 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_stuck_bit_of_an_operand_is_seen_unless_the_dtype_hides_it(dtype: str) -> None:
    seen = share_seen(dtype, unit_of(dtype), lambda numbers: cut_off(numbers, FAULTS[dtype].mantissa - 1))
    assert (seen > 0) is FAULTS[dtype].stuck


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_lowest_bits_of_a_result_are_seen_down_to_its_rounding(dtype: str) -> None:
    skip_without(dtype)
    torch.manual_seed(0)
    with margins(), pytest.MonkeyPatch.context() as monkeypatch:
        gemm = Gemm(device_with(unit_of(dtype), monkeypatch), dtype, 64, 64, 8192)
        product = gemm.fixed()().clone()
    ((_, sample),) = gemm._calls
    median = int(sample(1, 1).abs().flatten().argsort()[product.numel() // 2])
    word = {2: torch.int16, 4: torch.int32}[product.element_size()]

    def is_seen(bit: int) -> bool:
        flipped = product.clone()
        flipped.view(word).view(-1)[median] ^= 1 << bit
        gemm._calls = [(flipped.clone, sample)]
        try:
            gemm.check()
        except WrongResult:
            return True
        return False

    assert all(is_seen(bit) for bit in range(FAULTS[dtype].bit, 8 * product.element_size() - 1))
