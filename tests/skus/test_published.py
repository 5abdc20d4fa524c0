"""What others measured on healthy parts holds the shipped limits; the same less 15 % fails those that may reject."""

import csv
from pathlib import Path

from shipped import load as shipped

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.verdicts.judge import judge
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


def verdict(row: Row, share: float) -> Status:
    """The verdict on a share of the value, or of the lowest healthy one if that is lower: floors rest on the lowest."""
    limit = limit_of(row)
    value = float(row["value"])
    if share < 1 and limit.healthy:
        value = min(value, limit.healthy[0])
    value *= share
    measured = Measurement(row["metric"], "GPU-0", row["unit"], value=value, conditions=dict(limit.conditions))
    return judge([measured], limit).status


def test_every_row_is_complete_and_in_order() -> None:
    assert ROWS
    for row in ROWS:
        assert list(row) == COLUMNS
        assert row["source"]
        assert float(row["value"]) > 0
        assert row["sku"] in loader.names()
    assert [row["sku"] for row in ROWS] == sorted(row["sku"] for row in ROWS)


def test_every_published_healthy_value_holds() -> None:
    assert [name(row) for row in JUDGED if not verdict(row, 1.0).holds] == []


def fails_as_it_should(row: Row) -> bool:
    """Whether the value less 15 % fails, unless its limit advises."""
    limit = limit_of(row)
    low = min([float(row["value"]), *(limit.healthy or ())])
    below_class = limit.beneath is not None and 0.85 * low < limit.beneath.value
    return (verdict(row, 0.85) is Status.FAIL) is (below_class or not limit.advises)


def test_every_published_healthy_value_less_15_percent_fails_unless_its_limit_advises() -> None:
    assert [name(row) for row in JUDGED if not fails_as_it_should(row)] == []
