"""The matrix of peer copies as a heat map: a table whose cells are tinted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Names, finite
from pytest_accel.core.run import Run
from pytest_accel.judging.peer_matrix import SHORT, fastest

STEPS = 8
"""The number of tints."""
DARKEST = 0.5
"""The fraction of the fastest pairs at which the tint is the strongest."""


@dataclass(frozen=True)
class Matrix:
    """The rates of one metric by pair of devices, from and to; none in the diagonal and where no rate is known."""

    metric: str
    unit: str
    names: list[str]
    rates: Mapping[tuple[str, str], float]

    @cached_property
    def fastest(self) -> float:
        """The rate of the fastest pairs."""
        return fastest(self.rates) if self.rates else 0.0

    def share(self, rate: float) -> float:
        """Return a rate as a fraction of that of the fastest pairs."""
        return rate / self.fastest if self.fastest > 0 else 0.0

    def short(self) -> int:
        """Return the number of pairs that are slower than the others."""
        return sum(self.share(rate) < SHORT for rate in self.rates.values())


def tint(share: float) -> int:
    """Return the tint of a fraction of the fastest pairs: 0 for these, STEPS for half of it and less."""
    return round(STEPS * min(1.0, max(0.0, (1 - share) / (1 - DARKEST))))


def matrices(record: Run, names: Names) -> list[Matrix]:
    """Return a matrix for each metric of peer copies, from the newest measurement of every sender."""
    found = []
    sent = [each for each in record.measurements if each.details.get("row")]
    for metric, senders in grouped(sent, lambda each: each.metric).items():
        newest = {each.subject: each for each in senders}
        rates = {
            (names[subject], receiver): rate
            for subject, each in newest.items()
            for receiver, value in each.details.get("row", {}).items()
            if (rate := finite(value)) is not None
        }
        known = {name for pair in rates for name in pair}
        order = [name for name in names.values() if name in known]
        found.append(Matrix(metric, senders[0].unit, [*order, *sorted(known - set(order))], rates))
    return found
