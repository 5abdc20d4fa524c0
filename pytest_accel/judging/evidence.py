"""Adds the evidence that may explain a shortfall to a measurement: telemetry, fractions, error counters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_accel.core.details import Details, TelemetrySummary
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.sku import Sku
from pytest_accel.judging import results
from pytest_accel.judging.clock_losses import losses
from pytest_accel.judging.compare import of_peak_of
from pytest_accel.judging.diagnosis import variation
from pytest_accel.judging.efficiency import joules, of_clock
from pytest_accel.judging.telemetry import Reading, disturbance, misplaced, seen_beside, summarise, unproven


def with_evidence(
    measurement: Measurement,
    device: Device,
    sku: Sku | None,
    *,
    readings: Sequence[Reading],
    earlier: Sequence[Measurement],
    foreign: str | None,
    excuse: str | None,
    moved: Mapping[str, int],
) -> list[Measurement]:
    """Return the measurement with its details, and the metrics that the sensor measured at the same time.

    `readings` are those of its window, `earlier` the measurements of the run so far, `foreign` names other processes
    that used the device, `excuse` is a load that was there before the run and excuses a low speed, and `moved` has the
    error counters that increased meanwhile. The cause of a shortfall is determined from these details when the
    measurement is judged.
    """
    summary = summarise(readings)
    disturbed = None if excuse else disturbance(device, summary) or misplaced(measurement) or foreign
    details: Details = {**measurement.details, **_shares(measurement, device, sku, summary, earlier)}
    details["telemetry"] = summary
    if lost := losses(_while_sampled(measurement, readings), device.facts.get("clock_max_mhz")):
        details["clock_losses"] = lost
    if little := unproven(measurement.metric, device, readings):
        details["unproven"] = little
    if moved:
        details["counters"] = dict(moved)
    found = with_excuse(replace(measurement, disturbance=disturbed, details=details), excuse)
    measured = results.foreseen(found, sku)
    return [measured, *seen_beside(measured, device, summary)]


def _while_sampled(measurement: Measurement, readings: Sequence[Reading]) -> Sequence[Reading]:
    """Return the readings while the samples were taken, without those of the warm-up; all if that is not known."""
    ends = measurement.details.get("ends")
    since = measurement.ended - ends[-1] if ends else measurement.started
    return [each for each in readings if each["at"] >= since]


def with_excuse(measurement: Measurement, excuse: str | None) -> Measurement:
    """Return the measurement with the load before the run that excuses a low speed, if there was one."""
    if not excuse:
        return measurement
    details: Details = {**measurement.details, "excuse": excuse}
    return replace(measurement, details=details)


def _shares(
    measurement: Measurement,
    device: Device,
    sku: Sku | None,
    summary: TelemetrySummary,
    earlier: Sequence[Measurement],
) -> Details:
    """Return the value beside what it can be compared with; what is not known is left out."""
    found: Details = {}
    if (of_peak := of_peak_of(measurement)) is not None:
        found["of_peak"] = of_peak
    if sku and (clock := of_clock(measurement, sku.datasheet, device, summary)):
        found["of_clock"] = clock
    if (alone := results.of_alone(measurement, earlier)) is not None:
        found["of_alone"] = alone
    if (lost := results.droop(measurement, earlier)) is not None:
        found["droop"] = lost
    if (energy := joules(measurement, summary)) is not None:
        found["joules_per_tflop"] = energy
    if (varied := variation(measurement.samples)) is not None:
        found["variation"] = varied
    return found
