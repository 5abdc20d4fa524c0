"""The efficiency against the clock that was held, by figures that AMD published with their clocks."""

from dataclasses import replace
from typing import Any

import pytest
from support import shipped
from support.judged_tables import tabled

from pytest_accel.core.details import TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.sku_types import Datasheet
from pytest_accel.judging.causes.evidence import attainable, flops_per_clock, of_clock

GPU = Device("GPU-0", 0, "amd", "a GPU")


@tabled("sku, dtype, tflops, mhz, share", "real/clock_pairs.yaml")
def test_published_pairs_of_rate_and_clock(sku: str, dtype: str, tflops: float, mhz: float, share: float) -> None:
    found = of_clock(measured(tflops, dtype), shipped.load(sku).datasheet, GPU, at(mhz))
    assert found == {"mhz": mhz, "share": pytest.approx(share, abs=6e-4)}


def test_at_the_clock_of_the_datasheet_its_peak_is_attained() -> None:
    """The H100's 989 TFLOPS are those of 1830 MHz, not of the 1980 that it reports as its highest."""
    sheet = shipped.load("h100-sxm").datasheet
    for dtype, mhz in (("bf16", 1830), ("fp8", 1830), ("tf32", 1830), ("fp64", 1980)):
        per_clock = flops_per_clock(sheet, dtype) or 0
        assert attainable(132, per_clock, mhz) == pytest.approx(sheet.tflops[dtype], rel=2e-3)


def test_the_units_that_the_device_has_count() -> None:
    sheet = shipped.load("mi300x").datasheet
    fewer = replace(GPU, facts={"compute_units": 228})
    found = of_clock(measured(708), sheet, fewer, at(1207))
    assert found is not None
    assert found["share"] == pytest.approx(0.942 * 304 / 228, abs=1e-3)


@tabled("changes, sheet, telemetry", "data/judging/evidence.yaml")
def test_nothing_is_said_of_what_is_not_known(changes: Any, sheet: str, telemetry: Any) -> None:
    found: Datasheet = shipped.load(sheet).datasheet
    assert of_clock(replace(measured(708), **changes), found, GPU, telemetry) is None


def measured(tflops: float, dtype: str = "bf16") -> Measurement:
    return Measurement(f"matmul.{dtype}", "GPU-0", "TFLOPS", tflops, conditions={"dtype": dtype})


def at(mhz: float) -> TelemetrySummary:
    return {"clock_mhz": {"mean": mhz, "min": mhz, "max": mhz}}


def test_a_clock_that_was_counted_otherwise_leaves_no_share() -> None:
    """Of two clocks that are more than 3 % apart one is wrong, and nobody knows which."""
    for counted, known in ((1200.0, True), (1240.0, True), (1400.0, False), (1000.0, False)):
        one = replace(measured(708), details={"counted_mhz": counted})
        found = of_clock(one, shipped.load("mi300x").datasheet, GPU, at(1207)) or {}
        assert (found["mhz"], found["counted_mhz"], "share" in found) == (1207, counted, known)
