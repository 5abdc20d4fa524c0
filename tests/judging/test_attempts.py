"""The attempts at what a probe finds: judged once, and every one of them in the record once."""

import math
from dataclasses import replace

import pytest

from pytest_accel.core.measurement import Measurement, Trouble
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status
from pytest_accel.judging.verdicts.attempts import RequestAttempts
from pytest_accel.judging.verdicts.judge_attempts import judge

SHORT = Measurement("matmul.bf16", "GPU-0", "TFLOPS", 612.4)
FLOOR = Limit("matmul.bf16", "TFLOPS", floor=672.0, origin="h100-sxm.yaml:20")
LOST = Trouble("device", "it fell off the bus")


def test_a_result_is_judged_once_until_there_is_another_attempt() -> None:
    asked: list[Measurement] = []
    result = RequestAttempts(explain=lambda each, *_: asked.append(each))  # is asked whenever a shortfall is judged
    result.add(SHORT)
    first = [*result.shortfalls(FLOOR.metric, FLOOR), result.verdict_on(FLOOR.metric, "GPU-0", FLOOR)]
    assert [each.status for each in first] == [Status.FAIL] * 2
    assert len(asked) == 1

    result.add(replace(SHORT, value=610.0))
    again = result.verdict_on(FLOOR.metric, "GPU-0", FLOOR)
    assert (again.value, again.attempts) == (610.0, 2)


def test_what_was_judged_by_one_limit_is_no_verdict_on_another() -> None:
    """Two marks of one parametrized test have the same origin; and what software it was may be heard late."""
    software: dict[str, str] = {}
    result = RequestAttempts(software=software)
    result.add(SHORT)
    low, old = replace(FLOOR, floor=500.0), replace(FLOOR, software={"torch": "<2.0"})
    said = [result.verdict_on(FLOOR.metric, "GPU-0", limit).status for limit in (FLOOR, low, None)]
    assert said == [Status.FAIL, Status.PASS, Status.NOT_APPLICABLE]
    assert result.verdict_on(FLOOR.metric, "GPU-0", old).status is Status.FAIL
    software["torch"] = "2.13"
    assert result.verdict_on(FLOOR.metric, "GPU-0", old).status is Status.NOT_APPLICABLE


def test_what_broke_before_it_found_a_metric_is_an_attempt_at_it() -> None:
    result = RequestAttempts()
    result.add(replace(SHORT, metric="soak.rate", value=None, trouble=LOST))
    assert result.verdict_on("soak.power", "GPU-0", None).status is Status.UNMEASURED
    assert [each.metric for each in result.take_unrecorded()] == ["soak.rate"], "to ask for a verdict adds nothing"

    result.add(replace(SHORT, metric="soak.thermal_margin", unit="K", value=42.0, trouble=LOST))
    result.take_unrecorded()
    for _ in range(2):
        result.count_troubles_as_attempts("soak.power", "GPU-0")
    verdict = result.verdict_on("soak.power", "GPU-0", None)
    assert (verdict.status, sentence_of(verdict)) == (Status.FAIL, LOST.reason)
    assert (verdict.attempts, verdict.value) == (1, None), "once for each run, and no other metric's"
    assert [each.metric for each in result.take_unrecorded()] == ["soak.power"]
    assert result.take_unrecorded() == []

    result.count_troubles_as_attempts("soak.power", "GPU-1")
    assert result.verdict_on("soak.power", "GPU-1", FLOOR).status is Status.UNMEASURED, "it broke on another device"


def test_a_device_that_fails_when_measured_alone_has_failed() -> None:
    """Also under a limit that held before: no waiver of the shortfall that was looked into may cover it."""
    good = Measurement("stream.copy", "GPU-0", "GB/s", 700.0)
    short = Measurement("stream.copy", "GPU-0", "GB/s", 590.0)
    alone = Measurement("stream.copy", "GPU-0", "GB/s", how="alone", trouble=Trouble("device", "wrong result"))
    limit = Limit("stream.copy", "GB/s", floor=600.0)
    for attempts in ([good, alone], [short, short, alone]):
        verdict = judge(attempts, limit)
        assert (verdict.status, verdict.device_failed) == (Status.FAIL, True)


@pytest.mark.parametrize("value", [None, math.nan, math.inf])
def test_a_metric_without_a_limit_needs_a_value_all_the_same(value: float | None) -> None:
    assert judge([Measurement("stream.copy", "GPU-0", "GB/s", value)], None).status is Status.UNMEASURED
