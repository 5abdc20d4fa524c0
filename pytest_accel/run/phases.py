"""Where the wall clock of a run went: at every moment it does one thing, so the parts add up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypedDict

PHASES = ("starting", "preparing", "warm_up", "measuring", "checks", "waiting", "rest")
"""Processes and imports; memory allocated and data made; blocks that warm up; blocks that are sampled; results and
limits checked and written; the sensor waited for; what is left (pytest itself)."""


class TimeSpent(TypedDict, total=False):
    """Where the time of a run went, in seconds."""

    seconds: dict[str, float]
    """By phase, and "device": the time that the devices were at work."""
    probes: dict[str, dict[str, float]]
    """By metric and phase."""


class Timeline:
    """Counts each moment for the phase that was entered last and not yet left."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._at, self._phase = now, now(), "rest"
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self.probes: dict[str, dict[str, float]] = {}
        """Of each metric that was asked for: the seconds of its calls by phase."""

    def _tick(self) -> None:
        now = self._now()
        self._seconds[self._phase] += now - self._at
        self._at = now

    @contextmanager
    def on(self, phase: str) -> Iterator[None]:
        """Count what is done inside for `phase`; a phase within it is its own."""
        self._tick()
        outer, self._phase = self._phase, phase
        try:
            yield
        finally:
            self._tick()
            self._phase = outer

    def account(self, metric: str, parts: Mapping[str, float]) -> None:
        """Count for the phases that it was what a call spent on "measuring", now that it is known (see `around`)."""
        spent = self.probes.setdefault(metric, {})
        for phase, seconds in parts.items():
            self._seconds["measuring"] -= seconds
            self._seconds[phase] += seconds
            spent[phase] = spent.get(phase, 0.0) + seconds

    def seconds(self) -> dict[str, float]:
        """Seconds by phase until now, and `wall`, which is their sum."""
        self._tick()
        return {"wall": sum(self._seconds.values()), **self._seconds}


def around(began: float, ended: float, pace: Sequence[tuple[float, str]]) -> dict[str, float]:
    """What a probe's call spent on what, by when it was heard to be "working", "ready", or done with a "block" or a
    "warm" one.

    The way to the first work is preparation, to being ready (sizing the blocks) and through warm blocks warm-up; what
    follows the last block is checks, and the rest is measuring.
    """
    if not any(what in ("warm", "block") for _, what in pace):
        return {"preparing": ended - began}
    parts, at, working = dict.fromkeys(("preparing", "warm_up", "measuring"), 0.0), began, False
    for heard, what in pace:
        sizing = what == "ready" and working
        phase = "measuring" if what == "block" else "warm_up" if what == "warm" or sizing else "preparing"
        parts[phase] += heard - at
        at, working = heard, what == "working"
    return {**parts, "checks": ended - at}
