"""What pytest needs to know of a probe before any process runs it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Probe = TypeVar("Probe", bound=Callable[..., Any])


@dataclass(frozen=True)
class Spec:
    """How a probe is run and what its result is called.

    `runs` is "together" (every device at once), "in_turn" (made ready at once, and measured one after the other),
    "ranks" (the devices form one process group; the subject is the node) or "peers" (one process sees all devices).
    """

    metric: str
    runs: str = "together"


def probe(metric: str, runs: str = "together") -> Callable[[Probe], Probe]:
    """Declare a probe. `metric` may name the probe's conditions: "matmul.{dtype}"."""

    def declare(function: Probe) -> Probe:
        function.accel = Spec(metric, runs)  # type: ignore[attr-defined]
        return function

    return declare


def spec_of(function: Callable[..., Any]) -> Spec:
    """The declaration of a probe; a plain function is named after itself and runs on all devices together."""
    found = getattr(function, "accel", None)
    return found if isinstance(found, Spec) else Spec(function.__name__)


def conditions_of(
    function: Callable[..., Any], packaged: dict[str, Any], given: dict[str, Any]
) -> tuple[dict[str, Any], bool]:
    """The conditions that a probe will run under, and whether they are the packaged ones.

    `packaged` (of the SKU) stand over the probe's own defaults, `given` (by the test) over both. They stay the
    packaged ones as long as `given` only fills what the metric's name says. Raises TypeError for a condition
    that the probe does not have.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    free = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    names = [each.name for each in parameters if each.kind is not inspect.Parameter.VAR_KEYWORD]
    unknown = [name for name in given if name not in names]
    if unknown and not free:
        raise TypeError(f"{function.__name__} has no condition {unknown[0]!r} (it has: {', '.join(names)})")
    defaults = {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}
    standard = {**defaults, **{key: value for key, value in packaged.items() if key in names}}
    conditions = {**standard, **given}
    named = spec_of(function).metric
    return conditions, all("{" + key + "}" in named or standard.get(key) == value for key, value in given.items())
