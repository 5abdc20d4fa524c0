"""The processor as a device: one per NUMA node; with a single node, two halves of its cores."""

from __future__ import annotations

import os
from itertools import chain
from pathlib import Path

import psutil

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import Device
from pytest_accel.drivers.host import cpus_of, told
from pytest_accel.drivers.host.place import pseudonym
from pytest_accel.drivers.interface import Driver, Reading
from pytest_accel.drivers.vendors.cpu import load

_NODES = Path("/sys/devices/system/node")
_CPUS = Path("/sys/devices/system/cpu")


class CpuDriver(Driver):
    """Identity from /proc and /sys, readings from psutil.

    The kernel counts the errors of a processor.
    """

    def __init__(self) -> None:
        """Begin to count the load of others."""
        self._foreign = load.ForeignLoad()

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
        mine = [times[cpu] for cpu in device.cpus if cpu < len(times)]
        reading = {
            "busy_s": sum(each.user + each.nice + each.system for each in mine),
            "steal_s": sum(getattr(each, "steal", 0.0) for each in mine),
            "foreign_s": self._foreign.seconds() * len(mine) / len(self._foreign.cpus),
        }
        clock = _clock(device)
        return {**reading, **({"clock_mhz": clock} if clock else {})}

    def idle(self, device: Device) -> str | None:  # noqa: ARG002  the protocol's signature
        """Return a sentence on the load of other processes, None if they take little of the processor's time."""
        return load.before_the_run(self._foreign.share())


def _groups() -> list[tuple[int | None, list[int]]]:
    """Return NUMA node and logical CPUs of each device; only CPUs that this process may use count."""
    allowed = os.sched_getaffinity(0)
    nodes = []
    for path in sorted(_NODES.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        cpus = sorted(cpus_of((path / "cpulist").read_text().strip()) & allowed)
        if cpus:
            nodes.append((int(path.name[4:]), cpus))
    if len(nodes) > 1:
        return list(nodes)
    node, cpus = nodes[0] if nodes else (None, sorted(allowed))
    cores = _cores(cpus)
    if len(cores) < 2:
        return [(node, cpus)]
    half = len(cores) // 2
    return [(node, sorted(chain.from_iterable(part))) for part in (cores[:half], cores[half : 2 * half])]


def _cores(cpus: list[int]) -> list[list[int]]:
    """Return the logical CPUs, grouped by the core that they share."""
    file = "topology/thread_siblings_list"
    return list(grouped(cpus, lambda cpu: told(_CPUS / f"cpu{cpu}" / file) or f"cpu{cpu}").values())


def _clock(device: Device) -> float | None:
    """Return the current clock in MHz, None if the kernel does not state it, as on most virtual machines."""
    kilohertz = told(_CPUS / f"cpu{device.cpus[0]}" / "cpufreq" / "scaling_cur_freq")
    return int(kilohertz) / 1000 if kilohertz.isdigit() else None


def _model() -> str:
    for line in told(Path("/proc/cpuinfo")).splitlines():
        if line.lower().startswith(("model name", "cpu model")):
            return line.split(":", 1)[1].strip()
    return os.uname().machine
