"""The requests of the packaged suite, found by calling its tests with an `accel_check` that only notes the request."""

from __future__ import annotations

import importlib
import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from pytest_accel.probes.collectives import OPERATIONS, OTHERS_SIZE
from pytest_accel.probes.declare import conditions_of, declaration_for
from pytest_accel.suite import ORDER


class Request(NamedTuple):
    """One call of `accel_check` in the suite."""

    probe: Callable[..., Any]
    conditions: dict[str, Any]
    metric: str


def requests() -> list[Request]:
    """Every measurement that each run asks a device or the node for: no facts, nothing between nodes or on demand."""
    asked = []

    def check(probe: Callable[..., Any], *, metric: str | None = None, **given: Any) -> None:
        if declaration_for(probe).runs not in ("facts", "nodes", "program"):
            chosen = {name: value for name, value in given.items() if value is not None}
            conditions, _ = conditions_of(probe, {}, chosen)
            asked.append(Request(probe, conditions, metric or declaration_for(probe).metric.format(**conditions)))

    for name in ORDER:
        module = importlib.import_module(f"pytest_accel.suite.{name}")
        for test in (each for each in vars(module).values() if inspect.isfunction(each)):
            if "accel_check" not in inspect.signature(test).parameters:  # it repeats what other tests ask for
                continue
            for case in _cases(test):
                test(**{**case, "accel_check": check})
    return asked


def _cases(test: Callable[..., None]) -> Iterator[dict[str, Any]]:
    """The arguments of every case of a test, fixtures as None, and a collective at the size of the suite."""
    fixtures = dict.fromkeys(inspect.signature(test).parameters)
    marks = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    marks += [("accel_operation", OPERATIONS)] * ("accel_operation" in fixtures)
    for values in itertools.product(*(values for _, values in marks)):
        case = {**fixtures, **dict(zip((name for name, _ in marks), values, strict=True))}
        if case.get("accel_operation") not in (None, OPERATIONS[0]):
            case["accel_size"] = OTHERS_SIZE
        yield case
