"""The judge: one measurement against one limit. Nothing that was not measured, or is no number, may be green."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from support.judged_tables import tabled
from support.rows import each_row

from pytest_accel.core.measurement import Measurement, Peak, Trouble, Value
from pytest_accel.core.reasons import (
    Alone,
    Cause,
    Compared,
    Interval,
    Majority,
    NoMajority,
    Note,
    OtherAlgorithm,
    OtherUnit,
    Repeated,
)
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import WORST_FIRST, Status, Verdict, show
from pytest_accel.judging.verdicts.background import Background
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.probes.device.collective_library import excusing

FLOOR = Limit("matmul.bf16", "TFLOPS", floor=672.0, origin="h100-sxm.yaml:20")
CEILING = Limit("soak.droop", "1", ceiling=0.05)
RELATIVE = Limit("matmul.bf16", "of peak", floor=0.5)
COUNT = Limit("inventory.count", "count", equals=8)

LOST = Trouble("device", "its worker process died: killed by signal 9")
NEED = Trouble("need", "torch is missing")
EXTERNAL = Trouble("external", "another process ran")
NEVER = Trouble("not_applicable", "no fast path")
TROUBLES = {"device": LOST, "need": NEED, "external": EXTERNAL, "not_applicable": NEVER}


def found(value: Value | None = None, unit: str = "TFLOPS", **changes: Any) -> Measurement:
    return Measurement("matmul.bf16", "GPU-0", unit, value, **changes)


def status(value: Value | None, limit: Limit | None, unit: str = "TFLOPS", **changes: Any) -> Status:
    return judge([found(value, unit, **changes)], limit).status


# -- one number, one bound


@tabled("value, limit, unit, expected", "data/judging/judge.yaml")
def test_a_value_against_a_limit(value: Value, limit: Limit, unit: str, expected: Status) -> None:
    assert status(value, limit, unit) is expected


def test_what_is_no_number_holds_no_limit() -> None:
    """Infinite is above every floor, and NaN is below none: neither is a measurement."""
    values: tuple[Value, ...] = (math.nan, math.inf, -math.inf, True, "fast")
    limits = (FLOOR, replace(CEILING, unit="TFLOPS"), RELATIVE, replace(FLOOR, ceiling=900.0))
    found = {status(value, limit, peak=Peak(1000.0, "datasheet")) for value, limit in product(values, limits)}
    assert found == {Status.FAIL}


@pytest.mark.parametrize(
    ("value", "limit", "expected"),
    [(730.0, FLOOR, Status.MARGINAL), (730.0, None, Status.MARGINAL), (600.0, FLOOR, Status.FAIL)],
)
def test_a_doubt_of_the_probe_warns_and_never_rejects(value: float, limit: Limit | None, expected: Status) -> None:
    verdict = judge([found(value, notes=(Note("doubt", "the sum is off"),))], limit)
    assert verdict.status is expected
    assert Note("doubt", "the sum is off") in verdict.reasons


def test_no_value_is_unmeasured() -> None:
    for limit in (FLOOR, CEILING, RELATIVE, COUNT):
        verdict = judge([found(None, limit.unit, peak=Peak(1000.0, "datasheet"))], limit)
        assert (verdict.status, verdict.reasons) == (Status.UNMEASURED, (Note("no_value"),))


def test_a_limit_without_a_bound_judges_nothing() -> None:
    nan, few = math.nan, Limit("a", "TFLOPS")
    none = [replace(few, same_on_all=True), replace(few, floor=-math.inf), replace(few, ceiling=math.inf)]
    broken = [replace(few, floor=nan), replace(few, floor=1.0, ceiling=nan), replace(few, floor=nan, ceiling=1e9)]
    assert {status(730, limit) for limit in (*none, *broken)} == {Status.UNMEASURED}
    assert status(730, few) is Status.NOT_APPLICABLE


def test_a_limit_in_another_unit_judges_nothing() -> None:
    verdict = judge([found(730.0, "GB/s")], FLOOR)
    assert verdict.status is Status.UNMEASURED
    assert verdict.reasons == (OtherUnit("TFLOPS"),)


def test_a_limit_for_eight_ranks_does_not_judge_four() -> None:
    limit = replace(FLOOR, conditions={"ranks": 8})
    found = [status(730, limit, conditions=conditions) for conditions in ({"ranks": 8}, {"ranks": 4}, {})]
    assert found == [Status.PASS, Status.UNMEASURED, Status.UNMEASURED]


BY_NVLS = replace(FLOOR, conditions={"algorithm": "nvls"})
OTHER = OtherAlgorithm("NCCL", "ring", "nvls")


def test_another_algorithm_is_the_cause_of_a_shortfall() -> None:
    verdict = judge([found(600, conditions={"algorithm": "ring", "backend": "nccl"})], BY_NVLS)
    assert (verdict.status, verdict.reasons) == (Status.FAIL, (Compared("floor"), OTHER))
    said: Any = {"account": {"without_nvls": "NVLS multicast support is not available on dev 3"}}
    verdict = judge([found(600, conditions={"algorithm": "ring"}, details=said)], BY_NVLS)
    assert verdict.reasons[-1] == replace(OTHER, library="the collective", said=said["account"]["without_nvls"])
    for same in ({"algorithm": "nvls"}, {}):
        assert judge([found(600, conditions=same)], BY_NVLS).reasons == (Compared("floor"),)
    assert status(730, BY_NVLS, conditions={"algorithm": "ring"}) is Status.PASS, "what holds holds by any"


@tabled("settings, chosen", "data/judging/judge.yaml")
def test_an_algorithm_that_the_user_chose_blames_no_part(settings: dict[str, Any], chosen: str) -> None:
    conditions = {"algorithm": "ring", "backend": "nccl", **settings}
    notes = tuple(excusing(conditions))
    verdict = judge([found(600, conditions=conditions, notes=notes)], BY_NVLS)
    assert verdict.status is (Status.INCONCLUSIVE if chosen else Status.FAIL)
    assert verdict.reasons[1:] == (OTHER, *([Note("chosen", chosen)] if chosen else []))
    assert status(730, BY_NVLS, conditions=conditions, notes=notes) is Status.PASS


@tabled("name, text, restricts", "data/judging/judge.yaml")
def test_a_shortfall_by_a_file_that_restricts_collectives_names_the_setting(
    name: str, text: str, restricts: bool
) -> None:
    """Unlike the environment, NCCL's own files reach the workers."""
    conditions = {"backend": "nccl", "conf_files": {"/etc/nccl.conf": {name: text}}}
    notes = tuple(excusing(conditions))
    verdict = judge([found(600, notes=notes)], FLOOR)
    assert verdict.status is (Status.INCONCLUSIVE if restricts else Status.FAIL)
    assert (verdict.reasons[-1] == Note("restricted", f"{name}={text} in /etc/nccl.conf")) == restricts
    assert status(730, FLOOR, notes=notes) is Status.PASS


VALIDATED = replace(FLOOR, software={"nccl": ">=2.18"})


@tabled("value, software, expected, says", "data/judging/judge.yaml")
def test_a_shortfall_on_software_that_the_limit_was_not_validated_on(
    value: float, software: dict[str, str | None], expected: Status, says: str
) -> None:
    verdict = judge([found(value)], VALIDATED, software)
    assert verdict.status is expected
    assert sentence_of(verdict).endswith(says)


def test_a_verdict_has_value_limit_and_distance() -> None:
    verdict = judge([found(612.4)], FLOOR)
    assert verdict.reasons == (Compared("floor"),)
    assert verdict.margin == pytest.approx(612.4 / 672 - 1)
    assert (verdict.value, verdict.floor, verdict.ceiling, verdict.limit) == (612.4, 672.0, None, FLOOR)
    derived = judge([found(700.0)], replace(FLOOR, floor=671.6, reference=730.0, of_reference=0.92))
    assert derived.reasons == (Compared("floor", 0.92, "reference", 730.0),)


# -- fractions of a peak


@tabled("value, samples, expected", "data/judging/judge.yaml")
def test_a_fraction_of_the_peak(value: float, samples: tuple[float, ...], expected: Status) -> None:
    assert status(value, RELATIVE, samples=samples, peak=Peak(1000.0, "datasheet")) is expected


def test_a_fraction_of_no_usable_peak_is_unmeasured() -> None:
    peaks = [None, *(Peak(value, "broken") for value in (0.0, -1000.0, math.nan, math.inf))]
    beside = [Peak(1000.0, "broken", samples=(1000.0, value)) for value in (0.0, math.nan)]
    found = [status(600.0, RELATIVE, samples=(600.0, 600.0), peak=peak) for peak in (*peaks, *beside)]
    assert set(found) == {Status.UNMEASURED}


def test_a_fraction_is_shown_in_the_unit_of_the_value_and_its_warning_is_a_fraction_too() -> None:
    verdict = judge([found(600.0, peak=Peak(989.4, "bf16 datasheet peak"))], RELATIVE)
    assert verdict.floor == pytest.approx(494.7)
    assert verdict.reasons[0] == Compared("floor", 0.5, "bf16 datasheet peak")
    limit, peak = replace(RELATIVE, warn=0.65), Peak(1000.0, "datasheet")
    assert [status(value, limit, peak=peak) for value in (600.0, 660.0)] == [Status.MARGINAL, Status.PASS]


def test_a_peak_measured_beside_judges_the_ratio() -> None:
    """Half of the speed of the neighbour block is half, however the clock moved between blocks."""
    samples, beside = (100.0, 60.0, 80.0), (200.0, 120.0, 160.0)
    peak = Peak(160.0, "beside", samples=beside)
    assert status(80.0, replace(RELATIVE, floor=0.49), samples=samples, peak=peak) is Status.PASS
    assert status(80.0, replace(RELATIVE, floor=0.51), samples=samples, peak=peak) is Status.FAIL


# -- the interval


def noisy(middle: float, by: float) -> tuple[float, ...]:
    return tuple(middle + (-1) ** place * by for place in range(8))


@tabled("value, unit, samples, limit, expected, side", "data/judging/judge.yaml")
def test_an_interval_that_includes_the_limit_is_told(
    value: float, unit: str, samples: tuple[float, ...], limit: Limit, expected: Status, side: str
) -> None:
    verdict = judge([found(value, unit, samples=samples)], limit)
    assert verdict.status is expected
    assert isinstance(verdict.reasons[-1], Interval)
    assert verdict.reasons[-1].side == side


def test_noise_does_not_excuse_a_shortfall() -> None:
    assert status(660.0, FLOOR, samples=noisy(660.0, 100)) is Status.FAIL


def test_one_slow_block_says_nothing_about_a_device() -> None:
    """It counts in the value, and a device that is short is short in every block."""
    fast = [730.0 + (-1) ** i for i in range(60)]
    assert status(717.9, FLOOR, samples=(*fast, 240.0)) is Status.PASS
    assert status(706.3, FLOOR, samples=(*fast, 240.0, 240.0)) is Status.MARGINAL
    assert status(640.0, FLOOR, samples=(*fast, 20.0)) is Status.FAIL, "the value keeps it"


# -- what could not be measured


@tabled("kind, limit, expected", "data/judging/judge.yaml")
def test_a_trouble_is_a_status_with_its_reason(kind: str, limit: Limit | None, expected: Status) -> None:
    verdict = judge([found(trouble=TROUBLES[kind])], limit)
    assert verdict.status is expected
    assert Note("trouble", TROUBLES[kind].reason) in verdict.reasons


def test_a_value_beside_a_trouble_is_not_judged_and_a_bug_says_nothing_of_the_device() -> None:
    assert not any(judge([found(730.0, trouble=each)], FLOOR).status.holds for each in (LOST, NEED, EXTERNAL))
    bug = found(trouble=Trouble("bug", "KeyError: 'x'"))
    for attempts in ([bug], [BAD, bug]):
        verdict = judge(attempts, FLOOR)
        assert (verdict.status, verdict.reasons) == (Status.UNMEASURED, (Note("probe_failed"),))


def test_without_a_limit_a_value_is_information() -> None:
    verdict = judge([found(612.4)], None)
    assert (verdict.status, verdict.information) == (Status.NOT_APPLICABLE, True)
    assert verdict.reasons == (Note("no_limit"),)


# -- several attempts


GOOD, BAD = found(730.0), found(600.0)


@tabled("attempts, expected", "data/judging/judge.yaml")
def test_the_last_attempt_together_decides(attempts: list[dict[str, Any]], expected: Status) -> None:
    made = [found(**{**each, "trouble": TROUBLES.get(each.get("trouble", ""))}) for each in attempts]
    assert judge(made, FLOOR).status is expected


def test_what_could_not_be_measured_at_first_is_not_said_to_have_fallen_short() -> None:
    assert judge([replace(GOOD, trouble=NEED), GOOD], FLOOR).reasons[-1] == Note("first_failed", NEED.reason)


REFERENCE = replace(FLOOR, reference=730.0)
CEILING = Limit("mine.lost", "1", ceiling=0.05)


@tabled("first, again, limit, expected", "data/judging/judge.yaml")
def test_a_large_shortfall_counts_although_it_was_seen_once(
    first: float, again: float, limit: Limit, expected: Status
) -> None:
    one = Measurement(limit.metric, "GPU-0", limit.unit, first)
    verdict = judge([one, replace(one, value=again)], limit, {"torch": "2.9"})
    assert verdict.status is expected
    once = Repeated(again, limit.unit, fails=True)
    assert (verdict.value == first and verdict.reasons[-1] == once) == (expected is Status.FAIL)


def test_a_disturbed_attempt_is_worth_nothing_and_the_repeat_decides() -> None:
    disturbed = replace(found(20.0), notes=(Note("disturbed", "in use by pid 4"),))
    assert judge([disturbed, GOOD], REFERENCE).status is Status.MARGINAL
    assert judge([disturbed, BAD], REFERENCE).status is Status.FAIL


def test_what_failed_once_is_told_with_its_cause() -> None:
    cause = "HW power brake 50% of the time"
    verdict = judge([found(20.0), GOOD], REFERENCE, explain=lambda *_: Cause(cause))
    assert verdict.reasons[-2:] == (Cause(cause), Repeated(730.0, "TFLOPS", fails=True))


def test_a_shortfall_is_not_explained_away_by_a_path_that_is_suddenly_missing() -> None:
    verdict = judge([BAD, found(trouble=NEVER)], replace(FLOOR, if_supported=True))
    assert verdict.status is Status.FAIL
    assert verdict.reasons == (Compared("floor"), Note("repeat_failed", "no fast path"))


UNREPEATED = Background(not_repeated="the 20 s for repeats at quick leave 1 s")


@tabled("value, limit, expected", "data/judging/judge.yaml")
def test_a_shortfall_that_there_was_no_time_to_repeat_fails_only_if_it_is_beyond_doubt(
    value: float, limit: Limit, expected: Status
) -> None:
    # a repeat that the time limit stopped was not made
    for attempts in ([found(value)], [found(value), found(trouble=NEED)]):
        verdict = judge(attempts, limit, background=UNREPEATED)
        assert verdict.status is expected
        assert Note("repeat_without_time", "the 20 s for repeats at quick leave 1 s") in verdict.reasons
    assert judge([found(700.0)], FLOOR, background=UNREPEATED).status is Status.PASS
    assert judge([found(value)] * 2, limit, background=UNREPEATED).status is Status.FAIL, "its repeat was measured"


def test_a_measurement_alone_attributes() -> None:
    for value, holds in ((730.0, True), (601.0, False)):
        verdict = judge([BAD, BAD, found(value, how="alone")], FLOOR)
        assert verdict.reasons[-1] == Alone(value, "TFLOPS", holds=holds)


# -- disturbed from outside


@pytest.mark.parametrize(
    ("value", "expected"),
    [(600.0, Status.INCONCLUSIVE), (730.0, Status.MARGINAL), (680.0, Status.MARGINAL)],
)
def test_a_disturbance_excuses_a_shortfall_and_never_clears_it(value: float, expected: Status) -> None:
    stolen = (Note("disturbed", "the hypervisor took 30% of the CPU time"),)
    assert status(value, FLOOR, notes=stolen) is expected
    assert status(value, FLOOR, notes=stolen, trouble=LOST) is Status.FAIL


def test_a_count_that_is_right_is_right_beside_other_processes() -> None:
    exact = Limit("exact_matmul.fp32", "count", equals=0)
    beside = replace(
        found(0, "count", notes=(Note("disturbed", "pid 7 used the device too"),)), metric="exact_matmul.fp32"
    )
    assert judge([beside], exact).status is Status.PASS


def test_a_load_before_the_run_excuses_a_low_speed_alone() -> None:
    load = "other processes take 83% of the processor's time"
    slow = replace(found(600.0), samples=(600.0,) * 5, notes=(Note("load", load),))
    verdict = judge([slow], FLOOR)
    assert verdict.status is Status.MARGINAL
    assert verdict.reasons[-1] == Note("load", load)
    assert judge([replace(slow, value=6.0, samples=(6.0,) * 5)], FLOOR).status is Status.FAIL
    wrong = Limit("exact_matmul.fp32", "count", equals=0)
    assert judge([replace(slow, metric=wrong.metric, value=3, unit="count")], wrong).status is Status.FAIL
    assert judge([replace(slow, trouble=LOST)], FLOOR).status is Status.FAIL


# -- order and words


def test_statuses_are_ordered_worst_first_and_only_two_hold() -> None:
    ordered = ["FAIL", "UNMEASURED", "INCONCLUSIVE", "MARGINAL", "PASS", "NOT APPLICABLE"]
    assert [each.value for each in WORST_FIRST] == ordered
    assert [each for each in Status if each.holds] == [Status.MARGINAL, Status.PASS]
    assert not any(each.holds and each.fails for each in Status)


def test_a_verdict_is_told_apart_by_the_limit_that_it_is_on() -> None:
    """A test's own marker on the same metric does not stand in for the SKU's limit."""
    one, other = judge([GOOD], FLOOR), judge([GOOD], replace(FLOOR, origin="marker of test_mine.py"))
    assert one.key != other.key
    assert Verdict("a", "b", Status.PASS).key == ("a", "b", "")


def test_a_value_is_shown_with_its_unit() -> None:
    shown = [show(value, "W") for value in (612.4321, 4312.7, 0.0123456, math.nan, None)]
    assert shown == ["612.4 W", "4313 W", "0.01235 W", "nan W", "nothing"]
    assert [show(8, "count"), show(True, "text"), show("ok", "text")] == ["8", "True", "ok"]


VBIOS = Limit("inventory.vbios", "version", same_on_all=True)


def on_all(value: Value | None, *all_values: Value) -> Verdict:
    """The verdict on one device of a node whose devices have these values."""
    values = {f"gpu{place}": each for place, each in enumerate(all_values)}
    return judge([Measurement("inventory.vbios", "GPU-0", "version", value, on_all=values)], VBIOS)


def test_the_device_that_differs_from_most_is_blamed_and_no_other() -> None:
    values = ("96.00.A5", "96.00.A5", "96.00.74", "96.00.A5")
    assert [on_all(value, *values).status for value in values] == [Status.PASS, Status.PASS, Status.FAIL, Status.PASS]
    for value in ("96.00.74", "96.00.A5"):
        assert (on_all(value, *values).reasons, on_all(value, *values).expected) == ((Majority(3, 4),), "96.00.A5")


def test_without_a_majority_nobody_is_cleared() -> None:
    verdict = on_all("96.00.A5", "96.00.A5", "96.00.A5", "96.00.74", "96.00.74")
    assert verdict.status is Status.FAIL
    assert verdict.reasons == (NoMajority((("96.00.A5", "gpu0, gpu1"), ("96.00.74", "gpu2, gpu3"))),)
    assert on_all("96.00.A5", "96.00.A5").status is Status.PASS, "a device alone is the same as all"
    assert on_all("96.00.A5").status is Status.UNMEASURED, "nobody knows what the others have"


@each_row(
    ("value", "expected"),
    [("550.54.14", Status.PASS), ("550.100", Status.PASS), ("535.230.02", Status.FAIL), ("none", Status.UNMEASURED)],
)
def test_a_version_within_a_range(value: str, expected: Status) -> None:
    limit = Limit("inventory.driver_version", "version", version=">=550.54,<600")
    verdict = judge([found(value, "version")], limit)
    assert verdict.status is expected
    assert ">=550.54,<600" in sentence_of(verdict)


# -- a warning alone

ADVICE = replace(COUNT, metric="host.numa_balancing", equals=0, warns=True)


@tabled("value, limit, unit, expected", "data/judging/judge.yaml")
def test_a_warning_alone_never_rejects(value: Value, limit: Limit, unit: str, expected: Status) -> None:
    verdict = judge([found(value, unit)], limit)
    assert verdict.status is expected
    assert (Note("warns") in verdict.reasons) == (expected is Status.MARGINAL)


def test_a_warning_alone_asks_for_nothing_that_cannot_be_read_and_excuses_no_lost_device() -> None:
    """With a limit that is required it would be UNMEASURED."""
    for trouble in (NEED, NEVER):
        verdict = judge([found(trouble=trouble)], ADVICE)
        assert (verdict.status, verdict.reasons) == (Status.NOT_APPLICABLE, (Note("trouble", trouble.reason),))
    assert judge([found(trouble=LOST)], ADVICE).status is Status.FAIL


def test_the_worst_of_several_is_named() -> None:
    limit = Limit("host.nic_errors", "count", ceiling=10)
    for value in (0, 12):
        measured = Measurement("host.nic_errors", "node", "count", value, notes=(Note("at", "mlx5_3/1"),))
        assert judge([measured], limit).reasons[-1] == Note("at", "mlx5_3/1")
