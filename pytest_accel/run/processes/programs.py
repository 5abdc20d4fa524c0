"""The programs that a run starts as its sensor and its workers, and their environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_accel.core.measurement import Device
from pytest_accel.core.messages import Group, Message
from pytest_accel.drivers import registry
from pytest_accel.drivers.vendor import Vendor
from pytest_accel.judging.facts.preconditions import SETTLE_STEP
from pytest_accel.run.processes.supervisor import Child

Environment = Mapping[str, str | None]
"""Environment variables of a child process. A variable whose value is None is not inherited."""


def readings_per_second(devices: Sequence[Device]) -> float:
    """Return the readings per second of each of these devices while it works.

    It is the lowest rate that one of their vendors declares.
    """
    rates = [registry.vendor(device.driver).readings_per_second for device in devices]
    return min(rates, default=Vendor.readings_per_second)


def threads_of(group: Sequence[Device]) -> int:
    """Return the number of CPU threads for the worker of these devices."""
    cores = sum(int(device.facts.get("cores", 0)) for device in group)
    return cores or min(8, max(1, len(group[0].cpus)))


def without_gpus(threads: int) -> Environment:
    """Return the environment of a worker that computes on the CPU and sees no GPU."""
    return {"CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": str(threads)}


def visible_to(group: Group, usable: Sequence[Device]) -> Group:
    """Return the devices that the worker of a group sees, in order: its own, or all if its vendor's ranks need that.

    `usable` are the devices of the run that are not lost.
    """
    vendor = registry.vendor(group[0].driver)
    if vendor.torch is None or not vendor.torch.ranks_see_all:
        return group
    return tuple(device for device in usable if registry.vendor(device.driver) is vendor or device in group) or group


def environment_of(visible: Sequence[Device]) -> Environment:
    """Return the environment of a worker: it sees these devices only, no GPU if those are CPUs."""
    vendor = registry.vendor(visible[0].driver)
    on_host = vendor.torch is not None and vendor.torch.on_host
    return {**(without_gpus(threads_of(visible)) if on_host else {}), **vendor.visibility.selecting(visible)}


@dataclass(frozen=True)
class Processes:
    """The programs of a run and how they are started. The defaults measure the hardware of this machine."""

    sensor_module: str = "pytest_accel.drivers.sensor"
    worker_module: str = "pytest_accel.probes.device.worker"
    hello: Message | None = None
    """The first message to every process, None for no such message."""
    hz: Callable[[Sequence[Device]], float] = readings_per_second
    threads: Callable[[Sequence[Device]], int] = threads_of
    environment: Callable[[Sequence[Device]], Environment] = environment_of
    settle_step: float = SETTLE_STEP
    """Seconds between two readings of temperatures while devices cool down."""
    spawn: Callable[[str, str, Path, Environment], Child] = Child
    """Starts a process, given its name, its module, its log file and its environment."""

    def sensor(self, log: Path) -> Child:
        """Start the sensor process, with its standard error in `log`."""
        return self._start("sensor", self.sensor_module, log, {})

    def worker(self, name: str, visible: Sequence[Device], log: Path) -> Child:
        """Start a worker process that sees these devices, with its standard error in `log`."""
        return self._start(name, self.worker_module, log, self.environment(visible))

    def _start(self, name: str, module: str, log: Path, environment: Environment) -> Child:
        child = self.spawn(name, module, log, environment)
        if self.hello:
            child.send(**self.hello)
        return child


REAL = Processes()
"""The programs that measure the hardware of this machine."""
