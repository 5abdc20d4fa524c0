"""The levels promise a time: quick under 2 minutes, standard under 15."""

from dataclasses import replace
from functools import cache

import pytest

from pytest_accel import probes
from pytest_accel.core import metrics
from pytest_accel.core.sku import LEVELS
from pytest_accel.skus import loader, requirements
from pytest_accel.skus.budgets import BUDGETS, FACTS, OWN_PROBE, budget

MEASUREMENTS = {
    # how often the packaged suite measures each probe, on a node of eight
    "matmul": 7,
    "matmul_burst": 1,
    "matmul_best": 2,
    "exact_matmul": 2,
    "memory_pattern": 2,
    "stream": 3,
    "matmul.mxfp8": 1,
    "matmul.fp4": 1,
    "stream.write": 1,
    "stream.copy_kernel": 1,
    "stream_windows": 1,
    "host_copy": 3 * 8,  # one device after the other
    "host_latency": 8,
    "host_copy_all": 3,
    "peer_copy": 2,
    "peer_copy_all": 2,
    "all_reduce": 1,
    "ddp_step": 1,
    "soak": 1,
}

shipped = cache(loader.load)

INFORMING = ("matmul_burst", "matmul_best", "peer_copy_all", *(name for name in BUDGETS if "." in name))


def test_every_packaged_probe_has_a_budget_at_every_level() -> None:
    measuring = {name for name in probes.__all__ if callable(getattr(probes, name))} - set(FACTS)
    assert {name.partition(".")[0] for name in BUDGETS} == measuring
    assert set(BUDGETS) == set(MEASUREMENTS)
    assert all(set(each) == set(LEVELS) for each in [*BUDGETS.values(), OWN_PROBE])


@pytest.mark.parametrize(("level", "minutes"), [("quick", 2), ("standard", 15)])
@pytest.mark.parametrize("sku", [name for name in loader.names() if name != "cpu"])
def test_a_level_keeps_the_time_that_it_states(sku: str, level: str, minutes: int) -> None:
    """With a quarter of it left for the processes to start and for what has to be measured again."""
    chosen = shipped(sku)
    seconds = sum(count * budget(probe, level, chosen) for probe, count in MEASUREMENTS.items())
    assert seconds <= 0.75 * minutes * 60


@pytest.mark.parametrize("probe", [name for name in BUDGETS if name not in INFORMING])
def test_a_longer_level_measures_longer(probe: str) -> None:
    quick, standard, long = (budget(probe, level, None) for level in LEVELS)
    assert 0 < quick < standard < long


@pytest.mark.parametrize("probe", INFORMING)
def test_what_only_informs_is_not_measured_nightly(probe: str) -> None:
    quick, standard, long = (budget(probe, level, None) for level in LEVELS)
    assert quick == 0 < standard <= long


def test_the_sku_file_may_say_otherwise() -> None:
    sku = replace(loader.load("h100-sxm"), budgets={"quick": {"matmul": 9.0}})
    assert budget("matmul", "quick", sku) == 9.0
    assert budget("matmul", "standard", sku) == BUDGETS["matmul"]["standard"]


def test_a_metric_may_have_a_budget_of_its_own_and_the_file_says_otherwise() -> None:
    assert budget("stream", "quick", None, "write@mib=64") == 0.0
    assert budget("stream", "quick", None, "copy@mib=64") == BUDGETS["stream"]["quick"]
    sku = replace(loader.load("h100-sxm"), budgets={"quick": {"stream": 9.0, "stream.copy_kernel": 2.0}})
    assert [budget("stream", "quick", sku, op) for op in ("copy", "copy_kernel", "write")] == [9.0, 2.0, 0.0]


def test_a_probe_of_ones_own_has_a_budget_too() -> None:
    assert [budget("mine", level, None) for level in LEVELS] == list(OWN_PROBE.values())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", loader.names())
def test_a_level_has_time_for_what_it_requires(name: str, level: str) -> None:
    """Or no node of the SKU could ever be accepted at it."""
    sku = shipped(name)
    for platform in sku.platforms.values():
        for metric in requirements.required_at(level, sku.limits_on(platform)):
            probe = metrics.probe_of(metric)
            assert probe in FACTS or budget(probe, level, sku, metric.partition(".")[2]) > 0, metric
