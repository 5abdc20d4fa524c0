"""The details that may explain or excuse a shortfall: telemetry, fractions, what disturbed a measurement. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_accel.core.details import Details, OfClock, TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.reasons import Note
from pytest_accel.core.sku_types import Datasheet, Sku
from pytest_accel.judging.causes.clock_losses import losses
from pytest_accel.judging.facts import results, telemetry
from pytest_accel.judging.facts.telemetry import Reading, summarise
from pytest_accel.probes.declare import declaration_of


def with_evidence(
    measurement: Measurement,
    device: Device,
    sku: Sku | None,
    *,
    readings: Sequence[Reading],
    earlier: Sequence[Measurement],
    foreign: str | None,
    load: str | None,
) -> list[Measurement]:
    """Return the measurement with its details, and the metrics that the sensor measured at the same time.

    `readings` are those of its window, `earlier` the measurements of the run so far, `foreign` names other processes
    that used the device, and `load` is one that was there before the run and excuses a low speed. The cause of a
    shortfall is determined from these details when the measurement is judged.
    """
    summary = summarise(readings)
    outside = telemetry.disturbance(device, summary) or telemetry.misplacement(measurement) or foreign
    notes = from_outside(None if load else outside, load)
    details: Details = {**measurement.details, "telemetry": summary}
    if sku and (clock := of_clock(measurement, sku.datasheet, device, summary)):
        details["of_clock"] = clock
    if (alone := results.of_alone(measurement, earlier)) is not None:
        details["of_alone"] = alone
    if clock_losses := losses(_while_sampled(measurement, readings), device.facts.get("clock_max_mhz")):
        details["clock_losses"] = clock_losses
    if doubt := telemetry.unproven(measurement.metric, device, readings):
        notes = (*notes, Note("unproven", doubt))
    if (rise := telemetry.temperature_rise(measurement, readings)) is not None:
        details["warmed_k"] = rise
    enriched = results.foreseen(replace(measurement, notes=(*measurement.notes, *notes), details=details), sku)
    return [enriched, *telemetry.sensor_metrics(enriched, device, summary)]


def _while_sampled(measurement: Measurement, readings: Sequence[Reading]) -> Sequence[Reading]:
    """Return the readings while the samples were taken, without those of the warm-up; all if that is not known."""
    ends = measurement.details.get("ends")
    start = measurement.ended - ends[-1] if ends else measurement.started
    return [reading for reading in readings if reading["at"] >= start]


def from_outside(disturbance: str | None, load: str | None) -> tuple[Note, ...]:
    """Return the notes that excuse a shortfall from outside: another user of the device, a load before the run."""
    return tuple(note for note in (Note("load", load or ""), Note("disturbed", disturbance or "")) if note.text)


# -- a matrix product as a share of the peak at the clock that the device really held


AGREE = 0.03
"""The relative difference between the driver's clock and the counted one up to which both are believed."""

TENSOR = ("bf16", "fp16", "tf32", "fp8", "fp6", "fp4", "int8")
"""Dtypes of the tensor cores; the others run at the clock of the fp32 peak."""


def attainable(units: int, flops_per_clock: float, mhz: float) -> float:
    """Return the TFLOPS of `units` compute units at `mhz`, all of them busy in every cycle."""
    return units * flops_per_clock * mhz / 1e6


def flops_per_clock(sheet: Datasheet, dtype: str) -> float | None:
    """Return the dense FLOPs of one compute unit per cycle, or None if the datasheet does not state them.

    The datasheet states them for the first dtype of a group (bf16 or fp16; fp32). Those of the other dtypes follow
    from the ratio of the peaks.
    """
    group, name = (("bf16", "fp16"), "tensor") if dtype in TENSOR else (("fp32",), "fp32")
    first = next((member for member in group if member in sheet.tflops), "")
    base = sheet.compute.get(f"{name}_flops_per_clock")
    if not base or not first or dtype not in sheet.tflops:
        return None
    return float(base) * sheet.tflops[dtype] / sheet.tflops[first]


def of_clock(measurement: Measurement, sheet: Datasheet, device: Device, summary: TelemetrySummary) -> OfClock | None:
    """Return the mean SM clock of the window (`mhz`) and the `share` of the peak at that clock; None if unknown.

    A device that is held back by power or heat keeps its share while its clock falls; one whose units are broken or
    starved keeps its clock while its share falls. The clock is the driver's, and the window begins with the warm-up.
    If the clock by counted cycles disagrees with it, both are returned and no share.
    """
    dtype = str(measurement.conditions.get("dtype"))
    clock, units = summary.get("clock_mhz"), device.facts.get("compute_units") or sheet.compute.get("units")
    per_clock, value = flops_per_clock(sheet, dtype), measurement.value
    if not _sustained(measurement) or not isinstance(value, int | float):
        return None
    if not (clock and clock["mean"] and units and per_clock):
        return None
    mhz, counted_mhz = clock["mean"], measurement.details.get("counted_mhz")
    result: OfClock = {"mhz": mhz}
    if counted_mhz:
        result["counted_mhz"] = counted_mhz
    if counted_mhz and abs(counted_mhz / mhz - 1) > AGREE:
        return result
    return {**result, "share": value / attainable(int(units), per_clock, mhz)}


def _sustained(measurement: Measurement) -> bool:
    """Return True for a rate under load without a pause, so that the mean clock is the clock under load."""
    declaration = declaration_of(measurement.metric)
    return measurement.unit == "TFLOPS" and declaration is not None and declaration.sustained
