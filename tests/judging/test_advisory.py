"""Limits whose source measured by another method: they advise, and never fail a device."""

from dataclasses import replace
from typing import Any

import shipped
from judged_tables import tabled

from pytest_accel.core.measurement import Measurement, Trouble
from pytest_accel.core.reasons import Advises, BeyondMethod
from pytest_accel.core.sku import Limit, Source
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.judge import Attempts, judge

WHY = "measured otherwise: data uniform 0..2^32"
SOURCE = Source("published", "them", "2026-11")
SAME = Limit("matmul.bf16", "TFLOPS", floor=100.0, source=SOURCE, conditions={"tunable_op": True})
OTHER = replace(SAME, advises=True, because=WHY)


def judged(value: float, limit: Limit = OTHER, software: dict[str, str] | None = None, **changes: Any) -> Verdict:
    return judge([Measurement("matmul.bf16", "GPU-0", "TFLOPS", value, **changes)], limit, software or {})


@tabled("value, other, same", "data/judging/advisory.yaml")
def test_a_limit_of_another_method_never_fails_a_device(value: float, other: Status, same: Status) -> None:
    assert judged(value).status is other
    assert judged(value, SAME).status is same
    assert (judged(value).advises, judged(value, SAME).advises) == (True, False)


def test_a_shortfall_says_how_the_source_measured() -> None:
    assert judged(90.0).reasons[-1] == Advises(WHY)
    assert judged(50.0).reasons[-1] == BeyondMethod(0.15, "method")


def test_a_condition_that_only_the_run_knows_makes_the_limit_advise() -> None:
    assert judged(90.0, SAME, conditions={"tunable_op": True}).status is Status.FAIL
    without = judged(90.0, SAME, conditions={"tunable_op": False})
    assert without.status is Status.MARGINAL
    assert without.advisory == ("tunable op True (ours: False)",)


def test_kernels_of_an_older_torch_do_not_reject_an_mi300x_by_figures_of_babelstream() -> None:
    """torch's elementwise kernels came up to those of BabelStream on gfx942 from 2025 on (pytorch 153634, 160444)."""
    for metric in ("stream.copy_kernel", "stream.triad"):
        limit = shipped.load("mi300x").limits[metric]
        assert limit.source
        slow = Measurement(metric, "GPU-0", "GB/s", 0.95 * (limit.floor or 0), conditions=limit.source.method)
        assert judge([slow], limit, {"torch": "2.8.0+rocm6.4"}).status is Status.MARGINAL
        assert judge([slow], limit, {"torch": "2.9.0+rocm6.4"}).status is Status.FAIL


def test_a_fault_of_the_device_fails_and_a_disturbance_excuses_under_an_advisory_limit_too() -> None:
    lost = judged(90.0, trouble=Trouble("device", "its worker process died"))
    assert (lost.status, lost.fault, judged(float("nan")).status) == (Status.FAIL, True, Status.FAIL)
    found = [judged(value, disturbance="another process ran").status for value in (50.0, 95.0)]
    assert found == [Status.INCONCLUSIVE, Status.MARGINAL]


def test_only_a_shortfall_that_leaves_the_run_without_a_verdict_is_measured_again() -> None:
    for value, short in ((50.0, 1), (95.0, 0), (120.0, 0)):
        attempts = Attempts()
        attempts.add(Measurement("matmul.bf16", "GPU-0", "TFLOPS", value))
        assert len(attempts.short("matmul.bf16", OTHER, {})) == short
