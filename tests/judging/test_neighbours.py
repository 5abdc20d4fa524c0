"""The comparison of like devices: what is far behind fails, what is behind is marginal where no limit decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_accel.core.details import Details
from pytest_accel.core.measurement import NODE, Device, Measurement, Trouble
from pytest_accel.core.reasons import Alone, BehindMedian, Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.background import Background
from pytest_accel.judging.judge import Attempts, judge
from pytest_accel.judging.like_devices import kind_of

OTHERS = (500.0, 505.1, 505.1, 510.0, 505.1, 505.1, 520.0)
"""Seven healthy devices; the device under test is the eighth."""
FLOOR = Limit("matmul.fp16", "TFLOPS", floor=200.0, reference=220.0)


def one(value: float | None, subject: str = "GPU-7", metric: str = "matmul.fp16", unit: str = "TFLOPS") -> Measurement:
    return Measurement(metric, subject, unit, value, conditions={"dtype": "fp16"})


def beside(*attempts: Measurement, others: Sequence[float] = OTHERS, limit: Limit | None = None) -> Verdict:
    first = attempts[0]
    alike = [[replace(first, subject=f"GPU-{place}", value=value)] for place, value in enumerate(others)]
    clear = [[replace(each[0], disturbance=None, trouble=None, details={}, how="together")] for each in alike]
    return judge(attempts, limit, background=Background([attempts, *clear]))


@pytest.mark.parametrize(
    ("value", "status", "sentence"),
    [
        (505.0, Status.NOT_APPLICABLE, "505 TFLOPS; no limit, for information"),
        (212.3, Status.FAIL, "212.3 TFLOPS, 58% below the median of 8 devices (505.1)"),
        (252.0, Status.FAIL, "252 TFLOPS, 50% below the median of 8 devices (505.1)"),
        (404.0, Status.MARGINAL, "404 TFLOPS, 20% below the median of 8 devices (505.1)"),
        (433.0, Status.NOT_APPLICABLE, "433 TFLOPS; no limit, for information"),  # 0.857
        (900.0, Status.NOT_APPLICABLE, "900 TFLOPS; no limit, for information"),
    ],
)
def test_a_rate_without_a_limit(value: float, status: Status, sentence: str) -> None:
    verdict = beside(one(value))
    assert (verdict.status, sentence_of(verdict)) == (status, sentence)


@pytest.mark.parametrize(
    ("metric", "unit", "value", "status"),
    [
        ("mine.step", "ms", 11.0, Status.NOT_APPLICABLE),
        ("mine.step", "ms", 13.0, Status.MARGINAL),  # 1.3 times as long
        ("mine.step", "ms", 21.0, Status.FAIL),
        ("host_copy.latency", "us", 13.0, Status.NOT_APPLICABLE),  # the place in the node makes so much
        ("host_copy.latency", "us", 25.0, Status.FAIL),  # 2.5 times as long
        ("host_copy.latency", "us", 3.0, Status.NOT_APPLICABLE),
        ("soak.power", "W", 4.0, Status.FAIL),
        ("soak.power", "W", 8.0, Status.MARGINAL),
        ("stream.copy", "GB/s", 4.0, Status.FAIL),
        ("peer_copy.one_way", "GB/s", 4.0, Status.FAIL),
        ("mine.rate", "GB/s", 4.0, Status.FAIL),
        ("host_copy.latency_p99", "us", 25.0, Status.NOT_APPLICABLE),  # the tail of a distribution
        ("soak.throttle.hw_thermal", "s", 25.0, Status.NOT_APPLICABLE),  # a count of seconds
        ("soak.droop_slow", "1", 4.0, Status.NOT_APPLICABLE),
        ("inventory.nvlink_speed", "GB/s", 4.0, Status.NOT_APPLICABLE),  # a fact: limits judge it
        ("counters.ecc_corrected", "per h", 25.0, Status.NOT_APPLICABLE),
        ("host_copy.pcie_width", "count", 4.0, Status.NOT_APPLICABLE),
    ],
)
def test_what_is_a_rate_a_time_or_the_power(metric: str, unit: str, value: float, status: Status) -> None:
    verdict = beside(one(value, metric=metric, unit=unit), others=[10.0, 10.0, 10.0, 10.0])
    assert verdict.status is status


def test_a_time_is_told_as_a_multiple() -> None:
    verdict = beside(one(25.0, metric="host_copy.latency", unit="us"), others=[10.0] * 7)
    assert sentence_of(verdict) == "25 us, 2.5 times the median of 8 devices (10)"


def test_the_node_has_no_neighbour() -> None:
    assert beside(one(4.0, subject=NODE), others=[10.0] * 4).status is Status.NOT_APPLICABLE


@pytest.mark.parametrize(("others", "status"), [(2, Status.NOT_APPLICABLE), (3, Status.FAIL)])
def test_three_devices_are_too_few_to_tell_which_is_slow(others: int, status: Status) -> None:
    assert beside(one(100.0), others=[500.0] * others).status is status


@pytest.mark.parametrize(
    ("limit", "value", "status"),
    [
        (FLOOR, 210.0, Status.FAIL),  # it holds its floor, and is 58 % below its neighbours
        (FLOOR, 300.0, Status.PASS),  # the limit decides
        (replace(FLOOR, severity="warn"), 300.0, Status.MARGINAL),
        (replace(FLOOR, severity="warn"), 210.0, Status.FAIL),
        (replace(FLOOR, differs=("data",)), 300.0, Status.MARGINAL),  # measured otherwise: it advises
        (replace(FLOOR, differs=("data",)), 100.0, Status.FAIL),  # INCONCLUSIVE by itself
        (replace(FLOOR, software={"torch": "<2"}), 100.0, Status.FAIL),  # the neighbours have the same software
        (replace(FLOOR, floor=None, ceiling=900.0), 300.0, Status.MARGINAL),  # no bound on the slow side
    ],
)
def test_a_limit_decides_down_to_half_of_the_median(limit: Limit, value: float, status: Status) -> None:
    alike = [[one(each, f"GPU-{place}")] for place, each in enumerate(OTHERS)]
    verdict = judge([one(value)], limit, {"torch": "2.9"}, background=Background([[one(value)], *alike]))
    assert verdict.status is status
    assert any(isinstance(each, BehindMedian) for each in verdict.reasons) == (status is not Status.PASS)


def test_what_fails_by_its_limit_is_told_by_its_limit() -> None:
    assert sentence_of(beside(one(100.0), limit=FLOOR)) == "100 TFLOPS, floor 200 TFLOPS (-50.0%)"


@pytest.mark.parametrize(
    "changes", [{"disturbance": "in use by pid 4"}, {"value": None, "trouble": Trouble("need", "no time")}]
)
def test_a_disturbed_or_missing_value_is_not_compared(changes: dict[str, object]) -> None:
    verdict = beside(replace(one(100.0), **changes))  # type: ignore[arg-type]
    assert verdict.status is not Status.FAIL
    assert not any(isinstance(each, BehindMedian) for each in verdict.reasons)


def test_disturbed_neighbours_do_not_count() -> None:
    alike = [[replace(one(500.0, f"GPU-{place}"), disturbance="in use")] for place in range(7)]
    assert judge([one(100.0)], None, background=Background([[one(100.0)], *alike])).status is Status.NOT_APPLICABLE


def test_a_quiet_repeat_does_not_clear_what_was_far_behind_once() -> None:
    verdict = beside(one(100.0), one(505.0))
    assert verdict.status is Status.FAIL
    value, behind, noise = verdict.reasons
    assert isinstance(behind, BehindMedian)
    assert (behind.at_first, behind.devices) == (True, 8)
    assert (value, noise) == (Note("value"), Note("beyond_noise"))


@pytest.mark.parametrize("again", [100.0, 505.0])
def test_a_disturbed_repeat_does_not_clear_what_was_far_behind(again: float) -> None:
    verdict = beside(one(100.0), replace(one(again), disturbance="another process"))
    assert verdict.status is Status.FAIL
    assert [each.kind for each in verdict.reasons] == ["value", "behind_median", "one_round"]
    assert beside(one(404.0), replace(one(again), disturbance="another process")).status is Status.MARGINAL


def test_the_cause_is_that_of_the_round_that_fell_short() -> None:
    slow = replace(one(100.0), details={"explains": "HW thermal slowdown 90% of the time"})
    assert beside(slow, one(505.0)).reasons[-1] == Note("cause", "HW thermal slowdown 90% of the time")


def test_a_fact_of_another_kind_is_no_place_in_the_node() -> None:
    odd = Device("GPU-0", 0, "nvidia", "NVIDIA H100 80GB HBM3", facts={"pcie_path": 5, "xgmi_states": "x"})
    assert kind_of(odd) == kind_of(replace(odd, facts={}))


def test_a_load_before_the_run_excuses_what_was_far_behind_once() -> None:
    loaded: Details = {"excuse": "pid 4 used the device until the run began"}
    assert beside(replace(one(100.0), details=loaded), one(505.0)).status is Status.MARGINAL


def test_a_device_that_stays_behind_fails_with_its_cause_and_its_rate_alone() -> None:
    details: Details = {"explains": "HW thermal slowdown 90% of the time"}
    slow = replace(one(100.0), details=details)
    found = beside(slow, slow, replace(slow, value=499.0, how="alone")).reasons
    assert found[-2:] == (Alone(499.0, "TFLOPS"), Note("cause", "HW thermal slowdown 90% of the time"))


def test_without_time_for_a_repeat_it_stays_a_failure() -> None:
    details: Details = {"not_repeated": "the 20 s for repeats at quick leave 0 s"}
    verdict = beside(replace(one(100.0), details=details))
    assert verdict.status is Status.FAIL
    assert verdict.reasons[-1] == Note("repeat_without_time", "the 20 s for repeats at quick leave 0 s")


def gpu(place: int, **changes: object) -> Device:
    return Device(f"GPU-{place}", place, **{"driver": "nvidia", "model": "NVIDIA H100 80GB HBM3", **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "compared"),
    [
        ({}, True),
        ({"model": "NVIDIA H200"}, False),
        ({"facts": {"virtualization": "vgpu"}}, False),
        ({"driver": "cpu", "model": "a processor"}, False),
    ],
)
def test_devices_of_one_kind_are_compared(changes: dict[str, object], compared: bool) -> None:
    devices = [*(gpu(place) for place in range(4)), gpu(4, **changes)]
    result = Attempts(kinds={each.uuid: kind_of(each) for each in devices})
    for device in devices:
        result.add(one(100.0 if device.index == 4 else 500.0, device.uuid))
    verdict = result.judged("matmul.fp16", "GPU-4", None, {})
    assert (verdict.status is Status.FAIL) is compared
    assert [each.subject for each in result.short("matmul.fp16", None, {})] == ["GPU-4"] * compared, "measured again"


def test_processors_are_never_compared() -> None:
    assert kind_of(gpu(0, driver="cpu")) is None


def test_a_verdict_follows_the_neighbours_attempts() -> None:
    """What was judged before the others were measured again is judged anew."""
    devices = [gpu(place) for place in range(4)]
    result = Attempts(kinds={each.uuid: kind_of(each) for each in devices})
    for device in devices:
        result.add(one(100.0, device.uuid))
    assert result.judged("matmul.fp16", "GPU-0", None, {}).status is Status.NOT_APPLICABLE
    for device in devices:
        result.add(one(100.0 if device.index == 0 else 500.0, device.uuid))
    assert result.judged("matmul.fp16", "GPU-0", None, {}).status is Status.FAIL


def test_a_power_of_zero_is_no_reading() -> None:
    """The driver states the power of an MI250 for the first of its two devices, and 0 for the second."""
    second = one(0.0, metric="soak.power", unit="W")
    assert beside(second, others=(540.0, 0.0, 541.0, 0.0, 539.0, 0.0, 540.0)).status is Status.NOT_APPLICABLE
    assert beside(second, others=(540.0, 539.0, 541.0, 540.0)).status is Status.NOT_APPLICABLE
