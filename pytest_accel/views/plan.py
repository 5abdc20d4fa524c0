"""The plan of a run, its measurements and their time, as --collect-only, --setup-plan and --setup-only show it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_accel import suite
from pytest_accel.run.request import ProbeRequest, request_of
from pytest_accel.skus.peaks import why_not_applicable
from pytest_accel.views.terminal import Line

if TYPE_CHECKING:
    from pytest_accel.run.session import Session

STARTING = 5.0
"""Seconds that the processes usually take to start and to import torch."""


def lines(session: Session, items: Sequence[Any]) -> list[Line]:
    """Return one line for each measurement of the packaged suite, with its budget, and one line with the sum.

    No time is given for a user's own tests, since only running one shows what it measures.
    """
    measuring = [item for item in items if "accel_check" in getattr(item, "fixturenames", ())]
    packaged = [item for item in measuring if _is_packaged(item)]
    planned: dict[tuple[str, str], tuple[str, float]] = {}
    for request in (request for item in packaged for request in _requests(item, session)):
        if seconds := _seconds(request, session):
            planned.setdefault(request.key, (_title(request), seconds))
    rows = [(f"{title:29} up to {seconds:g} s", "") for title, seconds in planned.values()]
    total = sum(seconds for _, seconds in planned.values())
    return [*rows, (_sum(total, len(session.devices), len(measuring) - len(packaged)), "bold")]


def _is_packaged(item: Any) -> bool:
    """Return True for a test of the packaged suite."""
    return str(item.function.__module__).startswith(f"{suite.__name__}.")


def _requests(item: Any, session: Session) -> list[ProbeRequest]:
    """Return the requests of a packaged test, by calling it with an `accel_check` that only notes them."""
    noted: list[ProbeRequest] = []

    def check(probe: Callable[..., Any], *, metric: str | None = None, **conditions: Any) -> list[Any]:
        noted.append(request_of(probe, conditions, metric, session.sku))
        return []

    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    values = {**parameters, "accel_check": check, "accel_devices": list(session.devices), "accel_sku": session.sku}
    item.function(**{name: values.get(name) for name in inspect.signature(item.function).parameters})
    return noted


def _seconds(request: ProbeRequest, session: Session) -> float:
    """Return the seconds that a measurement may take; 0 for a fact, and for a metric that is not applicable."""
    sku = session.sku
    if request.declaration.fact or (sku and why_not_applicable(sku, request.metric, session.platform)):
        return 0.0
    turns = len(session.devices) if request.declaration.runs == "in_turn" else 1
    return session.budget(request.declaration, request.metric) * turns


def _title(request: ProbeRequest) -> str:
    """Return the probe and the conditions that its metric names: "matmul bf16", in columns."""
    named = [str(value) for key, value in request.conditions.items() if f"{{{key}}}" in request.declaration.metric]
    return f"{request.function.__name__:16} {', '.join(named)}"


def _sum(seconds: float, devices: int, own: int) -> str:
    """Return the last line: the time of the packaged tests, and the number of the user's `own` tests."""
    unknown = f"the time of {own} test{'s' * (own > 1)} of your own is not known before a run"
    if own and not seconds:
        return unknown
    text = f"at most about {seconds + STARTING:.0f} s on {devices} device{'s' * (devices != 1)}"
    return f"{text}; {unknown}" if own else f"{text}; a probe ends early once its value is precise enough"
