"""The vocabulary of metrics: what the packaged suite measures is known by its unit and its probe."""

import re

import pytest

from pytest_accel import probes
from pytest_accel.core import metrics
from pytest_accel.probes.declare import spec_of

PACKAGED = {name: getattr(probes, name) for name in probes.__all__}
MADE = [(name, spec_of(each).metric) for name, each in PACKAGED.items() if hasattr(each, "accel")]


@pytest.mark.parametrize(("name", "metric"), MADE)
def test_a_metric_leads_to_the_probe_that_finds_it(name: str, metric: str) -> None:
    assert metrics.probe_of(re.sub(r"\{\w+\}", "x", metric)) == name


@pytest.mark.parametrize("metric", [metric for _, metric in MADE if "{" not in metric])
def test_what_is_measured_has_a_unit(metric: str) -> None:
    assert metrics.unit_of(metric)


@pytest.mark.parametrize("metric", ["all_reduce.busbw@8GB", "matmul.bf61", "our.own"])
def test_what_nobody_measures_has_none(metric: str) -> None:
    assert metrics.unit_of(metric) is None
