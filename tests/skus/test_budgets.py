"""The levels promise a time: quick under 2 minutes, standard under 15."""

from dataclasses import replace
from pathlib import Path

import pytest
from support import packaged_suite
from support.data_files import tables
from support.rows import each_row
from support.shipped import load as shipped

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.sku_types import Sku
from pytest_accel.probes.collectives import OPERATIONS, OTHERS_SIZE
from pytest_accel.probes.declare import DEFAULT_BUDGETS, Declaration, declaration_for, declaration_of, declarations
from pytest_accel.skus import loader, requirements
from pytest_accel.skus.budgets import budget, levels_with_time
from pytest_accel.skus.peaks import why_not_applicable
from pytest_accel.views.plan import planned

ROWS = tables("skus/budgets")


def measurements() -> list[tuple[Declaration, str]]:
    """Return the measurements of the packaged suite, one for each call of a probe."""
    every = {(each.probe, repr(each.conditions)): each.metric for each in packaged_suite.requests()}
    return [(declaration_for(probe), metric) for (probe, _), metric in every.items()]


def existing(sku: Sku) -> list[tuple[Declaration, str]]:
    """Return those that can exist on a product: bf16 does not before Ampere."""
    platform = next(iter(sku.platforms.values()))
    return [each for each in measurements() if why_not_applicable(sku, each[1], platform) is None]


MEASURING = {
    each.name: each for each in declarations() if each.packaged and each.runs not in ("facts", "nodes", "program")
}
NAMES = [
    *MEASURING,
    *(f"{name}.{variant}" for name, each in MEASURING.items() for variant in each.budgets_of),
]

COUNTED = ("matmul_mamf",)
"""Probes that make a certain number of calls, whatever the level."""


def seconds_for(name: str, level: str, sku: Sku | None = None, size: str = "") -> float:
    """The budget of a probe, or of one variant of it."""
    probe, _, variant = name.partition(".")
    return budget(MEASURING[probe], f"metric.{variant}{size}", level, sku)


def test_the_suite_asks_for_what_the_probes_declare() -> None:
    """An accepted record lacks none of these."""
    declared = {metric for each in MEASURING.values() for metric in each.asked()}
    collectives = {"all_reduce.busbw@8GiB", *(f"{each}.busbw@{OTHERS_SIZE}" for each in OPERATIONS[1:])}
    assert {each.metric for each in packaged_suite.requests()} == declared | collectives


def test_every_packaged_probe_declares_a_budget_at_every_level() -> None:
    assert {declared.name for declared, _ in measurements()} == set(MEASURING)
    assert all(set(each.budgets) == set(LEVELS) for each in MEASURING.values())


@pytest.mark.parametrize(("level", "minutes"), [("quick", 2), ("standard", 15)])
def test_a_level_keeps_the_time_that_it_states(level: str, minutes: int) -> None:
    """On eight devices, with everything around the samples, and also when something falls short on all of them."""
    totals = {name: planned(existing(shipped(name)), level, shipped(name), 8).total for name in loader.names()}
    assert {name: total for name, total in totals.items() if total > minutes * 60 and name != "cpu"} == {}


def test_a_longer_level_measures_longer() -> None:
    seconds = {name: [seconds_for(name, level) for level in LEVELS] for name in NAMES if name not in COUNTED}
    assert {
        name: each for name, each in seconds.items() if not (each[0] <= each[1] <= each[2] and each[0] < each[2])
    } == {}


def test_what_is_measured_nightly() -> None:
    """Little and well: the rest of the suite has its time at `standard`."""
    nightly = {metric for declared, metric in measurements() if budget(declared, metric, "quick", None)}
    nightly = {metric for metric in nightly if not metric.startswith(("soak.", "host_copy.pcie_", "matmul_mamf."))}
    assert sorted(nightly) == [
        "all_reduce.busbw@8GiB", "exact_matmul.bf16", "exact_matmul.fp32", "host_copy.d2h", "matmul.bf16", "matmul.fp8",
        "memory_pattern.cold", "memory_pattern.hot", "peer_copy.one_way", "stream.copy_kernel", "stream.triad",
    ]  # fmt: skip


def test_a_sustained_load_is_sampled_as_long_at_every_level() -> None:
    """A budget that is too short for that, the file's or the declared one, is prolonged; none stays none."""
    sku = replace(shipped("h100-sxm"), budgets={"quick": {"matmul": 2.0, "matmul.fp64": 0.0, "stream.triad": 0.5}})
    assert [seconds_for(name, "quick", sku) for name in ("matmul.int8", "matmul.fp64", "stream.triad")] == [5, 0, 0.5]


def test_a_metric_may_have_a_budget_of_its_own_and_the_file_says_otherwise() -> None:
    assert seconds_for("stream.dot", "quick", size="@mib=64") == 0.0
    assert seconds_for("stream.copy", "standard", size="@mib=64") == seconds_for("stream", "standard")
    sku = replace(shipped("h100-sxm"), budgets={"quick": {"stream": 9.0, "stream.copy_kernel": 2.0}})
    assert seconds_for("stream", "standard", sku) == seconds_for("stream", "standard")
    assert [seconds_for(f"stream.{op}", "quick", sku) for op in ("copy", "copy_kernel", "dot")] == [9.0, 2.0, 0.0]


def test_a_probe_of_ones_own_has_a_budget_too() -> None:
    def mine(device: object) -> None: ...

    assert [budget(declaration_for(mine), "mine", level, None) for level in LEVELS] == list(DEFAULT_BUDGETS.values())


@each_row(("metric", "budgets", "levels"), ROWS["levels"])
def test_a_limit_is_required_where_its_metric_has_time(
    metric: str, budgets: dict[str, dict[str, float]], levels: list[str]
) -> None:
    assert levels_with_time(declaration_of(metric), metric, budgets) == tuple(levels)


def test_a_file_may_state_the_levels_of_a_limit_itself(tmp_path: Path) -> None:
    source = "{kind: measured, by: us, date: 2026-11}"
    said = f"unit: TFLOPS, source: {source}"
    limits = f"{{matmul.tf32: {{floor: 300, {said}}}, matmul.fp16: {{floor: 600, {said}, levels: [quick, long]}}}}"
    (tmp_path / "ours.yaml").write_text(f"sku: ours\nextends: h100-sxm\nlimits: {limits}\n")
    found = loader.load(str(tmp_path / "ours.yaml")).limits
    assert found["matmul.tf32"].levels == ("standard", "long")
    assert found["matmul.fp16"].levels == ("quick", "long")


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_has_time_for_what_it_requires(level: str) -> None:
    """Or no node of the SKU could ever be accepted at it."""
    without = []
    for sku in map(shipped, loader.names()):
        for platform in sku.platforms.values():
            for metric in requirements.required_at(level, sku.limits_on(platform)):
                declared = declaration_of(metric)
                if not (declared and (declared.fact or budget(declared, metric, level, sku) > 0)):
                    without.append(f"{sku.name} {platform.name} {metric}")
    assert without == []
