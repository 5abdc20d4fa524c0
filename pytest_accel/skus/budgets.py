"""Time budgets of the probes: those of their declarations, unless the threshold file has others. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_accel.core.levels import LEVELS
from pytest_accel.core.sku_types import Sku
from pytest_accel.probes.declare import SUSTAINED_SECONDS, SUSTAINED_WARMUP, Declaration

REPEAT_SECONDS = {"quick": 20.0, "standard": 120.0, "long": 600.0}
"""Seconds of measuring for all repeats of a run, by level: a sixth of the time that `quick` states, a seventh of that
of `standard`, an eighth of the hour and a quarter that `long` is planned for."""

Budgets = Mapping[str, Mapping[str, float]]
"""Seconds by level, and by probe or metric, as a threshold file states them."""


def budget(probe: Declaration, metric: str, level: str, sku: Sku | None) -> float:
    """Return the seconds for which one metric may be sampled at a level; 0 for a fact, which is only read.

    A budget of the single metric precedes that of its probe; in both cases the threshold file precedes the declaration.
    """
    seconds = _stated(probe, metric, level, sku.budgets if sku else {})
    minimum = SUSTAINED_WARMUP + SUSTAINED_SECONDS  # a sustained load gets its warm-up and its samples in any case
    return max(seconds, minimum) if seconds and probe.sustained else seconds


def levels_with_time(probe: Declaration | None, metric: str, budgets: Budgets) -> tuple[str, ...]:
    """Return the levels that require a limit on the metric if its file does not state them.

    They are those at which the declaration or the `budgets` of the file have time for it. All levels have time for
    facts and unknown metrics.
    """
    if probe is None or probe.fact:
        return LEVELS
    # a file that takes the time away does not take the limit away: it is then UNMEASURED
    return tuple(level for level in LEVELS if any(_stated(probe, metric, level, table) for table in ({}, budgets)))


def _stated(probe: Declaration, metric: str, level: str, budgets: Budgets) -> float:
    """Return the budget that the threshold file (`budgets`) or the declaration states."""
    if probe.fact:
        return 0.0
    table = budgets.get(level, {})
    variant = probe.variant_of(metric)
    name = f"{probe.name}.{variant}"
    if name in table:
        return table[name]
    if variant in probe.budgets_of:
        return probe.budgets_of[variant][level]
    return table.get(probe.name, probe.budgets[level])
