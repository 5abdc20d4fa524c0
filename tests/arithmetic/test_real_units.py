"""The models and tolerances against what others published: results of MMA-Sim, and the largest errors of a GA100."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from support.rows import each_row

pytest.importorskip("torch")

import torch
from matrix_units import Step, chain, cut_off, fused, fused_fp4, pairwise, rounded_down

from pytest_accel.probes.device.tolerance import TOLERANCES

REAL = Path(__file__).parent.parent / "real"
INSTRUCTIONS: list[dict[str, Any]] = json.loads((REAL / "matrix_units.json").read_text())["instructions"]
GA100: dict[str, Any] = json.loads((REAL / "largest_errors.json").read_text())

BITS = {"V100": 23, "T4": 24, "Ampere": 24, "Ada Lovelace": 24}
TYPES = {  # of torch; of words of the same size
    "fp16": ("float16", torch.int16),
    "bf16": ("bfloat16", torch.int16),
    "e4m3": ("float8_e4m3fn", torch.uint8),
    "e4m3fnuz": ("float8_e4m3fnuz", torch.uint8),
    "e8m0": ("float8_e8m0fnu", torch.uint8),
    "fp32": ("float32", torch.int32),
    "tf32": ("float32", torch.int32),
}
FOUR_BITS = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


def numbers(words: list[int], kind: str) -> torch.Tensor:
    if kind == "e2m1":
        codes = torch.tensor(words)
        return torch.stack((FOUR_BITS[codes & 15], FOUR_BITS[codes >> 4]), -1).flatten()
    name, word = TYPES[kind]
    if not hasattr(torch, name):
        pytest.skip(f"this torch has no {name}")
    return torch.tensor(words, dtype=word).view(getattr(torch, name)).float().double()


def step_of(instruction: dict[str, Any]) -> Step:
    unit, kind = instruction["unit"], instruction["operands"]
    if kind == "fp32":
        return chain
    if kind == "e2m1":
        return fused_fp4
    if unit == "MI250X":
        return pairwise(kind, 2 if "16x16x8bf16" in instruction["instruction"] else 4)
    if unit == "MI300X":
        return rounded_down(kind, {"tf32": 4, "e4m3fnuz": 16}.get(kind, 8))
    if kind == "e4m3" and unit in ("H100", "Ada"):
        return fused(kind, 13, kept=13, group=16 if unit == "Ada" else 0)
    halved = {"tf32": 4}.get(kind, 8) if unit in ("Ampere", "Ada Lovelace") else 0
    return fused(kind, BITS.get(unit, 25), group=halved)


@each_row("instruction", INSTRUCTIONS)
def test_a_model_has_the_bits_of_mma_sim(instruction: dict[str, Any]) -> None:
    for element in instruction["elements"]:
        a, b = (numbers(element[operand], instruction["operands"])[None, None] for operand in "ab")
        c, expected = (numbers([element[operand]], "fp32")[None] for operand in "cd")
        scales = tuple(numbers(scale, instruction["scales"])[None, None] for scale in element.get("scales", ()))
        found = step_of(instruction)(a, b, c, *([scales] if scales else []))
        assert found.float().view(torch.int32).tolist() == expected.float().view(torch.int32).tolist()


@pytest.mark.parametrize("dtype", ["fp32", "tf32"])
def test_the_largest_error_that_a_ga100_was_seen_with_is_allowed(dtype: str) -> None:
    seen, allowed = GA100["largest_error"][dtype], float(TOLERANCES[dtype].allowed(GA100["k"], torch.zeros(())))
    assert 1.5 * seen < allowed < 5 * seen


def test_a_chain_of_fp32_predicts_the_largest_error_that_a_ga100_was_seen_with() -> None:
    """Walks to an element of j deviations; the errors of their roundings are independent and uniform in an ulp."""
    torch.manual_seed(0)
    k, elements, steps, paths = GA100["k"], int(GA100["m"] * GA100["n"]), 512, 200
    at = torch.arange(1, steps + 1) / steps
    deviations, weights = [], []
    for ends in torch.arange(0, 7, 0.25).tolist():
        walk = torch.randn(paths, steps, dtype=torch.float64).cumsum(1) / steps**0.5
        sums = (walk - at * walk[:, -1:] + ends * at).abs() * k**0.5
        ulp = cut_off(sums, 0) * 2.0**-23
        deviations.append((ulp.square().mean(1) / 12 * k).sqrt())
        weights.append(math.exp(-(ends**2) / 2) * (1.0 if ends else 0.5))

    def expected_over(error: float) -> float:
        """Return the number of elements whose error is expected to exceed `error`."""
        over = torch.stack([torch.erfc(error / deviation / 2**0.5).mean() for deviation in deviations])
        return float((over * torch.tensor(weights)).sum()) * elements / sum(weights)

    assert expected_over(0.0025) > math.log(2) > expected_over(0.0036)
    assert expected_over(float(TOLERANCES["fp32"].allowed(k, torch.zeros(())))) < 1e-6
