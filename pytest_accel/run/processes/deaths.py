"""The cause of a child process's end: the process itself, the kernel, or somebody else."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from pytest_accel.core.messages import CallTrouble

VMSTAT = Path("/proc/vmstat")
"""The file in which the kernel counts the processes that it killed for want of memory, those in containers included."""

CGROUP = Path("/sys/fs/cgroup/memory.events")
"""The same count for the cgroup at the root of this container; it is the only one that some sandboxes have."""

OWN_SIGNALS = (
    signal.SIGSEGV,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGABRT,
    signal.SIGTRAP,
    signal.SIGSYS,
)
"""Signals that a process brings upon itself, as when the library of a sick device crashes. All others were sent by
somebody: an administrator, the kernel for want of memory, a daemon that watches the memory, a limit of this user.
Not SIGBUS: the kernel sends it where a page of a file cannot be had, as of a full /dev/shm (NVIDIA/JAX-Toolbox issue
183, in NCCL), and where the host's memory is broken (sigaction(2), BUS_MCEERR_AR)."""
BUS = "as where /dev/shm is full (see `df /dev/shm`) or the host's memory is broken"


def cause(code: int, kills_before: tuple[int, int]) -> CallTrouble:
    """Return the trouble that a process has died, given its return code of Popen.

    The kind is "need" if the kernel may have killed it because memory ran out, and "external" for any other signal that
    it did not bring upon itself. In both cases the device is not to blame. Else it may be, and the kind is "device".
    """
    reason = sentence(code)
    if code >= 0 or -code in OWN_SIGNALS:
        return CallTrouble("device", reason, "crashed", exited=code >= 0)
    # a container may see only one of the two counts
    killed = max(now - before for before, now in zip(kills_before, out_of_memory_kills(), strict=True))
    if -code != signal.SIGKILL or killed <= 0:
        origin = BUS if -code == signal.SIGBUS else "which comes from outside and not from the device"
        return CallTrouble("external", f"{sentence(code, 'its process')}, {origin}")
    processes = "1 process" if killed == 1 else f"{killed} processes"
    return CallTrouble("need", f"{reason}; the kernel killed {processes} meanwhile because memory ran out")


def out_of_memory_kills() -> tuple[int, int]:
    """Return the number of processes that the kernel has killed for want of memory, on this machine and in this cgroup.

    Each is 0 where the kernel does not count it, or where its file is not visible, as in some containers.
    """
    return _killed_by(VMSTAT), _killed_by(CGROUP)


def _killed_by(counters: Path) -> int:
    """Return the counter `oom_kill` of a file, 0 without it."""
    try:
        line = re.search(r"^oom_kill (\d+)$", counters.read_text(), re.MULTILINE)
    except OSError:
        line = None
    return int(line[1]) if line else 0


def sentence(code: int, subject: str = "it") -> str:
    """Return a return code of Popen as a sentence."""
    if code >= 0:
        return f"{subject} ended with exit code {code}"
    try:
        return f"{subject} was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"{subject} was killed by signal {-code}"
