"""A simulated device in a worker process: the work is done for real on the CPU and small, its time is the model's."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_accel.core import sizes
from pytest_accel.core.measurement import Device
from pytest_accel.probes.declare import spec_of
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.timing import Gate, block_seconds
from pytest_accel.probes.device.torch_device import Compute, ProbeResult
from pytest_accel.simulate.board import Board
from pytest_accel.simulate.faults import Symptoms
from pytest_accel.simulate.flips import flipping
from pytest_accel.simulate.model import Model, applied, family
from pytest_accel.simulate.node import PROBES

PACE = 10.0
"""Simulated seconds that pass in a real one at most: the sensor has to see what happens."""

CALLS_PER_BLOCK = 8
"""Real calls of the work in a block at most; each then stands for several."""

REAL_SECONDS = 0.001
"""Real time that the work of a block takes at most, beyond its first call; for the rest of it only time passes. Not in
collectives, where every rank has to do the same."""


UNNAMED_SHARE = 0.9
"""Assumed: what a probe times beside its metric (a step without its communication) takes this much of it."""

LOST = "CUDA error: unknown error (the simulated device is lost)"
ECC = "CUDA error: uncorrectable ECC error encountered (simulated)"


class SimulatedClock:
    """Time that passes as work is done. A block takes what the model says of the devices at that moment."""

    depth = 0

    def __init__(self, device: SimulatedDevice, block: Callable[[], float], batch: int) -> None:
        """`block` begins a block and returns the seconds of one operation; a call of the work does `batch` of them."""
        self._device, self._block, self._batch = device, block, batch
        self._once = block()
        self._worked = self._spent = 0.0

    def counted(self, work: Callable[[], object], always: bool) -> Callable[[], None]:
        """`work`, each call of which takes its simulated time; not `always` done where it takes too much real time."""

        def call() -> None:
            if always or self._worked < REAL_SECONDS:
                began = time.perf_counter()
                work()
                self._worked += time.perf_counter() - began
            self._spent += self._once * self._batch
            self._device.time += self._once * self._batch

        return call

    def mark(self) -> float:
        return self._spent

    def now(self) -> float:
        return self._device.time

    def seconds(self, start: float, end: float) -> float:
        self._device.pass_time()
        self._once, self._worked = self._block(), 0.0
        return end - start


class Announced:
    """The gate, and whom the step that was announced last concerns: the devices of one copy between peers.

    What it does not say itself, the gate does.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.subjects: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gate, name)

    def step(self, what: str, subjects: tuple[str, ...]) -> None:
        self.subjects = subjects
        self._gate.step(what, subjects)


class SimulatedDevice(Compute):
    """What a probe is handed on a simulated node. Several devices for peer copies, as in a Compute."""

    def __init__(self, devices: list[Device], gate: Gate, model: Model) -> None:
        self.model = model
        self.board = Board(Path(model.board), model.devices)
        self._place = {model.uuid(place): place for place in range(model.devices)}
        self.places = [self._place[device.uuid] for device in devices]
        self._announced = Announced(gate)
        super().__init__(devices, self._announced)
        self.is_cpu = True
        self.time = 0.0
        self._clock: SimulatedClock | None = None
        self._kind = ""
        self._scale = 1.0
        self._metric = self._small = ""
        self._times: dict[str, int] = {}
        self._pace = (0.0, 0.0)

    def _open(self, place: int, device: Device) -> Any:
        self.refuse_modes(device)
        if self._symptoms(self.places[place]).event == "lost":
            raise RuntimeError(LOST)
        return self.torch.device("cpu")

    @property
    def clock(self) -> SimulatedClock:
        if self._clock is None:
            raise NotApplicable("a simulated device knows the time of what device.sample() does, and of nothing else")
        return self._clock

    def wall(self) -> float:
        return self.model.epoch + self.time

    def join(self, rendezvous: str, rank: int, world: int) -> None:
        self._begin("all_reduce")
        if self._symptoms(self.places[0]).event == "late":
            _never_ends()
        super().join(rendezvous, rank, world)

    # -- one probe

    def run(self, probe: Callable[..., Any], conditions: Mapping[str, Any]) -> Iterator[Any]:
        """Run a probe at a small size. What it finds is called after the size that was asked for."""
        declared = spec_of(probe)
        small = {key: _smaller(value, declared.small.get(key, value)) for key, value in conditions.items()}
        reduced = {key: value for key, value in small.items() if value != conditions[key]}
        budget, self.seconds = self.seconds, self.seconds / PACE  # what it may really take
        self._scale = math.prod(_amount(conditions[key]) / _amount(value) for key, value in reduced.items())
        self._metric, self._small = declared.metric.format(**conditions), declared.metric.format(**small)
        self._begin(probe.__name__)
        try:
            with flipping(self.torch, declared.verifies, self._ever_flips(), self._flips):
                found = probe(self, **small)
                for each in found if isinstance(found, (list, tuple, Iterator)) else [found]:
                    if isinstance(each, ProbeResult):
                        each.metric = self._asked(each.metric)
                        whole = {**{key: conditions[key] for key in reduced}, "seconds": budget}
                        asked = {key: value for key, value in whole.items() if key in each.conditions}
                        each.conditions = {**each.conditions, **asked, "simulated": reduced}
                    yield each
        finally:
            self.seconds = budget
            self._end()

    def _asked(self, metric: str) -> str:
        """The metric as it was asked for, not of the small size that is really worked on."""
        return self._metric if metric == self._small else metric

    def _ever_flips(self) -> set[str]:
        """Where these devices may ever flip bits."""
        return {applied(fault).flips for fault in self.model.faults if set(fault.devices) & set(self.places)} - {""}

    def _flips(self) -> str:
        """Where the devices that work now flip bits."""
        return next((said for place in self._working() if (said := self._symptoms(place).flips)), "")

    def _begin(self, probe: str) -> None:
        """Everybody begins when the last one ended."""
        self._announced.subjects = ()
        self.time = max(self.board.read(place, "now") for place in range(self.model.devices))
        self._pace = (time.monotonic(), self.time)
        self._idle()
        for place in self.places:
            if probe in PROBES and self.board.read(place, f"began {probe}") < 0:
                self.board.write(place, **{f"began {probe}": self.time})

    def _end(self) -> None:
        self.time = math.floor(self.time) + 1.0
        self._idle()

    def _idle(self) -> None:
        self._kind = ""
        self.pass_time()

    def pass_time(self) -> None:
        """Bring the devices to the present: warmth, energy, counters. No faster than PACE."""
        for place in self.places:
            row = self.board.row(place)
            if self.time >= row["now"]:
                sick = self._symptoms(place)
                self.board.write(place, **self.model.step(row, self.time - row["now"], self._kind, sick))
        began, from_ = self._pace
        early = (self.time - from_) / PACE - (time.monotonic() - began)
        if early > 0:
            time.sleep(early)

    def _symptoms(self, place: int) -> Symptoms:
        return self.model.symptoms(place, self.board.row(place))

    def _working(self) -> list[int]:
        """The devices that work now: all, or those that were announced."""
        return [self._place[uuid] for uuid in self._announced.subjects] or self.places

    # -- timing

    def sample(
        self,
        work: Callable[[], object],
        *,
        amount: float,
        unit: str,
        metric: str = "",
        beside: Any = None,  # noqa: ARG002  the datasheet is the peak
        as_duration: bool = False,
        seconds: float | None = None,
        **more: Any,
    ) -> ProbeResult:
        amount *= self._scale
        simulated = PACE * (self.seconds if seconds is None else seconds)
        block = self._blocks(metric, amount, unit, as_duration)
        batch = 1 if as_duration else max(1, math.ceil(block_seconds(simulated) / CALLS_PER_BLOCK / block()))
        self._clock = SimulatedClock(self, block, batch)
        found = super().sample(
            self._clock.counted(work, always=bool(more.get("collective"))),
            amount=amount * batch,
            unit=unit,
            metric=metric,
            as_duration=as_duration,
            seconds=simulated,
            **more,
        )
        self._clock = None
        found.seconds = [each / batch for each in found.seconds]
        found.conditions["operations_per_block"] *= batch
        return found

    def _blocks(self, metric: str, amount: float, unit: str, as_duration: bool) -> Callable[[], float]:
        """What begins a block: faults strike, then it is known how long one operation takes."""
        name = self._asked(metric) or self._metric
        share = UNNAMED_SHARE if as_duration and not metric else 1.0
        places = self._working()
        time = self._times[name] = self._times.get(name, 0) + 1
        noises = [self.model.noise(place, name, time) for place in places]
        self._kind = family(name, unit)

        def block() -> float:
            sick = [self._symptoms(place) for place in places]
            for each in sick:
                _strike(each.event)
            pace = [self.model.value(name, unit, place, each) for place, each in zip(places, sick, strict=True)]
            off = next(noises[0])
            return share * max(pace) / 1000 / off if as_duration else amount / (min(pace) * off)

        return block


def _smaller(value: Any, small: Any) -> Any:
    """Return the smaller of a condition and what its probe declares as small; None is all there is."""
    return small if value is None or _amount(small) < _amount(value) else value


def _amount(value: Any) -> float:
    """A number, or a size such as 8GiB in bytes."""
    if isinstance(value, str):
        return float(sizes.in_bytes(value) or 1)
    return float(value) if isinstance(value, int | float) else 1.0


def _strike(event: str) -> None:
    """What a fault makes of the process that works on the device."""
    if event == "lost":
        raise RuntimeError(LOST)
    if event == "ecc":
        raise RuntimeError(ECC)
    if event == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if event == "hang":
        _never_ends()


def _never_ends() -> None:
    while True:
        time.sleep(3600)
