"""The interval of the next run: from the file's spread to the table that a person reads."""

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_accel.core.measurement import Measurement, Names, Trouble
from pytest_accel.core.sku_types import Limit, Sku
from pytest_accel.judging.facts.results import foreseen
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.skus import loader
from pytest_accel.views.table import table

MEASURED = Measurement("matmul.bf16", "GPU-0", "TFLOPS", 700.0, samples=(700.0,) * 8)


@pytest.fixture
def sku() -> Sku:
    return loader.load(str(Path(__file__).parents[1] / "data/judging/spread-sku.yaml"))


def test_the_interval_is_that_of_the_metric_or_its_probe(sku: Sku) -> None:
    """1.96 x sqrt(2) x 1 % of 700."""
    for metric, half in (("matmul.bf16", 19.4), ("matmul.fp8", 38.8), ("matmul.bf16@m=64", 19.4)):
        low, high = foreseen(replace(MEASURED, metric=metric), sku).next_run or (0, 0)
        assert (700 - low, high - 700) == pytest.approx((half, half), rel=5e-3)


def test_without_a_known_spread_nothing_is_foreseen(sku: Sku) -> None:
    lost = replace(MEASURED, trouble=Trouble("device", "lost"))
    others = replace(MEASURED, metric="stream.copy"), replace(MEASURED, samples=(700.0,)), lost
    assert not [other for other in others if foreseen(other, sku).next_run]
    assert foreseen(MEASURED, None).next_run is None


def test_the_table_shows_it_beside_the_value(sku: Sku) -> None:
    verdict = judge([foreseen(MEASURED, sku)], Limit("matmul.bf16", "TFLOPS", floor=600.0))
    text = "\n".join(line for line, _ in table([verdict], Names({"GPU-0": "gpu0"})))
    assert "700 TFLOPS +-2.8%" in text
    assert "+-: the next run on the same device differs by at most this much" in text
    plain = judge([MEASURED], Limit("matmul.bf16", "TFLOPS", floor=600.0))
    assert "+-" not in "\n".join(line for line, _ in table([plain], Names({"GPU-0": "gpu0"})))
