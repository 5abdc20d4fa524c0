"""The rows and columns of a product that are checked lie in every part of the tiles that kernels compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support import packaged_suite, shipped

pytest.importorskip("torch")

import torch
from support.probe_device import on_cpu

from pytest_accel.probes.device.error_class import WrongResult
from pytest_accel.probes.device.gemm import Gemm, checked_step
from pytest_accel.probes.device.shape_search import ANCHORS, FIRST, full_waves
from pytest_accel.probes.matmul_best import TILES

UNITS = {"cuda8": 108, "cuda9": 132, "cuda10": 74, "hip": 304}
"""Multiprocessors of A100, H100 and MI300X, and pairs of them of B200."""


def shapes() -> Iterator[tuple[int, int]]:
    """Yield m and n of every product of the suite, the threshold files and the search."""
    yield from (anchor[:2] for anchor in ANCHORS)
    for request in packaged_suite.requests():
        yield from _of(request.conditions)
    for sku in shipped.every():
        for conditions in sku.probes.values():
            yield from _of(conditions)
    for architecture, units in UNITS.items():
        waves = full_waves(units, TILES[architecture], (1e11, 1e13))
        yield from (shape[:2] for shape in waves[: FIRST + len(ANCHORS)])


def _of(conditions: Any) -> Iterator[tuple[int, int]]:
    if {"m", "n"} <= conditions.keys():
        yield conditions["m"], conditions["n"]
    for dtype in conditions.get("shapes") or {}:
        yield tuple(conditions["shapes"][dtype][:2])
    for several in (conditions.get("published") or {}).values():
        yield from (tuple(shape[:2]) for shape in several)


def test_no_group_of_eight_rows_or_columns_of_a_tile_is_left_out() -> None:
    sides = {side for shape in shapes() for side in shape}
    assert {8192, 2048, 10240, 16384, 1024} <= sides
    assert len(sides) > 50
    for side in sides:
        places = range(0, side, checked_step(side))
        for tile in (64, 128, 192, 256):
            groups = {place % tile // 8 for place in range(min(side, tile))}
            assert {place % tile // 8 for place in places} == groups, f"{side}, tile {tile}"
        assert len(places) <= 100


@pytest.mark.parametrize("part", ["rows", "columns"])
def test_half_of_every_tile_that_is_zero_is_seen(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the two warpgroups of a kernel of Hopper computes 64 of 128 rows."""
    device = on_cpu(monkeypatch, (9, 0))
    gemm = Gemm(device, "fp32", 8192, 8192, 1)
    gemm.check()
    call, sample = gemm._calls[0]

    def broken() -> torch.Tensor:
        product: torch.Tensor = call()
        lines = product if part == "rows" else product.t()
        for begin in range(64, 8192, 128):
            lines[begin : begin + 64] = 0
        return product

    gemm._calls = [(broken, sample)]
    with pytest.raises(WrongResult):
        gemm.check()


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
def test_a_call_that_writes_nothing_is_seen(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one whose memory holds the right product from before."""
    gemm = Gemm(on_cpu(monkeypatch, (9, 0)), dtype, 64, 64, 64)
    gemm.check()
    call, sample = gemm._calls[0]
    left = call()
    gemm._calls = [(lambda: left, sample)]
    with pytest.raises(WrongResult):
        gemm.check()
