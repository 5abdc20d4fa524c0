"""The plan of a run, its measurements and their time, as --collect-only, --setup-plan and --setup-only show it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_accel import suite
from pytest_accel.probes.request import Request
from pytest_accel.run.plan import Plan, planned
from pytest_accel.run.request import request_of
from pytest_accel.skus.peaks import why_not_applicable
from pytest_accel.views.terminal import Line

if TYPE_CHECKING:
    from pytest_accel.run.measuring import Measuring
    from pytest_accel.run.setup import Setup


def lines(setup: Setup, items: Sequence[Any]) -> list[Line]:
    """Return one line for each measurement of the packaged suite, with its budget, and one line with the sum.

    No time is given for a user's own tests, since only running one shows what it measures.
    """
    packaged, own = _measuring(items)
    requests = _of_suite(packaged, setup)
    plans = {key: _plan(setup, [request]) for key, request in requests.items()}
    rows = [
        (f"{_title(requests[key]):29} up to {plan.measuring:g} s", "") for key, plan in plans.items() if plan.measuring
    ]
    reasons = setup.rules_out_acceptance
    outcome = f"it cannot end in ACCEPTED: {'; '.join(reasons)}" if reasons else "it can end in ACCEPTED"
    total = _sum(_plan(setup, list(requests.values())), len(setup.devices), own)
    return [*rows, (total, "bold"), (outcome, "")]


def time_left(setup: Setup, measuring: Measuring, items: Sequence[Any]) -> Callable[[], float]:
    """Return a function that returns the seconds that the packaged tests may still measure for, at most.

    What falls short is measured again, which takes longer.
    """
    packaged, _ = _measuring(items)
    budgets = [(request, _plan(setup, [request]).measuring) for request in _of_suite(packaged, setup).values()]
    return lambda: sum(seconds for request, seconds in budgets if not measuring.reached(request))


def _measuring(items: Sequence[Any]) -> tuple[list[Any], int]:
    """Return the tests of the packaged suite that measure, and the number of other tests that do."""
    measuring = [item for item in items if "accel_check" in getattr(item, "fixturenames", ())]
    packaged = [item for item in measuring if str(item.function.__module__).startswith(f"{suite.__name__}.")]
    return packaged, len(measuring) - len(packaged)


def _of_suite(packaged: Sequence[Any], setup: Setup) -> dict[tuple[str, str], Request]:
    """Return the requests of packaged tests, each once, by their keys."""
    sku = setup.terms.sku
    requests: dict[tuple[str, str], Request] = {}
    for request in (request for item in packaged for request in _requests(item, setup)):
        absent = sku and why_not_applicable(sku, request.metric, setup.terms.platform)
        if not request.declaration.fact and not absent:
            requests.setdefault(request.key, request)
    return requests


def _plan(setup: Setup, requests: Sequence[Request]) -> Plan:
    """Return the plan of these requests. Repeats take no longer than the measurements themselves."""
    made = [(each.declaration, each.metric) for each in requests]
    plan = planned(made, setup.terms.level, setup.terms.sku, len(setup.devices))
    return replace(plan, repeats=min(plan.repeats, plan.measuring))


def _requests(item: Any, setup: Setup) -> list[Request]:
    """Return the requests of a packaged test, by calling it with an `accel_check` that only notes them."""
    noted: list[Request] = []

    def check(probe: Callable[..., Any], *, metric: str | None = None, **conditions: Any) -> list[Any]:
        noted.append(request_of(probe, conditions, metric, setup.terms.sku, setup.terms.level))
        return []

    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    values = {
        **parameters,
        "accel_check": check,
        "accel_devices": list(setup.devices),
        "accel_sku": setup.terms.sku,
    }
    item.function(**{name: values.get(name) for name in inspect.signature(item.function).parameters})
    return noted


def _title(request: Request) -> str:
    """Return the probe and the conditions that its metric names: "matmul bf16", in columns."""
    named = [str(value) for key, value in request.conditions.items() if f"{{{key}}}" in request.declaration.metric]
    return f"{request.declaration.name:16} {', '.join(named)}"


def _sum(plan: Plan, devices: int, own: int) -> str:
    """Return the last line: the time of the packaged tests, and the number of the user's `own` tests."""
    unknown = f"the time of {own} test{'s' * (own > 1)} of your own is not known before a run"
    if own and not plan.measuring:
        return unknown
    text = f"at most about {plan.total:.0f} s on {devices} device{'s' * (devices != 1)}"
    text = f"{text}, {plan.repeats:.0f} s of it for what falls short"
    return f"{text}; {unknown}" if own else f"{text}; a probe ends early once its value is precise enough"
