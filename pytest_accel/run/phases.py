"""The wall-clock time of a run by phase. The run is in one phase at any moment, so that the phases add up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

PHASES = ("starting", "preparing", "warm_up", "measuring", "checks", "waiting", "silent", "rest")
"""Starting processes and importing torch; allocating memory and making data; blocks that warm up; blocks that are
sampled; checking results and limits, and writing them; waiting for the sensor; waiting in vain for a worker that hung;
everything else (pytest itself)."""


class Timeline:
    """A clock that counts the time for the phase that was entered last and not yet left."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._at, self._phase = now, now(), "rest"
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self.probes: dict[str, dict[str, float]] = {}
        """Metric of each request, to the seconds of its calls by phase."""

    def _tick(self) -> None:
        """Count the time since the last call for the current phase."""
        now = self._now()
        self._seconds[self._phase] += now - self._at
        self._at = now

    @contextmanager
    def phase(self, phase: str) -> Iterator[None]:
        """Count the time inside the context for `phase`, without that of phases entered within it."""
        self._tick()
        outer, self._phase = self._phase, phase
        try:
            yield
        finally:
            self._tick()
            self._phase = outer

    def account(self, metric: str, parts: Mapping[str, float]) -> None:
        """Distribute the time of a call, counted as "measuring" so far, over its phases (`seconds_by_phase`)."""
        totals = self.probes.setdefault(metric, {})
        for phase, seconds in parts.items():
            self._seconds["measuring"] -= seconds
            self._seconds[phase] += seconds
            totals[phase] = totals.get(phase, 0.0) + seconds

    def seconds(self) -> dict[str, float]:
        """Return the seconds by phase until now, and `wall`, which is their sum."""
        self._tick()
        return {"wall": sum(self._seconds.values()), **self._seconds}


def seconds_by_phase(start: float, end: float, pace: Sequence[tuple[float, str]]) -> dict[str, float]:
    """Return the seconds by phase of a probe's call, from the times at which its worker reported progress.

    `pace` holds (time, event) in order. The event is "working" (the first work begins), "ready" (the size of blocks is
    known), "warm" (a block that warms up is done) or "block" (a block that is sampled is done). The time until
    "working" is preparation; until "ready" and until each "warm" it is warm-up; until each "block" it is measuring;
    after the last block it is checks. A call without any block is preparation alone.
    """
    if not any(event in ("warm", "block") for _, event in pace):
        return {"preparing": end - start}
    parts, last, working = dict.fromkeys(("preparing", "warm_up", "measuring"), 0.0), start, False
    for heard, event in pace:
        sizing = event == "ready" and working
        phase = "measuring" if event == "block" else "warm_up" if event == "warm" or sizing else "preparing"
        parts[phase] += heard - last
        last, working = heard, event == "working"
    return {**parts, "checks": end - last}


def around_silence(
    start: float, end: float, pace: Sequence[tuple[float, str]], silence: tuple[float, float]
) -> dict[str, float]:
    """Return the `seconds_by_phase` of a call, with an interval in which nothing came as "silent"."""
    silent_from, silent_to = max(start, silence[0]), silence[1]

    def without(moment: float) -> float:
        """Return a time as if the silence had not been."""
        return moment - max(0.0, min(moment, silent_to) - silent_from)

    parts = seconds_by_phase(start, without(end), [(without(moment), event) for moment, event in pace])
    return {**parts, "silent": max(0.0, silent_to - silent_from)}
