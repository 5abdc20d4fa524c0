"""A device without hardware whose blocks take drawn times, sampled by the package's own loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from bench import Gate

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku_types import Sku
from pytest_accel.probes.declare import Declaration, conditions_of
from pytest_accel.probes.device.timing import Clock, block_seconds
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

CALL_SECONDS = 0.004
"""Seconds of a call that is timed by itself: 2.7 to 5.3 ms for arrays of 4 GiB on H100 and A100."""
LONG, LONG_BLOCK = 60.0, 1.0
"""Goes from so many seconds on are drawn in longer blocks, or a soak would take most of the time."""
BURSTS = 5
"""Samples of a burst whose method does not count its calls."""


class DrawnClock(Clock):
    """A clock by which each operation takes `seconds`, divided by the pace of the moment."""

    def __init__(self, seconds: float, paces: Iterator[float]) -> None:
        self._seconds, self._paces, self._now = seconds, paces, 0.0

    def mark(self) -> float:
        return self._now

    def seconds(self, start: float, end: float) -> float:  # noqa: ARG002  the signature of a clock
        spent = self._seconds / next(self._paces)
        self._now += spent
        return spent

    def now(self) -> float:
        return self._now


class DrawnDevice(Compute):
    """A device that samples as `Compute` does. Torch is not needed, since nothing is computed."""

    def __init__(self, declared: Declaration, metric: str, sku: Sku) -> None:
        self.devices: list[Device] = []
        self.gate = Gate()
        self.sustained = declared.sustained
        self.precision = 0.0 if declared.name == "soak" else sku.precision  # as the probe itself has it
        packaged = sku.probes.get(declared.name, {})
        self._method = declared.method_of(metric, packaged)
        self._conditions = conditions_of(declared.function, dict(packaged), {})[0]
        self._clock: Clock

    @property
    def clock(self) -> Clock:
        """Clock of the go."""
        return self._clock

    @property
    def waiting_clock(self) -> Clock:
        """Clock of the go."""
        return self._clock

    def operation(self, seconds: float) -> float:
        """Return the duration of what is drawn at a time in a go of `seconds`: a call timed by itself, or a block."""
        if self._single:
            return CALL_SECONDS
        return LONG_BLOCK if seconds >= LONG else block_seconds(seconds)

    def go(self, metric: str, unit: str, rate: float, seconds: float, paces: Iterator[float]) -> ProbeResult:
        """Return a go at a metric, at `rate` where the pace is 1."""
        operation = self.operation(seconds)
        if self._method.get("timing") == "burst":
            calls = self._method.get("calls")
            spent = [operation / pace for pace in islice(paces, calls if isinstance(calls, int) else BURSTS)]
            return ProbeResult(metric, unit, samples=[rate * operation / each for each in spent], seconds=spent)
        self._clock = DrawnClock(operation, paces)
        return self.sample(
            lambda: None, amount=rate * operation, unit=unit, metric=metric, seconds=seconds, **self._statistic()
        )

    @property
    def _single(self) -> bool:
        """True if calls are timed one by one."""
        return self._method.get("timing") == "burst" or self._method.get("statistic") == "best"

    def _statistic(self) -> Mapping[str, Any]:
        """Return the arguments of `sample` that the probe's method implies."""
        statistic = self._method.get("statistic", "mean")
        if statistic == "best":
            return {"fastest_of": self._conditions["calls"]}
        return {} if statistic == "mean" else {"statistic": statistic}
