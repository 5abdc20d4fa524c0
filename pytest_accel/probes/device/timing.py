"""The loop that times all work: blocks of back-to-back calls, until the mean is known precisely enough."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from pytest_accel.core.stats import LOOKS, estimate, estimate_ratio
from pytest_accel.probes.declare import SUSTAINED_SECONDS, SUSTAINED_WARMUP

Work = Callable[[], object]
"""A call that is timed."""

BLOCK_SECONDS = 0.05
BLOCKS_AT_LEAST = 12
"""Blocks that fit into every budget. With three, the interval is too wide to be useful (Student's t for 99.9 % is 31.6
for three blocks, 4.4 for twelve)."""
LAUNCH_BOUND = 0.9
"""Launch time divided by device time, from which on the device waits for the host."""
LONGEST_SPIN_FACTOR = 8.0
"""Longest spin, as a multiple of the time that the host took to queue the calls that wait for its end."""
WARMUP_SHARE = 0.25
"""Share of a probe's budget that warms the device up and is not sampled."""
WARMUP_SECONDS = 5.0
"""Longest warm-up: power settles within a second, and slowdown by heat is measured by the soak. A sustained load has a
warm-up of its own (SUSTAINED_WARMUP), which does not depend on the budget, so that one floor fits all levels."""


class Clock:
    """A clock that times work on a device. This one is the host's, for work that is finished when the call returns."""

    depth = 0
    """Number of blocks to keep queued, so that the device never waits for the host; 0 if calls are synchronous."""

    def mark(self) -> Any:
        """Return a point in the device's queue: here the host's time in seconds."""
        return time.perf_counter()

    def seconds(self, start: Any, end: Any) -> float:
        """Return the seconds between two marks. Waits until the device has reached `end`."""
        return float(end - start)

    def hold(self, seconds: float) -> bool:  # noqa: ARG002
        """Keep the device busy for about `seconds`, while calls are queued. Returns False if that is not possible."""
        return False

    def reached(self, mark: Any) -> bool:  # noqa: ARG002
        """Return whether the device has reached a mark."""
        return True

    def now(self) -> float:
        """Return the time in seconds since an arbitrary moment. Budgets are counted by it."""
        return time.perf_counter()


class Gate(Protocol):
    """Keeps a probe in step with the same probe on the other devices, and reports its progress."""

    def working(self) -> None:
        """Report that the device works from here on, after memory and data have been prepared."""

    def ready(self) -> None:
        """Block until every device is ready to begin."""

    def report_block(self, seconds: float, warm: bool) -> None:
        """Report the duration of one block in seconds, and whether it belongs to the warm-up."""

    def step(self, label: str, subjects: tuple[str, ...]) -> None:
        """Announce the next step and the UUIDs of the devices that take part.

        Errors in the step are attributed to those devices only.
        """

    def tuning(self, begins: bool) -> None:
        """Report that torch begins, or has ended, to choose a kernel by trying all of them."""

    def settled(self) -> None:
        """Report that this device has enough samples."""

    def released(self) -> bool:
        """Return True once every device has enough samples. Until then a device has to keep working."""

    def agree(self, value: float) -> float:
        """Return the largest `value` over all ranks of a collective probe; `value` itself elsewhere."""


@dataclass
class Timed:
    """Seconds per call, one entry for each block, and the end of each block in seconds since the first began."""

    seconds: list[float] = field(default_factory=list)
    reference: list[float] = field(default_factory=list)
    """Seconds per call of the reference, if there is one."""
    ends: list[float] = field(default_factory=list)
    warmup: list[float] = field(default_factory=list)
    calls_per_block: int = 0
    launch_bound: bool = False
    """True if the host takes about as long to launch the work as the device to do it, so that the device waits."""
    why_ended: str = ""


def time_blocks(
    work: Work,
    clock: Clock,
    gate: Gate,
    *,
    seconds: float,
    precision: float,
    reference: Work | None = None,
    collective: bool = False,
    sustained: bool = False,
) -> Timed:
    """Time `work` in blocks (`block_seconds`) until its mean is known within `precision`, or for `seconds`.

    Sampling ends when the 99.9 % confidence interval, with autocorrelation taken into account, has a half-width below
    `precision` times the mean. This is tested only at a fixed sequence of sample sizes (`stats.LOOKS`), and never
    against a limit. A `sustained` load has a fixed warm-up and a least time of samples, which no precision shortens
    and which prolong a budget that is shorter. With a `reference`, its blocks alternate with those of `work`.
    Afterwards the load goes on until the gate releases it, so that no device is measured while the others rest.
    """
    timing = Timed()
    warmup, shortest = (SUSTAINED_WARMUP, SUSTAINED_SECONDS) if sustained else (_warmup(seconds), 0.0)
    seconds = max(seconds, warmup + shortest)
    gate.working()
    block_length = block_seconds(seconds)
    timing.calls_per_block, timing.launch_bound = _calls_per_block(work, clock, gate, block_length)
    per_reference = _calls_per_block(reference, clock, gate, block_length)[0] if reference else 0
    gate.ready()
    timed_blocks = _blocks(work, timing.calls_per_block, reference, per_reference, clock)
    start = clock.now()
    for work_seconds, reference_seconds in timed_blocks:
        slowest = gate.agree(work_seconds)
        elapsed = gate.agree(clock.now() - start)
        warm = elapsed < warmup
        gate.report_block(slowest, warm)
        if warm:
            timing.warmup.append(slowest)
            continue
        timing.seconds.append(slowest)
        timing.ends.append(elapsed)
        if reference_seconds is not None:
            timing.reference.append(reference_seconds)
        # a precision of 0 ends no sampling early
        timing.why_ended = _end_reason(timing, elapsed, seconds, precision if elapsed >= warmup + shortest else 0.0)
        if timing.why_ended:
            break
    if not collective:
        gate.settled()
        while not gate.released():
            next(timed_blocks)  # no device is measured while the others rest
    return timing


def time_one_block(work: Work, clock: Clock, seconds: float) -> float:
    """Return the seconds per call over one warm block of about `seconds`. For choosing only, not for results."""
    work()
    count = 1
    while True:
        start = clock.mark()
        for _ in range(count):
            work()
        elapsed = clock.seconds(start, clock.mark())
        if elapsed >= seconds / 3:
            return elapsed / count
        count = max(count + 1, min(8 * count, round(0.7 * count * seconds / max(elapsed, 1e-9))))


def time_fastest(work: Work, clock: Clock, seconds: float) -> float:
    """Return the duration in seconds of the fastest of all calls within `seconds`, after one call that is not timed.

    It serves to choose between shapes and is never a result.
    """
    deadline = clock.now() + seconds
    work()
    fastest = math.inf
    while fastest == math.inf or clock.now() < deadline:
        # disturbances only add time, so the fastest calls of two shapes can be compared where their means cannot
        fastest = min(fastest, *_durations(work, clock, 1))
    return fastest


def time_calls(
    work: Work,
    clock: Clock,
    gate: Gate,
    *,
    prepare: Callable[[], object],
    warm_up: int,
    calls: int,
    seconds: float,
) -> tuple[list[float], bool]:
    """Return the seconds of each of `calls` calls, which are timed one by one after `warm_up` more.

    `prepare` runs before each call and is not timed. The same is done, and not returned, for `seconds` beforehand.

    The device must not wait for the host, since it would do so between the two events around a call. So all calls are
    queued at once, behind a spin that lasts twice as long as the slowest queueing beforehand. If the device began
    before all were queued, they are timed again behind a longer spin, up to `LONGEST_SPIN_FACTOR`. Also returns whether
    the device waited even so, because the host takes longer to launch the calls than the device to do them.
    """
    gate.working()
    prepare()
    work()  # initialises libraries
    gate.ready()
    start, elapsed, slowest, spin_factor, launch_bound = clock.now(), 0.0, 0.0, 1.0, False
    while True:
        warm = elapsed < seconds
        spin_factor *= 1.0 if warm else 2.0
        spinning = not warm and clock.hold(spin_factor * slowest)
        queued = _one_by_one(work, clock, prepare, warm_up + calls, spinning)
        durations = queued.seconds[warm_up:]
        gate.report_block(sum(durations) / calls, warm)
        if not spinning:
            slowest = max(slowest, queued.queueing)
            launch_bound = queued.queueing > LAUNCH_BOUND * queued.span
        if not warm and (queued.ahead or not spinning or spin_factor >= LONGEST_SPIN_FACTOR):
            return durations, launch_bound and not queued.ahead
        elapsed = clock.now() - start


@dataclass
class _Queued:
    """Calls that were queued at once: the seconds of each, to queue them, and of the device from first to last."""

    seconds: list[float]
    queueing: float
    span: float = math.inf
    ahead: bool = False
    """True if all were queued before the device began."""


def _one_by_one(work: Work, clock: Clock, prepare: Callable[[], object], calls: int, spinning: bool) -> _Queued:
    """Time each call of `work` on its own. `spinning` is True if the device is kept busy before the first."""
    queued, seconds, begin = [], [], clock.now()
    for _ in range(calls):
        prepare()
        start = clock.mark()
        work()
        queued.append((start, clock.mark()))
        if not clock.depth:
            seconds.append(clock.seconds(*queued.pop()))
    queueing = clock.now() - begin
    if not queued:
        return _Queued(seconds, queueing)
    ahead = spinning and not clock.reached(queued[0][0])
    seconds = [clock.seconds(*marks) for marks in queued]
    return _Queued(seconds, queueing, clock.seconds(queued[0][0], queued[-1][1]), ahead)


def time_fastest_of(
    work: Work,
    clock: Clock,
    gate: Gate,
    *,
    calls: int,
    seconds: float,
    precision: float,
    reference: Work | None = None,
) -> tuple[Timed, list[float]]:
    """Time call by call, and keep the fastest of every `calls` as one sample, until their mean is known, or `seconds`.

    This is how BabelStream times a kernel. Sampling ends as in `time_blocks`. Returns with the samples the mean seconds
    of a call in each, because the fastest call hides that others were slow.
    """
    timing, means = Timed(calls_per_block=1), []
    gate.working()
    for call in filter(None, (work, reference)):
        call()  # initialises libraries
    gate.ready()
    start = clock.now()
    while not timing.why_ended:
        if reference:
            work()  # not counted: the caches hold the data of the reference
        durations = _durations(work, clock, calls)
        reference_durations = _durations(reference, clock, calls) if reference else []
        elapsed = clock.now() - start
        warm = elapsed < _warmup(seconds)
        gate.report_block(sum(durations) / calls, warm)
        if warm:
            timing.warmup.append(min(durations))
            continue
        means.append(sum(durations) / calls)
        timing.seconds.append(min(durations))
        timing.ends.append(elapsed)
        timing.reference += [min(reference_durations)] if reference_durations else []
        timing.why_ended = _end_reason(timing, elapsed, seconds, precision)
    gate.settled()
    while not gate.released():
        _durations(work, clock, calls)
    return timing, means


def _durations(work: Work, clock: Clock, calls: int) -> list[float]:
    """Return the seconds of each of `calls` calls, every one timed by itself."""
    durations = []
    for _ in range(calls):
        start = clock.mark()
        work()
        durations.append(clock.seconds(start, clock.mark()))
    return durations


def block_seconds(seconds: float) -> float:
    """Return the duration of a block in seconds.

    It is BLOCK_SECONDS, or less if a budget of `seconds` has no room for BLOCKS_AT_LEAST such blocks.
    """
    return min(BLOCK_SECONDS, (1 - WARMUP_SHARE) * seconds / BLOCKS_AT_LEAST)


def _warmup(seconds: float) -> float:
    """Return the seconds of a budget that warm the device up, for a load that is not declared as sustained."""
    return min(WARMUP_SHARE * seconds, WARMUP_SECONDS)


def _calls_per_block(work: Work, clock: Clock, gate: Gate, block_length: float) -> tuple[int, bool]:
    """Return the number of calls that fill a block, and whether the device waits for the host to launch them."""
    work()  # not counted: it initialises libraries
    elapsed, launching, count = 0.0, 0.0, 1
    while elapsed < block_length / 10:
        start, begin = clock.mark(), clock.now()
        for _ in range(count):
            work()
        launching = clock.now() - begin
        elapsed = gate.agree(clock.seconds(start, clock.mark()))
        if elapsed < block_length / 10:
            count *= 4
    return max(1, round(block_length * count / elapsed)), bool(clock.depth) and launching > LAUNCH_BOUND * elapsed


def _blocks(
    work: Work, per_block: int, reference: Work | None, per_reference: int, clock: Clock
) -> Iterator[tuple[float, float | None]]:
    """Yield blocks without end: seconds per call of `work`, and of the reference in the block after it."""
    queued: deque[list[Any]] = deque()
    while True:
        if reference:
            work()  # not counted: the caches hold the data of the reference
        marks = [clock.mark()]
        for _ in range(per_block):
            work()
        marks.append(clock.mark())
        if reference:
            reference()
            marks.append(clock.mark())
            for _ in range(per_reference):
                reference()
            marks.append(clock.mark())
        queued.append(marks)
        if len(queued) > clock.depth:
            start, end, *extra = queued.popleft()
            yield clock.seconds(start, end) / per_block, clock.seconds(*extra) / per_reference if extra else None


def _end_reason(timing: Timed, elapsed: float, seconds: float, precision: float) -> str:
    """Return why sampling may end now, or an empty string."""
    n = len(timing.seconds)
    # testing more often would make the interval too narrow
    if n in LOOKS and precision > 0 and _half_width(timing) < precision:
        return "precise"
    return "budget" if elapsed >= seconds else ""


def _half_width(timing: Timed) -> float:
    """Return the relative half-width of the time per call, or of its ratio to the reference if there is one."""
    if timing.reference:
        return estimate_ratio(timing.reference, timing.seconds).relative_half_width
    return estimate(timing.seconds).relative_half_width
