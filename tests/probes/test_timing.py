"""The loop that times everything, on a clock of its own: no test here depends on how fast this machine is."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from support.rows import each_row

from pytest_accel.core.stats import LOOKS
from pytest_accel.probes.declare import SUSTAINED_SECONDS, SUSTAINED_WARMUP
from pytest_accel.probes.device.timing import (
    BLOCK_SECONDS,
    BLOCKS_AT_LEAST,
    WARMUP_SHARE,
    Clock,
    Timed,
    time_blocks,
    time_calls,
    time_fastest_of,
)


@dataclass
class World(Clock):
    """Time that passes only when work is done: each operation takes the next of `costs`."""

    costs: Iterator[float]
    time: float = 0.0
    depth: int = 0
    calls: int = 0
    last: float = 0.0
    reads: list[float] = field(default_factory=list)

    def work(self) -> None:
        self.calls += 1
        self.last = next(self.costs)
        self.time += self.last

    def mark(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    def seconds(self, start: float, end: float) -> float:
        self.reads.append(end)
        return end - start

    def hold(self, seconds: float) -> bool:
        return False

    def reached(self, mark: float) -> bool:
        return True


@dataclass
class LoneGate:
    """A gate with nobody else behind it. `wait` is how often it says that others still need the load."""

    wait: int = 0
    events: list[str] = field(default_factory=list)
    blocks: list[tuple[float, bool]] = field(default_factory=list)
    slowest: float = 1.0

    def working(self) -> None:
        self.events.append("working")

    def ready(self) -> None:
        self.events.append("ready")

    def report_block(self, seconds: float, warm: bool) -> None:
        self.blocks.append((seconds, warm))

    def step(self, what: str, subjects: tuple[str, ...]) -> None:
        pass

    def tuning(self, begins: bool) -> None:
        pass

    def settled(self) -> None:
        self.events.append("settled")

    def released(self) -> bool:
        self.wait -= 1
        return self.wait < 0

    def agree(self, value: float) -> float:
        return value * self.slowest


def measure(
    costs: Iterator[float],
    *,
    gate: LoneGate | None = None,
    depth: int = 0,
    beside: float = 0.0,
    seconds: float = 10.0,
    precision: float = 0.01,
    **how: bool,
) -> tuple[Timed, World, LoneGate]:
    """Run `time_blocks` in a made world, whose time is also what the host's clock shows.

    `beside` is what the reference takes, as a share of the operation before it.
    """
    world, gate = World(costs, depth=depth), gate or LoneGate()

    def other() -> None:
        world.time += beside * world.last

    asked = other if beside else None
    timed = time_blocks(world.work, world, gate, seconds=seconds, precision=precision, reference=asked, **how)
    return timed, world, gate


def steady(cost: float) -> Iterator[float]:
    return itertools.repeat(cost)


def noisy(cost: float, share: float) -> Iterator[float]:
    return itertools.cycle([cost * (1 - share), cost * (1 - share), cost * (1 + share), cost * (1 + share)])


@each_row(("cost", "block"), [(0.0001, BLOCK_SECONDS), (0.001, BLOCK_SECONDS), (0.01, BLOCK_SECONDS), (0.4, 0.4)])
def test_a_block_is_filled_whatever_one_operation_takes(cost: float, block: float) -> None:
    """An operation that is longer than a block is a block."""
    timed, _, _ = measure(steady(cost))
    assert timed.calls_per_block * cost == pytest.approx(block, rel=0.02)
    assert timed.seconds == pytest.approx([cost] * len(timed.seconds))


@pytest.mark.parametrize("seconds", [0.1, 0.178, 0.5])
def test_a_short_budget_has_more_and_shorter_blocks(seconds: float) -> None:
    timed, _, _ = measure(steady(0.0002), seconds=seconds, precision=0.0)
    assert len(timed.seconds) >= BLOCKS_AT_LEAST


def test_a_steady_device_is_known_at_the_first_look_and_a_noisy_one_at_one_of_the_agreed_sizes() -> None:
    for costs, looks in ((steady(0.001), LOOKS[:1]), (noisy(0.06, 0.02), LOOKS[1:])):
        timed, _, _ = measure(costs, seconds=100.0)
        assert timed.why_ended == "precise"
        assert len(timed.seconds) in looks


@pytest.mark.parametrize("how", [{}, {"sustained": True, "seconds": 15.0}])
def test_a_device_that_stays_noisy_ends_with_its_budget(how: dict[str, Any]) -> None:
    timed, _, _ = measure(noisy(0.06, 0.5), **how)
    assert timed.why_ended == "budget"
    assert timed.ends[-1] == pytest.approx(how.get("seconds", 10.0), abs=0.2)


def test_no_precision_means_the_whole_budget() -> None:
    """A soak is not over because its mean is known."""
    timed, _, _ = measure(steady(0.001), seconds=20.0, precision=0.0)
    assert timed.why_ended == "budget"
    assert timed.ends[-1] >= 20.0


def test_the_warm_up_is_not_sampled() -> None:
    """The first call pays for what is lazy, the first quarter for a cold device: neither is in the mean."""
    costs = itertools.chain([3.0], itertools.repeat(0.02, 60), itertools.repeat(0.01))
    timed, _, gate = measure(costs, seconds=8.0, precision=0.0)
    assert timed.seconds == pytest.approx([0.01] * len(timed.seconds))
    assert timed.warmup[0] == pytest.approx(0.02)
    assert timed.ends[0] >= WARMUP_SHARE * 8.0
    assert [warm for _, warm in gate.blocks] == [True] * len(timed.warmup) + [False] * len(timed.seconds)
    assert [seconds for seconds, _ in gate.blocks] == pytest.approx([*timed.warmup, *timed.seconds])


@each_row("seconds", [2.0, 5.0, 15.0, 30.0])
def test_a_sustained_load_is_sampled_alike_whatever_its_budget(seconds: float) -> None:
    """A device that slows down within the first second shows the rate that it keeps, at `quick` as at `long`."""
    costs = itertools.chain(itertools.repeat(0.008, 125), itertools.repeat(0.01))
    timed, _, _ = measure(costs, seconds=seconds, sustained=True)
    assert timed.seconds == pytest.approx([0.01] * len(timed.seconds))
    assert timed.ends[0] == pytest.approx(SUSTAINED_WARMUP, abs=0.1)
    assert sum(timed.seconds) * timed.calls_per_block >= SUSTAINED_SECONDS - 0.1
    assert timed.ends[-1] < 8.0, "what is precise after that ends"


def test_the_queue_is_kept_full_and_every_block_is_its_own() -> None:
    """A device with a queue is never waited for before two more blocks are behind the one that is read."""
    timed, world, _ = measure(steady(0.05), depth=2, seconds=4.0)
    assert timed.calls_per_block == 1
    assert timed.seconds == pytest.approx([0.05] * len(timed.seconds))
    assert world.time - world.reads[-1] == pytest.approx(2 * 0.05)


def test_the_reference_beside_is_timed_apart() -> None:
    timed, _, _ = measure(steady(0.02), beside=0.5, seconds=20.0)
    assert timed.seconds == pytest.approx([0.02] * len(timed.seconds))
    assert timed.reference == pytest.approx([0.01] * len(timed.seconds))


def test_a_clock_that_slows_both_down_is_no_noise() -> None:
    """The interval of the ratio decides when enough was seen, not that of the rate."""
    costs = [0.06, 0.09, 0.12, 0.07]
    timed, _, _ = measure(itertools.cycle(costs), beside=0.5, seconds=100.0, precision=0.001)
    assert len(timed.seconds) == LOOKS[0]
    timed, _, _ = measure(itertools.cycle(costs), seconds=100.0, precision=0.001)
    assert len(timed.seconds) > LOOKS[0]


def test_the_load_goes_on_until_every_device_has_seen_enough() -> None:
    """No device finishes in the quiet of the others; what runs meanwhile is no sample."""
    quiet, alone, _ = measure(steady(0.05))
    timed, world, gate = measure(steady(0.05), gate=LoneGate(wait=7))
    assert gate.events == ["working", "ready", "settled"]
    assert world.calls == alone.calls + 7
    assert timed.seconds == pytest.approx(quiet.seconds)


def test_ranks_agree_on_the_slowest_and_leave_together() -> None:
    timed, _, gate = measure(steady(0.05), gate=LoneGate(slowest=2.0, wait=9), collective=True)
    assert timed.seconds == pytest.approx([0.1] * len(timed.seconds))
    assert gate.events == ["working", "ready"]
    assert gate.wait == 9  # a collective has no load to keep up: its ranks would wait for each other


@pytest.mark.parametrize("depth", [0, 2])
def test_single_calls_are_timed_without_what_is_done_between_them(depth: int) -> None:
    """Of four calls the last two count; the same four warm up as long as they are asked to."""
    world = World(itertools.count(1.0), depth=depth)
    gate = LoneGate()

    def clear() -> None:
        world.time += 100.0

    found, _ = time_calls(world.work, world, gate, prepare=clear, warm_up=2, calls=2, seconds=500.0)
    assert gate.events == ["working", "ready"]
    assert found == [12.0, 13.0], "the first call is for the libraries, then 2 to 5, 6 to 9 and 10 to 13"
    assert gate.blocks == [(4.5, True), (8.5, True), (12.5, False)]


# -- a host that launches slowly


@dataclass
class Launched(Clock):
    """A device that begins with what is queued as soon as it can, and a host that now and then stands still.

    A call costs the device `cost`, and the host the next of `launches`. A spin lasts `spin` times as long as it is to.
    """

    cost: float
    launches: Iterator[float]
    spin: float = 0.0
    depth: int = 2
    host: float = 0.0
    free: float = 0.0
    spins: list[float] = field(default_factory=list)

    def work(self) -> None:
        self.host += next(self.launches)
        self.free = max(self.free, self.host) + self.cost

    def mark(self) -> float:
        self.free = max(self.free, self.host)
        return self.free

    def now(self) -> float:
        return self.host

    def seconds(self, start: float, end: float) -> float:
        self.host = max(self.host, end)
        return end - start

    def hold(self, seconds: float) -> bool:
        self.spins.append(seconds)
        self.free = max(self.free, self.host) + self.spin * seconds
        return self.spin > 0

    def reached(self, mark: float) -> bool:
        return self.host >= mark


def one_by_one(device: Launched) -> tuple[float, bool]:
    """Return the mean of what mamf's way of timing finds, and whether it says that the host was too slow."""
    how: dict[str, Any] = {"prepare": lambda: None, "warm_up": 50, "calls": 100}
    found, launch_bound = time_calls(device.work, device, LoneGate(), seconds=1.0, **how)
    return sum(found) / len(found), launch_bound


def interrupted() -> Iterator[float]:
    return itertools.cycle([2e-5] * 9 + [3e-3])


@pytest.mark.parametrize(("spin", "times"), [(0.3, 2), (1.0, 1), (3.0, 1)])
def test_calls_behind_a_spin_are_timed_alike_however_busy_the_host_is(spin: float, times: int) -> None:
    """Whatever share of the time that it is to take the spin takes: if it is too short, a longer one follows."""
    device = Launched(1e-4, interrupted(), spin)
    found, launch_bound = one_by_one(device)
    assert found == pytest.approx(1e-4, rel=1e-6)
    assert not launch_bound
    assert len(device.spins) == times
    assert device.spins[0] == pytest.approx(2 * 150 * (9 * 2e-5 + 3e-3) / 10, rel=0.01)


def test_a_device_that_outran_the_host_behind_the_longest_spin_is_said_to_be_launch_bound() -> None:
    device = Launched(1e-4, interrupted(), 0.01)
    found, launch_bound = one_by_one(device)
    assert launch_bound
    assert found > 1.5e-4
    assert len(device.spins) == 3


@pytest.mark.parametrize(("launches", "bound"), [(2e-5, False), (2e-4, True)])
def test_what_the_host_launches_too_slowly_is_said_to_be(launches: float, bound: bool) -> None:
    """Calls without a spin, and blocks: a product of a small shape then says how fast the host is."""
    assert one_by_one(Launched(1e-4, steady(launches)))[1] == bound
    device = Launched(1e-4, steady(launches))
    timed = time_blocks(device.work, device, LoneGate(), seconds=1.0, precision=0.01)
    assert timed.launch_bound == bound


# -- the fastest of several calls


def test_a_sample_is_the_fastest_of_its_calls_and_their_mean_is_kept() -> None:
    world = World(itertools.cycle([0.4, 0.1, 0.4, 0.4]))
    timed, means = time_fastest_of(world.work, world, LoneGate(), calls=4, seconds=10.0, precision=0.01)
    assert timed.seconds == pytest.approx([0.1] * LOOKS[0])
    assert means == pytest.approx([0.325] * LOOKS[0])
    assert timed.why_ended == "precise"
    assert world.calls == 1 + 4 * (len(timed.warmup) + LOOKS[0]), "the first call initialises libraries"


def test_fastest_calls_are_sampled_for_the_budget_and_kept_up_until_the_gate_opens() -> None:
    world, gate = World(steady(0.5)), LoneGate(wait=3)
    timed, _ = time_fastest_of(world.work, world, gate, calls=2, seconds=4.0, precision=0.0)
    assert (timed.why_ended, len(timed.warmup)) == ("budget", 0)
    assert timed.ends[-1] == pytest.approx(4.0)
    assert world.calls == 1 + 2 * (4 + 3)
    assert gate.events == ["working", "ready", "settled"]
