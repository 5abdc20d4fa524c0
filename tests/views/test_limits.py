"""The table of limits and methods: honest about what a limit can tell apart."""

from __future__ import annotations

import sys
from pathlib import Path

from support import shipped
from support.rows import each_row

from pytest_accel.core.sku_types import Limit, Platform, Sku
from pytest_accel.core.verdict import Status

CHECKOUT = Path(__file__).parents[2]
sys.path.insert(0, str(CHECKOUT / "scripts"))

from limits import told  # noqa: E402  a program, not a package


def sku(floor: float, healthy: tuple[float, float]) -> Sku:
    limit = Limit("matmul.bf16", "TFLOPS", floor=floor, reference=sum(healthy) / 2, healthy=healthy)
    made = {**vars(shipped.load("h100-sxm")), "limits": {"matmul.bf16": limit}}
    return Sku(**{**made, "platforms": {"single": Platform("single", 1)}})


@each_row(
    ("floor", "healthy", "statuses", "overlap"),
    [
        (92, (100, 101), (Status.PASS, Status.FAIL), ""),
        (92, (100, 110), (Status.PASS, Status.PASS), "the best parts pass when 10 % short"),
        (80, (100, 110), (Status.PASS, Status.PASS), "parts pass when 10 % short"),
        (105, (100, 110), (Status.PASS, Status.FAIL), "rejects healthy parts"),
    ],
)
def test_an_overlap_of_healthy_and_short_parts_is_named(
    floor: float, healthy: tuple[float, float], statuses: tuple[Status, Status], overlap: str
) -> None:
    (one,) = told(sku(floor, healthy))
    assert (one.healthy[1], one.short[1]) == statuses
    assert one.overlap == overlap


def test_every_shipped_limit_keeps_the_parts_that_are_known_to_be_healthy() -> None:
    wrong = [
        (each.name, one.metric)
        for each in shipped.every()
        for one in told(each)
        if not all(status.holds for status in one.healthy)
    ]
    assert not wrong
