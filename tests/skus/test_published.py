"""Shipped floors hold what others measured on healthy parts, and fail the same less 15 % by the same method."""

import csv
from pathlib import Path

from support.shipped import load as shipped

from pytest_accel.core.floor import floor_in_force
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.sku_types import Basis, Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.skus import loader

COLUMNS = ["sku", "platform", "metric", "value", "unit", "source", "exception"]
"""`platform` is empty where the limit is the SKU's own; `exception` says why no limit may judge the value."""

with (Path(__file__).parents[1] / "data" / "published.csv").open(newline="") as file:
    ROWS = list(csv.DictReader(file))
JUDGED = [row for row in ROWS if not row["exception"]]

Row = dict[str, str]


def name(row: Row) -> str:
    return "-".join(row[column] for column in ("sku", "platform", "metric", "value"))


def limit_of(row: Row) -> Limit:
    sku = shipped(row["sku"])
    platform = sku.platforms[row["platform"]] if row["platform"] else next(iter(sku.platforms.values()))
    return sku.limits_on(platform)[row["metric"]]


def verdict(row: Row, share: float) -> Verdict:
    """The verdict on a share of the value, or of the lowest healthy one if that is lower: floors rest on the lowest."""
    limit = limit_of(row)
    value = float(row["value"])
    if share < 1 and limit.healthy:
        value = min(value, limit.healthy[0])
    measured = Measurement(row["metric"], "GPU-0", row["unit"], value=share * value, conditions=dict(limit.conditions))
    return judge([measured], limit)


def test_every_row_is_complete_and_in_order() -> None:
    assert ROWS
    for row in ROWS:
        assert list(row) == COLUMNS
        assert row["source"]
        assert float(row["value"]) > 0
        assert row["sku"] in loader.names()
    assert [row["sku"] for row in ROWS] == sorted(row["sku"] for row in ROWS)


def test_every_published_healthy_value_holds() -> None:
    """Or it is information, where neither the file nor a class has a floor for its metric."""
    bounded = {name(row): floor_in_force(limit_of(row)).bound.bounded for row in JUDGED}
    accepted = {True: (Status.PASS, Status.MARGINAL), False: (Status.NOT_APPLICABLE,)}
    assert [name(row) for row in JUDGED if verdict(row, 1.0).status not in accepted[bounded[name(row)]]] == []


def judged_as_it_should(row: Row) -> bool:
    """Whether the value less 15 % fails, where the class has a lower floor if it is below that, and has its note."""
    found, floor, published = verdict(row, 0.85), floor_in_force(limit_of(row)), limit_of(row).published
    value = float(str(found.value))
    fails = floor.basis not in (None, Basis.CLASS) or value < (floor.bound.floor or 0)
    return (found.status is Status.FAIL, bool(found.note)) == (
        fails,
        published is not None and value < published.lowest,
    )


def test_every_published_healthy_value_less_15_percent_fails_or_is_noted() -> None:
    assert [name(row) for row in JUDGED if not judged_as_it_should(row)] == []
