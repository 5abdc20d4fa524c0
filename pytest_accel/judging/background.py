"""Everything that a verdict takes into account besides the attempts and the limit. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_accel.core.sku import Spread
from pytest_accel.judging.history import Past
from pytest_accel.judging.like_devices import AllAttempts, Attempt, Kinds, like, near


@dataclass(frozen=True)
class Background:
    """What one metric of one device is compared with besides its limit.

    `others` are the attempts of the like devices of this run, its own included, and `near` those of the devices in the
    same place of the node. `spread` is the variation of the metric among healthy devices, and `past` has the figures of
    earlier runs.
    """

    others: Sequence[Attempt] = ()
    near: Sequence[Attempt] = ()
    spread: Spread | None = None
    past: Past | None = None


def background_of(
    attempts: AllAttempts, kinds: Kinds, place: tuple[str, str], spread: Spread | None, past: Past | None = None
) -> Background:
    """Return the background of a place (metric, subject) among all attempts of a run."""
    return Background(like(attempts, kinds, *place), near(attempts, kinds, *place), spread, past)


NOTHING_ELSE: Final = Background()


def no_spread(metric: str) -> Spread | None:  # noqa: ARG001  the signature of `Attempts.spread_of`
    """Return None: no variation is known."""
    return None


def no_past(metric: str, subject: str) -> Past | None:  # noqa: ARG001  the signature of `Attempts.past_of`
    """Return None: there is no earlier run."""
    return None
