"""The differences between two limits, as text."""

from __future__ import annotations

import pytest

from pytest_accel.core.sku import Limit, Source
from pytest_accel.judging.records.limit_differences import Facts, differences, facts_of


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"floor": 671.6}, {"floor": 690.0}, ["floor 671.6 -> 690 TFLOPS (+2.7%)"]),
        ({"floor": 1290.1}, {"floor": 1290.4}, ["floor 1290.1 -> 1290.4 TFLOPS (+0.0%)"]),
        ({"floor": 5.0}, {"ceiling": 7.0}, ["floor 5 TFLOPS -> none", "ceiling none -> 7 TFLOPS"]),
        ({"advises": True}, {}, ["advises True -> none"]),
        ({}, {"levels": ["long"]}, ["levels all -> long"]),
        ({"levels": []}, {}, ["levels none -> all"]),
        ({"if_supported": True}, {}, ["if supported True -> none"]),
        ({"software": {"nccl": ">=2.18"}}, {}, ["software nccl >=2.18 -> none"]),
        ({"equals": "off"}, {"equals": "on"}, ["equals off -> on TFLOPS"]),
        ({"floor": 5.0}, {"floor": 5.0}, []),
    ],
)
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
