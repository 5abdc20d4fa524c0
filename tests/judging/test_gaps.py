"""The narrow comparison of like devices: by the spread that healthy ones have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.reasons import AllAlike, NeighboursHold, Note
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku import DeclaredBy, Limit, Source, Spread
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.background import Background
from pytest_accel.judging.judge import Attempts, judge
from pytest_accel.judging.like_devices import kind_of

WHERE = Source("measured", "us", "2026-11")
PRODUCTS = Spread(WHERE, between_devices=0.012)
MEMORY = Spread(WHERE, between_devices=0.003)
LOAD = {"telemetry": {"seconds": 10.0, "sw_power_cap_s": 9.0, "clock_mhz": {"mean": 1400.0, "min": 1, "max": 2000}}}


def one(value: float, subject: str = "GPU-7", metric: str = "matmul.bf16", unit: str = "TFLOPS") -> Measurement:
    return Measurement(metric, subject, unit, value)


def beside(
    *attempts: Measurement, spread: Spread, others: Sequence[float] = (100.0,) * 7, limit: Limit | None = None
) -> Verdict:
    """Return the verdict on GPU-7 beside seven others."""
    last = replace(attempts[-1], details={}, disturbance=None)
    alike = [[replace(last, subject=f"GPU-{place}", value=value)] for place, value in enumerate(others)]
    return judge(attempts, limit, background=Background([attempts, *alike], [attempts, *alike], spread))


def memory(value: float) -> Measurement:
    return one(value, metric="stream.triad", unit="GB/s")


def test_the_sentence_has_gap_median_and_spread() -> None:
    verdict = beside(one(701.2), spread=PRODUCTS, others=[746.8] * 7)
    assert verdict.status is Status.MARGINAL
    assert sentence_of(verdict) == "701.2 TFLOPS, 6.1% behind its neighbours (median 746.8, spread 1.2%)"


@pytest.mark.parametrize(
    ("metric", "unit", "spread", "value", "status"),
    [
        ("matmul.bf16", "TFLOPS", PRODUCTS, 95.0, Status.NOT_APPLICABLE),  # 4.2 deviations
        ("matmul.bf16", "TFLOPS", PRODUCTS, 90.0, Status.MARGINAL),  # products never fail by the spread
        ("matmul.bf16", "TFLOPS", replace(PRODUCTS, between_devices=0.001), 98.5, Status.NOT_APPLICABLE),  # under 2 %
        ("stream.triad", "GB/s", MEMORY, 99.0, Status.NOT_APPLICABLE),
        ("stream.triad", "GB/s", MEMORY, 98.5, Status.MARGINAL),
        ("stream.triad", "GB/s", MEMORY, 97.5, Status.FAIL),
        ("stream.triad", "GB/s", replace(MEMORY, declared_by=DeclaredBy.VENDOR_FILE), 95.5, Status.MARGINAL),
        ("stream.triad", "GB/s", replace(MEMORY, source=replace(WHERE, kind="published")), 95.5, Status.MARGINAL),
        ("stream.triad", "GB/s", replace(MEMORY, source=replace(WHERE, kind="published")), 93.5, Status.FAIL),
        ("stream.triad", "GB/s", replace(MEMORY, between_runs=0.01), 97.5, Status.NOT_APPLICABLE),
        ("host_copy.h2d", "GB/s", MEMORY, 97.5, Status.FAIL),
        ("peer_copy.one_way", "GB/s", MEMORY, 97.5, Status.FAIL),
        ("soak.power", "W", MEMORY, 97.5, Status.NOT_APPLICABLE),
        ("host_copy.latency", "us", MEMORY, 103.0, Status.NOT_APPLICABLE),
        ("mine.step", "ms", PRODUCTS, 107.0, Status.MARGINAL),  # a time: more is worse
        ("mine.step", "ms", PRODUCTS, 93.0, Status.NOT_APPLICABLE),
    ],
)
def test_how_far_behind_is_a_finding(metric: str, unit: str, spread: Spread, value: float, status: Status) -> None:
    assert beside(one(value, metric=metric, unit=unit), spread=spread).status is status


def test_the_own_value_does_not_move_the_median() -> None:
    assert beside(memory(97.0), spread=MEMORY, others=[100.0] * 3).status is Status.FAIL
    assert beside(memory(97.0), spread=MEMORY, others=[100.0] * 2).status is Status.NOT_APPLICABLE, "too few"


def test_the_noise_of_its_own_blocks_counts() -> None:
    steady = replace(memory(97.5), samples=(97.5,) * 20)
    noisy = replace(memory(97.5), samples=(80.0, 115.0) * 10)
    assert beside(steady, spread=MEMORY).status is Status.FAIL
    assert beside(noisy, spread=MEMORY).status is Status.NOT_APPLICABLE


def test_a_finding_has_to_be_confirmed() -> None:
    assert beside(memory(97.0), memory(97.0), spread=MEMORY).status is Status.FAIL
    cleared = beside(memory(97.0), memory(99.9), spread=MEMORY)
    assert cleared.status is Status.MARGINAL
    assert [(each.kind, getattr(each, "at_first", False)) for each in cleared.reasons[1:]] == [
        ("behind_neighbours", True)
    ]
    assert beside(memory(98.5), memory(99.9), spread=MEMORY).status is Status.NOT_APPLICABLE
    assert beside(memory(99.9), memory(98.5), spread=MEMORY).status is Status.NOT_APPLICABLE
    late = beside(memory(99.9), memory(97.0), spread=MEMORY)
    assert late.status is Status.MARGINAL, "the first round did not show it"


def test_a_round_that_cannot_be_compared_neither_confirms_nor_clears() -> None:
    disturbed = replace(memory(99.9), disturbance="another process")
    for rounds in ((memory(97.0), disturbed), (disturbed, memory(97.0))):
        found = beside(*rounds, spread=MEMORY)
        assert found.status is Status.INCONCLUSIVE
        assert found.reasons[-1] == Note("one_round")
    assert beside(memory(98.5), disturbed, spread=MEMORY).status is Status.MARGINAL
    assert beside(memory(99.9), disturbed, spread=MEMORY).status is Status.NOT_APPLICABLE


def test_a_neighbour_without_a_rate_does_not_hide_the_others() -> None:
    assert beside(memory(97.0), spread=MEMORY, others=[100.0] * 6 + [0.0]).status is Status.FAIL
    assert beside(memory(0.0), spread=MEMORY).status is Status.FAIL


def test_without_time_for_a_repeat_a_failing_gap_is_inconclusive() -> None:
    left = replace(memory(97.0), details={"not_repeated": "the 20 s for repeats at quick leave 0 s"})
    verdict = beside(left, spread=MEMORY)
    assert verdict.status is Status.INCONCLUSIVE
    assert verdict.reasons[-1] == Note("repeat_without_time", "the 20 s for repeats at quick leave 0 s")
    marginal = beside(replace(left, value=98.5), spread=MEMORY)
    assert marginal.status is Status.MARGINAL


def test_products_under_the_power_limit_are_compared_at_their_clock() -> None:
    """The device runs as fast as the others at a clock 5 % higher, so some of its units do no work."""
    spread = replace(PRODUCTS, at_clock=0.005)
    fast = {"telemetry": {**LOAD["telemetry"], "clock_mhz": {"mean": 1470.0, "min": 1, "max": 2000}}}
    usual = [[replace(one(700.0, f"GPU-{place}"), details=LOAD)] for place in range(7)]  # type: ignore[arg-type]

    def verdict(spread: Spread, details: object) -> Verdict:
        own = [replace(one(700.0), details=details)]  # type: ignore[arg-type]
        return judge(own, None, background=Background([own, *usual], [own, *usual], spread))

    found = verdict(spread, fast)
    assert found.status is Status.MARGINAL
    assert sentence_of(found) == "700 TFLOPS, 4.8% behind its neighbours at its clock (median 735, spread 0.5%)"
    assert verdict(spread, LOAD).status is Status.NOT_APPLICABLE
    idle = {"telemetry": {**fast["telemetry"], "sw_power_cap_s": 0.0}}
    assert verdict(replace(PRODUCTS, at_clock=0.02), fast).status is Status.NOT_APPLICABLE
    for each in usual:
        each[0] = replace(each[0], details={"telemetry": {**LOAD["telemetry"], "sw_power_cap_s": 0.0}})  # type: ignore[typeddict-item]
    assert verdict(spread, idle).status is Status.NOT_APPLICABLE, "power limits nobody"


ADVISORY = Limit("stream.triad", "GB/s", floor=98.0, reference=100.0, differs=("data",))


def test_an_advisory_limit_that_one_device_alone_breaks() -> None:
    verdict = beside(memory(97.0), spread=MEMORY, limit=ADVISORY)
    assert verdict.status is Status.FAIL
    assert [each.kind for each in verdict.reasons] == [
        "compared",
        "other_method",
        "neighbours_hold",
        "behind_neighbours",
    ]
    product = beside(one(97.0), spread=PRODUCTS, limit=replace(ADVISORY, metric="matmul.bf16", unit="TFLOPS"))
    assert product.status is Status.MARGINAL
    assert NeighboursHold(7) in product.reasons
    assert product.behind, "worth another measurement"


def test_devices_that_are_short_alike_are_told_so() -> None:
    floor = Limit("stream.triad", "GB/s", floor=98.0, reference=100.0)
    for limit in (floor, ADVISORY):
        verdict = beside(memory(95.0), spread=MEMORY, others=[95.1] * 7, limit=limit)
        assert verdict.reasons[-1] == AllAlike(8)
    for value, other in ((90.0, 95.1), (99.0, 99.0)):
        assert AllAlike(8) not in beside(memory(value), spread=MEMORY, others=[other] * 7, limit=floor).reasons


def gpu(place: int, **changes: object) -> Device:
    facts = {"pcie_gen_max": 5, "pcie_width_max": 16, "nvlink_count": 18}
    return Device(f"GPU-{place}", place, "nvidia", "NVIDIA H100 80GB HBM3", facts=facts, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("metric", "changes", "found"),
    [
        ("host_copy.h2d", {}, True),
        ("host_copy.h2d", {"numa_node": 1}, False),  # another socket: three of its own kind at most
        ("stream.triad", {"numa_node": 1}, True),
    ],
)
def test_links_are_compared_in_the_same_place_of_the_node(metric: str, changes: dict[str, object], found: bool) -> None:
    devices = [*(gpu(place) for place in range(4)), gpu(4, **changes)]
    result = Attempts(kinds={each.uuid: kind_of(each) for each in devices}, spread_of=lambda _: MEMORY)
    for device in devices:
        result.add(one(95.0 if device.index == 4 else 100.0, device.uuid, metric, "GB/s"))
    assert (result.judged(metric, "GPU-4", None, {}).status is Status.FAIL) is found
    assert [each.subject for each in result.short(metric, None, {})] == ["GPU-4"] * found


def test_a_marginal_gap_is_measured_again_once() -> None:
    devices = [gpu(place) for place in range(5)]
    result = Attempts(kinds={each.uuid: kind_of(each) for each in devices}, spread_of=lambda _: PRODUCTS)
    for device in devices:
        result.add(one(90.0 if device.index == 4 else 100.0, device.uuid))
    assert [each.subject for each in result.short("matmul.bf16", None, {})] == ["GPU-4"]
    result.repeated = True
    assert result.short("matmul.bf16", None, {}) == []
