"""What the next run of the same device will show. Pure."""

from __future__ import annotations

import math
from dataclasses import replace

from pytest_accel.core.measurement import NEXT_RUN, Measurement
from pytest_accel.core.sku import Sku
from pytest_accel.core.stats import next_run


def foreseen(measurement: Measurement, sku: Sku | None) -> Measurement:
    """The measurement with the interval that the next run's value lies in (95 %), where its spread is known."""
    spread, found = sku.spread_of(measurement.metric) if sku else None, measurement.estimate
    if spread is None or found is None or measurement.trouble:
        return measurement
    interval = next_run(found, spread.between_runs, spread.runs)
    if not math.isfinite(interval.high - interval.low):
        return measurement
    return replace(measurement, details={**measurement.details, NEXT_RUN: [interval.low, interval.high]})
