"""Time budgets of the probes: the declared ones, unless the threshold file has others. Pure."""

from __future__ import annotations

from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Sku
from pytest_accel.probes.declare import Declaration


def budget(declared: Declaration, metric: str, level: str, sku: Sku | None) -> float:
    """Return the seconds for which one metric may be sampled at a level; 0 for a fact, which is only read.

    A budget of the single metric precedes that of its probe; in both cases the threshold file precedes the declaration.
    """
    if declared.fact:
        return 0.0
    own = sku.budgets.get(level, {}) if sku else {}
    variant = parse(metric).variant
    name = f"{declared.name}.{variant}"
    if name in own:
        return own[name]
    if variant in declared.budgets_of:
        return declared.budgets_of[variant][level]
    return own.get(declared.name, declared.budgets[level])
