"""Everything that a verdict takes into account besides the attempts and the limit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_accel.core.sku import Spread
from pytest_accel.judging.history import Past
from pytest_accel.judging.neighbours import Attempt


@dataclass(frozen=True)
class Background:
    """What one metric of one device is compared with besides its limit.

    `others` are the attempts of the like devices of this run, its own included, `spread` is the variation of the metric
    among healthy devices, and `past` has the figures of earlier runs.
    """

    others: Sequence[Attempt] = ()
    spread: Spread | None = None
    past: Past | None = None


NOTHING_ELSE: Final = Background()


def no_spread(metric: str) -> Spread | None:  # noqa: ARG001  the signature of `Attempts.spread_of`
    """Return None: no variation is known."""
    return None


def no_past(metric: str, subject: str) -> Past | None:  # noqa: ARG001  the signature of `Attempts.past_of`
    """Return None: there is no earlier run."""
    return None
