"""The references of a verdict besides the attempts and the limit: like devices, spread and past. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.run import Past
from pytest_accel.core.sku_types import Spread
from pytest_accel.judging.verdicts.like_devices import Attempts

SpreadOf = Callable[[str], "Spread | None"]
"""A function that returns the variation of a metric among healthy devices, None if it is not known."""
PastOf = Callable[[Measurement], "Past | None"]
"""A function that returns the earlier figures of the metric and the device of a measurement, None if there are none."""


def between_runs(past: Past | None, spread: Spread | None) -> float | None:
    """Return the deviation from run to run as a fraction: of the earlier runs, or else that of the SKU's file."""
    deviation = past.between_runs if past else None
    return deviation if deviation is not None or spread is None else spread.between_runs


def no_past(measurement: Measurement) -> Past | None:  # noqa: ARG001  the signature of `PastOf`
    """Return None: there is no earlier run."""
    return None


@dataclass(frozen=True)
class Background:
    """The references of one metric of one device besides its limit.

    `like_devices` are the attempts of the like devices of this run, its own included, and `neighbours` those of the
    devices in the same place of the node. `spread` is the variation of the metric among healthy devices, and `past_of`
    finds the earlier figures of a measurement.
    """

    like_devices: Sequence[Attempts] = ()
    neighbours: Sequence[Attempts] = ()
    spread: Spread | None = None
    past_of: PastOf = no_past
    not_repeated: str = ""
    """The reason why a shortfall was not measured again; empty if it was, or there is none."""


NOTHING_ELSE: Final = Background()


def no_spread(metric: str) -> Spread | None:  # noqa: ARG001  the signature of `SpreadOf`
    """Return None: no variation is known."""
    return None
