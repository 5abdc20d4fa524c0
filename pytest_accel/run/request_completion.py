"""The request of a test: what `accel_check` is called with, completed by the SKU and the probe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_accel.core.sku_types import Sku
from pytest_accel.probes.conditions import wrong_values
from pytest_accel.probes.declare import conditions_of, declaration_for, declarations, unusable
from pytest_accel.probes.request import Request
from pytest_accel.skus.budgets import budget


def request_of(
    function: Callable[..., Any], overrides: dict[str, Any], metric: str | None, sku: Sku | None, level: str = ""
) -> Request:
    """Return the request for `function` with the conditions `overrides`, completed by those of the SKU and the probe.

    `metric` is the metric to judge, None for the probe's main one. At a level at which the load of another probe
    measures it too, the request is for that probe. The SKU's limits apply only to the packaged probes
    under the packaged conditions. Raises TypeError for a function that no worker could import, for a condition that the
    probe does not have, and for a value that it cannot use.
    """
    __tracebackhide__ = True
    if reason := unusable(function):
        raise TypeError(reason)
    declaration = declaration_for(function)
    packaged = dict(sku.probes.get(declaration.name, {})) if sku and declaration.packaged else {}
    conditions, standard = conditions_of(function, packaged, overrides)
    if mistakes := [f"{key}: {text}" for key, text in wrong_values(declaration, conditions)]:
        raise TypeError(f"{declaration.name} cannot be measured: {'; '.join(mistakes)}")
    extra = [key for key in conditions if key in overrides and f"{{{key}}}" not in declaration.metric]
    suffix = "" if standard else "@" + ",".join(f"{key}={conditions[key]}" for key in extra)
    name = (metric or declaration.metric.format(**conditions)) + suffix
    request = Request(declaration, conditions, name, suffix)
    return _within(request, sku, level) or request


def _within(request: Request, sku: Sku | None, level: str) -> Request | None:
    """Return the request for the probe whose load measures this metric too at a level; None if there is none.

    There is none for a processor, whose peak is measured in alternation with the product.
    """
    outer = next((probe for probe in declarations() if probe.name == request.declaration.within.get(level)), None)
    if outer is None or not request.judged_by_sku or sku is None or not sku.datasheet.tflops:
        return None
    outer_request = request_of(outer.function, {}, request.metric, sku)
    has_time = budget(request.declaration, request.metric, level, sku) and budget(outer, request.metric, level, sku)
    return outer_request if has_time and outer_request.conditions == request.conditions else None
