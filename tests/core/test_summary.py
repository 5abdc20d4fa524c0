"""Which of several results of a node counts: what says nothing of the node never hides what rejects it."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.data_files import tables
from support.rows import each_row

from pytest_accel.core.node_name import names_among, nodes_of, several
from pytest_accel.core.summary import Summary, choose
from pytest_accel.core.verdict import Result

ROWS = tables("core/node-names")

NOW = datetime(2026, 11, 24, 12, tzinfo=timezone.utc)
GOOD = {"result": Result.ACCEPTED, "exit": 0}
BAD = {"result": Result.REJECTED, "exit": 1, "rejected": ["GPU-3"]}
HELD = {"result": Result.HELD, "exit": 0}
PART = {**HELD, "filtered": True}
NOTHING = {"result": Result.NOT_JUDGED, "exit": 6}
LOST = {"result": Result.INTERRUPTED, "exit": 2, "state": "interrupted"}
RUNS = {"result": None, "exit": None, "state": "running"}


def run(day: int | str, told: dict[str, Any]) -> Summary:
    """The result of a run on a day of November, or with another text for its time."""
    started = f"2026-11-{day:02}T03:00:00+00:00" if isinstance(day, int) else day
    return Summary(started=started, **{"state": "finished", "host": "n", **told})


@each_row(
    ("told", "counts"),
    [
        ([GOOD, BAD], BAD),
        ([BAD, GOOD], GOOD),
        ([BAD, HELD], BAD),
        ([BAD, LOST], BAD),
        ([BAD, GOOD, HELD], HELD),
        ([GOOD, {**NOTHING, "filtered": True}], GOOD),
        ([GOOD, NOTHING], NOTHING),
        ([{**BAD, "filtered": True}, PART], {**BAD, "filtered": True}),
    ],
)
def test_the_result_that_counts(told: list[dict[str, Any]], counts: dict[str, Any]) -> None:
    """The runs of successive days, in any order."""
    runs = [run(day, fields) for day, fields in enumerate(told, 1)]
    for order in permutations(runs):
        assert choose(order, NOW).counts == runs[told.index(counts)]


def test_what_a_rejection_outlives_is_told() -> None:
    runs = [run(1, GOOD), run(2, BAD), run(3, NOTHING), run(4, LOST)]
    choice = choose(runs, NOW)
    assert choice.counts == runs[1]
    assert [summary for summary, _ in choice.passed_over] == [runs[3], runs[2]], "newest first"
    assert choose([*runs, run(9, GOOD)], NOW).counts == run(9, GOOD)


def test_times_are_compared_as_times() -> None:
    bad = run("2026-11-23T03:00:00+00:00", BAD)
    assert choose([bad, run("2026-11-23T03:30:00+01:00", GOOD)], NOW).counts == bad
    assert choose([bad, run("2026-11-23T03:30:00", GOOD)], NOW).counts == run("2026-11-23T03:30:00", GOOD)
    assert choose([run("2026-11-23T04:00:00+01:00", GOOD), bad], NOW).counts == bad, "of one time"


@pytest.mark.parametrize(
    ("started", "why"),
    [
        ("2026-11-24T12:06:00+00:00", "it began in the future, 2026-11-24T12:06:00+00:00"),
        ("", "it does not say when it began"),
        ("now", "it does not say when it began"),
    ],
)
def test_a_result_whose_time_cannot_be_right_counts_for_nothing(started: str, why: str) -> None:
    mistimed, bad = run(started, GOOD), run(23, BAD)
    assert choose([mistimed, bad], NOW).counts == bad
    assert choose([mistimed, bad], NOW).mistimed == [(mistimed, why)]
    assert choose([mistimed], NOW).counts is None
    recent = run("2026-11-24T12:04:00+00:00", GOOD)
    assert choose([recent, bad], NOW).counts == recent, "two clocks differ by minutes"


# -- for any runs of a node

KINDS = [GOOD, BAD, HELD, PART, NOTHING, LOST, RUNS, {**BAD, "filtered": True}]
RUNS_OF_A_NODE = st.lists(
    st.builds(run, st.integers(1, 28) | st.sampled_from(["", "soon"]), st.sampled_from(KINDS)), max_size=8
)


@settings(deadline=None)
@given(RUNS_OF_A_NODE, st.randoms(use_true_random=False))
def test_the_order_in_which_runs_are_given_changes_nothing(runs: list[Summary], draw: Random) -> None:
    shuffled = draw.sample(runs, len(runs))
    first, second = choose(runs, NOW).counts, choose(shuffled, NOW).counts
    if first is None or second is None:
        assert first is second
    else:
        assert (first.began, first.rejects) == (second.began, second.rejects)


@settings(deadline=None)
@given(RUNS_OF_A_NODE)
def test_every_run_counts_is_passed_over_mistimed_or_older_than_what_counts(runs: list[Summary]) -> None:
    choice = choose(runs, NOW)
    left_out = [summary for summary, _ in (*choice.mistimed, *choice.passed_over)]
    assert all(why for _, why in (*choice.mistimed, *choice.passed_over))
    if choice.counts is None:
        assert len(left_out) == len(runs), "then no run has a time that can be right"
        return
    counted = [summary for summary in runs if all(summary is not entry for entry in (*left_out, choice.counts))]
    assert all(summary.began <= choice.counts.began for summary in counted if summary.began and choice.counts.began)
    assert not any(summary is choice.counts for summary in left_out)


@settings(deadline=None)
@given(RUNS_OF_A_NODE)
def test_a_rejection_is_hidden_by_a_later_acceptance_alone(runs: list[Summary]) -> None:
    """Whatever else lies there: unfinished, contradicting itself, narrowed, or of a wrong clock."""
    dated = [summary for summary in runs if summary.began and summary.began <= NOW]
    deciding = [summary for summary in dated if summary.rejects or summary.accepts]
    newest = max(deciding, key=lambda summary: (summary.began, summary.rejects), default=None)
    counts = choose(runs, NOW).counts
    assert bool(counts and counts.rejects) == bool(newest and newest.rejects)
    if newest is not None and newest.rejects:
        assert counts is not None
        assert counts.began == newest.began


# -- names


@each_row(("hosts", "names"), ROWS["among"])
def test_two_names_of_one_node(hosts: list[str], names: list[str]) -> None:
    assert names_among(hosts) == set(names)
    assert set(nodes_of(hosts, names)) == set(hosts)


def test_a_host_that_may_be_several_nodes_is_none() -> None:
    assert nodes_of(["n1", "n2.a", "n3"], ["n1.a", "n1.b", "n2"]) == {"n2.a": "n2"}


@each_row(("hosts", "names", "found", "unclear"), ROWS["machines"])
def test_machines_of_two_domains_are_not_one_node(
    hosts: list[str], names: list[str], found: dict[str, str], unclear: list[str]
) -> None:
    assert nodes_of(hosts, names) == found
    assert several(names[0], hosts) == unclear
