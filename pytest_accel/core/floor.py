"""The floor in force: the bound of a limit, or of the class of the product, on a value in one run. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from pytest_accel.core import versions
from pytest_accel.core.measurement import is_rate, is_time
from pytest_accel.core.method import found_differences
from pytest_accel.core.reasons import Note, OtherVersion, Reason
from pytest_accel.core.sku_types import Basis, DeclaredBy, Limit

COMPARED = ("ranks", "algorithm")
"""Conditions of a limit that do not say whether its figures hold: with other ranks a value is not judged, and another
algorithm is the cause of a shortfall."""
MARGINAL_WITHIN = 0.02
"""A measured value that holds by less than this fraction of the limit is marginal."""
NOTHING_KNOWN: Mapping[str, Any] = MappingProxyType({})
BASES = {"measured": Basis.OWN, "published": Basis.METHOD, "agreed": Basis.AGREED}
"""The basis of a limit by the kind of its source."""


@dataclass(frozen=True)
class Floor:
    """The bounds that judge a metric in a run, as a limit, and the basis of their figures.

    `bound` is the limit with the bounds in force; it states none where neither its own figures nor those of a class
    hold. `basis` is None for bounds without such figures: those of a marker, of the run, of a fact.
    """

    bound: Limit
    basis: Basis | None = None
    excuses: tuple[tuple[Reason, float], ...] = ()
    """The facts that make a value beyond the bound INCONCLUSIVE, each with the worst value that it excuses: software
    older than that of the bound, down to the limit's own floor; a ring, if the run states no algorithm."""
    unknowns: tuple[OtherVersion, ...] = ()
    """The versions that are not known. They excuse nothing."""

    @property
    def rejects_below(self) -> float | None:
        """The floor below which nothing excuses a value; None where none is rejected."""
        return min((self.bound.floor, *(value for _, value in self.excuses))) if self.bound.floor is not None else None


def floor_in_force(
    limit: Limit, software: Mapping[str, Any] = NOTHING_KNOWN, conditions: Mapping[str, Any] = NOTHING_KNOWN
) -> Floor:
    """Return the bounds that judge a metric in a run: the tighter of the limit's own floor and that of the class.

    The own bounds hold where the run measures under the limit's conditions and with software in its range. Elsewhere
    the class alone judges, if it has a floor, and the figures of the limit are published ones. A fact that breaks its
    bound with other software is INCONCLUSIVE. `software` maps names to the versions in use, `conditions` are those of
    the measurement.
    """
    of_method = {key: value for key, value in limit.conditions.items() if key not in COMPARED}
    differs = found_differences(conditions, of_method)
    outside, unknown = misfit(limit.software, software)
    usable, class_floor = limit, limit.class_floor
    if outside and not (limit.relative or is_rate(limit.unit) or is_time(limit.unit)):
        return Floor(usable, excuses=((outside, -math.inf),))  # a fact is no published figure: its bound stays
    excuses: list[tuple[Reason, float]] = []
    if (by_ring := limit.conditions.get("by_ring")) and not conditions.get("algorithm"):
        excuses.append((Note("as_ring", f"{by_ring:g} {limit.unit}"), (1 - MARGINAL_WITHIN) * by_ring))
    if differs or outside or limit.declared_by is DeclaredBy.CLASS:  # whose own floor is that of the class
        usable = limit.without_bounds(*differs, *([f"{outside.name} {outside.version}"] if outside else []))
    if class_floor is None or (usable.floor or 0) >= (class_floor.share if usable.relative else class_floor.value):
        basis = BASES.get(limit.source.kind) if limit.source and usable.bounded else None
        return Floor(usable, basis, tuple(excuses), tuple(unknown) if usable.bounded else ())
    older, unknown = misfit(class_floor.software, software)
    bounds = usable if usable.unit == class_floor.unit else limit.without_bounds()
    bound = replace(limit.without_bounds(), ceiling=bounds.ceiling, warn=bounds.warn, published=usable.published)
    bound = replace(bound, floor=class_floor.value, unit=class_floor.unit)
    excuses += [(older, -math.inf if bounds.floor is None else bounds.floor)] if older else []
    return Floor(bound, Basis.CLASS, tuple(excuses), tuple(unknown))


def misfit(ranges: Mapping[str, str], software: Mapping[str, Any]) -> tuple[OtherVersion | None, list[OtherVersion]]:
    """Return the first version outside of its range, None if there is none, and those that are not known."""
    unknown: list[OtherVersion] = []
    for name, text in ranges.items():
        version = software.get(name)
        holds = None if version is None else versions.parse(text).holds(str(version))
        if holds is False:
            return OtherVersion(name, text, str(version)), unknown
        if holds is None:
            unknown.append(OtherVersion(name, text))
    return None, unknown
