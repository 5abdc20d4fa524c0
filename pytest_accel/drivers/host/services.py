"""Facts of the daemons for accelerators, which set up the fabric, share a device, or monitor it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pytest_accel.drivers.host import Absent, HiddenFact, fact, maybe, peek
from pytest_accel.drivers.host.host_environment import host_environment
from pytest_accel.drivers.host.pci_tree import accelerators

RUNNING, STOPPED = "running", "not running"
HIDDEN = "the processes of the host are not shown"


def _state(root: Path, name: str) -> str:
    """Return whether a process of that name runs."""
    if not any(maybe(device / "vendor") == "0x10de" for device in accelerators(root)):
        raise Absent("the PCI bus shows no NVIDIA accelerator")
    # the kernel keeps only 15 characters of a name
    running = any(peek(process / "comm") == name[:15] for process in (root / "proc").glob("[0-9]*"))
    if not running and host_environment(root).container:
        raise HiddenFact("/proc: a container does not show the processes of its host")
    return RUNNING if running else STOPPED


for _fact, _process in (
    ("fabric_manager", "nv-fabricmanager"),
    ("imex", "nvidia-imex"),
    ("mps", "nvidia-cuda-mps-control"),
    ("host_engine", "nv-hostengine"),
):
    fact(name=_fact, container=HIDDEN)(partial(_state, name=_process))
