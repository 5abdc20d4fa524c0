"""The sensor reads every device on its own: one that hangs is named, and keeps no other from being read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pytest_accel.core.measurement import Device
from pytest_accel.drivers import Driver, DriverProblem, sensor

LEFT, RIGHT = (Device(name, index, "fake", "a device") for index, name in enumerate(("left", "right")))


class Heard:
    """What the sensor sent."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, event: str, **fields: Any) -> None:
        self.messages.append({"event": event, **fields})

    def of(self, uuid: str) -> list[dict[str, Any]]:
        return [each for each in self.messages if each.get("uuid") == uuid]


class Fake(Driver):
    """A driver whose right device does what the test says."""

    def __init__(self, right: Callable[[], dict[str, float]]) -> None:
        self.right = right

    def discover(self) -> list[Device]:
        return [LEFT, RIGHT]

    def idle(self, device: Device) -> str | None:
        self.read(device)
        return None

    def health(self, device: Device) -> dict[str, float]:
        return self.read(device)

    def read(self, device: Device) -> dict[str, float]:
        return {"power_w": 1.0} if device == LEFT else self.right()


def watched(right: Callable[[], dict[str, float]], seconds: float) -> tuple[sensor.Sensor, Heard]:
    """The sensor after one turn of so many seconds."""
    heard: Any = Heard()
    found = sensor.Sensor(heard)
    found._drivers["fake"] = Fake(right)
    found._devices = {device.uuid: device for device in (LEFT, RIGHT)}
    turn = threading.Thread(target=found.watch, args=(1, 50.0))
    turn.start()
    time.sleep(seconds)
    found.hear({"event": "rest", "turn": 1})
    turn.join(5.0)
    assert ("resting", 1) in [(each["event"], each.get("turn")) for each in heard.messages]
    return found, heard


def test_a_device_that_hangs_is_lost_and_the_other_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensor, "SILENT_SECONDS", 0.2)
    hang = threading.Event()
    found, heard = watched(lambda: {"power_w": float(hang.wait(30))}, 1.3)
    assert "has not answered" in heard.of("right")[0]["lost"]
    assert len(heard.of("left")) > 10
    assert not any("lost" in each for each in heard.of("left"))
    found.hear({"event": "rest", "turn": 2})
    found.watch(2, 50.0)
    assert found._threads["right"].is_alive(), "it is not asked again while it hangs"
    hang.set()


def test_every_device_is_read_in_every_turn() -> None:
    found, heard = watched(lambda: {"power_w": 2.0}, 0.1)
    for turn in range(2, 12):
        before = len(heard.of("left")), len(heard.of("right"))
        threading.Timer(0.05, found.hear, [{"event": "rest", "turn": turn}]).start()
        found.watch(turn, 10.0)
        assert len(heard.of("left")) > before[0]
        assert len(heard.of("right")) > before[1]


def test_a_device_whose_last_turn_ends_late_is_read_in_the_next_one() -> None:
    """A slow library or a busy host keeps no device from being read for a whole turn, which may be a soak."""
    slow = threading.Event()
    found, heard = watched(lambda: {"power_w": 2.0 + slow.wait(30)}, 0.1)
    assert not heard.of("right"), "its first reading goes on"
    turn = threading.Thread(target=found.watch, args=(2, 50.0))
    turn.start()
    time.sleep(0.5)
    slow.set()
    until = time.monotonic() + 30
    while len(heard.of("right")) < 5 and time.monotonic() < until:
        time.sleep(0.01)
    found.hear({"event": "rest", "turn": 2})
    turn.join(30)
    assert len(heard.of("right")) >= 5, "one of the last turn, the others of this one"


def test_a_lost_device_says_so() -> None:
    def lost() -> dict[str, float]:
        raise DriverProblem("GPU is lost")

    found, heard = watched(lost, 0.1)
    assert heard.of("right")[0]["lost"] == "GPU is lost"
    found.idle()
    assert heard.messages[-1]["reasons"] == {"right": "GPU is lost"}


def test_an_error_of_a_driver_is_told_and_ends_its_readings() -> None:
    def broken() -> dict[str, float]:
        raise ValueError("what is this")

    _, heard = watched(broken, 0.2)
    assert not [each for each in heard.messages if each["event"] == "error"], "which would be an answer"
    errors = [each for each in heard.messages if each["event"] == "unread"]
    assert [each["reason"] for each in errors] == ["ValueError: what is this"]
    assert len(heard.of("left")) > 2


@pytest.mark.parametrize(("question", "key"), [("health", "facts"), ("idle", "reasons")])
def test_a_device_that_never_answers_costs_only_itself(
    monkeypatch: pytest.MonkeyPatch, question: str, key: str
) -> None:
    monkeypatch.setattr(sensor, "SILENT_SECONDS", 0.3)
    hang = threading.Event()
    found, heard = watched(lambda: {"power_w": 2.0}, 0.0)
    found._drivers["fake"] = Fake(lambda: {"power_w": float(hang.wait(30))})
    getattr(found, question)()
    answers = heard.messages[-1][key]
    hang.set()
    assert "has not answered for 0.3 s" in str(answers["right"])
    assert answers.get("left") == ({"power_w": 1.0} if question == "health" else None)


def test_a_device_that_owes_an_answer_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sensor, "SILENT_SECONDS", 1.0)
    hang, asked = threading.Event(), list[float]()

    def right() -> dict[str, float]:
        asked.append(time.monotonic())
        return {"power_w": float(hang.wait(60))}

    found, heard = watched(lambda: {"power_w": 2.0}, 0.0)
    found._drivers["fake"] = Fake(right)
    for _ in range(3):
        found.health()
        assert "has not answered for 1 s" in heard.messages[-1]["facts"]["right"]["silent"]
        assert heard.messages[-1]["facts"]["left"] == {"power_w": 1.0}
    assert len(asked) == 1
    hang.set()
    until = time.monotonic() + 30
    while "right" in found._owing and time.monotonic() < until:
        time.sleep(0.01)
    found.health()
    assert heard.messages[-1]["facts"]["right"] == {"power_w": 1.0}, "it is asked again once it has answered"


def test_what_the_readings_cost_is_told() -> None:
    def slow() -> dict[str, float]:
        time.sleep(0.02)
        return {}

    _, heard = watched(slow, 0.3)
    cost = next(each["sampling"] for each in heard.messages if each["event"] == "resting")
    read = [each["uuid"] for each in heard.messages if each["event"] == "reading"]
    late = len(read) - cost["readings"]
    assert late in (0, 1), "one may be sent while the cost is counted"
    assert cost["reading_s"] >= 0.02 * (read.count(RIGHT.uuid) - late)
    assert 0 <= cost["cpu_s"] < cost["watched_s"]
