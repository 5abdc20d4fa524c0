"""The sensor process: `python -m pytest_accel.sensor PARENT_PID`. The only one that talks to drivers."""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

from pytest_accel.child import Pipe, begin
from pytest_accel.drivers import Driver, DriverProblem
from pytest_accel.drivers.cpu import CpuDriver
from pytest_accel.drivers.hints import hints
from pytest_accel.measurement import Device

NEEDS = {
    "amd": "pytest_accel cannot read AMD devices yet",
    "intel": "pytest_accel cannot read Intel devices yet",
    "habana": "pytest_accel cannot read Gaudi devices yet",
    "neuron": "pytest_accel cannot read AWS Neuron devices yet",
    "ascend": "pytest_accel cannot read Ascend devices yet",
}


class Sensor:
    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._drivers: dict[str, Driver] = {}
        self._devices: dict[str, Device] = {}
        self._rested = 0
        self._wake = threading.Event()

    def discover(self, want: str | None) -> None:
        """Announce the devices of vendor `want`; without one, of all that the machine hints at, else the CPU."""
        shown = hints()
        problems = []
        devices: list[Device] = []
        for vendor in [want] if want else sorted({hint.driver for hint in shown}) or ["cpu"]:
            places = [hint.where for hint in shown if hint.driver == vendor]
            try:
                driver = self._open(vendor)
                devices += driver.discover()
                reasons = list(getattr(driver, "problems", ()))
            except DriverProblem as problem:
                reasons = [str(problem)]
            problems += [{"driver": vendor, "reason": reason, "shown": places} for reason in reasons]
        self._devices = {device.uuid: device for device in devices}
        self._pipe.send(
            "devices",
            devices=[dataclasses.asdict(device) for device in devices],
            problems=problems,
            shown=[dataclasses.asdict(hint) for hint in shown],
        )

    def _open(self, vendor: str) -> Driver:
        if vendor == "cpu":
            self._drivers[vendor] = CpuDriver()
        elif vendor == "nvidia":
            from pytest_accel.drivers.nvidia import NvidiaDriver

            self._drivers[vendor] = NvidiaDriver()
        else:
            raise DriverProblem(NEEDS.get(vendor, f"there is no driver for {vendor}"))
        return self._drivers[vendor]

    def idle(self) -> None:
        reasons = {}
        for uuid, device in self._devices.items():
            try:
                reason = self._drivers[device.driver].idle(device)
            except DriverProblem as problem:
                reason = str(problem)
            if reason:
                reasons[uuid] = reason
        self._pipe.send("idle", reasons=reasons)

    def watch(self, turn: int, hz: float) -> None:
        """Send a reading of every device, `hz` times a second, until `rest` of the same turn."""
        try:
            while self._rested < turn:
                began = time.time()
                self._read_all()
                self._wake.wait(max(0.0, began + 1 / hz - time.time()))
        except Exception as error:  # noqa: BLE001  a driver may raise anything; "rest" wants its answer all the same
            self._pipe.send("error", kind="device", reason=f"{type(error).__name__}: {error}")
        while self._rested < turn:
            self._wake.wait()
        self._wake.clear()
        self._pipe.send("resting", turn=turn)

    def _read_all(self) -> None:
        for uuid, device in self._devices.items():
            try:
                reading: dict[str, Any] = dict(self._drivers[device.driver].read(device))
            except DriverProblem as problem:
                reading = {"lost": str(problem)}
            self._pipe.send("reading", uuid=uuid, at=time.time(), **reading)

    def hear(self, message: dict[str, Any]) -> bool:
        if message["event"] == "rest":
            self._rested = message["turn"]
            self._wake.set()
            return True
        return False


def main() -> None:
    pipe = begin()
    sensor = Sensor(pipe)
    pipe.intercept(sensor.hear)
    for message in pipe.receive():
        try:
            if message["event"] == "discover":
                sensor.discover(message["want"])
            elif message["event"] == "idle":
                sensor.idle()
            elif message["event"] == "watch":
                sensor.watch(message["turn"], message["hz"])
        except Exception as error:  # noqa: BLE001  a driver may raise anything; the parent has to hear of it
            pipe.send("error", kind="device", reason=f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
