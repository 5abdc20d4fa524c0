"""What the runs of a series have found together: the worst verdict on each limit, and the closing line."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.reasons import worded

from pytest_accel.core.measurement import NODE
from pytest_accel.core.run import Circumstances, Run
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Closing, Result, Status, Verdict, Waiver
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.closing.series_result import (
    DIRECTLY,
    SeriesRun,
    clock_set,
    closing,
    counts,
    directly,
    seconds_of,
    unfinished_runs,
    worst_verdicts,
)
from pytest_accel.skus.waivers import Waivers

LIMITS = ("stream.copy", "matmul.bf16", "health.ecc")
LIMIT = {metric: Limit(metric, "GB/s", floor=1.0, origin="f") for metric in LIMITS}
UUIDS = ("GPU-0", "GPU-1")
HOUR = 3600.0
TODAY = date(2026, 11, 25)


def verdict(metric: str, uuid: str, status: Status) -> Verdict:
    return Verdict(metric, uuid, status, worded("its reason"), floor=1.0, limit=LIMIT[metric])


def told(**changed: Status) -> list[Verdict]:
    """The verdicts of a run; `matmul_bf16=Status.FAIL` changes that of gpu1."""
    statuses = {name.replace("_", "."): status for name, status in changed.items()}
    return [
        verdict(metric, uuid, statuses.get(metric, Status.PASS) if uuid == "GPU-1" else Status.PASS)
        for metric in LIMITS
        for uuid in UUIDS
    ]


def run(number: int, verdicts: list[Verdict] | None = None, **more: Any) -> SeriesRun:
    """A run of an hour that follows the one before within 36 seconds."""
    began = (number - 1) * HOUR
    loaded = (began, began + 0.99 * HOUR)
    kept = [each for each in verdicts or () if each.status in (Status.FAIL, Status.MARGINAL)]
    terms = {"driver": "570"}
    made = SeriesRun(number, "finished", True, HOUR, "boot", f"at {number}", loaded, "", kept, terms)
    return replace(made, **more)


NAMES = {NODE: NODE, "GPU-0": "gpu0", "GPU-1": "gpu1"}
REQUIRED = [(metric, uuid, "f") for metric in LIMITS for uuid in UUIDS]
AROUND = Circumstances(required=REQUIRED, names=NAMES, expected_devices=2)


def closed(runs: list[SeriesRun], last: list[Verdict], hours: float = 2, **more: Any) -> Closing:
    return closing(runs, Run(info={}, verdicts=last, circumstances=AROUND), hours, **{"waivers": Waivers(), **more})


def test_a_series_whose_runs_hold_is_accepted_and_says_its_time() -> None:
    found = closed([run(1), run(2)], told())
    assert (found.result, found.exit) == ("ACCEPTED", 0)
    assert found.line.endswith("; 2 runs in 2 h, load paused for 0.5%")


def test_a_series_names_what_any_of_its_runs_loaded() -> None:
    found = closed([run(1, loaded_names=("LD_PRELOAD",)), run(2, loaded_names=("conftest.py", "LD_PRELOAD"))], told())
    assert found.line.startswith("ACCEPTED 2/2 devices (with LD_PRELOAD, conftest.py); 2 runs")


def test_a_limit_that_one_run_breaks_is_broken_and_what_it_finds_marginal_is_counted() -> None:
    found = closed([run(1), run(2, told(stream_copy=Status.FAIL)), run(3)], told(), 3)
    assert (found.result, found.exit, "gpu1: stream.copy" in found.line) == ("REJECTED", 1, True)
    assert found.line.endswith("found in run 2")
    assert "1 marginal: gpu1 stream.copy" in closed([run(1, told(stream_copy=Status.MARGINAL)), run(2)], told()).line


def test_a_disturbance_counts_in_the_last_run_alone() -> None:
    for status in (Status.INCONCLUSIVE, Status.UNMEASURED):
        disturbed = told(matmul_bf16=status)
        assert closed([run(1, disturbed), run(2)], told()).result == "ACCEPTED"
        found = closed([run(1), run(2, disturbed)], disturbed)
        assert (found.result, found.exit) == ("NOT JUDGED", 6)


def test_hours_that_are_not_over_are_no_acceptance() -> None:
    found = closed([run(1), run(2)], told(), hours=72)
    assert (found.result, found.exit) == ("NOT JUDGED", 6)
    assert found.line.endswith("; the hours are not over; 2 runs in 2 of 72 h, load paused for 0.5%")


def test_a_run_that_did_not_end_rules_out_acceptance_until_a_waiver_explains_it() -> None:
    killed = run(2, state="running", whole=False, seconds=0.0, last="2026-11-25T16:20:31+00:00")
    runs = [run(1), killed, run(3, boot="another")]
    found = closed(runs, told())
    assert (found.result, found.exit) == ("NOT JUDGED", 6)
    assert "series.run_2: UNMEASURED, began and did not end (boot boot, last reading 2026-11-25T16:20:31" in found.line
    assert "1 stop, 1 reboot" in found.line
    power = Waiver("series.run_2", "power cut of row 7", "the owner", TODAY + timedelta(1))
    assert closed(runs, told(), waivers=Waivers((power,), today=TODAY)).result == "ACCEPTED"
    other = replace(power, limit="series.run_3")
    assert closed(runs, told(), waivers=Waivers((other,), today=TODAY)).result == "NOT JUDGED"


def test_a_run_that_was_stopped_in_order_is_no_hindrance() -> None:
    stopped = run(2, state="interrupted", whole=False, seconds=0.0)
    assert unfinished_runs([stopped], Waivers()) == []
    found = closed([run(1), stopped, run(3)], told())
    assert found.result == "ACCEPTED"
    assert "1 stop" in found.line
    by_signal = Closing("INTERRUPTED (SIGTERM) after 3 limits: nothing was accepted", 2, Result.INTERRUPTED)
    found = closed([run(1), stopped], told(), stopped=by_signal)
    assert (found.result, found.exit) == ("INTERRUPTED", 2)


def test_other_software_in_a_later_run_is_no_acceptance() -> None:
    found = closed([run(1), run(2, terms={"driver": "580"})], told())
    assert (found.result, found.exit) == ("HELD", 6)
    assert "driver was 570 in run 1, and is 580 in run 2" in found.line


def test_long_pauses_are_no_acceptance_and_stops_are_no_pauses() -> None:
    late = run(2, loaded=(HOUR + DIRECTLY - 60, 2 * HOUR))
    found = closed([run(1), late], told())
    assert (found.result, found.exit) == ("HELD", 6)
    assert "the load may pause for 5% of the time" in found.line
    assert closed([run(1, state="interrupted", whole=False), late], told(), 1).result == "ACCEPTED"
    days = 86400.0
    assert closed([run(1), run(2, loaded=(days, days + HOUR))], told()).result == "ACCEPTED"


def test_a_run_follows_directly_in_the_same_boot_and_soon() -> None:
    before = timed("2026-11-25T11:00:00", "2026-11-25T12:00:00")
    assert directly(before, "b", NOON - BOOTED + 30)
    assert not directly(before, "b", NOON - BOOTED + DIRECTLY + 1)
    assert not directly(before, "c", NOON - BOOTED + 30)
    assert not directly(Run(info={"boot": "b"}), "b", NOON), "it never ended"


NOON = datetime(2026, 11, 25, 12, tzinfo=timezone.utc).timestamp()
BOOTED = NOON - 7200
"""When the host was booted, by the clock as it is at first."""
DAYS = 72 * HOUR


def timed(started: str, ended: str, step: float = 0.0) -> Run:
    """A run during which the wall clock was set by `step`."""
    times = {"started": f"{started}+00:00", "ended": f"{ended}+00:00", "epochs": (BOOTED, BOOTED + step)}
    return Run(info={"boot": "b", **times})  # type: ignore[typeddict-item]


def test_a_run_takes_what_its_monotonic_clock_counts_and_says_that_the_wall_clock_was_set() -> None:
    forth = timed("2026-11-25T12:00:00", "2026-11-28T12:00:05", DAYS)
    back = timed("2026-11-25T12:00:00", "2026-11-25T11:30:05", -HOUR / 2)
    assert (seconds_of(forth), clock_set(forth)) == (5.0, "the clock of the host was set by +72 h 0 min")
    assert (seconds_of(back), clock_set(back)) == (5.0, "the clock of the host was set by -0 h 30 min")
    slewed = timed("2026-11-25T12:00:00", "2026-11-25T13:00:59", 59)
    assert (seconds_of(slewed), clock_set(slewed)) == (3600.0, "")
    assert directly(forth, "b", NOON - BOOTED + 35)
    assert not directly(back, "b", NOON - BOOTED + DIRECTLY + 6)


def test_nothing_is_accepted_by_hours_in_which_the_clock_was_set() -> None:
    how = "the clock of the host was set by +72 h 0 min"
    for hours in (2, 72):
        found = closed([run(1), run(2, clock_set=how)], told(), hours)
        assert (found.result, found.exit) == ("NOT JUDGED", 6)
        assert f"; {how} during run 2: begin a new series; 2 runs in 2 " in found.line
    broken = run(2, told(stream_copy=Status.FAIL), clock_set=how)
    assert closed([run(1), broken], told()).result == "REJECTED"
    assert closed([run(1), run(2, whole=False, state="interrupted", clock_set=how)], told(), 1).result == "ACCEPTED"


def test_a_pause_of_the_load_within_a_boot_is_as_long_whatever_the_wall_clock_says() -> None:
    late = HOUR + DIRECTLY - 60
    for step in (DAYS, -DAYS, -540.0):
        moved = run(2, loaded=(late + step, 2 * HOUR + step), epoch=step)
        assert "the load may pause for 5% of the time" in closed([run(1), moved], told()).line
        assert closed([run(1), run(2, loaded=(HOUR + step, 2 * HOUR + step), epoch=step)], told()).result == "ACCEPTED"


def test_counts_of_the_run_before_have_the_times_of_this_run() -> None:
    before = timed("2026-11-25T11:00:00", "2026-11-25T12:00:00")
    before.info["counted"] = {"GPU-0": {"at": NOON, "numbers": {"ecc": 1}}}
    before.info["host_counted"] = {"at": NOON, "answers": {}}
    devices, host = counts(before, "b", BOOTED + DAYS)
    assert (devices["GPU-0"], host) == ({"at": NOON + DAYS, "numbers": {"ecc": 1}}, {"at": NOON + DAYS, "answers": {}})
    assert counts(before, "c", BOOTED + DAYS)[0]["GPU-0"]["at"] == NOON, "another boot: the wall clock is all there is"


UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
STATUSES = st.sampled_from([each for each in Status if each is not Status.NOT_APPLICABLE])
RUNS = st.lists(st.lists(STATUSES, min_size=6, max_size=6), min_size=1, max_size=5)


def of(statuses: list[Status]) -> list[Verdict]:
    places = [(metric, uuid) for metric in LIMITS for uuid in UUIDS]
    return [verdict(*place, status) for place, status in zip(places, statuses, strict=True)]


@UNHURRIED
@given(RUNS, st.integers(0, 4))
def test_no_series_is_better_than_its_last_run_or_than_what_one_run_has_found(
    drawn: list[list[Status]], turn: int
) -> None:
    """Of the runs before the last, the order changes nothing."""
    *before, last = [of(statuses) for statuses in drawn]
    at = turn % len(drawn)
    every, turned = [*before, last], [*before[at:], *before[:at], last]
    runs, others = ([run(number, verdicts) for number, verdicts in enumerate(some, 1)] for some in (every, turned))
    found = {each.key: each for each in worst_verdicts(runs, last)}
    assert found.keys() == {each.key for each in last}
    assert {key: its.status for key, its in found.items()} == {
        each.key: each.status for each in worst_verdicts(others, last)
    }
    for key, its in found.items():
        own = [each for verdicts in every for each in verdicts if each.key == key]
        broken = [each for each in own if each.status in (Status.FAIL, Status.MARGINAL)]
        assert its.rank == min(each.rank for each in [*broken, own[-1]])
    assert (closed(runs, last, 0.5).result == "REJECTED") == any(Status.FAIL in each for each in drawn)


@UNHURRIED
@given(st.lists(STATUSES, min_size=6, max_size=6))
def test_a_series_of_one_run_closes_as_that_run(drawn: list[Status]) -> None:
    verdicts = of(drawn)
    alone, found = closed([run(1, verdicts)], verdicts, 1), close(verdicts, AROUND)
    assert (alone.result, alone.exit, alone.line.startswith(found.line)) == (found.result, found.exit, True)
