"""A device against its own past: which runs count, how large a drop is a finding, and what is said of devices."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_accel.core.measurement import NODE, Device, Measurement, Trouble
from pytest_accel.core.reasons import AllAlike, BehindPast, Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Source, Spread
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.background import Background
from pytest_accel.judging.verdicts.history import History, kept, key, plausible
from pytest_accel.judging.verdicts.judge import judge
from pytest_accel.run.baseline import changes as told

GPU = Device("GPU-0", 0, "nvidia", "H100", serial="165", pci_address="0000:1a:00.0", facts={"vbios": "96.00"})
SPREAD = Spread(Source("measured", "us", "2026-11"), between_runs=0.002, runs=20)


def memory(value: float, subject: str = "GPU-0", **changes: Any) -> Measurement:
    return replace(Measurement("stream.triad", subject, "GB/s", value, conditions={"array": "1 GiB"}), **changes)


def run(
    day: int,
    value: float,
    word: str = "ACCEPTED",
    terms: Mapping[str, str] | None = None,
    of: Measurement | None = None,
) -> Summary:
    """Return a run of January 2026."""
    figures = {key(of or memory(value)): {"GPU-0": value}}
    return earlier(
        f"2026-01-{day:02}T02:00:00+00:00", [GPU], figures, word=word, terms=terms or {}, path=Path(f"r{day}")
    )


def earlier(
    started: str, devices: Sequence[Device], figures: Mapping[str, Mapping[str, float]] | None = None, **changes: Any
) -> Summary:
    return replace(Summary(started, word="ACCEPTED", devices=devices, figures=figures or {}), **changes)


def bare(uuid: str, serial: str | None = None) -> Device:
    return Device(uuid, 0, "nvidia", "H100", serial=serial)


def verdict(
    runs: Sequence[Summary],
    *attempts: Measurement,
    spread: Spread | None = SPREAD,
    terms: Mapping[str, str] | None = None,
    devices: Sequence[Device] = (GPU,),
) -> Verdict:
    history = History(runs, devices, lambda: terms or {})
    return judge(attempts, None, background=Background(spread=spread, past_of=history.past))


def past(found: Verdict) -> tuple[str, str, float]:
    """The run that a verdict compares with, its day and its value."""
    (behind,) = [each for each in found.reasons if isinstance(each, BehindPast)]
    return behind.since, behind.day, behind.value


def test_a_drop_is_told_with_date_and_figure() -> None:
    found = verdict([run(3, 3000.0), run(9, 2990.0)], memory(2880.0))
    assert found.status is Status.MARGINAL
    assert found.behind, "worth another measurement"
    assert sentence_of(found) == (
        "2880 GB/s, 4.0% below its first accepted run of 2026-01-03 (3000; two runs differ by up to 1.1%)"
    )


@pytest.mark.parametrize(
    ("value", "spread", "status"),
    [
        (2970.0, SPREAD, Status.NOT_APPLICABLE),
        (2960.0, SPREAD, Status.MARGINAL),
        (2960.0, None, Status.NOT_APPLICABLE),  # nobody knows how much runs differ
        (2930.0, None, Status.MARGINAL),
        (3200.0, SPREAD, Status.NOT_APPLICABLE),
    ],
)
def test_how_large_a_drop_is_a_finding(value: float, spread: Spread | None, status: Status) -> None:
    assert verdict([run(3, 3000.0)], memory(value), spread=spread).status is status


def test_the_last_run_counts_where_the_device_has_become_faster_since_the_first() -> None:
    found = verdict([run(3, 2800.0), run(9, 3000.0)], memory(2850.0))
    assert past(found) == ("last", "2026-01-09", 3000.0)


def test_a_slow_loss_shows_against_the_first_accepted_run() -> None:
    runs = [run(day, 3000.0 - 5 * day) for day in range(1, 20)]
    found = verdict(runs, memory(2900.0), spread=None)
    assert past(found) == ("first accepted", "2026-01-01", 2995.0)


def test_rejected_runs_are_no_measure_but_for_the_last() -> None:
    found = verdict([run(1, 5000.0, "REJECTED"), run(3, 3000.0), run(9, 2880.0, "REJECTED")], memory(2880.0))
    assert past(found) == ("first accepted", "2026-01-03", 3000.0)
    only = verdict([run(1, 5000.0, "REJECTED")], memory(2880.0))
    assert past(only) == ("last", "2026-01-01", 5000.0)


def test_what_differs_is_said() -> None:
    then, now = {"torch": "2.6", "driver": "570", "level": "quick"}, {"torch": "2.7", "driver": "570"}
    found = verdict([run(3, 3000.0, terms=then)], memory(2880.0), terms=now)
    (behind,) = [each for each in found.reasons if isinstance(each, BehindPast)]
    assert behind.differs == {"torch": ("2.6", "2.7")}


def test_another_method_is_not_compared() -> None:
    other = memory(3000.0, conditions={"array": "2 GiB"})
    assert verdict([run(3, 3000.0, of=other)], memory(2880.0)).status is Status.NOT_APPLICABLE
    calls = memory(2880.0, conditions={"array": "1 GiB", "operations_per_block": 7})
    assert verdict([run(3, 3000.0)], calls).status is Status.MARGINAL, "a count of operations is no method"


def test_a_finding_has_to_be_confirmed() -> None:
    runs = [run(3, 3000.0)]
    assert verdict(runs, memory(2880.0), memory(2995.0)).status is Status.NOT_APPLICABLE
    assert verdict(runs, memory(2880.0), memory(2881.0)).status is Status.MARGINAL
    left = memory(2880.0, details={"not_repeated": "no time"})
    assert verdict(runs, left).reasons[-1] == Note("repeat_without_time", "no time")


def test_a_time_has_become_longer() -> None:
    step = Measurement("mine.step", "GPU-0", "ms", 11.0)
    found = verdict([run(3, 10.0, of=step)], step)
    assert past(found) == ("first accepted", "2026-01-03", 10.0)


def test_the_deviation_from_run_to_run_is_estimated_from_eight_runs_on() -> None:
    draw = random.Random(1)  # noqa: S311
    values = [3000.0 * (1 + draw.gauss(0, 0.01)) for _ in range(28)]
    history = History([run(day + 1, value) for day, value in enumerate(values)], [GPU], dict)
    past = history.past(memory(3000.0))
    assert past is not None
    assert past.between_runs == pytest.approx(0.01, rel=0.5)
    few = History([run(day + 1, value) for day, value in enumerate(values[:7])], [GPU], dict).past(memory(3000.0))
    assert few is not None
    assert few.between_runs is None


def test_a_slow_loss_does_not_widen_the_deviation() -> None:
    history = History([run(day, 3000.0 - 10 * day) for day in range(1, 29)], [GPU], dict)
    past = history.past(memory(3000.0))
    assert past is not None
    assert past.between_runs is not None
    assert past.between_runs < 0.001


def test_devices_that_dropped_alike_share_the_cause() -> None:
    devices = [replace(GPU, uuid=f"GPU-{place}", index=place, serial=None) for place in range(4)]
    name = key(memory(3000.0))
    figures = {name: {each.uuid: 3000.0 for each in devices}}
    history = History([earlier("2026-01-03T", [bare(each.uuid) for each in devices], figures)], devices, dict)
    now = [[memory(2800.0, each.uuid)] for each in devices]
    found = judge(now[0], None, background=Background(now, now, SPREAD, history.past))
    assert found.reasons[-1] == AllAlike(4)
    now[1] = [memory(3000.0, "GPU-1")]
    assert AllAlike(4) not in judge(now[0], None, background=Background(now, now, SPREAD, history.past)).reasons


@pytest.mark.parametrize(
    ("own", "others", "status"),
    [
        (0.025, 0.0, Status.MARGINAL),
        (0.025, 0.01, Status.NOT_APPLICABLE),
        (0.025, -0.004, Status.MARGINAL),
        (0.05, 0.05, Status.MARGINAL),  # what all lost counts from twice 2 % on
    ],
)
def test_without_a_spread_a_device_may_lose_what_the_like_devices_lost(
    own: float, others: float, status: Status
) -> None:
    names = [f"GPU-{place}" for place in range(5)]
    devices = [bare(name) for name in names]
    figures = {key(memory(3000.0)): dict.fromkeys(names, 3000.0)}
    runs = [earlier("2026-01-03", devices, figures, path=Path("r3"))]
    now = [[memory(3000.0 * (1 - (others if place else own)), name)] * 2 for place, name in enumerate(names)]
    history = History(runs, devices, dict)
    assert judge(now[0], None, background=Background(now, now, None, history.past)).status is status
    alone = judge(now[0], None, background=Background(now[:3], now[:3], None, history.past))
    assert alone.status is Status.MARGINAL, "two others tell nothing"


@pytest.mark.parametrize(
    ("one", "counts"),
    [
        (memory(3000.0), True),
        (memory(3000.0, NODE), True),
        (memory(3000.0, trouble=Trouble("need", "no time")), False),
        (memory(3000.0, disturbance="in use"), False),
        (memory(3000.0, details={"excuse": "loaded"}), False),
        (memory(3000.0, how="alone"), False),
        (Measurement("soak.power", "GPU-0", "W", 700.0), False),
        (Measurement("mine.delay", "GPU-0", "us", 7.0), False),
        (Measurement("inventory.nvlink_speed", "GPU-0", "GB/s", 25.0), False),
        (Measurement("ddp.step_ms", NODE, "ms", 25.0), False),
    ],
)
def test_which_figures_a_later_run_is_compared_with(one: Measurement, counts: bool) -> None:
    assert kept(one) is counts


def test_a_figure_of_the_node_counts_for_the_same_devices() -> None:
    node = memory(400.0, NODE)
    then = earlier("2026-01-03T", [GPU], {key(node): {NODE: 450.0}})
    assert verdict([then], node).status is Status.MARGINAL
    two = [GPU, replace(GPU, uuid="GPU-1")]
    assert verdict([then], node, devices=two).status is Status.NOT_APPLICABLE


def changes(*now: Device, then: Sequence[Device] = (GPU,)) -> list[str]:
    return told([earlier("2026-01-03T", then)], now)


def test_what_became_of_the_devices_is_said() -> None:
    assert changes(GPU) == []
    assert changes(replace(GPU, pci_address="0000:2b:00.0")) == [
        "since 2026-01-03: gpu0 slot: 0000:1a:00.0 -> 0000:2b:00.0"
    ]
    assert changes(replace(GPU, facts={"vbios": "96.01"})) == ["since 2026-01-03: gpu0 vbios: 96.00 -> 96.01"]
    stays = replace(GPU, uuid="GPU-1", index=1, serial="166", pci_address=None)
    then = (GPU, bare("GPU-1", "166"))
    assert changes(replace(GPU, uuid="GPU-9", serial="900"), stays, then=then) == [
        "since 2026-01-03: gpu0 device: serial 165 in slot 0000:1a:00.0 -> serial 900 in slot 0000:1a:00.0",
    ]
    assert changes(replace(GPU, uuid="GPU-9")) == ["since 2026-01-03: gpu0 device: GPU-0 -> GPU-9"]
    assert changes(replace(GPU, serial="900")) == [
        "since 2026-01-03: gpu0 device: serial 165 in slot 0000:1a:00.0 -> serial 900 in slot 0000:1a:00.0"
    ]


def test_a_device_that_is_not_measured_is_not_gone() -> None:
    two = [GPU, replace(GPU, uuid="GPU-1", index=1, serial="166")]
    assert told([earlier("2026-01-03T", [bare(each.uuid) for each in two])], two) == []


def test_the_run_of_a_node_that_one_board_came_from_does_not_tell_what_is_gone() -> None:
    then = earlier("2026-01-03T", [bare(f"A{n}") for n in range(8)])
    other = earlier("2026-01-04T", [bare(f"B{n}") for n in range(8)])
    now = [replace(GPU, uuid=f"A{n}" if n != 3 else "B5", index=n, serial=None, pci_address=None) for n in range(8)]
    assert told([then, other], now) == [
        "since 2026-01-03: gpu0 device: A3 -> gone", "since 2026-01-03: gpu3 device: not there -> B5",
    ]  # fmt: skip


def test_a_drop_that_the_repeat_cannot_show_is_kept() -> None:
    """The repeat was disturbed, or made under other conditions; nothing clears what the first round showed."""
    first, again = memory(2800.0), replace(memory(2800.0), disturbance="another process")
    found = verdict([run(3, 3000.0)], first, again)
    assert found.status is Status.MARGINAL
    assert found.reasons[-1] == Note("one_round")
    shorter = replace(first, conditions={"seconds": 60})
    for rounds in ((first, shorter), (again, first)):
        assert verdict([run(3, 3000.0)], *rounds).reasons[-1] == Note("one_round")


def test_a_repeat_in_another_order_of_copies_is_the_same_figure() -> None:
    one = replace(memory(2800.0), conditions={"earlier_copies": "none"})
    assert key(one) == key(replace(one, conditions={"earlier_copies": "d2h"}))


def test_runs_without_a_rate_tell_no_deviation() -> None:
    past = History([run(day, 0.0) for day in range(1, 12)], [GPU], dict).past(memory(3000.0))
    assert past is not None
    assert past.between_runs is None


def test_a_figure_far_above_the_other_devices_is_no_history() -> None:
    values = {"GPU-0": 29700.0, **{f"GPU-{n}": 2970.0 for n in range(1, 8)}}
    assert "GPU-0" not in plausible({key(memory(1.0)): values})[key(memory(1.0))]
    slow = {**values, "GPU-0": 297.0}
    assert plausible({key(memory(1.0)): slow}) == {key(memory(1.0)): slow}


def test_another_serial_under_the_same_uuid_has_no_past() -> None:
    other = replace(GPU, serial="900")
    assert verdict([run(3, 3000.0)], memory(2000.0), devices=[other]).status is Status.NOT_APPLICABLE


def test_a_new_device_has_no_past_and_the_others_keep_theirs() -> None:
    devices = [GPU, replace(GPU, uuid="GPU-9", serial="900", index=1)]
    runs = [run(3, 3000.0)]
    assert verdict(runs, memory(2000.0, "GPU-9"), devices=devices).status is Status.NOT_APPLICABLE
    assert verdict(runs, memory(2000.0), devices=devices).status is Status.MARGINAL
