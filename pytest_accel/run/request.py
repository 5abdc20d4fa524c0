"""The request of a test: what `accel_check` is called with, completed by the SKU and the probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_accel.core.sku import Sku
from pytest_accel.probes.conditions import wrong_values
from pytest_accel.probes.declare import conditions_of, declaration_for, declarations, unusable
from pytest_accel.probes.request import Request
from pytest_accel.skus.budgets import budget


def request_of(
    function: Callable[..., Any], given: dict[str, Any], metric: str | None, sku: Sku | None, level: str = ""
) -> Request:
    """Return the request for `function` under the conditions `given`, completed by the SKU's and the probe's defaults.

    `metric` is the metric to judge, None for the probe's main one. At a level at which the load of another probe
    measures it too, the request is for that probe. The SKU's limits apply only to the packaged probes
    under the packaged conditions. Raises TypeError for a function that no worker could import, for a condition that the
    probe does not have, and for a value that it cannot use.
    """
    __tracebackhide__ = True
    if why := unusable(function):
        raise TypeError(why)
    declaration = declaration_for(function)
    packaged = dict(sku.probes.get(declaration.name, {})) if sku and declaration.packaged else {}
    conditions, standard = conditions_of(function, packaged, given)
    if wrong := [f"{key}: {why}" for key, why in wrong_values(declaration, conditions)]:
        raise TypeError(f"{declaration.name} cannot be measured: {'; '.join(wrong)}")
    extra = [
        f"{key}={conditions[key]}" for key in conditions if key in given and f"{{{key}}}" not in declaration.metric
    ]
    suffix = "" if standard else "@" + ",".join(extra)
    name = (metric or declaration.metric.format(**conditions)) + suffix
    own = Request(declaration, conditions, name, suffix)
    return _within(own, sku, level) or own


def _within(own: Request, sku: Sku | None, level: str) -> Request | None:
    """Return the request for the probe whose load measures this metric too at a level; None if there is none.

    There is none for a processor, whose peak is measured in alternation with the product.
    """
    outer = next((each for each in declarations() if each.name == own.declaration.within.get(level)), None)
    if outer is None or not own.judged_by_sku or sku is None or not sku.datasheet.tflops:
        return None
    found = request_of(outer.function, {}, own.metric, sku)
    timed = budget(own.declaration, own.metric, level, sku) and budget(outer, own.metric, level, sku)
    return found if timed and found.conditions == own.conditions else None
