"""Operands that share scales in blocks: encoded, laid out and called as torch and cuBLAS want it, by other means."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from support.rows import each_row

pytest.importorskip("torch")

import torch
from support import torch_features
from support.probe_device import AtOnce, Instead, gpu, on_cpu

from pytest_accel.probes.device.block_formats import E2M1, FORMATS, decode, encode, swizzled
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.gemm import Gemm
from pytest_accel.probes.device.torch_device import Compute

if not torch_features.blocks():
    pytest.skip("this torch has no formats of blocks", allow_module_level=True)

F: Any = torch.nn.functional
NUMBERS = [*E2M1, *(-number for number in E2M1)]


def scale_at(flat: torch.Tensor, row: int, column: int, columns: int) -> float:
    """A scale by cuBLAS's formula for the place of one in tiles of 128 x 4 (cuBLAS documentation, 3.1.4)."""
    tile = 512 * ((row // 128) * -(-columns // 4) + column // 4)
    return float(flat[tile + (row % 32) * 16 + (row % 128) // 32 * 4 + column % 4])


def numbers_of(operand: torch.Tensor, scales: torch.Tensor, block: int, swizzle: Any) -> torch.Tensor:
    """An operand, number by number: as slow as it is another way than that of the probe."""
    rows = operand.view(torch.uint8) if operand.dtype == torch.float4_e2m1fn_x2 else operand.float()
    if rows.dtype == torch.uint8:
        halves = [[half for byte in row for half in (byte & 15, byte >> 4)] for row in rows.tolist()]
        rows = torch.tensor([[NUMBERS[half] for half in row] for row in halves])
    m, k = rows.shape
    flat, columns = scales.float(), k // block
    plain = swizzle == F.SwizzleType.NO_SWIZZLE
    found = rows.double().clone()
    for row, column in itertools.product(range(m), range(columns)):
        scale = float(flat.view(m, columns)[row, column]) if plain else scale_at(flat, row, column, columns)
        found[row, column * block : (column + 1) * block] *= scale
    return found


def slow_scaled_mm(
    a: torch.Tensor, b: torch.Tensor, scale_a: Any, recipe: Any, scale_b: Any, _: Any, swizzle: Any, __: Any, **how: Any
) -> torch.Tensor:
    block = int(recipe.name.removeprefix("BlockWise1x"))
    right = numbers_of(b.t(), scale_b, block, swizzle)
    return (numbers_of(a, scale_a, block, swizzle) @ right.t()).to(how["output_dtype"])


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Compute:
    """A Blackwell that computes on the CPU."""
    return on_cpu(monkeypatch, (10, 0), "gfx950:sramecc+")


def multiplying(scaled_mm: Any, hip: str | None = None) -> Any:
    """torch with another scaled_mm, and perhaps for ROCm."""
    version = Instead(torch.version, hip=hip, cuda=None if hip else "13.0")
    return Instead(torch, nn=Instead(torch.nn, functional=Instead(F, scaled_mm=scaled_mm)), version=version)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_encoded_is_decoded_to_the_nearest_number(name: str) -> None:
    each = FORMATS[name]
    values = torch.randn(64 * each.block)
    codes, scales = encode(torch, each, values)
    assert codes.numel() * 8 == values.numel() * each.bits
    found = decode(torch, each, codes.view(8, -1), scales.view(8, -1)).flatten()
    blocks, error = values.view(-1, each.block).abs(), (found - values).view(-1, each.block).abs()
    step = 2**-4 if each.bits == 8 else 2**-2 + 2**-4  # half a step of the largest number, and of its scale
    largest = 1 if name == "nvfp4" else 2  # a power of two as a scale may waste half of the range
    assert (error.amax(1) <= largest * step * blocks.amax(1)).all()
    assert 0.02 < error.mean() / values.abs().mean() < 0.15 if each.bits == 4 else error.mean() < 0.03


def test_numbers_of_four_bits_are_kept_and_lie_in_their_half_of_the_byte() -> None:
    values = torch.tensor([*E2M1, *(-number for number in E2M1)])
    codes, scales = encode(torch, FORMATS["nvfp4"], values)
    assert codes.tolist() == [0x10, 0x32, 0x54, 0x76, 0x90, 0xBA, 0xDC, 0xFE]
    assert scales.view(torch.float8_e4m3fn).float().tolist() == [1.0]


@each_row(("rows", "columns"), [(128, 4), (256, 8), (130, 5), (1, 1)])
def test_scales_lie_where_cublas_reads_them(rows: int, columns: int) -> None:
    scales = torch.randint(0, 256, (rows, columns), dtype=torch.uint8)
    flat = swizzled(torch, scales)
    assert flat.numel() == -(-rows // 128) * 128 * -(-columns // 4) * 4
    for row, column in itertools.product(range(rows), range(columns)):
        assert scale_at(flat, row, column, columns) == float(scales[row, column])


@pytest.mark.parametrize(
    ("dtype", "hip", "named", "scaling"),
    [
        ("mxfp8", None, "mxfp8", "1x32 e8m0"),
        ("fp4", None, "nvfp4", "1x16 e4m3"),
        ("nvfp4", None, "nvfp4", "1x16 e4m3"),
        ("fp4", "7.0", "mxfp4", "1x32 e8m0"),
        ("mxfp8", "7.0", "mxfp8", "1x32 e8m0"),
    ],
)
def test_a_product_of_blocks_is_right(device: Compute, dtype: str, hip: str | None, named: str, scaling: str) -> None:
    device.torch = multiplying(slow_scaled_mm, hip)
    gemm = Gemm(device, dtype, 160, 96, 256)
    gemm.check()
    found = gemm.conditions
    assert (found["format"], found["scaling"], found["layout"]) == (named, scaling, "TN")


def test_a_scale_in_the_wrong_place_is_seen(device: Compute) -> None:
    def rolled(a: Any, b: Any, scale_a: torch.Tensor, *more: Any, **how: Any) -> torch.Tensor:
        moved = scale_a.view(torch.uint8).roll(1).view(scale_a.dtype)
        return slow_scaled_mm(a, b, moved, *more, **how)

    device.torch = multiplying(rolled)
    with pytest.raises(WrongResult, match="fp4 160x96x256: operand set 0 is off by"):
        Gemm(device, "fp4", 160, 96, 256).check()


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["mxfp8", "nvfp4"])
def test_torch_itself_finds_shapes_layouts_and_recipes_right(device: Compute, dtype: str) -> None:
    """By the checks of its meta function, which are those of the CUDA kernel."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    asked: list[Any] = []

    def on_cuda(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        return torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="cuda")

    def in_mode(*operands: Any, **how: Any) -> Any:
        with FakeTensorMode():
            asked.append(F.scaled_mm(*map(on_cuda, operands), **how))
        return asked[-1]

    device.torch = multiplying(in_mode)
    Gemm(device, dtype, 160, 96, 256)
    assert asked[0].shape == (160, 96)


@pytest.mark.parametrize(
    "error",
    [
        NotImplementedError("MXFP4 scaling only supported in CUDA for B200/B300"),
        RuntimeError("CUBLAS_STATUS_NOT_SUPPORTED when"),
        ValueError("Invalid scaling configuration.\n- For TensorWise scaling, a and b should be float8"),
    ],
)
def test_what_torch_has_not_implemented_is_not_the_devices_fault(device: Compute, error: Exception) -> None:
    def fail(*operands: Any, **how: Any) -> Any:
        raise error

    device.torch = multiplying(fail)
    with pytest.raises(NotApplicable, match="this torch cannot multiply mxfp4 on this device"):
        Gemm(device, "mxfp4", 160, 96, 256)


def test_an_error_of_the_device_stays_one(device: Compute) -> None:
    def fail(*operands: Any, **how: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    device.torch = multiplying(fail)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        Gemm(device, "fp4", 160, 96, 256)


def test_what_is_lacking_is_named(device: Compute) -> None:
    cpu = Compute([gpu()], AtOnce())
    cpu.is_cpu = True
    with pytest.raises(NotApplicable, match="torch multiplies fp4 on GPUs only"):
        Gemm(cpu, "fp4", 160, 96, 256)
    functional = SimpleNamespace()
    device.torch = Instead(torch, nn=Instead(torch.nn, functional=functional))
    with pytest.raises(NotApplicable, match=r"cannot multiply mxfp8: it has no torch\.nn\.functional\.scaled_mm"):
        Gemm(device, "mxfp8", 160, 96, 256)
    device.torch = multiplying(slow_scaled_mm, "7.0")
    with pytest.raises(NotApplicable, match="needs n in multiples of 32, k of 128, not 160x96x64"):
        Gemm(device, "fp4", 160, 96, 64)
