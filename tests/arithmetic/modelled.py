"""A device whose matrix products a model of a unit computes. Only torch's functions for products are replaced."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812  as everybody calls it
from matrix_units import Operand, Unit
from support import torch_features
from support.probe_device import Instead, on_cpu
from torch import Tensor

from pytest_accel.probes.device import gemm
from pytest_accel.probes.device.block_formats import E2M1
from pytest_accel.probes.device.torch_device import Compute

CAPABILITY = {"V100": (7, 0), "T4": (7, 5), "A100": (8, 0), "Ada": (8, 9), "H100": (9, 0), "B200": (10, 0)}
ARCHITECTURE = {"MI250X": "gfx90a", "MI300X": "gfx942"}
DEVICE_OF = {"every unit": "H100", "CUDA cores": "H100", "the same": "H100"}
"""The device that a unit of several is tried on."""

Changed = Callable[[Tensor], Tensor]


def same(tensor: Tensor) -> Tensor:
    return tensor


def device_with(
    unit: Unit, monkeypatch: pytest.MonkeyPatch, *, operand: Changed = same, result: Changed = same
) -> Compute:
    """Return a device of the unit's first name. `operand` changes the numbers of A, `result` what is returned."""
    begins = unit.name.partition(",")[0].partition(" ")[0]
    name = next((device for words, device in DEVICE_OF.items() if unit.name.startswith(words)), begins)
    device = on_cpu(monkeypatch, CAPABILITY.get(name, (9, 0)), ARCHITECTURE.get(name, "gfx942"))

    def multiplied(a: Operand, b: Operand, factor: Tensor | None, kind: torch.dtype) -> Tensor:
        sums = unit.product(Operand(operand(a.numbers), a.scales), b).float()
        return result((sums if factor is None else sums * factor).to(kind))

    def rows(tensor: Tensor) -> Operand:
        return Operand(tensor if tensor.dtype == torch.float64 else tensor.float().double())

    def mm(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
        if a.dtype == torch.float64:
            found = result(unit.product(Operand(operand(a)), Operand(b.t())))
        else:
            found = multiplied(rows(a), rows(b.t()), None, a.dtype)
        return found if out is None else out.copy_(found)

    def int_mm(a: Tensor, b: Tensor) -> Tensor:
        return result(unit.product(Operand(operand(a.double())), Operand(b.t().double())).to(torch.int32))

    def scaled_mm(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, out: Any = None, **how: Any) -> Tensor:
        kind = how.get("out_dtype") if out is None else out.dtype
        found = multiplied(rows(a), rows(b.t()), scale_a * scale_b, kind or a.dtype)
        return found if out is None else out.copy_(found)

    def block_scaled(
        a: Tensor, b: Tensor, scale_a: Tensor, _: Any, scale_b: Tensor, recipe: Any, swizzle: Any, __: Any, **how: Any
    ) -> Tensor:
        block = int(recipe.name.removeprefix("BlockWise1x"))
        operands = [_blocks(part, scale, block) for part, scale in ((a, scale_a), (b.t(), scale_b))]
        return multiplied(operands[0], operands[1], None, how["output_dtype"])

    version = Instead(torch.version, hip="7.0" if name in ARCHITECTURE else None)
    functional = Instead(F, scaled_mm=block_scaled)
    device.torch = Instead(
        torch, mm=mm, _int_mm=int_mm, _scaled_mm=scaled_mm, version=version, nn=SimpleNamespace(functional=functional)
    )
    return device


def _blocks(operand: Tensor, scales: Tensor, block: int) -> Operand:
    """Return the numbers of an operand, and its scales out of cuBLAS's order (cuBLAS documentation, 3.1.4)."""
    if operand.element_size() == 1 and not str(operand.dtype).startswith("torch.float8"):
        codes = operand.view(torch.uint8).long()
        table = torch.tensor([*E2M1, *(-number for number in E2M1)], dtype=torch.float64)
        numbers = torch.stack((table[codes & 15], table[codes >> 4]), -1).flatten(1)
    else:
        numbers = operand.float().double()
    m, columns = numbers.shape[0], numbers.shape[1] // block
    row, column = torch.arange(m)[:, None], torch.arange(columns)
    tile = 512 * (row // 128 * -(-columns // 4) + column // 4)
    return Operand(numbers, scales.float().double()[tile + row % 32 * 16 + row % 128 // 32 * 4 + column % 4])


@contextmanager
def margins() -> Iterator[list[float]]:
    """Note the largest error of each checked product as a share of what is allowed; torch uses one thread meanwhile."""
    seen: list[float] = []
    refuse_wrong = gemm.refuse_wrong

    def noted(actual: Tensor, expected: Tensor, allowed: Tensor, what: str) -> None:
        error = (actual - expected).abs()
        seen.append(float(torch.where(error == 0, 0.0, error / allowed).max()))
        refuse_wrong(actual, expected, allowed, what)

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors of a step are small
    try:
        with pytest.MonkeyPatch.context() as monkeypatch:
            for module in (gemm, importlib.import_module("pytest_accel.probes.matmul_mamf")):
                monkeypatch.setattr(module, "refuse_wrong", noted)
            yield seen
    finally:
        torch.set_num_threads(threads)


def skip_without(dtype: str) -> None:
    if dtype in ("mxfp8", "mxfp4", "nvfp4") and not torch_features.blocks():
        pytest.skip("this torch has no formats of blocks")
