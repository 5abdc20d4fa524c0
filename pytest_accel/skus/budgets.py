"""Time budgets of the probes: the declared ones, unless the threshold file has others. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.sku import Sku
from pytest_accel.probes.declare import SUSTAINED_SECONDS, SUSTAINED_WARMUP, Declaration

REPEAT_SECONDS = {"quick": 20.0, "standard": 120.0, "long": 600.0}
"""Seconds of measuring for all repeats of a run, by level: a sixth of the time that `quick` states, a seventh of that
of `standard`, an eighth of the hour and a quarter that `long` is planned for."""

Budgets = Mapping[str, Mapping[str, float]]
"""Seconds by level, and by probe or metric, as a threshold file states them."""


def budget(declared: Declaration, metric: str, level: str, sku: Sku | None) -> float:
    """Return the seconds for which one metric may be sampled at a level; 0 for a fact, which is only read.

    A budget of the single metric precedes that of its probe; in both cases the threshold file precedes the declaration.
    A sustained load gets its warm-up and its least time of samples in any case.
    """
    seconds = _stated(declared, metric, level, sku.budgets if sku else {})
    least = SUSTAINED_WARMUP + SUSTAINED_SECONDS
    return max(seconds, least) if seconds and declared.sustained else seconds


def levels_with_time(declared: Declaration | None, metric: str, budgets: Budgets) -> tuple[str, ...]:
    """Return the levels that require a limit on the metric if its file does not state them.

    They are those at which the declaration or the `budgets` of the file have time for it. A file that takes the time
    away does not take the limit away: it is then UNMEASURED. All levels have time for facts and unknown metrics.
    """
    if declared is None or declared.fact:
        return LEVELS
    return tuple(level for level in LEVELS if any(_stated(declared, metric, level, stated) for stated in ({}, budgets)))


def _stated(declared: Declaration, metric: str, level: str, budgets: Budgets) -> float:
    """Return the budget that the threshold file (`budgets`) or the declaration states."""
    if declared.fact:
        return 0.0
    own = budgets.get(level, {})
    variant = declared.variant_of(metric)
    name = f"{declared.name}.{variant}"
    if name in own:
        return own[name]
    if variant in declared.budgets_of:
        return declared.budgets_of[variant][level]
    return own.get(declared.name, declared.budgets[level])
