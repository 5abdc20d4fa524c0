"""The limits that never fire, and those that fire on so many nodes that the limit is to be doubted. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pytest_accel.fleet.nights.analysis.groups import ENOUGH_DEVICES, ENOUGH_NODES

TOO_MANY: Final = 0.3
"""The share of nodes that a limit may reject: above, it is the limit, or a change of software, and not the hardware."""
LOOSE: Final = 0.1
"""The margin of the worst device from which on a limit that never fired finds nothing: it is 10 % off all of them."""


@dataclass(frozen=True)
class Fired:
    """How often a limit fired in the last night, and since the first night that was looked at.

    A waived failure counts in `fails_since` alone. `margin` is that of the worst figure that held, as a share of the
    bound; None without a bound.
    """

    sku: str
    platform: str
    level: str
    metric: str
    floor: float | None
    ceiling: float | None
    nodes: int
    devices: int
    failing_nodes: int
    marginal: int
    fails_since: int
    margin: float | None

    @property
    def share(self) -> float:
        """The share of nodes on which it fired in the last night."""
        return self.failing_nodes / self.nodes if self.nodes else 0.0

    @property
    def too_often(self) -> bool:
        """True if it fires on more nodes than hardware breaks on."""
        return self.nodes >= ENOUGH_NODES and self.share > TOO_MANY

    @property
    def never(self) -> bool:
        """True if it never fired, and no device comes near it."""
        loose = self.margin is not None and self.margin > LOOSE
        return not self.fails_since and not self.marginal and self.devices >= ENOUGH_DEVICES and loose


def too_often(limits: Iterable[Fired]) -> list[Fired]:
    """Return the limits to be doubted, those that fire on the most nodes first."""
    return sorted((each for each in limits if each.too_often), key=lambda one: -one.share)


def never(limits: Iterable[Fired]) -> list[Fired]:
    """Return the limits that find nothing, the loosest first."""
    return sorted((each for each in limits if each.never), key=lambda one: -(one.margin or 0.0))
