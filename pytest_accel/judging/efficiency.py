"""What the clock that a device really held would have given, and how much of it a matrix product got. Pure."""

from __future__ import annotations

from pytest_accel.core.details import OfClock, TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.sku import Datasheet
from pytest_accel.probes.declare import declaration_of

AGREE = 0.03
"""So close the two have to be for either to be believed."""

LONG_ENOUGH_S = 5.0
"""Of an energy counter: its sensor looks a quarter of every tenth of a second (A100, H100; arXiv 2312.02741)."""

TENSOR = ("bf16", "fp16", "tf32", "fp8", "fp6", "fp4", "int8")
"""Dtypes of the tensor cores; the others run at the clock of the fp32 peak."""


def attainable(units: int, flops_per_clock: float, mhz: float) -> float:
    """TFLOPS of so many units at that clock, every one busy in every cycle."""
    return units * flops_per_clock * mhz / 1e6


def flops_per_clock(sheet: Datasheet, dtype: str) -> float | None:
    """Dense FLOPs of one unit in one cycle, or None where the datasheet does not tell.

    Stated for the first dtype of a group (bf16 or fp16, fp32); the others by the ratio of their peaks to its own.
    """
    group, stated = (("bf16", "fp16"), "tensor") if dtype in TENSOR else (("fp32",), "fp32")
    first = next((each for each in group if each in sheet.tflops), "")
    base = sheet.compute.get(f"{stated}_flops_per_clock")
    if not base or not first or dtype not in sheet.tflops:
        return None
    return float(base) * sheet.tflops[dtype] / sheet.tflops[first]


def of_clock(measurement: Measurement, sheet: Datasheet, device: Device, summary: TelemetrySummary) -> OfClock | None:
    """`share` of the TFLOPS that the mean SM clock of the window (`mhz`) gives, or None where something is not known.

    A device that is held back by power or heat keeps its share, and its clock falls; one whose units are broken or
    starved keeps its clock, and its share falls. The clock is the driver's; the window begins with the warm-up. Where
    the one that was counted is another, both are there and no share.
    """
    dtype = str(measurement.conditions.get("dtype"))
    clock, units = summary.get("clock_mhz"), device.facts.get("compute_units") or sheet.compute.get("units")
    per_clock, value = flops_per_clock(sheet, dtype), measurement.value
    if not _sustained(measurement) or not isinstance(value, int | float):
        return None
    if not (clock and clock["mean"] and units and per_clock):
        return None
    mhz, counted = clock["mean"], measurement.details.get("counted_mhz")
    found: OfClock = {"mhz": mhz}
    if counted:
        found["counted_mhz"] = counted
    if counted and abs(counted / mhz - 1) > AGREE:
        return found
    return {**found, "share": value / attainable(int(units), per_clock, mhz)}


def joules(measurement: Measurement, summary: TelemetrySummary) -> float | None:
    """What 10^12 operations of a sustained matrix product cost, by the energy counter of its window."""
    seconds, energy, value = summary.get("seconds", 0.0), summary.get("energy_j"), measurement.value
    if not _sustained(measurement):
        return None
    if not energy or seconds < LONG_ENOUGH_S or not isinstance(value, int | float) or not value:
        return None
    return energy / seconds / value


def _sustained(measurement: Measurement) -> bool:
    """Return whether it is a rate of operations without a rest: the mean clock of any other window says nothing."""
    declared = declaration_of(measurement.metric)
    return measurement.unit == "TFLOPS" and declared is not None and declared.sustained
