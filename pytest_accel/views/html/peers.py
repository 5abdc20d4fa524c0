"""The matrix of peer copies as a heat map: a table whose cells are tinted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.verdict import show
from pytest_accel.judging.peer_matrix import SHORT, fastest
from pytest_accel.run.record import Record
from pytest_accel.views.html.words import number

STEPS = 8
"""The number of tints."""
DARKEST = 0.5
"""The fraction of the fastest pairs at which the tint is the strongest."""


@dataclass(frozen=True)
class Pair:
    """The rate from one device to another; `step` is its tint, 0 for the fastest and STEPS for the slowest."""

    text: str
    step: int
    short: bool
    told: str


@dataclass(frozen=True)
class Matrix:
    """The rates of all pairs of one metric; None in the diagonal and where no rate is known."""

    metric: str
    unit: str
    names: list[str]
    rows: list[tuple[str, list[Pair | None]]]
    fastest: str
    short: int


def matrices(record: Record, names: Mapping[str, str]) -> list[Matrix]:
    """Return a matrix for each metric of peer copies, from the newest measurement of every sender."""
    found: dict[str, dict[str, Measurement]] = {}
    for each in record.measurements:
        if each.details.get("row"):
            found.setdefault(each.metric, {})[each.subject] = each
    return [_matrix(metric, senders, names) for metric, senders in found.items()]


def _matrix(metric: str, senders: Mapping[str, Measurement], names: Mapping[str, str]) -> Matrix:
    rates = {
        (names.get(subject, subject), receiver): rate
        for subject, each in senders.items()
        for receiver, value in each.details.get("row", {}).items()
        if (rate := number(value)) is not None
    }
    unit = next(iter(senders.values())).unit
    known = {name for pair in rates for name in pair}
    order = [name for name in names.values() if name in known]
    order += sorted(known - set(order))
    most = fastest(rates) if rates else 0.0
    cells = {pair: _pair(pair, rate, most, unit) for pair, rate in rates.items()}
    rows = [(one, [cells.get((one, other)) for other in order]) for one in order]
    return Matrix(metric, unit, order, rows, show(most, unit), sum(each.short for each in cells.values()))


def _pair(pair: tuple[str, str], rate: float, most: float, unit: str) -> Pair:
    share = rate / most if most > 0 else 0.0
    step = round(STEPS * min(1.0, max(0.0, (1 - share) / (1 - DARKEST))))
    short = share < SHORT
    wrong = " The payload arrived wrong." if rate == 0 else ""
    told = f"{pair[0]} to {pair[1]}: {show(rate, unit)}, {share:.1%} of the fastest pairs.{wrong}"
    return Pair(show(rate, ""), step, short, told)
