"""The processor as a device: one per NUMA node, with a single node two halves of its cores; and the load of others."""

from __future__ import annotations

import os
import threading
import time
from itertools import chain
from pathlib import Path

import psutil

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device
from pytest_accel.drivers.host import cpus_of, peek
from pytest_accel.drivers.host.host_environment import pseudonym
from pytest_accel.drivers.interface import Driver, Reading

IDLE_SHARE = 0.1
"""Share of the processor's time that other processes may take. The services of an idle machine take a few percent."""
CHECKED_SECONDS = 0.5
"""Seconds for which the load before a run is measured."""
LISTED_SECONDS = 2.0
"""Seconds for which the list of our own processes is used: reading it takes a while on a machine with thousands."""


class ForeignLoad:
    """Counts the processor time of all processes but our own, on the CPUs that this process may use.

    Ours are pytest, which started this process, and all other processes that pytest started.
    """

    def __init__(self, root: int | None = None) -> None:
        """Count the process `root` and all below it as ours; by default the parent of this process."""
        self._root = psutil.Process(root or os.getppid())
        self._lock = threading.Lock()
        self.cpus = frozenset(os.sched_getaffinity(0))
        self._ours: dict[psutil.Process, float] = {}
        """The processor time of each of our processes at its last reading, those that ended included."""
        self._listed = -LISTED_SECONDS

    def seconds(self) -> float:
        """Return the seconds of processor time that others used since boot, summed over the CPUs."""
        with self._lock:
            times = [usage for cpu, usage in enumerate(psutil.cpu_times(percpu=True)) if cpu in self.cpus]
            return sum(usage.user + usage.nice + usage.system for usage in times) - self._own()

    def _own(self) -> float:
        """Return the seconds of processor time that our processes used."""
        if time.monotonic() - self._listed >= LISTED_SECONDS:
            self._listed = time.monotonic()
            for process in (self._root, *_below(self._root)):
                self._ours.setdefault(process, 0.0)
        for process in self._ours:
            try:
                usage = process.cpu_times()
            except psutil.Error:  # it has ended
                continue
            self._ours[process] = usage.user + usage.system
        return sum(self._ours.values())

    def share(self, seconds: float = CHECKED_SECONDS) -> float:
        """Measure for `seconds`, and return the share of the CPUs' time that others used."""
        before, start = self.seconds(), time.monotonic()
        time.sleep(seconds)
        return (self.seconds() - before) / ((time.monotonic() - start) * len(self.cpus))


def _below(root: psutil.Process) -> list[psutil.Process]:
    """Return all processes that `root` started, none if it has ended."""
    try:
        return root.children(recursive=True)
    except psutil.Error:
        return []


def before_the_run(share: float) -> str | None:
    """Return a sentence on the load that was there before the run, or None if the processor was idle."""
    if share <= IDLE_SHARE:
        return None
    return f"other processes take {share:.0%} of the processor's time (load average {os.getloadavg()[0]:.1f})"


_NODES = Path("/sys/devices/system/node")
_CPUS = Path("/sys/devices/system/cpu")


class CpuDriver(Driver):
    """Identity from /proc and /sys, readings from psutil.

    The kernel counts the errors of a processor.
    """

    def __init__(self) -> None:
        """Begin to count the load of others."""
        self._foreign = ForeignLoad()

    def discover(self) -> list[Device]:
        """Return one device per NUMA node; on a machine with a single node, one per half of its cores."""
        model, host = _model(), pseudonym()
        memory = psutil.virtual_memory().total
        groups = _groups()
        return [
            Device(
                uuid=f"CPU-{host}-{index}",
                index=index,
                driver="cpu",
                model=model,
                memory_bytes=memory // len(groups),
                numa_node=node,
                cpus=tuple(cpus),
                facts={"cores": len(_cores(cpus))},
            )
            for index, (node, cpus) in enumerate(groups)
        ]

    def read(self, device: Device) -> Reading:
        """Return the seconds of its CPUs since boot, and the clock in MHz if the kernel states it.

        The seconds are those in which the CPUs were busy, those that the hypervisor took, and its part of those that
        other processes used on all CPUs.
        """
        times = psutil.cpu_times(percpu=True)
        usages = [times[cpu] for cpu in device.cpus if cpu < len(times)]
        reading = {
            "busy_s": sum(usage.user + usage.nice + usage.system for usage in usages),
            "steal_s": sum(getattr(usage, "steal", 0.0) for usage in usages),
            "foreign_s": self._foreign.seconds() * len(usages) / len(self._foreign.cpus),
        }
        # most virtual machines do not state the clock
        kilohertz = peek(_CPUS / f"cpu{device.cpus[0]}" / "cpufreq" / "scaling_cur_freq")
        clock = int(kilohertz) / 1000 if kilohertz.isdigit() else None
        return {**reading, **({"clock_mhz": clock} if clock else {})}

    def idle(self, device: Device) -> str | None:  # noqa: ARG002  the protocol's signature
        """Return a sentence on the load of other processes, None if they take little of the processor's time."""
        return before_the_run(self._foreign.share())


def _groups() -> list[tuple[int | None, list[int]]]:
    """Return NUMA node and logical CPUs of each device; only CPUs that this process may use count."""
    usable = os.sched_getaffinity(0)
    nodes = []
    for path in sorted(_NODES.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        cpus = sorted(cpus_of((path / "cpulist").read_text().strip()) & usable)
        if cpus:
            nodes.append((int(path.name[4:]), cpus))
    if len(nodes) > 1:
        return list(nodes)
    node, cpus = nodes[0] if nodes else (None, sorted(usable))
    cores = _cores(cpus)
    if len(cores) < 2:
        return [(node, cpus)]
    half = len(cores) // 2
    return [(node, sorted(chain.from_iterable(part))) for part in (cores[:half], cores[half : 2 * half])]


def _cores(cpus: list[int]) -> list[list[int]]:
    """Return the logical CPUs, grouped by the core that they share."""
    file = "topology/thread_siblings_list"
    return list(grouped(cpus, lambda cpu: peek(_CPUS / f"cpu{cpu}" / file) or f"cpu{cpu}").values())


def _model() -> str:
    for line in peek(Path("/proc/cpuinfo")).splitlines():
        if line.lower().startswith(("model name", "cpu model")):
            return line.split(":", 1)[1].strip()
    return os.uname().machine
