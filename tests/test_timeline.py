"""Where the time went: the parts add up to the wall clock, whatever lies within what."""

import pytest

from pytest_accel.timeline import Timeline, around


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_every_moment_counts_once() -> None:
    clock = Clock()
    line = Timeline(clock)
    clock.time += 1
    with line.on("measuring"):
        clock.time += 10
        with line.on("waiting"):
            clock.time += 2
        clock.time += 3
    clock.time += 4
    found = line.seconds()
    assert found == {
        "wall": 20.0,
        "starting": 0.0,
        "preparing": 0.0,
        "warm_up": 0.0,
        "measuring": 13.0,
        "checks": 0.0,
        "waiting": 2.0,
        "rest": 5.0,
    }


def test_what_breaks_is_counted_where_it_broke() -> None:
    clock = Clock()
    line = Timeline(clock)

    def start() -> None:
        with line.on("starting"):
            clock.time += 5
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start()
    clock.time += 1
    assert (line.seconds()["starting"], line.seconds()["rest"]) == (5.0, 1.0)


def test_a_call_is_split_by_its_blocks() -> None:
    """Two pairs of devices in one call: each is prepared, warmed up and measured; what follows the last is checks."""
    heard = [(2.0, True), (2.5, True), (3.0, False), (3.5, False), (6.0, True), (6.5, False)]
    parts = around(0.0, 8.0, [{"heard": at, "warm": warm} for at, warm in heard])
    assert parts == {"preparing": 4.5, "warm_up": 0.5, "checks": 1.5}  # 1.5 were measuring
    clock = Clock()
    line = Timeline(clock)
    with line.on("measuring"):
        clock.time += 8
    line.move("measuring", parts)
    assert line.seconds()["measuring"] == 1.5
    assert line.seconds()["wall"] == 8.0


def test_a_call_without_a_block_was_preparation() -> None:
    assert around(1.0, 4.0, []) == {"preparing": 3.0}
    assert around(1.0, 4.0, [{"heard": 3.0, "warm": False}]) == {"preparing": 2.0, "warm_up": 0.0, "checks": 1.0}
