"""The one loop that times anything: blocks of back-to-back work, until the mean is known well enough."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_accel.core.stats import LOOKS, estimate, estimate_ratio

BLOCK_SECONDS = 0.05
BLOCKS_AT_LEAST = 12
"""So many blocks fit into every budget: of three, chance makes an interval too wide to tell anything (Student's t of
99.9 % is 31.6 for three, 4.4 for twelve)."""
WARMUP_SHARE = 0.25
"""Share of a probe's budget that warms the device up and is not sampled."""
WARMUP_SECONDS = 5.0
"""And at most so long: power settles within a second, and how heat slows a device down is what a soak samples."""


class Clock(Protocol):
    """The device's own clock."""

    depth: int
    """Blocks to keep queued, so that the device never waits for the host (0 if work is synchronous)."""

    def mark(self) -> Any:
        """A point in the device's queue."""

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds between two marks; waits until the device has reached `end`."""

    def now(self) -> float:
        """Seconds that have passed for the host, since any moment: what a budget is counted in."""


class HostClock:
    """For work that is done when the call returns."""

    depth = 0

    def mark(self) -> float:
        return time.perf_counter()

    def seconds(self, start: float, end: float) -> float:
        return end - start

    def now(self) -> float:
        return time.perf_counter()


class Gate(Protocol):
    """How a probe keeps in step with the same probe on the other devices, and reports as it goes."""

    def working(self) -> None:
        """Say that the device works from here on: what came before made memory and data ready."""

    def ready(self) -> None:
        """Block until every device is ready to begin."""

    def block(self, seconds: float, warm: bool) -> None:
        """Report one block as soon as it is known."""

    def step(self, what: str, subjects: tuple[str, ...]) -> None:
        """Announce what is tried next and whom it concerns: what breaks in it is theirs alone."""

    def settled(self) -> None:
        """Say that this device has seen enough."""

    def released(self) -> bool:
        """True when every device has seen enough, so that the load may end."""

    def agree(self, value: float) -> float:
        """The largest `value` over all ranks of a collective probe; `value` itself elsewhere."""


@dataclass
class Timed:
    """Seconds per operation, one entry a block, and the end of each block in seconds since the first."""

    seconds: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    warmup: list[float] = field(default_factory=list)
    operations_per_block: int = 0
    why_ended: str = ""


def time_blocks(
    work: Callable[[], object],
    clock: Clock,
    gate: Gate,
    *,
    seconds: float,
    precision: float,
    beside: Callable[[], object] | None = None,
    collective: bool = False,
) -> Timed:
    """Time `work` in blocks (`block_seconds`) until its mean is known within `precision`, or for `seconds`.

    Known within means: the 99.9 % interval, autocorrelation counted, has a half-width under `precision` of the
    mean; looked at only at a fixed sequence of sizes (`stats.LOOKS`). The loop never sees a limit. With
    `beside`, its blocks alternate with those of `work`. After it has seen enough the load goes on until the
    gate releases it, so that no device finishes in the quiet of the others.
    """
    timed = Timed()
    gate.working()
    block = block_seconds(seconds)
    per_block = _operations(work, clock, gate, block)
    per_beside = _operations(beside, clock, gate, block) if beside else 0
    timed.operations_per_block = per_block
    gate.ready()
    pairs = _blocks(work, per_block, beside, per_beside, clock)
    began = clock.now()
    for own, other in pairs:
        once = gate.agree(own)
        elapsed = gate.agree(clock.now() - began)
        warm = elapsed < min(WARMUP_SHARE * seconds, WARMUP_SECONDS)
        gate.block(once, warm)
        if warm:
            timed.warmup.append(once)
            continue
        timed.seconds.append(once)
        timed.ends.append(elapsed)
        if other is not None:
            timed.beside.append(other)
        timed.why_ended = _enough(timed, elapsed, seconds, precision)
        if timed.why_ended:
            break
    if not collective:
        gate.settled()
        while not gate.released():
            next(pairs)
    return timed


def time_once(work: Callable[[], object], clock: Clock, seconds: float) -> float:
    """Seconds per operation over one block of about `seconds`, warm: to choose by, never a result."""
    work()
    count = 1
    while True:
        start = clock.mark()
        for _ in range(count):
            work()
        spent = clock.seconds(start, clock.mark())
        if spent >= seconds / 3:
            return spent / count
        count = max(count + 1, min(8 * count, round(0.7 * count * seconds / max(spent, 1e-9))))


def time_fastest(work: Callable[[], object], clock: Clock, seconds: float) -> float:
    """Seconds of the fastest of the calls that `seconds` have room for, the first of them warm: to choose by.

    What disturbs from outside only ever adds time, so the fastest call tells two works apart where means cannot.
    """
    until = clock.now() + seconds
    work()
    fastest = math.inf
    while fastest == math.inf or clock.now() < until:
        start = clock.mark()
        work()
        fastest = min(fastest, clock.seconds(start, clock.mark()))
    return fastest


def time_bursts(
    work: Callable[[], object], clock: Clock, gate: Gate, *, rest: float, burst: float, repeats: int
) -> list[float]:
    """Seconds per operation of short bursts from rest: what a device does before power and heat hold it back.

    Before each the device rests for `rest` seconds, then three calls warm it up, then it works for `burst` seconds.
    """
    gate.working()
    count = max(1, round(burst / time_once(work, clock, burst)))
    found = []
    for _ in range(repeats):
        gate.ready()
        time.sleep(rest)
        for _ in range(3):
            work()
        start = clock.mark()
        for _ in range(count):
            work()
        found.append(clock.seconds(start, clock.mark()) / count)
        gate.block(found[-1], False)
    return found


def block_seconds(seconds: float) -> float:
    """How long a block is about: 50 ms, or less where a budget of `seconds` would hold but a few."""
    return min(BLOCK_SECONDS, (1 - WARMUP_SHARE) * seconds / BLOCKS_AT_LEAST)


def _operations(work: Callable[[], object], clock: Clock, gate: Gate, block: float) -> int:
    """How many operations fill a block. The first call pays for everything lazy and is not counted."""
    work()
    spent, count = 0.0, 1
    while spent < block / 10:
        start = clock.mark()
        for _ in range(count):
            work()
        spent = gate.agree(clock.seconds(start, clock.mark()))
        if spent < block / 10:
            count *= 4
    return max(1, round(block * count / spent))


def _blocks(
    work: Callable[[], object],
    per_block: int,
    beside: Callable[[], object] | None,
    per_beside: int,
    clock: Clock,
) -> Iterator[tuple[float, float | None]]:
    """Endless blocks: seconds per operation of `work`, and of `beside` in the block that followed it."""
    queued: deque[list[Any]] = deque()
    while True:
        if beside:
            work()  # not counted: the caches are full of the other's data
        marks = [clock.mark()]
        for _ in range(per_block):
            work()
        marks.append(clock.mark())
        if beside:
            beside()
            marks.append(clock.mark())
            for _ in range(per_beside):
                beside()
            marks.append(clock.mark())
        queued.append(marks)
        if len(queued) > clock.depth:
            start, end, *other = queued.popleft()
            yield clock.seconds(start, end) / per_block, clock.seconds(*other) / per_beside if other else None


def _enough(timed: Timed, elapsed: float, seconds: float, precision: float) -> str:
    """Why sampling may end now, or an empty string."""
    n = len(timed.seconds)
    if n in LOOKS and precision > 0 and _half_width(timed) < precision:
        return "precise"
    if elapsed >= seconds:
        return "budget"
    return ""


def _half_width(timed: Timed) -> float:
    """Relative half-width of the time of an operation; of the ratio where it was measured beside a reference."""
    if timed.beside:
        return estimate_ratio(timed.beside, timed.seconds).relative_half_width
    return estimate(timed.seconds).relative_half_width
