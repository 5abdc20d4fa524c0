"""Names for the verdicts of a user's own probes, where several tests would show the same metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from pytest_accel.core.sku import DeclaredBy
from pytest_accel.core.verdict import Verdict
from pytest_accel.probes.declare import declaration_of


def told_apart(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts with the name of the test as metric, where several tests judge a metric of a user's probe.

    The metric of such a probe is the name of its function, which two files may share. A test is named with its file
    if another file has one of the same name.
    """
    tests = {(verdict.metric, test) for verdict in verdicts if (test := _own_test(verdict))}
    sharing = Counter(metric for metric, _ in tests)
    alike = Counter(_function(test) for test in {test for _, test in tests})
    return [
        replace(verdict, metric=test if alike[_function(test)] > 1 else _function(test))
        if (test := _own_test(verdict)) and sharing[verdict.metric] > 1
        else verdict
        for verdict in verdicts
    ]


def _own_test(verdict: Verdict) -> str:
    """Return the test whose marker limits a metric of a user's probe, "test_a.py::test_b"; empty for other verdicts."""
    limit = verdict.limit
    if limit is None or limit.declared_by is not DeclaredBy.MARKER or declaration_of(verdict.metric):
        return ""
    return limit.test.partition("[")[0]


def _function(test: str) -> str:
    return test.rpartition("::")[2]
