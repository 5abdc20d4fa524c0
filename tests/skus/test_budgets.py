"""The levels promise a time: quick under 2 minutes, standard under 15."""

from dataclasses import replace
from functools import cache

import packaged_suite
import pytest

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.sku import Sku
from pytest_accel.probes.declare import DEFAULT_BUDGETS, Declaration, declaration_for, declaration_of, declarations
from pytest_accel.skus import loader, requirements
from pytest_accel.skus.budgets import budget

DEVICES = 8


def measurements() -> list[tuple[Declaration, str]]:
    """Return the measurements of the packaged suite on a node of eight, once for each turn."""
    every = {(each.probe, repr(each.conditions)): each.metric for each in packaged_suite.requests()}
    turns = [(declaration_for(probe), metric) for (probe, _), metric in every.items()]
    return [turn for turn in turns for _ in range(DEVICES if turn[0].runs == "in_turn" else 1)]


shipped = cache(loader.load)

MEASURING = {each.name: each for each in declarations() if each.packaged and not each.fact}
NAMES = [
    *MEASURING,
    *(f"{name}.{variant}" for name, each in MEASURING.items() for variant in each.budgets_of),
]
INFORMING = ("matmul_burst", "matmul_best", "peer_copy_all", *(name for name in NAMES if "." in name))

COUNTED = ("matmul_mamf",)
"""Probes that make a certain number of calls, whatever the level."""


def seconds_for(name: str, level: str, sku: Sku | None = None, size: str = "") -> float:
    """The budget of a probe, or of one variant of it."""
    probe, _, variant = name.partition(".")
    return budget(MEASURING[probe], f"metric.{variant}{size}", level, sku)


def test_every_packaged_probe_declares_a_budget_at_every_level() -> None:
    assert {declared.name for declared, _ in measurements()} == set(MEASURING)
    assert all(set(each.budgets) == set(LEVELS) for each in MEASURING.values())


@pytest.mark.parametrize(("level", "minutes"), [("quick", 2), ("standard", 15)])
@pytest.mark.parametrize("sku", [name for name in loader.names() if name != "cpu"])
def test_a_level_keeps_the_time_that_it_states(sku: str, level: str, minutes: int) -> None:
    """With a quarter of it left for the processes to start and for what has to be measured again."""
    chosen = shipped(sku)
    seconds = sum(budget(declared, metric, level, chosen) for declared, metric in measurements())
    assert seconds <= 0.75 * minutes * 60


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*INFORMING, *COUNTED)])
def test_a_longer_level_measures_longer(name: str) -> None:
    quick, standard, long = (seconds_for(name, level) for level in LEVELS)
    assert 0 < quick < standard < long


@pytest.mark.parametrize("name", INFORMING)
def test_what_only_informs_is_not_measured_nightly(name: str) -> None:
    quick, standard, long = (seconds_for(name, level) for level in LEVELS)
    assert quick == 0 < standard <= long


def test_the_sku_file_may_say_otherwise() -> None:
    sku = replace(loader.load("h100-sxm"), budgets={"quick": {"matmul": 9.0}})
    assert seconds_for("matmul", "quick", sku) == 9.0
    assert seconds_for("matmul", "standard", sku) == seconds_for("matmul", "standard")


def test_a_metric_may_have_a_budget_of_its_own_and_the_file_says_otherwise() -> None:
    assert seconds_for("stream.write", "quick", size="@mib=64") == 0.0
    assert seconds_for("stream.copy", "quick", size="@mib=64") == seconds_for("stream", "quick")
    sku = replace(loader.load("h100-sxm"), budgets={"quick": {"stream": 9.0, "stream.copy_kernel": 2.0}})
    assert [seconds_for(f"stream.{op}", "quick", sku) for op in ("copy", "copy_kernel", "write")] == [9.0, 2.0, 0.0]


def test_a_probe_of_ones_own_has_a_budget_too() -> None:
    def mine(device: object) -> None: ...

    assert [budget(declaration_for(mine), "mine", level, None) for level in LEVELS] == list(DEFAULT_BUDGETS.values())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", loader.names())
def test_a_level_has_time_for_what_it_requires(name: str, level: str) -> None:
    """Or no node of the SKU could ever be accepted at it."""
    sku = shipped(name)
    for platform in sku.platforms.values():
        for metric in requirements.required_at(level, sku.limits_on(platform)):
            declared = declaration_of(metric)
            assert declared, metric
            assert declared.fact or budget(declared, metric, level, sku) > 0, metric
