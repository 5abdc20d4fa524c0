"""Facts that a device states otherwise in mid-run than before: judged by the worst value, and told with when."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from support.judged_tables import tabled

from pytest_accel.core.fact_metrics import ERROR_COUNTERS, FACT_METRICS
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.facts.changed_facts import BY_LOAD, COUNTED, WATCHED, FactWatch
from pytest_accel.judging.verdicts.judge_attempts import judge

FACTS: dict[str, Any] = {
    **dict.fromkeys(("power_limit_w", "power_limit_requested_w", "power_limit_default_w"), 700.0),
    **dict.fromkeys(("clock_application_mhz", "clock_application_default_mhz"), 1980),
    **dict.fromkeys(("ecc", "ecc_pending"), True),
    **dict.fromkeys(("fabric_faults", "processes"), ()),
    "reasons": 0x4,
    "nvlink_count": 18,
    "pcie_width": 16,
}


def watch(devices: int = 2) -> FactWatch:
    seen = FactWatch()
    seen.begin(Device(f"GPU-{place}", place, "nvidia", "H100", facts=FACTS) for place in range(devices))
    return seen


def after(**facts: Any) -> list[Measurement]:
    """What changed of the first of two devices when it states these facts after matmul.bf16."""
    seen = watch()
    for during, said in (("stream.triad", {}), ("matmul.bf16", facts)):
        seen.enter(1.0, during, {"GPU-0": {**FACTS, **said}, "GPU-1": FACTS})
    return seen.take()


WHEN = "between stream.triad and matmul.bf16"


@tabled("facts, said", "data/judging/changed-facts.yaml")
def test_what_changed_and_when(facts: dict[str, Any], said: dict[str, str]) -> None:
    assert {change.metric: change.note("changed") for change in after(**facts)} == said


def test_a_change_is_told_once_and_another_one_again() -> None:
    seen = watch()
    for during, watts in (("a", 700.0), ("b", 630.0), ("c", 630.0), ("d", 700.0)):
        seen.enter(1.0, during, {"GPU-0": {**FACTS, "power_limit_w": watts}})
    said = [each.note("changed") for each in seen.take() if each.metric == "inventory.power_limit"]
    assert said == ["power limit 700 W -> 630 W between a and b", "power limit 630 W -> 700 W between c and d"]
    assert seen.take() == []


def test_facts_of_the_links_changed_since_they_were_read_last() -> None:
    seen = watch()
    without = {name: value for name, value in FACTS.items() if name != "nvlink_count"}
    for during, said in (("the start", FACTS), ("stream.copy", without), ("", {**FACTS, "nvlink_count": 17})):
        seen.enter(1.0, during, {"GPU-0": said})
    assert [each.note("changed") for each in seen.take()] == ["nvlink count 18 -> 17 between the start and the end"]
    seen = watch()
    seen.enter(1.0, "the start", {"GPU-0": {**FACTS, "pcie_width": 8}})
    assert "between the discovery and the start" in seen.take()[0].note("changed"), "before the first probe"


DEMANDS = Limit("health.power_limit_lowered", "W", equals=0)
ADVICE = replace(DEMANDS, warns=True)
BEFORE = Measurement("health.power_limit_lowered", "GPU-0", "W", 0.0)


def test_a_change_fails_if_it_breaks_the_limit_and_is_marginal_otherwise() -> None:
    (lowered,) = after(power_limit_requested_w=630.0)
    holds = Limit(DEMANDS.metric, "W", ceiling=100.0)  # it holds, but the node is not the same
    for limit, status in ((DEMANDS, Status.FAIL), *((each, Status.MARGINAL) for each in (ADVICE, holds, None))):
        verdict = judge([BEFORE, lowered], limit)
        assert (verdict.status, verdict.attempts) == (status, 2), "a record that is judged again counts the change"
        assert f"power limit requested 700 W -> 630 W {WHEN}" in sentence_of(verdict)
    back = judge([BEFORE, lowered, replace(lowered, value=0.0)], DEMANDS)
    assert (back.status, back.value) == (Status.FAIL, 70.0), "it was broken all the same"


def test_one_device_that_changes_differs_from_the_others() -> None:
    seen = watch(3)
    seen.enter(1.0, "soak.rate", {"GPU-0": {**FACTS, "power_limit_w": 630.0}, "GPU-1": FACTS, "GPU-2": FACTS})
    (found,) = [each for each in seen.take() if each.metric == "inventory.power_limit"]
    verdict = judge([found], Limit(found.metric, "W", same_on_all=True))
    assert verdict.status is Status.FAIL
    assert sentence_of(verdict).startswith("630 W, but 700 W on 2 of 3 devices; power limit 700 W -> 630 W between")


def test_every_fact_is_watched_or_counted_or_changes_by_load() -> None:
    counted = {fact for counter in ERROR_COUNTERS.values() for fact in (counter.fact, *counter.extras)}
    left = [
        metric
        for metric, figure in FACT_METRICS.items()
        if metric not in (*WATCHED, *BY_LOAD, *COUNTED) and not counted & set(figure.facts)
    ]
    assert left == []
    assert {"inventory.power_limit", "health.clock_lock", "inventory.pcie_gen_max"} <= set(WATCHED)
