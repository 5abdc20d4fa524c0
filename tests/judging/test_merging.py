"""Several verdicts on a limit become one, and several attempts a verdict: whatever the order, nothing is hidden."""

from __future__ import annotations

from datetime import date
from functools import reduce
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_accel.core.measurement import Measurement, Trouble
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status, Verdict, Waiver
from pytest_accel.judging.verdicts.attempts import RequestAttempts
from pytest_accel.judging.verdicts.judge_attempts import worse

WAIVER = Waiver("matmul.bf16", "agreed", "Ada", date(2027, 1, 1))
LIMIT = Limit("matmul.bf16", "TFLOPS", floor=672.0)
VERDICTS = st.builds(
    lambda status, waiver: Verdict("matmul.bf16", "GPU-0", status, waiver=waiver),
    st.sampled_from(Status),
    st.sampled_from([None, WAIVER]),
)
MEASURED = st.builds(
    lambda subject, value, trouble: Measurement("matmul.bf16", subject, "TFLOPS", value, trouble=trouble),
    st.sampled_from(["GPU-0", "GPU-1"]),
    st.none() | st.floats(100.0, 900.0),
    st.sampled_from([None, Trouble("device", "lost")]),
)


@settings(deadline=None)
@given(st.lists(VERDICTS, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_of_several_verdicts_the_worst_stays_in_any_order(verdicts: list[Verdict], draw: Random) -> None:
    merged = reduce(worse, verdicts[1:], verdicts[0])
    shuffled = draw.sample(verdicts, len(verdicts))
    assert merged in verdicts
    assert merged.rank == reduce(worse, shuffled[1:], shuffled[0]).rank == min(each.rank for each in verdicts)
    assert merged.fails == any(each.fails for each in verdicts), "a waived failure hides none"
    at = draw.randrange(len(verdicts))
    parts = [reduce(worse, each[1:], each[0]) for each in (verdicts[:at], verdicts[at:]) if each]
    assert reduce(worse, parts[1:], parts[0]) == merged, "as in a run that is judged part by part"


@settings(deadline=None)
@given(st.lists(st.tuples(MEASURED, st.booleans()), min_size=1, max_size=6))
def test_a_verdict_that_was_given_between_attempts_changes_no_later_one(
    attempts: list[tuple[Measurement, bool]],
) -> None:
    """Each attempt is recorded once, in its order, and every verdict is that of all attempts so far."""
    watched, whole, recorded = RequestAttempts(), RequestAttempts(), list[Measurement]()
    for each, asked in attempts:
        watched.add(each)
        if asked:
            for subject in ("GPU-0", "GPU-1"):
                watched.verdict_on("matmul.bf16", subject, LIMIT)
            recorded += watched.take_unrecorded()
    for each, _ in attempts:
        whole.add(each)
    for subject in ("GPU-0", "GPU-1"):
        assert watched.verdict_on("matmul.bf16", subject, LIMIT) == whole.verdict_on("matmul.bf16", subject, LIMIT)
    assert [*recorded, *watched.take_unrecorded()] == [each for each, _ in attempts]
    assert watched.take_unrecorded() == []
