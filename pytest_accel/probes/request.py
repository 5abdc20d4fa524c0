"""The request for a measurement: from the test that asks for it to the workers that make it and the results."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_accel.core.messages import Message, Pair
from pytest_accel.probes.declare import Declaration
from pytest_accel.probes.device.rank import HERE


@dataclass(frozen=True)
class GroupRank:
    """The arguments of `Rank.join`, by which a device becomes a rank of a process group."""

    rendezvous: str
    rank: int
    world: int
    account: str = ""
    interface: str = HERE


@dataclass(frozen=True)
class Request:
    """A probe to run under conditions, and the metric that is judged; of a call of it, also how and when it was made.

    Under other conditions than those of the packaged suite, `suffix` is added to the names of the metrics. A call is
    given its budget in `seconds` and the `precision` at which it ends early. A copy between peers measures only
    `pairs`, or all pairs if there are none. Times are in seconds since the epoch.
    """

    declaration: Declaration
    conditions: Mapping[str, Any]
    metric: str
    suffix: str = ""
    seconds: float = 0.0
    precision: float = 0.0
    pairs: Sequence[Pair] = ()
    ranks: Sequence[GroupRank] = ()
    """The rank of each device in a group with those of other nodes; empty if the ranks are the devices of this node."""
    how: str = "together"
    """As `Measurement.how`."""
    started: float = 0.0
    ended: float = 0.0
    lost: Mapping[str, str] = field(default_factory=dict)
    """The devices that the management library reported as lost after the call: UUID to name."""

    @property
    def judged_by_sku(self) -> bool:
        """True for a packaged probe under the packaged conditions, for which the SKU's limits are made."""
        return self.declaration.packaged and not self.suffix

    @property
    def runs(self) -> str:
        """The way in which the devices take part (`declare.RUNS`)."""
        return self.declaration.runs

    @property
    def key(self) -> tuple[str, str]:
        """Probe and conditions: the same for all tests that can share one measurement."""
        function = self.declaration.function
        return f"{function.__module__}.{function.__qualname__}", repr(sorted(self.conditions.items()))

    def message(self) -> Message:
        """Return the message that a worker receives: it finds the function by module, file, name and path."""
        function = self.declaration.function
        return {
            "event": "call",
            "in_turn": self.runs == "in_turn",
            "metric": self.metric,
            "probe": {
                "module": function.__module__,
                "file": function.__code__.co_filename,
                "name": function.__qualname__,
                "path": list(filter(None, sys.path)),
            },
            "conditions": self.conditions,
            "seconds": self.seconds,
            "precision": self.precision,
            "pairs": self.pairs,
        }
