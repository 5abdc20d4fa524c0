"""Every check of a computed result lets the arithmetic of a healthy unit pass, by a margin.

The products are computed by models of units (matrix_units.py), never by a unit.
"""

from __future__ import annotations

import functools
import random
from dataclasses import replace

import pytest
from support.rows import each_row

pytest.importorskip("torch")

import torch
from matrix_units import UNITS, Unit
from modelled import Changed, device_with, margins, same, skip_without
from support.probe_device import Instead, compute, on_cpu

from pytest_accel import probes
from pytest_accel.probes.collectives import pattern
from pytest_accel.probes.device.gemm import Gemm
from pytest_accel.probes.device.torch_device import ProbeResult
from pytest_accel.probes.exact_matmul import _Watch
from pytest_accel.probes.matmul_mamf import _Product

MARGIN = 0.95
"""Largest error of a healthy unit as a share of what is allowed. In bf16 nearly all of it is the last rounding, whose
bound is exact."""
SEEDS = range(5)
MAMF = {
    "H100": {"bf16": [16, 16, 13312], "fp8": [16, 16, 14336]},
    "A100": {"bf16": [16, 16, 5120]},
    "B200": {"bf16": [16, 16, 3072], "fp8": [16, 16, 1536]},
    "MI300X": {"bf16": [16, 16, 8192], "fp8": [16, 16, 8192]},
}
"""The k of the shapes of mamf-finder in the threshold files."""


CASES = [(dtype, unit) for dtype, units in UNITS.items() for unit in units]


def named(case: object) -> str:
    return case.name if isinstance(case, Unit) else str(case)


def largest_error(dtype: str, unit: Unit, side: int, k: int, seed: int) -> float:
    """Return the largest error of a checked product as a share of what is allowed."""
    skip_without(dtype)
    torch.manual_seed(seed)
    with margins() as seen, pytest.MonkeyPatch.context() as monkeypatch:
        Gemm(device_with(unit, monkeypatch), dtype, side, side, k).check()
    return max(seen)


@each_row(("dtype", "unit"), [(dtype, units[0]) for dtype, units in UNITS.items()])
def test_a_healthy_product_is_not_called_wrong(dtype: str, unit: Unit) -> None:
    assert largest_error(dtype, unit, 32, 2048, 0) <= MARGIN


@pytest.mark.nightly
@pytest.mark.parametrize("k", [8192, 16512])
@pytest.mark.parametrize(("dtype", "unit"), CASES, ids=named)
def test_no_healthy_product_of_several_is_called_wrong(dtype: str, unit: Unit, k: int) -> None:
    assert max(largest_error(dtype, unit, 64, k, seed) for seed in SEEDS) <= MARGIN


@pytest.mark.nightly
@pytest.mark.parametrize(("device", "dtype"), [(device, dtype) for device, shapes in MAMF.items() for dtype in shapes])
@pytest.mark.parametrize("partial", [torch.float32, torch.bfloat16])
def test_a_healthy_product_of_mamf_finder_is_not_called_wrong(device: str, dtype: str, partial: torch.dtype) -> None:
    """Also one whose partial sums torch lets the library round to bf16."""
    unit = next(unit for unit in UNITS[dtype] if device in unit.name and "split" not in unit.name)
    if partial == torch.bfloat16:
        if dtype == "fp8" or device == "MI300X":
            pytest.skip("torch allows it for products of bf16 on CUDA")
        unit = replace(unit, parts=8, partial=partial)
    for seed in SEEDS:
        torch.manual_seed(seed)
        with margins() as seen, pytest.MonkeyPatch.context() as monkeypatch:
            _Product(device_with(unit, monkeypatch), dtype, MAMF[device][dtype]).check()
        assert max(seen) <= MARGIN


# -- exact sums


def exact(unit: Unit, dtype: str, k: int, result: Changed = same) -> ProbeResult:
    with margins(), pytest.MonkeyPatch.context() as monkeypatch:
        device = device_with(unit, monkeypatch, result=result)
        device.seconds = 0.0
        return probes.exact_matmul(device, dtype=dtype, m=16, n=16, k=k)


EXACT = [(dtype, unit) for dtype in ("bf16", "fp16", "fp32", "tf32") for unit in UNITS[dtype]]
"""Products of fp32 are exact through tf32, too."""


@pytest.mark.parametrize(
    ("dtype", "unit", "k"),
    [(dtype, UNITS[dtype][place], 256) for dtype in ("bf16", "tf32") for place in (0, -1)]
    + [pytest.param(*case, 8192, marks=pytest.mark.nightly) for case in EXACT],
    ids=named,
)
def test_exact_sums_are_exact_in_every_unit(dtype: str, unit: Unit, k: int) -> None:
    finding = exact(unit, dtype.replace("tf32", "fp32"), k)
    assert (finding.value, finding.wrong) == (0, None)


def test_a_unit_that_sums_to_minus_zero_is_healthy() -> None:
    """As one that rounds down would: IEEE 754 makes x - x = -0 then."""
    unit = UNITS["bf16"][-1]
    finding = exact(unit, "bf16", 256, lambda product: torch.where(product == 0, -0.0, product))
    assert (finding.value, finding.wrong) == (0, None)


@pytest.mark.parametrize(("dtype", "least"), [("bf16", 0.9), ("fp16", 1.0), ("fp32", 1.0)])
def test_a_sum_that_is_off_by_one_shows_in_the_last_data_set(
    dtype: str, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = _Watch(on_cpu(monkeypatch, (9, 0)), dtype, (64, 64, 8192))

    def visible(place: int) -> float:
        a, b = watch._operands(place, "cpu", torch.float64)
        exact = a @ b
        assert exact.abs().max() < 2**24
        return float(((exact + 1).to(watch._kind) != exact.to(watch._kind)).double().mean())

    assert visible(2) >= least
    if dtype == "bf16":
        assert visible(0) < 0.05, "or the data sets need not differ"


# -- sums and copies of collectives


@each_row("world", [2, 3, 8, 72, 257, 1024])
def test_sums_of_collectives_are_exact_in_any_order(world: int) -> None:
    """Rings in both directions, random orders, a tree; a switch adds in no stated order (NCCL issue 1497)."""
    device = compute()
    device.world = world
    patterns = [pattern(device, [rank], 0, summing=True).view(torch.float32)[:4096] for rank in range(world)]
    expected = pattern(device, range(world), 0, summing=True).view(torch.float32)[:4096]
    shuffled = random.Random(world).sample(patterns, world)  # noqa: S311  nothing secret
    for order in (patterns, patterns[::-1], shuffled):
        assert torch.equal(functools.reduce(torch.add, order), expected)
    level = shuffled
    while len(level) > 1:
        level = [sum(pair) for pair in zip(level[::2], level[1::2], strict=False)] + level[len(level) // 2 * 2 :]
    assert torch.equal(level[0], expected)


def test_what_is_only_moved_has_every_bit_as_0_and_as_1() -> None:
    words = pattern(compute(2), [1], 0, summing=False)
    bits = (words[:, None] >> torch.arange(32)) & 1
    assert ((bits.double().mean(0) - 0.5).abs() < 0.01).all()
    assert len(words.unique()) == len(words)


# -- sums of memory bandwidth


def test_the_dot_product_of_a_device_that_sums_in_fp32_is_right() -> None:
    """A chain for each of 2,048 threads, and a chain over their sums."""
    torch.manual_seed(0)
    device = compute()
    partial = []

    def dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        threads = a.numel() // 2048 * 2048
        sums: torch.Tensor = torch.zeros(2048)
        for row in (a[:threads] * b[:threads]).view(-1, 2048):
            sums += row
        partial.append(sums)
        total: torch.Tensor = functools.reduce(torch.add, [*sums, torch.dot(a[threads:], b[threads:])])
        return total

    device.torch = Instead(torch, dot=dot)
    assert probes.stream(device, op="dot", mib=8, dtype="fp32", calls=1).samples
    assert partial
