"""Hands samples to pytest-benchmark, which saves and compares them. It times nothing itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_accel.core.measurement import Measurement
from pytest_accel.core.verdict import Verdict

CLOCK = "device_clock"


class Replay:
    """A timer for pytest-benchmark that replays known durations: each pair of calls is one duration apart."""

    __name__ = CLOCK

    def __init__(self) -> None:
        self._ticks: list[float] = []
        self.used = False

    def load(self, seconds: Sequence[float]) -> None:
        """Set the durations to replay."""
        self._ticks = [tick for duration in reversed(seconds) for tick in (duration, 0.0)]
        self.used = True

    def __call__(self) -> float:
        """Return the next time, in seconds."""
        return self._ticks.pop()


def is_replay(benchmark: Mapping[str, Any]) -> bool:
    """Return True if an entry of pytest-benchmark holds samples that it got from `publish`."""
    return bool(benchmark["options"]["timer"] == CLOCK)


def publish(ledger: Any, replay: Replay, verdict: Verdict, measurement: Measurement) -> None:
    """Enter the durations of a measurement into the fixture `benchmark`, given as `ledger`, whose timer is `replay`."""
    replay.load(measurement.seconds)
    ledger.fullname = ledger.name = f"{verdict.subject}/{verdict.metric}"
    ledger.group = verdict.metric
    ledger.extra_info.update(
        value=verdict.value,
        unit=verdict.unit,
        status=verdict.status.value,
        floor=verdict.floor,
        ceiling=verdict.ceiling,
        limit_from=verdict.limit.origin if verdict.limit else None,
    )
    ledger.pedantic(lambda: None, rounds=len(measurement.seconds), iterations=1)
