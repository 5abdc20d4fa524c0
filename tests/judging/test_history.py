"""A device against its own past: which runs count, how large a drop is a finding, and what is said of devices."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.judged_tables import tabled

from pytest_accel.core.measurement import NODE, Device, Measurement
from pytest_accel.core.reasons import AllAlike, BehindPast, Note
from pytest_accel.core.sku_types import Source, Spread
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import Result, Status, Verdict
from pytest_accel.judging.verdicts.background import Background
from pytest_accel.judging.verdicts.history import History, is_baseline, key, plausible
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.run import baseline

Terms = Mapping[str, str]
GPU = Device("GPU-0", 0, "nvidia", "H100", serial="165", pci_address="0000:1a:00.0", facts={"vbios": "96.00"})
SPREAD = Spread(Source("measured", "us", "2026-11"), between_runs=0.002, runs=20)


def memory(value: float, subject: str = "GPU-0", **changes: Any) -> Measurement:
    return replace(Measurement("stream.triad", subject, "GB/s", value, conditions={"array": "1 GiB"}), **changes)


def run(
    day: int, value: float, result: Result = Result.ACCEPTED, terms: Terms | None = None, of: Any = None
) -> Summary:
    """Return a run of January 2026."""
    started, figures = f"2026-01-{day:02}T02:00:00+00:00", {key(of or memory(value)): {"GPU-0": value}}
    return earlier(started, [GPU], figures, result=result, terms=terms or {}, path=Path(f"r{day}"))


def earlier(
    started: str, devices: Sequence[Device], figures: Mapping[str, Mapping[str, float]] | None = None, **changes: Any
) -> Summary:
    return replace(Summary(started, result=Result.ACCEPTED, devices=devices, figures=figures or {}), **changes)


def bare(uuid: str, serial: str | None = None) -> Device:
    return Device(uuid, 0, "nvidia", "H100", serial=serial)


def verdict(
    runs: Sequence[Summary],
    *attempts: Measurement,
    spread: Spread | None = SPREAD,
    terms: Mapping[str, str] | None = None,
    devices: Sequence[Device] = (GPU,),
    not_repeated: str = "",
) -> Verdict:
    past_of = History(runs, devices, lambda: terms or {}).past
    return judge(attempts, None, background=Background(spread=spread, past_of=past_of, not_repeated=not_repeated))


def past(found: Verdict) -> tuple[str, str, float]:
    """The run that a verdict compares with, its day and its value."""
    assert found.past
    assert BehindPast() in found.reasons
    return found.past.since or "", found.past.day, found.past.middle


def test_a_drop_is_told_with_date_and_figure() -> None:
    found = verdict([run(3, 3000.0), run(9, 2990.0)], memory(2880.0))
    assert found.status is Status.MARGINAL
    assert found.behind, "worth another measurement"
    assert found.reasons == (Note("value"), BehindPast())
    assert found.past
    assert (round(found.past.lost, 3), round(found.past.allowed, 3)) == (0.04, 0.011)
    assert (found.past.middle, found.past.since, found.past.day) == (3000.0, "first accepted", "2026-01-03")
    assert verdict([run(3, 3000.0)], memory(2970.0)).status is Status.NOT_APPLICABLE
    known, unknown = (verdict([run(3, 3000.0)], memory(2960.0), spread=spread).status for spread in (SPREAD, None))
    assert (known, unknown) == (Status.MARGINAL, Status.NOT_APPLICABLE)


def test_a_text_in_a_foreign_record_is_compared_with_nothing() -> None:
    text = replace(memory(2880.0), value="n/a")
    assert verdict([run(3, 3000.0)], text).status is Status.NOT_APPLICABLE


def test_which_run_is_compared_with() -> None:
    faster = verdict([run(3, 2800.0), run(9, 3000.0)], memory(2850.0))
    assert past(faster) == ("last", "2026-01-09", 3000.0)
    slower = verdict([run(day, 3000.0 - 5 * day) for day in range(1, 20)], memory(2900.0), spread=None)
    assert past(slower) == ("first accepted", "2026-01-01", 2995.0), "a slow loss shows"
    rejected = run(1, 5000.0, Result.REJECTED)
    found = verdict([rejected, run(3, 3000.0), run(9, 2880.0, Result.REJECTED)], memory(2880.0))
    assert past(found) == ("first accepted", "2026-01-03", 3000.0)
    assert past(verdict([rejected], memory(2880.0))) == ("last", "2026-01-01", 5000.0)


def test_what_differs_is_said() -> None:
    then, now = {"torch": "2.6", "driver": "570", "level": "quick"}, {"torch": "2.7", "driver": "570"}
    found = verdict([run(3, 3000.0, terms=then)], memory(2880.0), terms=now)
    assert found.past
    assert found.past.differs == {"torch": ("2.6", "2.7")}


def test_another_method_is_not_compared() -> None:
    other = memory(3000.0, conditions={"array": "2 GiB"})
    assert verdict([run(3, 3000.0, of=other)], memory(2880.0)).status is Status.NOT_APPLICABLE
    calls = memory(2880.0, conditions={"array": "1 GiB", "operations_per_block": 7})
    assert verdict([run(3, 3000.0)], calls).status is Status.MARGINAL, "a count of operations is no method"


def test_a_shortfall_has_to_be_confirmed() -> None:
    runs, first = [run(3, 3000.0)], memory(2880.0)
    assert verdict(runs, first, memory(2995.0)).status is Status.NOT_APPLICABLE
    assert verdict(runs, first, memory(2881.0)).status is Status.MARGINAL
    left = verdict(runs, memory(2880.0), not_repeated="no time")
    assert left.reasons[-1] == Note("repeat_without_time", "no time")


def test_a_drop_that_the_repeat_cannot_show_is_kept() -> None:
    """The repeat was disturbed, or made under other conditions; nothing clears what the first round showed."""
    first, shorter = memory(2800.0), memory(2800.0, conditions={"seconds": 60})
    disturbed = replace(first, notes=(Note("disturbed", "another process"),))
    for rounds in ((first, disturbed), (first, shorter), (disturbed, first)):
        found = verdict([run(3, 3000.0)], *rounds)
        assert (found.status, found.reasons[-1]) == (Status.MARGINAL, Note("one_round"))
    first, again = (replace(first, conditions={"earlier_copies": order}) for order in ("none", "d2h"))
    assert key(first) == key(again), "another order of copies is the same figure"


def between_runs(values: Sequence[float]) -> float | None:
    found = History([run(day, value) for day, value in enumerate(values, 1)], [GPU], dict).past(memory(3000.0))
    assert found
    return found.between_runs


def test_the_deviation_from_run_to_run_is_estimated_from_eight_runs_on() -> None:
    draw = random.Random(1)  # noqa: S311
    values = [3000.0 * (1 + draw.gauss(0, 0.01)) for _ in range(28)]
    assert between_runs(values) == pytest.approx(0.01, rel=0.5)
    assert between_runs(values[:7]) is None
    assert between_runs([0.0] * 11) is None
    assert (between_runs([3000.0 - 10 * day for day in range(28)]) or 1.0) < 0.001, "a slow loss does not widen it"


def of_all(*now: Sequence[Measurement], spread: Spread | None = None) -> Verdict:
    """The verdict on the first of these devices, which all had 3000 GB/s."""
    devices = [bare(attempts[0].subject) for attempts in now]
    figures = {key(memory(3000.0)): dict.fromkeys((each.uuid for each in devices), 3000.0)}
    history = History([earlier("2026-01-03", devices, figures, path=Path("r3"))], devices, dict)
    return judge(now[0], None, background=Background(now, now, spread, history.past))


def test_devices_that_dropped_alike_share_the_cause() -> None:
    now = [[memory(2800.0, f"GPU-{place}")] for place in range(4)]
    assert of_all(*now, spread=SPREAD).reasons[-1] == AllAlike(4)
    now[1] = [memory(3000.0, "GPU-1")]
    assert AllAlike(4) not in of_all(*now, spread=SPREAD).reasons


@tabled("own, others, status", "data/judging/history.yaml")
def test_without_a_spread_a_device_may_lose_what_the_like_devices_lost(
    own: float, others: float, status: Status
) -> None:
    now = [[memory(3000.0 * (1 - (others if place else own)), f"GPU-{place}")] * 2 for place in range(5)]
    assert of_all(*now).status is status
    assert of_all(*now[:3]).status is Status.MARGINAL, "two others tell nothing"


@tabled("one, counts", "data/judging/history.yaml")
def test_which_figures_a_later_run_is_compared_with(one: Measurement, counts: bool) -> None:
    assert is_baseline(one) is counts


def test_a_figure_of_the_node_counts_for_the_same_devices() -> None:
    node = memory(400.0, NODE)
    then = earlier("2026-01-03T", [GPU], {key(node): {NODE: 450.0}})
    assert verdict([then], node).status is Status.MARGINAL
    two = [GPU, replace(GPU, uuid="GPU-1")]
    assert verdict([then], node, devices=two).status is Status.NOT_APPLICABLE


def told(runs: Sequence[Summary], now: Sequence[Device]) -> list[str]:
    found = baseline.changes(runs, now)
    return [f"since {day}: {change.names[0]} {change.item}: {change.before} -> {change.after}" for day, change in found]


def changes(*now: Device, then: Sequence[Device] = (GPU,)) -> list[str]:
    return told([earlier("2026-01-03T", then)], now)


def test_what_became_of_the_devices_is_said() -> None:
    assert changes(GPU) == []
    slot = "since 2026-01-03: gpu0 slot: 0000:1a:00.0 -> 0000:2b:00.0"
    assert changes(replace(GPU, pci_address="0000:2b:00.0")) == [slot]
    assert changes(replace(GPU, facts={"vbios": "96.01"})) == ["since 2026-01-03: gpu0 vbios: 96.00 -> 96.01"]
    assert changes(replace(GPU, uuid="GPU-9")) == ["since 2026-01-03: gpu0 device: GPU-0 -> GPU-9"]
    where = "in slot 0000:1a:00.0"
    other = f"since 2026-01-03: gpu0 device: serial 165 {where} -> serial 900 {where}"
    assert changes(replace(GPU, serial="900")) == [other]
    stays = replace(GPU, uuid="GPU-1", index=1, serial="166", pci_address=None)
    then = (GPU, bare("GPU-1", "166"))
    assert changes(replace(GPU, uuid="GPU-9", serial="900"), stays, then=then) == [other]


def test_the_run_of_a_node_that_one_board_came_from_does_not_tell_what_is_gone() -> None:
    runs = [earlier(f"2026-01-0{day}T", [bare(f"{of}{n}") for n in range(8)]) for day, of in ((3, "A"), (4, "B"))]
    now = [replace(bare(f"A{n}" if n != 3 else "B5"), index=n) for n in range(8)]
    gone, new = "since 2026-01-03: then gpu0 device: A3 -> gone", "since 2026-01-03: gpu3 device: not there -> B5"
    assert told(runs, now) == [gone, new]
    assert told(runs[:1], [bare(f"A{n}") for n in range(8)]) == [], "what is not measured is not gone"


def test_a_figure_far_above_the_other_devices_is_no_history() -> None:
    values = {"GPU-0": 29700.0, **{f"GPU-{n}": 2970.0 for n in range(1, 8)}}
    assert "GPU-0" not in plausible({key(memory(1.0)): values})[key(memory(1.0))]
    slow = {**values, "GPU-0": 297.0}
    assert plausible({key(memory(1.0)): slow}) == {key(memory(1.0)): slow}


def test_a_new_device_has_no_past_and_the_others_keep_theirs() -> None:
    runs, devices = [run(3, 3000.0)], [GPU, replace(GPU, uuid="GPU-9", serial="900", index=1)]
    assert verdict(runs, memory(2000.0, "GPU-9"), devices=devices).status is Status.NOT_APPLICABLE
    assert verdict(runs, memory(2000.0), devices=devices).status is Status.MARGINAL
    other = replace(GPU, serial="900")
    assert verdict(runs, memory(2000.0), devices=[other]).status is Status.NOT_APPLICABLE, "another serial, same UUID"
