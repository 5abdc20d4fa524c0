"""What this torch can do on the CPU. Tests that need more of it are skipped with that reason."""

from __future__ import annotations

import importlib
from functools import lru_cache

import pytest


@lru_cache
def fp8_on_cpu() -> bool:
    """Return True if torch multiplies fp8 on the CPU: 2.6 does not, 2.13 does."""
    torch = importlib.import_module("torch")
    ones, one = torch.ones(16, 16).to(torch.float8_e4m3fn), torch.ones(())
    try:
        torch._scaled_mm(ones, ones.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)
    except NotImplementedError:
        return False
    return True


@lru_cache
def blocks() -> bool:
    """Return True if torch has the formats of blocks and the function that multiplies them."""
    torch = importlib.import_module("torch")
    names = ("float8_e8m0fnu", "float4_e2m1fn_x2")
    return all(hasattr(torch, name) for name in names) and hasattr(torch.nn.functional, "scaled_mm")


def skip_without_fp8() -> None:
    if not fp8_on_cpu():
        pytest.skip("this torch does not multiply fp8 on the CPU")
