"""The time for repeats: what is granted, to whom, and what is left."""

from __future__ import annotations

import pytest

from pytest_accel import probes
from pytest_accel.core.levels import LEVELS
from pytest_accel.judging.verdicts.repeats import REPEAT_SECONDS, Repeats, least
from pytest_accel.probes.declare import declaration_for
from pytest_accel.skus.budgets import budget

MATMUL, STREAM = declaration_for(probes.matmul), declaration_for(probes.stream)
SOAK, PATTERN = declaration_for(probes.soak), declaration_for(probes.memory_pattern)
EIGHT = [f"GPU-{place}" for place in range(8)]


@pytest.mark.parametrize("level", LEVELS)
def test_no_run_repeats_for_longer_than_its_level_allows(level: str) -> None:
    """Also if all that it measures falls short, whatever the order."""
    left, spent = Repeats(level), 0.0
    for declared, metric in [(SOAK, "soak.rate"), (MATMUL, "matmul.bf16"), (STREAM, "stream.triad")] * 50:
        first = budget(declared, metric, level, None)
        seconds = left.together(first, least(declared, first))
        assert seconds <= first
        left.spend(seconds)
        spent += seconds
    assert REPEAT_SECONDS[level] / 2 < spent <= REPEAT_SECONDS[level]


@pytest.mark.parametrize(
    ("level", "spent", "first", "granted"),
    [
        ("standard", 0.0, 15.0, 15.0),
        ("standard", 0.0, 300.0, 60.0),  # a soak is repeated for a minute
        ("standard", 112.0, 15.0, 8.0),  # shortened to what is left
        ("standard", 116.0, 15.0, 0.0),  # a sustained load cannot be known in less than 5 s
        ("quick", 0.0, 7.0, 7.0),
        ("quick", 15.0, 7.0, 5.0),
        ("quick", 30.0, 5.0, 0.0),
    ],
)
def test_a_repeat_is_shortened_but_never_to_too_few_samples(
    level: str, spent: float, first: float, granted: float
) -> None:
    left = Repeats(level)
    left.spend(spent)
    assert left.together(first, least(MATMUL, first)) == pytest.approx(granted)


def test_what_is_not_sustained_needs_half_of_its_time() -> None:
    assert least(STREAM, 3.0) == 1.5
    assert least(PATTERN, 300.0) == 30.0, "half of the longest repeat"


def test_devices_alone_have_a_time_of_their_own() -> None:
    """Four of eight at 5 s: the fifth waits for nothing."""
    left = Repeats("standard")
    granted = []
    for _ in range(6):
        granted.append(left.alone(5.0))
        left.spend(granted[-1], alone=True)
    assert granted == [5.0] * 4 + [0.0] * 2
    assert left.left == 100.0
    assert left.together(15.0, 5.0) == 15.0, "all together may still be repeated"


def test_what_most_devices_lack_is_no_single_devices_fault() -> None:
    left = Repeats("standard")
    assert left.single_out(MATMUL, EIGHT[:4], 8) == set(EIGHT[:4])
    assert left.single_out(MATMUL, EIGHT[:5], 8) == set()
    assert left.single_out(SOAK, EIGHT[4:6], 8) == {"GPU-5"}, "GPU-4 fell short of the same part with most others"
    assert left.single_out(STREAM, EIGHT[4:6], 8) == {"GPU-4", "GPU-5"}, "its memory is another part"


def test_it_is_said_how_much_is_left() -> None:
    left = Repeats("quick")
    left.spend(18.6)
    assert left.spent == "the 20 s for repeats at quick leave 1 s"
