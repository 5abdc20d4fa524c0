"""The plan of a run, its measurements and their time, as --collect-only, --setup-plan and --setup-only show it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from pytest_accel import suite
from pytest_accel.core.run import Circumstances, Objection
from pytest_accel.core.sku_types import Sku
from pytest_accel.core.software import torch_version, versions_of
from pytest_accel.judging.facts.preconditions import SETTLE_STEP
from pytest_accel.probes.declare import Declaration
from pytest_accel.probes.request import Request
from pytest_accel.run.request_completion import request_of
from pytest_accel.skus.budgets import REPEAT_SECONDS, budget
from pytest_accel.skus.peaks import why_not_applicable
from pytest_accel.views.terminal import Line

if TYPE_CHECKING:
    from pytest_accel.run.measuring import Measuring
    from pytest_accel.run.setup import Target


def lines(target: Target, items: Sequence[Any], objections: Sequence[Objection]) -> list[Line]:
    """Return one line for each measurement of the packaged suite, with its budget, and one line with the sum.

    No time is given for a user's own tests, since only running one shows what it measures.
    """
    packaged, user_tests = _measuring(items)
    requests = _of_suite(packaged, target)
    times = [(_title(request), _plan(target, [request]).measuring) for request in requests.values()]
    width = max((len(title) for title, _ in times), default=0)
    rows = [(f"{title:{width}} up to {seconds:g} s", "") for title, seconds in times if seconds]
    software: dict[str, Any] = {**versions_of(target.terms.devices), "torch": torch_version()}
    circumstances = target.terms.circumstances(software, Circumstances(against=objections))
    reasons = [*circumstances.narrowed, *circumstances.texts("unasked", "run", "file")]
    outcome = f"it cannot end in ACCEPTED: {'; '.join(reasons)}" if reasons else "it can end in ACCEPTED"
    total = _sum(_plan(target, list(requests.values())), len(target.devices), user_tests)
    return [*rows, (total, "bold"), (outcome, "")]


def time_left(target: Target, measuring: Measuring, items: Sequence[Any]) -> Callable[[], float]:
    """Return a function that returns the seconds that the packaged tests may still measure for, at most.

    What falls short is measured again, which takes longer.
    """
    packaged, _ = _measuring(items)
    budgets = [(request, _plan(target, [request]).measuring) for request in _of_suite(packaged, target).values()]
    return lambda: sum(seconds for request, seconds in budgets if not measuring.has_measured(request))


def _measuring(items: Sequence[Any]) -> tuple[list[Any], int]:
    """Return the tests of the packaged suite that measure, and the number of other tests that do."""
    measuring = [item for item in items if "accel_check" in getattr(item, "fixturenames", ())]
    packaged = [item for item in measuring if str(item.function.__module__).startswith(f"{suite.__name__}.")]
    return packaged, len(measuring) - len(packaged)


def _of_suite(packaged: Sequence[Any], target: Target) -> dict[tuple[str, str], Request]:
    """Return the requests of packaged tests, each once, by their keys."""
    sku = target.terms.sku
    requests: dict[tuple[str, str], Request] = {}
    for request in (request for item in packaged for request in _requests(item, target)):
        reason = sku and why_not_applicable(sku, request.metric, target.terms.platform)
        if not request.declaration.fact and not reason:
            requests.setdefault(request.key, request)
    return requests


def _plan(target: Target, requests: Sequence[Request]) -> Plan:
    """Return the plan of these requests."""
    measurements = [(request.declaration, request.metric) for request in requests]
    plan = planned(measurements, target.terms.level, target.terms.sku, len(target.devices))
    # Repeats take no longer than the measurements themselves.
    return replace(plan, repeats=min(plan.repeats, plan.measuring))


def _requests(item: Any, target: Target) -> list[Request]:
    """Return the requests of a packaged test, by calling it with an `accel_check` that only notes them."""
    noted: list[Request] = []

    def check(probe: Callable[..., Any], *, metric: str | None = None, **conditions: Any) -> list[Any]:
        noted.append(request_of(probe, conditions, metric, target.terms.sku, target.terms.level))
        return []

    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    values = {
        **parameters,
        "accel_check": check,
        "accel_devices": list(target.devices),
        "accel_sku": target.terms.sku,
    }
    item.function(**{name: values.get(name) for name in inspect.signature(item.function).parameters})
    return noted


def _title(request: Request) -> str:
    """Return the probe and the conditions that its metric names: "matmul bf16", in columns."""
    values = [str(value) for key, value in request.conditions.items() if f"{{{key}}}" in request.declaration.metric]
    return f"{request.declaration.name:16} {', '.join(values)}"


def _sum(plan: Plan, devices: int, user_tests: int) -> str:
    """Return the last line: the time of the packaged tests, and the number of the user's own tests."""
    remark = f"the time of {user_tests} test{'s' * (user_tests > 1)} of your own is not known before a run"
    if user_tests and not plan.measuring:
        return remark
    text = f"at most about {plan.total:.0f} s on {devices} device{'s' * (devices != 1)}"
    text = f"{text}, {plan.repeats:.0f} s of it for what falls short"
    return f"{text}; {remark}" if user_tests else f"{text}; a probe ends early once its value is precise enough"


# -- the planned seconds of a run, from what the probes declare and from estimates of everything else. Pure


STARTING, STARTING_EACH = 10.0, 2.5
"""Seconds for the processes, and for each device more: import of torch, contexts, the process of all devices, the
process group. Estimated: 30 s for eight."""
AROUND = 0.5
"""Seconds around the samples of one measurement. Estimated: allocating and filling the data, finding the number of
calls in a block, comparing the result."""
CALL = 0.001
"""Seconds of one call to the management library. Estimated; calls for several devices wait for each other."""
COUNTER_CALLS, LINK_CALLS = 49, 99
"""Calls for one reading of an H100's counters and settings, and for that of its 18 NVLinks and its versions, counted
with pynvml on a library that is not there (`tests/drivers/test_nvidia.py`)."""


@dataclass(frozen=True)
class Plan:
    """The planned seconds of a run by what they are for."""

    measuring: float
    """The budgets, each as often as devices take turns."""
    starting: float
    settling: float
    """The idle gate, on devices that are cool."""
    checks: float
    """Preparation of the data before a measurement, comparison of the result after it."""
    counters: float
    """Reading the error counters after every measurement, and those of the links where they were stressed."""
    repeats: float
    """All repeats of what falls short, at most."""

    @property
    def total(self) -> float:
        """The sum in seconds: the longest that a run is planned to take."""
        return float(sum(astuple(self)))


def planned(measurements: Iterable[tuple[Declaration, str]], level: str, sku: Sku | None, devices: int) -> Plan:
    """Return the plan for `devices` devices and for measurements given as declaration and metric, one a probe call.

    What the level has no time for takes none, and neither do facts.
    """
    budgets = [(probe, seconds) for probe, metric in measurements if (seconds := budget(probe, metric, level, sku))]
    links = sum("link" in probe.stresses for probe, _ in budgets)
    calls = (len(budgets) + 1) * COUNTER_CALLS + (links + 2) * LINK_CALLS
    return Plan(
        measuring=sum(seconds * (devices if probe.runs == "in_turn" else 1) for probe, seconds in budgets),
        starting=STARTING + STARTING_EACH * devices,
        settling=SETTLE_STEP,
        checks=AROUND * len(budgets),
        counters=CALL * calls * devices,
        repeats=REPEAT_SECONDS[level],
    )
