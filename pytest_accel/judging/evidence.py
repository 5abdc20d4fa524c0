"""Adds the evidence that may explain a shortfall to a measurement: telemetry, fractions, error counters. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_accel.core.measurement import DROOP, OF_ALONE, OF_PEAK, TELEMETRY, UNPROVEN, VARIATION, Device, Measurement
from pytest_accel.core.sku import Sku
from pytest_accel.judging import results
from pytest_accel.judging.compare import of_peak_of
from pytest_accel.judging.diagnosis import variation
from pytest_accel.judging.efficiency import JOULES, OF_CLOCK, joules, of_clock
from pytest_accel.judging.telemetry import Reading, disturbance, misplaced, seen_beside, summarise, unproven


def with_evidence(
    measurement: Measurement,
    device: Device,
    sku: Sku | None,
    *,
    readings: Sequence[Reading],
    earlier: Sequence[Measurement],
    foreign: str | None,
    moved: Mapping[str, Any],
) -> list[Measurement]:
    """Return the measurement with its details, and the metrics that the sensor measured at the same time.

    `readings` are those of its window, `earlier` the measurements of the run so far, `foreign` names other processes
    that used the device, and `moved` has the error counters that increased meanwhile. The cause of a shortfall is
    determined from these details when the measurement is judged.
    """
    summary = summarise(readings)
    disturbed = disturbance(device, summary) or misplaced(measurement) or foreign
    shares: dict[str, Any] = {
        OF_PEAK: of_peak_of(measurement),
        OF_CLOCK: of_clock(measurement, sku.datasheet, device, summary) if sku else None,
        OF_ALONE: results.of_alone(measurement, earlier),
        DROOP: results.droop(measurement, earlier),
        JOULES: joules(measurement, summary),
        UNPROVEN: unproven(measurement.metric, device, readings),
        VARIATION: variation(measurement.samples),
    }
    details = {**measurement.details, TELEMETRY: summary}
    details.update({name: value for name, value in shares.items() if value is not None})
    details.update({"counters": dict(moved)} if moved else {})
    measured = results.foreseen(replace(measurement, disturbance=disturbed, details=details), sku)
    return [measured, *seen_beside(measured, device, summary)]
