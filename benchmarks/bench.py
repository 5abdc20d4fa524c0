"""One device in this process: what the programs of this folder measure on."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from pytest_accel.core.measurement import Device
from pytest_accel.core.stats import estimate_rate
from pytest_accel.drivers import Driver, DriverProblem, registry
from pytest_accel.probes.device.gemm import Gemm
from pytest_accel.probes.device.torch_device import Compute, ProbeResult


class NotRun(Exception):
    """What cannot be done here; the text says why."""


@dataclass
class Gate:
    """For one device: always open. Keeps what was reported."""

    seconds: list[float] = field(default_factory=list)

    def working(self) -> None: ...

    def ready(self) -> None: ...

    def report_block(self, seconds: float, warm: bool) -> None:  # noqa: ARG002  the protocol's signature
        self.seconds.append(seconds)

    def step(self, what: str, subjects: tuple[str, ...]) -> None: ...
    def tuning(self, begins: bool) -> None: ...
    def settled(self) -> None: ...
    def released(self) -> bool:
        return True

    def agree(self, value: float) -> float:
        return value


class Bench:
    """The first device that torch shows, or the CPU; sizes that suit it."""

    def __init__(self) -> None:
        import torch

        self.gate, self.torch = Gate(), torch
        self.gpu = torch.cuda.is_available()
        self.driver, device = self._found() if self.gpu else (None, Device("CPU-0", 0, "cpu", ""))
        if device.cpus:
            os.sched_setaffinity(0, device.cpus)  # as a worker does: host memory then lies near the device
        self.device = Compute([device], self.gate)
        self.side = 8192 if self.gpu else 512
        self.dtype = "bf16" if self.gpu else "fp32"

    def _found(self) -> tuple[Driver | None, Device]:
        uuid = f"GPU-{self.torch.cuda.get_device_properties(0).uuid}"
        with suppress(DriverProblem):
            driver = registry.vendor("nvidia").driver([])
            for device in driver.discover():
                if device.uuid == uuid:
                    return driver, device
        return None, Device(uuid, 0, "nvidia", "")

    def need_gpu(self, what: str) -> None:
        if not self.gpu:
            raise NotRun(f"needs a GPU: {what}")

    def scaled(self, seconds: float) -> float:
        """So many seconds on a GPU, a tenth of them on a CPU."""
        return seconds if self.gpu else seconds / 10

    def product(self, m: int = 0, n: int = 0, k: int = 0, **more: Any) -> Gemm:
        return Gemm(self.device, self.dtype, m or self.side, n or self.side, k or self.side, **more)

    def sample(self, work: Callable[[], object], amount: float, unit: str, seconds: float, **how: Any) -> ProbeResult:
        """`work` back to back for so many (scaled) seconds; a call does `amount`, in units of `unit` times seconds."""
        return self.device.sample(work, amount=amount, unit=unit, seconds=self.scaled(seconds), precision=0.0, **how)

    def rate(self, work: Callable[[], object], operations: float, seconds: float) -> float:
        """TFLOPS, sustained for so many (scaled) seconds."""
        return estimate_rate(self.sample(work, operations / 1e12, "TFLOPS", seconds).samples).mean

    def probe(self, probe: Callable[..., Any], seconds: float, **conditions: Any) -> ProbeResult:
        """Run a probe of the package for so many (scaled) seconds and return its result, the first of several."""
        self.device.seconds = self.scaled(seconds)
        results = self.device.run(probe, conditions)
        return results[0] if isinstance(results, list) else results  # type: ignore[no-any-return]

    def release(self) -> None:
        """Give the device's memory back: another process is to use it."""
        self.device.require_memory(0)


class Watts:
    """The device's power while a block of code runs, from the driver's energy counter, else from its power gauge."""

    WINDOW = 5.0
    EVERY = 0.1

    def __init__(self, bench: Bench) -> None:
        self._driver, self._device = bench.driver, bench.device.devices[0]
        self._readings: list[tuple[float, Mapping[str, Any]]] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Watts:  # noqa: PYI034  Self is newer than Python 3.10
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join(5.0)

    def _watch(self) -> None:
        while self._driver and not self._over.wait(self.EVERY):
            self._readings.append((time.monotonic(), self._driver.read(self._device)))

    @property
    def highest(self) -> float:
        """Watts of the window of five seconds with the highest mean. Raises NotRun without any."""
        found = highest(self._readings, self.WINDOW)
        if found is None:
            raise NotRun(f"nothing here reads the power of {self._device.name} for {self.WINDOW:g} s")
        return found


def highest(readings: Sequence[tuple[float, Mapping[str, Any]]], window: float) -> float | None:
    """The highest mean power (W) over any `window` seconds of (time, reading); None if they do not last so long.

    By `energy_j` where every reading has it: the difference over the time is the mean. Else the mean of `power_w`.
    """
    by_energy = all("energy_j" in each for _, each in readings)
    means = []
    for place, (began, first) in enumerate(readings):
        later = [(at, each) for at, each in readings[place:] if at - began >= window]
        if not later:
            break
        ended, last = later[0]
        if by_energy:
            means.append((last["energy_j"] - first["energy_j"]) / (ended - began))
            continue
        inside = [each["power_w"] for at, each in readings if began <= at <= ended and "power_w" in each]
        means += [sum(inside) / len(inside)] if inside else []
    return max(means, default=None)
