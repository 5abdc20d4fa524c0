"""What a run would measure, and how long it would take: --collect-only, --setup-plan, --setup-only."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_accel import suite
from pytest_accel.run.request import ProbeRequest, request_of
from pytest_accel.views.terminal import Line

if TYPE_CHECKING:
    from pytest_accel.run.session import Session

STARTING = 5.0
"""Seconds for the processes to start and import torch, as a rule."""


def lines(session: Session, items: Sequence[Any]) -> list[Line]:
    """Return one line per measurement of the packaged suite, with its budget, and one line with the sum.

    What a user's own test measures is not known before it runs, so no time is given for it.
    """
    measuring = [item for item in items if "accel_check" in getattr(item, "fixturenames", ())]
    packaged = [item for item in measuring if _is_packaged(item)]
    planned: dict[tuple[str, str], tuple[str, float]] = {}
    for asked in (each for item in packaged for each in _asked_by(item, session)):
        if seconds := _seconds(asked, session):
            planned.setdefault(asked.key, (_title(asked), seconds))
    found = [(f"{title:29} up to {seconds:g} s", "") for title, seconds in planned.values()]
    total = sum(seconds for _, seconds in planned.values())
    return [*found, (_sum(total, len(session.devices), len(measuring) - len(packaged)), "bold")]


def _is_packaged(item: Any) -> bool:
    """Return True for a test of the packaged suite."""
    return str(item.function.__module__).startswith(f"{suite.__name__}.")


def _asked_by(item: Any, session: Session) -> list[ProbeRequest]:
    """Return what a packaged test would measure: it is called with an `accel_check` that only notes the request."""
    noted: list[ProbeRequest] = []

    def check(probe: Callable[..., Any], *, metric: str | None = None, **conditions: Any) -> list[Any]:
        noted.append(request_of(probe, conditions, metric, session.sku))
        return []

    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    values = {**parameters, "accel_check": check, "accel_devices": list(session.devices), "accel_sku": session.sku}
    item.function(**{name: values.get(name) for name in inspect.signature(item.function).parameters})
    return noted


def _seconds(asked: ProbeRequest, session: Session) -> float:
    """Return how long a measurement may take at most; 0 for a fact, which is read, and for what cannot exist here."""
    if asked.spec.runs == "facts" or (session.sku and session.sku.why_not_applicable(asked.metric, session.platform)):
        return 0.0
    return session.budget(asked.function.__name__, asked.metric) * (len(session.devices) if asked.spec.runs == "in_turn" else 1)


def _title(asked: ProbeRequest) -> str:
    """Return the probe and the conditions that its metric names: "matmul bf16", in columns."""
    named = [str(value) for key, value in asked.conditions.items() if f"{{{key}}}" in asked.spec.metric]
    return f"{asked.function.__name__:16} {', '.join(named)}"


def _sum(seconds: float, devices: int, own: int) -> str:
    """Return the last line: the time of the packaged tests, and how many of the user's own have none."""
    unknown = f"{own} tests of your own, whose time is not known before they run"
    if own and not seconds:
        return unknown
    text = f"at most about {seconds + STARTING:.0f} s on {devices} devices"
    return f"{text}, and {unknown}" if own else f"{text}; a value that is known well ends its probe early"
