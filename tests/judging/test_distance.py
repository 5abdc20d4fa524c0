"""The one comparison: how far a value is behind a reference, what that means, and how a repeat confirms it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.judged_tables import tabled
from support.rows import each_row

from pytest_accel.core.reasons import Note
from pytest_accel.core.verdict import Status
from pytest_accel.judging.verdicts.distance import RULES, Distance, Family, Reference, ReferenceKind, confirm, distance
from pytest_accel.judging.verdicts.like_devices import family_of

KNOWN = 0.003
SEVEN = 7


def against(
    value: float, family: Family, kind: ReferenceKind = "neighbours", unit: str = "GB/s", **stated: Any
) -> Distance:
    count = SEVEN if kind in ("neighbours", "elsewhere") else 1
    reference = Reference(kind, **{"middle": 100.0, "count": count, **stated})
    found = distance(value, unit, family, reference)
    assert found
    return found


@tabled("family, stated, marginal, fails", "data/judging/distance.yaml")
def test_what_a_distance_to_the_neighbours_means(
    family: Family, stated: dict[str, Any], marginal: float, fails: float
) -> None:
    found = against(100.0, family, **stated)
    assert (found.allowed_loss, found.fails_from) == pytest.approx((marginal, fails), abs=5e-5)


@given(
    family=st.sampled_from(list(RULES["neighbours"])),
    spread=st.one_of(st.floats(0, 2), st.just(math.inf), st.just(math.nan)),
    noise=st.one_of(st.floats(0, 2), st.just(math.inf)),
    ours=st.booleans(),
    width=st.none() | st.floats(0.001, 0.5),
)
def test_a_known_spread_never_finds_less_than_an_unknown_one(
    family: Family, spread: float, noise: float, ours: bool, width: float | None
) -> None:
    stated: dict[str, Any] = {"width": width, "raw_width": width}
    unknown, known = (
        against(100.0, family, **stated),
        against(100.0, family, spread=spread, noise=noise, own_probe=ours, **stated),
    )
    assert known.allowed_loss <= unknown.allowed_loss
    assert known.fails_from <= unknown.fails_from


@tabled("kind, family, stated, allowed", "data/judging/distance.yaml")
def test_what_a_distance_to_another_reference_means(
    kind: ReferenceKind, family: Family, stated: dict[str, Any], allowed: float
) -> None:
    found = against(100.0, family, kind, **stated)
    assert found.allowed_loss == pytest.approx(allowed, rel=2e-2 if "freedom" in stated else 2e-3)
    assert found.fails_from == math.inf or (kind == "fleet" and found.fails_from >= found.allowed_loss)


def test_what_is_far_behind_a_fleet_fails_where_the_spread_is_known() -> None:
    lost = {value: against(value, "memory", "fleet", spread=0.003, count=88) for value in (94.5, 98.1, 98.5)}
    assert [each.status for each in lost.values()] == [Status.FAIL, Status.MARGINAL, Status.PASS]
    assert against(94.5, "memory", "fleet", count=88).status is Status.PASS
    few = against(94.5, "memory", "fleet", spread=0.003, count=4, freedom=1.1)
    assert few.status is Status.PASS
    assert few.fails_from > 1
    assert against(77.0, "matmul", "fleet", spread=0.01, count=88).status is Status.MARGINAL
    assert against(75.0, "matmul", "fleet", spread=0.01, count=88).status is Status.FAIL


def test_half_of_the_speed_of_like_devices_fails_whatever_it_is() -> None:
    families: tuple[Family, ...] = ("power", "latency", "other")
    for family in families:
        found = [against(value, family).status is Status.FAIL for value in (49.0, 51.0)]
        assert found == [True, False]
    assert against(49.0, "other", "elsewhere").status is Status.FAIL
    assert against(49.0, "other", "past").status is Status.MARGINAL


def test_a_time_is_compared_as_a_speed() -> None:
    assert against(125.0, "other", unit="ms").loss == pytest.approx(0.2)
    assert against(80.0, "other", unit="ms").loss == pytest.approx(-0.25)
    assert distance(0.0, "ms", "other", Reference("past", 100.0)) is None
    assert distance(5.0, "GB/s", "other", Reference("past", 0.0)) is None
    assert against(0.0, "memory").loss == 1.0


HOLDS, BEHIND, SHORT, FAR = (against(value, "memory", spread=KNOWN) for value in (99.9, 98.5, 97.0, 40.0))


LATE, ONE_ROUND = (Note("repeat_without_time", "no time"),), (Note("one_round"),)


@each_row(
    ("rounds", "why", "status", "told", "at_first", "doubt"),
    [
        ([SHORT], "", Status.FAIL, SHORT, False, ()),
        ([SHORT], "no time", Status.INCONCLUSIVE, SHORT, False, LATE),
        ([FAR], "no time", Status.FAIL, FAR, False, LATE),
        ([SHORT, SHORT], "", Status.FAIL, SHORT, False, ()),
        ([SHORT, BEHIND], "", Status.MARGINAL, BEHIND, False, ()),
        ([BEHIND, SHORT], "", Status.MARGINAL, SHORT, False, ()),
        ([SHORT, HOLDS], "", Status.MARGINAL, SHORT, True, ()),
        ([HOLDS, SHORT], "", Status.MARGINAL, SHORT, False, ()),
        ([FAR, HOLDS], "", Status.FAIL, FAR, True, (Note("beyond_noise"),)),
        ([HOLDS, FAR], "", Status.FAIL, FAR, False, ()),
        ([BEHIND, None], "", Status.MARGINAL, BEHIND, False, ONE_ROUND),
        ([SHORT, None], "", Status.INCONCLUSIVE, SHORT, False, ONE_ROUND),
        ([FAR, None], "", Status.FAIL, FAR, False, ONE_ROUND),
    ],
)
def test_how_rounds_confirm_a_distance(
    rounds: list[Distance | None], why: str, status: Status, told: Distance, at_first: bool, doubt: tuple[Note, ...]
) -> None:
    found = confirm(rounds, why)
    assert found
    assert (found.status, found.distance, found.cleared, found.doubt) == (status, told, at_first, doubt)


def test_what_no_round_or_not_every_round_shows_is_nothing() -> None:
    nothing: list[list[Distance | None]] = [[], [None], [HOLDS], [BEHIND, HOLDS], [HOLDS, BEHIND], [HOLDS, None]]
    assert [confirm(rounds) for rounds in nothing] == [None] * 6


def test_the_family_of_a_metric() -> None:
    families = {
        ("stream.triad", "GB/s"): "memory",
        ("mine.step", "ms"): "other",
        ("host_copy_all.h2d", "GB/s"): "host link",
        ("mine.delay", "us"): "latency",
        ("peer_copy.one_way", "GB/s"): "peer links",
        ("matmul.bf16", "TFLOPS"): "matmul",
        ("soak.rate", "TFLOPS"): "matmul",
        ("training.rate", "TFLOPS"): "matmul",
        ("soak.power", "W"): "power",
        ("all_reduce.busbw@8GiB", "GB/s"): "collectives",
        ("ddp.step_ms", "ms"): "other",
        ("mine.rate", "GB/s"): "other",
    }
    assert {each: family_of(*each) for each in families} == families
