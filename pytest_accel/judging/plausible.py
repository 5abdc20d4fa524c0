"""Values that no device can have: another unit, a sparse figure, another dtype, or a measurement gone wrong. Pure."""

from __future__ import annotations

import math

from pytest_accel.core.measurement import Measurement, Peak
from pytest_accel.core.sku import Limit

RATES = ("TFLOPS", "TOPS", "GB/s")
OF_PEAK = 1.5
"""Boards that boost above their published clock come to 1.28 of the datasheet (RTX 5090), sparse figures to 2."""
OF_REFERENCE = 2.0
"""Where no peak is known; no software doubled what a healthy part does at the same size."""


def why_implausible(measurement: Measurement, limit: Limit) -> str | None:
    """Why a rate is too good to be held against a limit, or None."""
    value = measurement.value
    if measurement.unit not in RATES or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    base, times, what = _yardstick(measurement.peak, limit)
    if not base or value <= times * base:
        return None
    return f"{value:.4g} {measurement.unit} is {value / base:.3g} times the {what}: not what the metric means"


def _yardstick(peak: Peak | None, limit: Limit) -> tuple[float, float, str]:
    """What a rate is held against, how often it may be that, and its name. Beside a measured peak anything may be."""
    if peak is None:
        return (0.0 if limit.relative else limit.reference or 0.0), OF_REFERENCE, "healthy reference"
    return (0.0 if peak.samples else peak.value), OF_PEAK, peak.source
