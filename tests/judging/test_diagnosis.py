"""The cause of a shortfall: what was seen beside it is named, and what was not is not."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from support.judged_tables import tabled
from support.rows import each_row

from pytest_accel.core.details import ClockLosses, Details, Gauge, TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.reasons import Note
from pytest_accel.core.sentences import sentence_of, words
from pytest_accel.core.sku_types import Limit
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.causes import diagnosis
from pytest_accel.judging.causes.diagnosis import explaining, reason_words, variation
from pytest_accel.judging.causes.findings import finding_of
from pytest_accel.judging.verdicts.judge_attempts import judge
from pytest_accel.judging.verdicts.like_devices import Attempts

FACTS: dict[str, Any] = {
    "power_limit_w": 700.0,
    "power_limit_default_w": 700.0,
    "clock_max_mhz": 1980,
    "pcie_gen_max": 5,
    "pcie_width_max": 16,
}


def gpu(**facts: Any) -> Device:
    return Device("GPU-0", 0, "nvidia", "NVIDIA H100 80GB HBM3", facts={**FACTS, **facts})


def measured(metric: str, summary: TelemetrySummary, **details: Any) -> Measurement:
    return Measurement(metric, "GPU-0", "TFLOPS", 612.4, details=cast(Details, {"telemetry": summary, **details}))


def seen(clock: float = 1400.0, **more: Any) -> TelemetrySummary:
    found: TelemetrySummary = {"seconds": 10.0}
    found["clock_mhz"], found["temperature_c"], found["power_w"] = around(clock), around(62.0), around(690.0)
    found.update(cast(TelemetrySummary, more))
    return found


def around(value: float) -> Gauge:
    return {"mean": value, "min": value - 1, "max": value}


def lost(by_reason: dict[str, float], throughout: float, *always: str, mhz: float = 1400.0) -> ClockLosses:
    return {"mhz": mhz, "from_mhz": 1980.0, "by_reason": by_reason, "throughout": throughout, "always": list(always)}


def link(gen: int, width: int) -> TelemetrySummary:
    return {"pcie_gen": gen, "pcie_width": width}


AT_1593 = around(1593.0)
"""The memory clock of a lower power state."""


HALF = math.log(1980 / 1400) / 2


def cause(own: Measurement, device: Device, limit: Limit | None = None, others: Sequence[Attempts] = ()) -> str:
    """The words of a cause; empty without one."""
    found = diagnosis.cause(own, device, limit, others)
    return words(found, Verdict(own.metric, own.subject, Status.FAIL, unit=own.unit)) if found else ""


CAP = "sw_power_cap_s"
CAPPED = lost({}, 2 * HALF, CAP)


@tabled("facts, losses, words", "data/judging/diagnosis.yaml")
def test_the_lost_clock_is_told_in_shares(facts: dict[str, Any], losses: dict[str, Any], words: str) -> None:
    device = gpu(**facts)
    said = cause(measured("matmul.bf16", seen(), clock_losses={"from_mhz": 1980.0, **losses}), device)
    assert words in said
    assert said.endswith("(62 C, 690 W)")


def among(*values: float, mhz: float = 1980.0) -> list[list[Measurement]]:
    """The attempts of like devices, which are capped by power from 1980 MHz to `mhz`."""
    losses = lost({}, math.log(1980 / mhz), "sw_power_cap_s", mhz=mhz)
    one = measured("matmul.bf16", seen(mhz, sw_power_cap_s=9.0), clock_losses=losses)
    return [[replace(one, value=value, subject=f"GPU-{place}")] for place, value in enumerate(values, start=1)]


def test_like_devices_tell_the_clock_that_is_usual() -> None:
    """They are held at 1584 MHz by power. What this one lost beyond that was heat, and it is normal at its clock."""
    losses = lost({"hw_thermal_s": math.log(1584 / 1400)}, math.log(1980 / 1584), "sw_power_cap_s")
    own = measured("matmul.bf16", seen(), clock_losses=losses)
    said = cause(own, gpu(), None, [[own], *among(693.0, 693.0, 693.0, 693.0, mhz=1584.0)])
    assert said.startswith(
        "11.6% slower than the median of its 4 neighbours (693 TFLOPS): "
        "clock 1400 of 1584 MHz, of which HW thermal 100%; "
        "normal at this clock (62 C"
    )


def test_a_reason_beside_the_power_cap_that_like_devices_have_too_goes_first() -> None:
    own = measured("matmul.bf16", seen(), clock_losses=lost({}, 2 * HALF, "sw_power_cap_s", "sync_boost"))
    assert "of which power cap and sync boost together 100%" in cause(own, gpu())
    beside = cause(own, gpu(), None, [[own], *among(700.0, 700.0, 700.0, 700.0, mhz=1584.0)])
    assert "of which sync boost 100%" in beside


def test_what_is_slow_at_its_clock_is_told_with_the_share_that_it_lacks() -> None:
    own = measured("matmul.bf16", seen(1584.0), clock_losses=lost({}, math.log(1.25), "sw_power_cap_s", mhz=1584.0))
    said = cause(own, gpu(), None, [[own], *among(700.0, 700.0, 700.0, 700.0, mhz=1584.0)])
    assert "clock 1584 of 1584 MHz; 13% slower than usual at this clock, unexplained" in said


def test_a_product_that_waited_for_the_host_says_so() -> None:
    own = measured("matmul.bf16", seen(1980.0), launch_bound=True)
    assert "launch-bound: the host launched the work more slowly" in cause(own, gpu())


def test_like_devices_that_are_as_slow_explain_nothing() -> None:
    limit = Limit("matmul.bf16", "TFLOPS", floor=672.0, reference=730.0)
    own = measured("matmul.bf16", seen(), clock_losses=CAPPED)
    said = cause(own, gpu(), limit, [[own], *among(613.0, 612.0, 611.0, 612.0, mhz=1400.0)])
    assert said.startswith(
        "16.1% slower than what is expected (730 TFLOPS): clock 1400 of 1980 MHz, of which power cap"
    )


@tabled("metric, facts, summary, words", "data/judging/diagnosis.yaml")
def test_what_was_seen_is_the_cause(metric: str, facts: dict[str, Any], summary: dict[str, Any], words: str) -> None:
    told = seen(**summary) if "clock" in summary else cast(TelemetrySummary, summary)
    assert words in cause(measured(metric, told), gpu(**facts))


@pytest.mark.parametrize(("readings", "said"), [(6, False), (60, True)])
def test_a_few_readings_do_not_tell_what_a_device_does_at_its_clock(readings: int, said: bool) -> None:
    """They may all have missed the slowdown that the counter saw."""
    summary = seen(1584.0, hw_thermal_s=2.4, readings=readings)
    losses = lost({}, math.log(1.25), "sw_power_cap_s", mhz=1584.0)
    told = cause(measured("matmul.bf16", summary, clock_losses=losses, of_clock={"share": 0.6}), gpu())
    assert ("slower than usual at this clock" in told) == said


NARROW = "0.50 of the usual bandwidth; "


@each_row(
    ("metric", "value", "summary", "words"),
    [
        ("host_copy.h2d", 27.0, link(5, 8), f"x8 under load, its maximum is 5 x16: {NARROW}normal for that link"),
        ("host_copy.h2d", 20.0, link(5, 8), f"{NARROW}27% slower than that accounts for, unexplained"),
        ("stream.copy", 33.4, seen(memory_clock_mhz=AT_1593), "lower power state; normal at that clock"),
        ("stream.copy", 26.7, seen(memory_clock_mhz=AT_1593), "20% slower than that accounts for, unexplained"),
    ],
)
def test_a_narrow_link_and_a_low_memory_clock_explain_as_much_as_they_take(
    metric: str, value: float, summary: TelemetrySummary, words: str
) -> None:
    limit = Limit(metric, "GB/s", floor=50.0, reference=55.0)
    device = gpu(memory_clock_max_mhz=2619.0)
    assert words in cause(replace(measured(metric, summary), value=value, unit="GB/s"), device, limit)


def test_a_link_is_as_narrow_as_those_of_like_devices() -> None:
    """All of them are x8; that this one is slower has another cause."""
    narrow = replace(measured("host_copy.h2d", link(5, 8)), unit="GB/s")
    rates = enumerate((20.0, 27.0, 27.0, 27.0, 27.0))
    own, *others = ([replace(narrow, value=value, subject=f"GPU-{place}")] for place, value in rates)
    said = cause(own[0], gpu(), None, [own, *others])
    assert "25.9% slower than the median of its 4 neighbours (27 GB/s): the link ran at PCIe 5 x8 under load" in said
    assert said.endswith("its maximum is 5 x16, as on the like devices; 26% slower than that accounts for, unexplained")


def test_the_share_of_what_the_clock_gives_is_said() -> None:
    """0.93 is a healthy chip that is held back, 0.54 is one whose units are short at any clock."""
    for share, said in ((0.9312, "normal at this clock (0.93"), (0.54, "this clock, unexplained (0.54")):
        own = measured("matmul.bf16", seen(), clock_losses=CAPPED, of_clock={"share": share})
        assert cause(own, gpu()).endswith(f"{said} of the peak at that clock, 62 C, 690 W)")


def test_where_nothing_can_tell_nothing_is_said() -> None:
    hot = seen(hw_thermal_s=9.0)
    unwatched = measured("matmul.bf16", {"readings": 0})
    others = measured("host_copy.h2d", {"pcie_gen": 5}), measured("peer_copy.one_way", hot)
    assert [cause(each, gpu()) for each in (unwatched, *others, measured("exact_matmul.bf16", hot))] == [""] * 4
    blocks = [(), (700.0, 600.0), (0.0, 0.0, 0.0), (700.0, math.nan, math.inf)]
    assert [variation(samples) for samples in blocks] == [None] * 4
    assert reason_words("hw_thermal_s", Device("GPU-0", 0, "nvidia", "Part")) == "HW thermal", "no power limit stated"


FLOOR = Limit("matmul.bf16", "TFLOPS", floor=672.0)
SHORT = "612.4 TFLOPS, floor 672 TFLOPS (-8.9%)"


def test_the_cause_stands_in_the_sentence_of_a_failure_and_of_no_other() -> None:
    hot = measured("matmul.bf16", seen(), clock_losses=lost({"hw_thermal_s": 2 * HALF}, 0.0))
    short, fine = (judge([each], FLOOR, explain=explaining([gpu()])) for each in (hot, replace(hot, value=730.0)))
    assert sentence_of(short).startswith(f"{SHORT}; clock 1400 of 1980 MHz, of which HW thermal 100%")
    assert "HW thermal" not in sentence_of(fine)


@tabled("first, again, cause, code", "data/judging/diagnosis.yaml")
def test_the_evidence_of_either_attempt_that_broke_the_limit_counts(
    first: float, again: TelemetrySummary, cause: str | None, code: str
) -> None:
    """A repeat may be too short for a reading of the link; an attempt that held is no evidence of a shortfall."""
    limit = Limit("host_copy.h2d", "GB/s", floor=50.0, reference=55.0)
    rounds = [measured(limit.metric, link(5, 8)), measured(limit.metric, again)]
    attempts = [replace(each, value=value, unit="GB/s") for each, value in zip(rounds, (first, 27.2), strict=True)]
    verdict = judge(attempts, limit, explain=explaining([gpu()]))
    said = sentence_of(verdict).removeprefix("27.2 GB/s, floor 50 GB/s (-45.6%)")
    assert said.startswith(cause) if cause else not said
    found = finding_of(verdict, attempts, gpu())
    assert (found and found.fault_code.name) == code


def test_a_cause_that_the_measurement_holds_goes_first() -> None:
    """A matrix of peers tells it."""
    told = replace(measured("matmul.bf16", {}), notes=(Note("cause", "HW thermal slowdown 41% of the time"),))
    for verdict in (judge([told], FLOOR, explain=explaining([gpu()])), judge([told], FLOOR)):
        assert sentence_of(verdict) == f"{SHORT}; HW thermal slowdown 41% of the time"


def test_blocks_that_vary_are_said_beside_the_cause() -> None:
    """A limit that is always there holds every block back; a host that feeds the device too slowly does not."""
    even, uneven = (
        cause(replace(measured("matmul.bf16", seen(clock=1980.0)), samples=tuple(blocks * 5)), gpu())
        for blocks in ([700.0, 702.0, 698.0], [700.0, 500.0, 690.0])
    )
    assert "samples vary" not in even
    assert "clock 1980 of 1980 MHz; unexplained; samples vary by 15%" in uneven


@tabled("of_alone, summary, words", "data/judging/diagnosis.yaml")
def test_what_is_low_only_together_is_not_the_devices(of_alone: float, summary: TelemetrySummary, words: str) -> None:
    assert words in cause(measured("host_copy_all.h2d", summary, of_alone=of_alone), gpu())
