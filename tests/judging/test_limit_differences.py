"""The differences between two limits, as text."""

from __future__ import annotations

from judged_tables import tabled

from pytest_accel.core.sku import Limit, Source
from pytest_accel.judging.records.limit_differences import Facts, differences, facts_of


@tabled("old, new, said", "data/judging/limit-differences.yaml")
def test_what_differs_between_two_limits_is_said(old: Facts, new: Facts, said: list[str]) -> None:
    unit = {"unit": "TFLOPS"}
    assert differences({**old, **unit}, {**new, **unit}) == said


def test_the_facts_of_a_limit_are_those_that_decide_and_those_behind_them() -> None:
    source = Source("published", "them", "2026-08", conditions="8192^3")
    limit = Limit("matmul.bf16", "TFLOPS", floor=671.6, reference=730.0, source=source)
    assert facts_of(limit) == {
        "unit": "TFLOPS",
        "floor": 671.6,
        "reference": 730.0,
        "source": {"kind": "published", "by": "them", "date": "2026-08", "conditions": "8192^3"},
    }
