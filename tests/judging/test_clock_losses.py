"""The lost clock by reasons, from readings ten times a second."""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import pytest

from pytest_accel.core.details import ClockLosses
from pytest_accel.judging.causes.clock_losses import losses

HOT, CAPPED, BRAKE, SYNC = 0x48, 0x04, 0x88, 0x10
MASKS = {"hw_thermal_s": HOT, "sw_power_cap_s": CAPPED, "hw_power_brake_s": BRAKE, "sync_boost": SYNC}


def readings(held: dict[str, str], takes: dict[str, float], *, masks: bool = True) -> list[dict[str, Any]]:
    """One reading for each column of `held` ("x" holds, "." does not); each reason takes its share of 1980 MHz.

    A reason holds from halfway between two readings on, or till then.
    """
    found: list[dict[str, Any]] = []
    counted = dict.fromkeys((name for name in held if name.endswith("_s")), 0.0)
    for place in range(len(next(iter(held.values())))):
        now = {name for name, line in held.items() if line[place] == "x"}
        clock = 1980 * math.prod(1 - takes.get(name, 0.0) for name in now)
        counted = {name: seconds + 0.05 * (name in now) for name, seconds in counted.items()}
        mask = {"reasons": functools.reduce(operator.or_, (MASKS[name] for name in now), 0)} if masks else {}
        found.append({"at": place / 10, "clock_mhz": clock, **counted, **mask})
        counted = {name: seconds + 0.05 * (name in now) for name, seconds in counted.items()}
    return found


def found(each: list[dict[str, Any]]) -> ClockLosses:
    lost = losses(each, 1980.0)
    assert lost
    return lost


def lost_by(share: float, take: float) -> Any:
    return pytest.approx(-share * math.log(1 - take), rel=0.1)


@pytest.mark.parametrize("masks", [True, False], ids=["masks", "counters alone"])
def test_reasons_that_overlap_are_separated(masks: bool) -> None:
    hot, brake = "..xxxxxxxx..xxxxxxxx" * 3, "......xxxxxxxx......" * 3
    takes = {"hw_thermal_s": 0.2, "hw_power_brake_s": 0.4}
    lost = found(readings({"hw_thermal_s": hot, "hw_power_brake_s": brake}, takes, masks=masks))
    assert lost["by_reason"] == {"hw_thermal_s": lost_by(0.8, 0.2), "hw_power_brake_s": lost_by(0.4, 0.4)}
    assert lost["throughout"] == pytest.approx(0.0)
    assert lost["always"] == []


def test_what_holds_all_the_time_is_apart_from_what_comes_and_goes() -> None:
    held = {"hw_thermal_s": "..xxxx...." * 5, "sw_power_cap_s": "x" * 50}
    for takes, hot in ((0.3, lost_by(0.4, 0.3)), (0.0, pytest.approx(0.0, abs=1e-9))):
        lost = found(readings(held, {"hw_thermal_s": takes, "sw_power_cap_s": 0.2}))
        assert lost["by_reason"].get("hw_thermal_s", 0.0) == hot, "one that takes nothing gets nothing"
        assert lost["throughout"] == pytest.approx(-math.log(0.8))
        assert lost["always"] == ["sw_power_cap_s"]


def test_reasons_that_always_hold_together_are_told_together() -> None:
    line = "..xxxx...." * 5
    lost = found(readings({"hw_thermal_s": line, "hw_power_brake_s": line}, {"hw_thermal_s": 0.3}))
    assert lost["by_reason"] == {"hw_thermal_s+hw_power_brake_s": lost_by(0.4, 0.3)}
    moment = "." * 150 + "x" + "." * 149
    assert found(readings({"hw_thermal_s": moment}, {"hw_thermal_s": 0.5}))["by_reason"] == {}, "it explains nothing"


def test_dips_without_a_reason_stay_unexplained() -> None:
    dips = readings({"hw_thermal_s": "." * 40 + "xxxxx.....", "sync_boost": "." * 50}, {"hw_thermal_s": 0.2})
    for each in dips[5:25]:
        each["clock_mhz"] = 990.0
    lost = found(dips)
    assert lost["by_reason"] == {"hw_thermal_s": pytest.approx(0.0, abs=0.02)} or not lost["by_reason"]
    assert lost["throughout"] > 0.2


def test_a_counter_that_moves_in_every_interval_is_taken_by_its_share() -> None:
    """A reason that comes and goes faster than the readings: the clock is read at one moment and counts as a mean."""
    each = readings({"hw_thermal_s": ("." * 5 + "x" * 5) * 5}, {"hw_thermal_s": 0.2}, masks=False)
    for reading in each:
        reading["hw_thermal_s"] *= 0.3
    assert found(each)["by_reason"] == {"hw_thermal_s": lost_by(0.5, 0.2)}


def test_a_reading_without_a_counter_is_no_jump_and_one_that_starts_again_keeps_what_it_counted() -> None:
    line = "." * 25 + "x" * 25
    for place in (0, 25, 49):
        each = readings({"hw_thermal_s": line, "sw_power_cap_s": line.replace("x", ".")}, {"hw_thermal_s": 0.2})
        for one in each:
            one["hw_thermal_s"] += 5000.0
        del each[place]["hw_thermal_s"]
        lost = found(each)
        assert lost["by_reason"] == {"hw_thermal_s": lost_by(0.5, 0.2)}
        assert lost["mhz"] == pytest.approx(0.9 * 1980, rel=0.01)
    each = readings({"hw_thermal_s": "xxxxx....." * 5}, {"hw_thermal_s": 0.2}, masks=False)
    before = each[27]["hw_thermal_s"]
    for one in each[27:]:
        one["hw_thermal_s"] -= before
    assert found(each)["by_reason"] == {"hw_thermal_s": lost_by(0.5, 0.2)}


def test_how_long_a_reason_held_is_what_its_counter_says() -> None:
    """The readings saw it in a tenth of the time, by chance; it held for a fifth."""
    each = readings({"hw_thermal_s": ("." * 9 + "x") * 5}, {"hw_thermal_s": 0.2})
    for reading in each:
        reading["hw_thermal_s"] *= 2
    assert found(each)["by_reason"] == {"hw_thermal_s": lost_by(0.2, 0.2)}


def test_without_two_readings_of_the_clock_or_at_rest_nothing_is_lost() -> None:
    idle = [{"at": place / 10, "clock_mhz": 345.0, "reasons": 0x1} for place in range(5)]
    few: list[list[dict[str, Any]]] = [[], [{"at": 0.0, "clock_mhz": 1000.0}], [{"at": 0.0}, {"at": 1.0}], idle]
    assert [losses(each, 1980.0) for each in few] == [None] * 4
