"""The load that processes outside of this run put on the processor."""

from __future__ import annotations

import os
import threading
import time

import psutil

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
            times = [each for cpu, each in enumerate(psutil.cpu_times(percpu=True)) if cpu in self.cpus]
            return sum(each.user + each.nice + each.system for each in times) - self._own()

    def _own(self) -> float:
        """Return the seconds of processor time that our processes used."""
        if time.monotonic() - self._listed >= LISTED_SECONDS:
            self._listed = time.monotonic()
            for process in (self._root, *_below(self._root)):
                self._ours.setdefault(process, 0.0)
        for process in self._ours:
            try:
                used = process.cpu_times()
            except psutil.Error:  # it has ended
                continue
            self._ours[process] = used.user + used.system
        return sum(self._ours.values())

    def share(self, seconds: float = CHECKED_SECONDS) -> float:
        """Measure for `seconds`, and return the share of the CPUs' time that others used."""
        before, began = self.seconds(), time.monotonic()
        time.sleep(seconds)
        return (self.seconds() - before) / ((time.monotonic() - began) * len(self.cpus))


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
