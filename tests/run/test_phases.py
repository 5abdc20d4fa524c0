"""Where the time went: the parts add up to the wall clock, whatever lies within what."""

import pytest

from pytest_accel.run.phases import Timeline, around_silence, seconds_by_phase


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_every_moment_counts_once() -> None:
    clock = Clock()
    line = Timeline(clock)
    clock.time += 1
    with line.phase("measuring"):
        clock.time += 10
        with line.phase("waiting"):
            clock.time += 2
        clock.time += 3
    clock.time += 4
    found = line.seconds()
    assert {name: seconds for name, seconds in found.items() if seconds} == {
        "wall": 20.0,
        "measuring": 13.0,
        "waiting": 2.0,
        "rest": 5.0,
    }


def test_what_breaks_is_counted_where_it_broke() -> None:
    clock = Clock()
    line = Timeline(clock)

    def start() -> None:
        with line.phase("starting"):
            clock.time += 5
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()
    clock.time += 1
    assert (line.seconds()["starting"], line.seconds()["rest"]) == (5.0, 1.0)


def test_a_call_is_split_by_its_pace() -> None:
    """Two pairs of devices in one call: each is prepared, sized, warmed up and measured; after the last come checks."""
    pace = [(1.5, "working"), (2.0, "ready"), (2.5, "warm"), (3.0, "block"), (3.5, "block")]
    pace += [(5.5, "working"), (6.0, "ready"), (6.5, "block")]
    parts = seconds_by_phase(0.0, 8.0, pace)
    assert parts == {"preparing": 3.5, "warm_up": 1.5, "measuring": 1.5, "checks": 1.5}
    clock = Clock()
    line = Timeline(clock)
    with line.phase("measuring"):
        clock.time += 8
    line.account("peer_copy.one_way", parts)
    assert line.seconds()["measuring"] == 1.5
    line.account("peer_copy.one_way", {"preparing": 0.5})  # measured again
    assert line.probes == {"peer_copy.one_way": {**parts, "preparing": 4.0}}
    assert line.seconds()["wall"] == 8.0


def test_the_silence_of_a_worker_that_hangs_is_no_warm_up() -> None:
    """The others wait for it, so that their next block comes a minute late."""
    pace = [(1.0, "working"), (2.0, "ready"), (63.0, "warm"), (64.0, "block")]
    assert seconds_by_phase(0.0, 64.5, pace)["warm_up"] == 62.0
    parts = around_silence(0.0, 64.5, pace, (2.0, 62.0))
    assert parts == {"preparing": 1.0, "warm_up": 2.0, "measuring": 1.0, "checks": 0.5, "silent": 60.0}


def test_a_call_that_sizes_no_blocks_or_has_none() -> None:
    parts = seconds_by_phase(0.0, 5.0, [(1.0, "ready"), (2.0, "block"), (4.0, "block")])
    assert parts == {"preparing": 1.0, "warm_up": 0.0, "measuring": 3.0, "checks": 1.0}
    assert seconds_by_phase(1.0, 4.0, []) == seconds_by_phase(1.0, 4.0, [(3.0, "ready")]) == {"preparing": 3.0}
