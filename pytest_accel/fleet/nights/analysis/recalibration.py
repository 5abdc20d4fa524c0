"""The limits that the healthy devices of a fleet propose, by the rules of `judging.calibration`. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pytest_accel.fleet.nights.analysis.groups import FigureKind
from pytest_accel.judging.calibration import Calibrated, GoodFigure, calibrate, more_is_better

SAMPLE: Final = 30
"""Nodes of a SKU that are calibrated from: their 240 devices give a spread to within about 5 %."""
NIGHTS: Final = 3
"""Last nights that are calibrated from."""


@dataclass(frozen=True)
class Proposed:
    """The limit that a kind of figures proposes, beside the present one (None where there is none)."""

    kind: FigureKind
    found: Calibrated
    present: float | None

    @property
    def change(self) -> float | None:
        """The proposed bound over the present one, less 1; None without a present one."""
        return self.found.bound / self.present - 1 if self.present else None


@dataclass(frozen=True)
class Sampled:
    """A figure of the sample, and the bounds that it was judged by."""

    kind: FigureKind
    reading: GoodFigure
    floor: float | None
    ceiling: float | None


def proposals(sampled: Iterable[Sampled]) -> list[Proposed]:
    """Return the proposed limit of every kind that has enough healthy devices."""
    by_product: dict[tuple[str, str, str], dict[tuple[str, str, str], list[Sampled]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for each in sampled:
        kind = each.kind
        by_product[kind.sku, kind.platform, kind.level][kind.metric, kind.unit, kind.method].append(each)
    found: list[Proposed] = []
    for kinds in by_product.values():
        for some in kinds.values():
            found += [_proposed(some, one) for one in calibrate([each.reading for each in some]).metrics]
    return sorted(found, key=lambda one: one.kind)


def _proposed(some: Sequence[Sampled], found: Calibrated) -> Proposed:
    """Return a proposed limit beside the one that most of the figures were judged by."""
    kind = some[0].kind
    bounds = [each.floor if more_is_better(kind.unit) else each.ceiling for each in some]
    known = [each for each in bounds if each is not None]
    return Proposed(kind, found, max(set(known), key=known.count) if known else None)
