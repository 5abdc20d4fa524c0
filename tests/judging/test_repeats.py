"""The time for repeats: what is granted, to whom, and what is left."""

from __future__ import annotations

import pytest
from support.judged_tables import tabled

from pytest_accel import probes
from pytest_accel.core.levels import LEVELS
from pytest_accel.judging.verdicts.repeats import ALONE_SECONDS, SHARES, Repeats, min_seconds
from pytest_accel.probes.declare import PARTS, Declaration, declaration_for, declarations
from pytest_accel.skus.budgets import REPEAT_SECONDS, budget

MATMUL, STREAM = declaration_for(probes.matmul), declaration_for(probes.stream)
SOAK, PATTERN = declaration_for(probes.soak), declaration_for(probes.memory_pattern)
PEERS, COPY = declaration_for(probes.peer_copy), declaration_for(probes.host_copy)
EIGHT = [f"GPU-{place}" for place in range(8)]


def longest(declared: Declaration, level: str) -> float:
    """The seconds of its first measurement on eight devices, of the metric that takes longest."""
    variants = [*declared.budgets_of, ""]
    seconds = max(budget(declared, f"{declared.name}.{each}", level, None) for each in variants)
    return seconds * (8 if declared.runs == "in_turn" else 1)


def repeated(left: Repeats, declared: Declaration, first: float) -> float:
    """The seconds of one repeat, which are spent."""
    seconds = left.together(declared, first, min_seconds(declared, first))
    assert seconds <= first
    left.spend(declared, seconds)
    return seconds


@pytest.mark.parametrize("level", LEVELS)
def test_no_run_repeats_for_longer_than_its_level_allows(level: str) -> None:
    """Also if all that it measures falls short, whatever the order; and what one part does not need helps no other."""
    left, spent = Repeats(level), ALONE_SECONDS[level]
    for declared in [SOAK, MATMUL, STREAM, PEERS, COPY] * 50:
        spent += repeated(left, declared, longest(declared, level))
    assert 0.8 * REPEAT_SECONDS[level] < spent <= REPEAT_SECONDS[level]


@pytest.mark.parametrize("level", LEVELS)
def test_no_part_uses_up_the_time_of_another(level: str) -> None:
    assert set(SHARES) == set(PARTS)
    packaged = [
        each for each in declarations() if each.packaged and each.stresses and each.runs not in ("nodes", "program")
    ]
    for greedy in PARTS:
        left = Repeats(level)
        own = [each for each in packaged if each.stresses[0] == greedy]
        for declared in own * 200:
            repeated(left, declared, longest(declared, level))
        for declared in [each for each in packaged if each not in own and longest(each, level)]:
            first = longest(declared, level)
            enough = min_seconds(declared, first)
            assert left.together(declared, first, enough) >= enough, f"{declared.name} after {greedy}"


@tabled("level, spent, first, granted", "data/judging/repeats.yaml")
def test_a_repeat_is_shortened_but_never_to_too_few_samples(
    level: str, spent: float, first: float, granted: float
) -> None:
    left = Repeats(level)
    left.spend(MATMUL, spent)
    assert left.together(MATMUL, first, min_seconds(MATMUL, first)) == pytest.approx(granted)


def test_a_probe_that_stresses_no_part_has_the_time_that_is_for_all() -> None:
    left, own = Repeats("quick"), Declaration("own")
    assert left.together(own, 2.0, 1.0) == 2.0
    left.spend(own, 5.0)
    assert left.together(own, 2.0, 1.0) == 0.0
    assert left.shortage(own) == "the 20 s for repeats at quick leave 0 s for other probes"


def test_what_is_not_sustained_needs_half_of_its_time() -> None:
    assert (min_seconds(STREAM, 3.0), min_seconds(PATTERN, 300.0)) == (1.5, 30.0), "half of the longest repeat"


def test_devices_alone_have_a_time_of_their_own() -> None:
    """Four of eight at 5 s: the fifth waits for nothing."""
    left = Repeats("standard")
    for granted in [5.0] * 4 + [0.0] * 2:
        assert left.alone(5.0) == granted
        left.spend(MATMUL, granted, alone=True)
    assert left.together(MATMUL, 15.0, 5.0) == 15.0, "all together may still be repeated"


def test_what_most_devices_lack_is_no_single_devices_fault() -> None:
    left = Repeats("standard")
    assert left.single_out(MATMUL, EIGHT[:4], 8) == set(EIGHT[:4])
    assert left.single_out(MATMUL, EIGHT[:5], 8) == set()
    assert left.single_out(SOAK, EIGHT[4:6], 8) == {"GPU-5"}, "GPU-4 fell short of the same part with most others"
    assert left.single_out(STREAM, EIGHT[4:6], 8) == {"GPU-4", "GPU-5"}, "its memory is another part"
