"""The cause of a shortfall: what was seen beside it is named, and what was not is not."""

from dataclasses import replace
from typing import Any, cast

import pytest

from pytest_accel.core.details import Details, Gauge, TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.sku import Limit
from pytest_accel.judging.diagnosis import cause, explaining, variation
from pytest_accel.judging.judge import judge

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


MEMORY = gpu(memory_clock_max_mhz=2619, memory_max_c=95)


def seen(clock: float = 1400.0, **more: Any) -> TelemetrySummary:
    found: TelemetrySummary = {"seconds": 10.0}
    found["clock_mhz"], found["temperature_c"], found["power_w"] = around(clock), around(62.0), around(690.0)
    found.update(cast(TelemetrySummary, more))
    return found


def around(value: float) -> Gauge:
    return {"mean": value, "min": value - 1, "max": value}


@pytest.mark.parametrize(
    ("metric", "device", "summary", "words"),
    [
        (
            "matmul.bf16",
            gpu(),
            seen(hw_thermal_s=4.1),
            "HW thermal slowdown 41% of the time (at 1400 MHz, 62 C, 690 W)",
        ),
        ("matmul.bf16", gpu(), seen(sw_thermal_s=2.0, hw_power_brake_s=5.0), "brake 50% of the time, SW thermal slow"),
        ("soak.rate", gpu(power_limit_w=500.0), seen(sw_power_cap_s=9.9), "power limit 500 W, lowered from 700 W"),
        ("matmul.fp8", gpu(), seen(sw_power_cap_s=9.0), "clock held down by the power limit of 700 W, normal"),
        (
            "soak.power",
            gpu(),
            seen(sw_power_cap_s=9.0, power_w=around(280.0)),
            "reports the power limit of 700 W as the reason, at 280 W: another limit",
        ),
        ("matmul.fp8", gpu(), seen(), "clock below its maximum of 1980 MHz without any throttle reason"),
        ("matmul.fp8", gpu(), seen(clock=1975.0), "slow at full clock, without any throttle reason"),
        ("stream.copy", gpu(), seen(clock=1980.0, hw_thermal_s=0.05), "slow at full clock"),  # half a percent
        (
            "matmul.fp8",
            gpu(),
            seen(reasons=0x02),
            "clock below its maximum of 1980 MHz, set by application clocks",
        ),
        ("soak.rate", gpu(), seen(reasons=0x12), ", set by application clocks and sync boost"),
        ("stream.copy", MEMORY, seen(memory_clock_mhz=around(1593.0)), "memory clock 1593 of 2619 MHz: locked, or"),
        (
            "stream.read",
            MEMORY,
            seen(memory_temperature_c=around(94.0)),
            "memory at 94 C, close to its maximum of 95 C",
        ),
        ("stream.read", MEMORY, seen(clock=1980.0, memory_clock_mhz=around(2619.0)), "slow at full clock"),
        ("matmul.bf16", MEMORY, seen(clock=1980.0, memory_clock_mhz=around(1593.0)), "slow at full clock"),
        ("host_copy.h2d", gpu(), {"pcie_gen": 4, "pcie_width": 8}, "ran at PCIe 4 x8 under load, its maximum is 5 x16"),
        ("host_copy.h2d", gpu(), {"pcie_gen": 5, "pcie_width": 16}, "at its maximum, PCIe 5 x16: check NUMA"),
    ],
)
def test_what_was_seen_is_the_cause(metric: str, device: Device, summary: TelemetrySummary, words: str) -> None:
    assert words in str(cause(measured(metric, summary), device))


def test_the_share_of_what_the_clock_gives_is_said_beside_the_clock() -> None:
    """0.93 is a healthy chip that is held back, 0.7 is one whose units are short at any clock."""
    said = cause(measured("matmul.bf16", seen(clock=1380.0, sw_power_cap_s=9.0), of_clock={"share": 0.9312}), gpu())
    assert str(said).endswith("(at 1380 MHz, 0.93 of the peak at that clock, 62 C, 690 W)")


def test_what_the_clock_does_not_explain_is_not_laid_to_the_power_limit() -> None:
    said = cause(measured("matmul.bf16", seen(clock=1584.0, sw_power_cap_s=9.0), of_clock={"share": 0.54}), gpu())
    assert str(said).startswith("too slow for the clock that it held, so clock and power limit do not explain it (at")
    assert "0.54 of the peak at that clock" in str(said)
    assert "normal" not in str(said)


def test_a_slowdown_is_told_beside_a_low_share() -> None:
    said = cause(measured("matmul.bf16", seen(hw_thermal_s=4.1), of_clock={"share": 0.54}), gpu())
    assert "too slow for the clock that it held" in str(said)
    assert "HW thermal slowdown 41%" in str(said)


@pytest.mark.parametrize(
    ("metric", "summary"),
    [
        ("matmul.bf16", {"readings": 0}),  # nobody watched
        ("host_copy.h2d", {"pcie_gen": 5}),
        ("peer_copy.one_way", seen(hw_thermal_s=9.0)),
        ("exact_matmul.bf16", seen(hw_thermal_s=9.0)),
    ],
)
def test_where_nothing_can_tell_nothing_is_said(metric: str, summary: TelemetrySummary) -> None:
    assert cause(measured(metric, summary), gpu()) is None


FLOOR = Limit("matmul.bf16", "TFLOPS", floor=672.0)
TOLD = "612.4 TFLOPS, floor 672 TFLOPS (-8.9%); HW thermal slowdown 41% of the time"


def test_the_cause_stands_in_the_sentence_of_a_failure_and_of_no_other() -> None:
    hot = measured("matmul.bf16", {"seconds": 10.0, "hw_thermal_s": 4.1})
    short, fine = (judge([each], FLOOR, explain=explaining([gpu()])) for each in (hot, replace(hot, value=730.0)))
    assert short.sentence == TOLD
    assert "HW thermal" not in fine.sentence


def test_a_cause_that_the_measurement_holds_goes_first() -> None:
    """A matrix of peers tells it, and records of older versions have it of every measurement."""
    told = measured("matmul.bf16", {}, explains="HW thermal slowdown 41% of the time")
    assert judge([told], FLOOR, explain=explaining([gpu()])).sentence == TOLD
    assert judge([told], FLOOR).sentence == TOLD


def test_nobody_looks_for_the_cause_of_what_holds() -> None:
    asked: list[Measurement] = []
    for value in (730.0, 612.4):
        judge([replace(measured("matmul.bf16", {}), value=value)], FLOOR, explain=lambda each, *_: asked.append(each))
    assert [each.value for each in asked] == [612.4]


def test_blocks_that_vary_are_said_beside_the_cause() -> None:
    """What holds a device back holds it back in every block; a host that feeds it too slowly does not."""
    even, uneven = [700.0, 702.0, 698.0] * 5, [700.0, 500.0, 690.0] * 5
    blocks = {"even": variation(even), "uneven": variation(uneven)}
    assert "samples vary" not in str(
        cause(measured("matmul.bf16", seen(clock=1980.0), variation=blocks["even"]), gpu())
    )
    said = cause(measured("matmul.bf16", seen(clock=1980.0), variation=blocks["uneven"]), gpu())
    assert "slow at full clock, without any throttle reason, samples vary by 15%" in str(said)


@pytest.mark.parametrize(
    ("of_alone", "summary", "words"),
    [
        (
            0.6,
            {"pcie_gen": 5, "pcie_width": 16},
            "at its maximum, PCIe 5 x16: 0.60 of its rate alone: a shared uplink, or the host's",
        ),
        (0.6, {}, "0.60 of its rate alone"),
        (0.99, {"pcie_gen": 5, "pcie_width": 16}, "at its maximum, PCIe 5 x16: check NUMA"),
        (0.6, {"pcie_gen": 4, "pcie_width": 16}, "ran at PCIe 4 x16 under load"),  # that is reason enough
        (0.99, {}, "None"),
    ],
)
def test_what_is_low_only_together_is_not_the_devices(of_alone: float, summary: TelemetrySummary, words: str) -> None:
    assert words in str(cause(measured("host_copy_all.h2d", summary, of_alone=of_alone), gpu()))


@pytest.mark.parametrize("samples", [(), (700.0, 600.0), (0.0, 0.0, 0.0), (700.0, float("nan"), float("inf"))])
def test_blocks_that_say_nothing_have_no_variation(samples: tuple[float, ...]) -> None:
    assert variation(samples) is None
