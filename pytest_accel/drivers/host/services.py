"""Facts of the daemons for accelerators, which set up the fabric, share a device, or monitor it."""

from __future__ import annotations

from pathlib import Path

from pytest_accel.drivers.host import Absent, HiddenFact, fact, maybe, told
from pytest_accel.drivers.host.pci import accelerators
from pytest_accel.drivers.host.place import place

RUNNING, STOPPED = "running", "not running"
HIDDEN = "the processes of the host are not shown"


@fact(container=HIDDEN)
def fabric_manager(root: Path) -> str:
    """Return the state of NVIDIA's fabric manager."""
    return _state(root, "nv-fabricmanager")


@fact(container=HIDDEN)
def imex(root: Path) -> str:
    """Return the state of NVIDIA IMEX."""
    return _state(root, "nvidia-imex")


@fact(container=HIDDEN)
def mps(root: Path) -> str:
    """Return the state of NVIDIA MPS."""
    return _state(root, "nvidia-cuda-mps-control")


@fact(container=HIDDEN)
def host_engine(root: Path) -> str:
    """Return the state of the DCGM host engine."""
    return _state(root, "nv-hostengine")


def _state(root: Path, name: str) -> str:
    """Return whether a process of that name runs. The kernel keeps only 15 characters of a name."""
    if not any(maybe(device / "vendor") == "0x10de" for device in accelerators(root)):
        raise Absent("the PCI bus shows no NVIDIA accelerator")
    running = any(told(process / "comm") == name[:15] for process in (root / "proc").glob("[0-9]*"))
    if not running and place(root).container:
        raise HiddenFact("/proc: a container does not show the processes of its host")
    return RUNNING if running else STOPPED
