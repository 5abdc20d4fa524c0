"""Which programs a run starts as its sensor and its workers, and how: chosen once, where the run is set up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_accel.core import visible_devices
from pytest_accel.core.measurement import Device
from pytest_accel.core.messages import Message
from pytest_accel.judging.preconditions import SETTLE_STEP
from pytest_accel.run.processes.supervisor import Child

Environment = Mapping[str, str | None]
"""Variables of a child process; what is None is not inherited."""

CPU_HZ, DEFAULT_HZ = 2.0, 10.0
"""Readings a second; a processor is read more rarely, since the reading runs on it."""


def readings_per_second(devices: Sequence[Device]) -> float:
    """How often each of these devices is read while they work."""
    return CPU_HZ if devices and devices[0].driver == "cpu" else DEFAULT_HZ


def threads_of(group: Sequence[Device]) -> int:
    """How many threads the worker of these devices computes with on the CPU."""
    cores = sum(int(device.facts.get("cores", 0)) for device in group)
    return cores or min(8, max(1, len(group[0].cpus)))


def without_gpus(threads: int) -> Environment:
    """The environment of a worker that computes on the CPU and sees no GPU."""
    return {"CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": str(threads)}


def environment_of(group: Sequence[Device]) -> Environment:
    """The environment of a worker: a GPU's sees its own device only, by UUID; a CPU's sees no GPU."""
    return without_gpus(threads_of(group)) if group[0].driver == "cpu" else visible_devices.selecting(group)


@dataclass(frozen=True)
class Processes:
    """The programs of a run and how they are started. The default looks at this machine."""

    sensor_module: str = "pytest_accel.drivers.sensor"
    worker_module: str = "pytest_accel.probes.device.worker"
    hello: Message | None = None
    """What every process is told before anything else."""
    hz: Callable[[Sequence[Device]], float] = readings_per_second
    threads: Callable[[Sequence[Device]], int] = threads_of
    environment: Callable[[Sequence[Device]], Environment] = environment_of
    settle_step: float = SETTLE_STEP
    """Seconds between two looks at devices that cool down."""
    spawn: Callable[[str, str, Path, Environment], Child] = Child
    """Starts one process by its name, its module, its log and its environment."""

    def sensor(self, log: Path) -> Child:
        """Start the sensor."""
        return self._start("sensor", self.sensor_module, log, {})

    def worker(self, name: str, group: Sequence[Device], log: Path) -> Child:
        """Start the worker of these devices."""
        return self._start(name, self.worker_module, log, self.environment(group))

    def _start(self, name: str, module: str, log: Path, environment: Environment) -> Child:
        child = self.spawn(name, module, log, environment)
        if self.hello:
            child.send(**self.hello)
        return child


REAL = Processes()
"""Those that look at this machine."""
