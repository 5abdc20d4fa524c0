"""The differences between two limits, as text."""

from __future__ import annotations

from typing import Any

from judged_tables import tabled

from pytest_accel.core.sku import Limit
from pytest_accel.core.structured import structure
from pytest_accel.judging.records.limit_differences import differences


@tabled("old, new, said", "data/judging/limit-differences.yaml")
def test_what_differs_between_two_limits_is_said(old: dict[str, Any], new: dict[str, Any], said: list[str]) -> None:
    then, now = (structure(Limit, {"metric": "matmul.bf16", "unit": "TFLOPS", **each}) for each in (old, new))
    assert differences(then, now) == said
