"""Where the wall clock of a run went: at every moment it does one thing, so the parts add up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

PHASES = ("starting", "preparing", "warm_up", "measuring", "checks", "waiting", "rest")
"""Processes and imports; memory allocated and data made; blocks that warm up; blocks that are sampled; results and
limits checked and written; the sensor waited for; what is left (pytest itself)."""


class Timeline:
    """Counts each moment for the phase that was entered last and not yet left."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now, self._at, self._phase = now, now(), "rest"
        self._seconds = dict.fromkeys(PHASES, 0.0)

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

    def move(self, origin: str, parts: Mapping[str, float]) -> None:
        """Count seconds of `origin` for other phases, now that it is known what they were."""
        for phase, seconds in parts.items():
            self._seconds[origin] -= seconds
            self._seconds[phase] += seconds

    def seconds(self) -> dict[str, float]:
        """Seconds by phase until now, and `wall`, which is their sum."""
        self._tick()
        return {"wall": sum(self._seconds.values()), **self._seconds}


def around(began: float, ended: float, blocks: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """What of a probe's call was no measuring, from when its blocks were `heard` and whether each was `warm`.

    The way to a first block is preparation, that block included, and so is the way to the first of other warm ones;
    the rest of the warm ones are warm-up, and what follows the last block is checks.
    """
    if not blocks:
        return {"preparing": ended - began}
    parts, at, warming = {"preparing": 0.0, "warm_up": 0.0}, began, False
    for place, block in enumerate(blocks):
        if place == 0 or (block["warm"] and not warming):
            parts["preparing"] += block["heard"] - at
        elif block["warm"]:
            parts["warm_up"] += block["heard"] - at
        at, warming = block["heard"], block["warm"]
    return {**parts, "checks": ended - at}
