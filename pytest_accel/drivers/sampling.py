"""The cost of the sensor's readings: how long they take, and how much processor time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Sampling:
    """Counts the readings of the devices, their duration, and the processor time of this process while it reads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readings, self._reading_s = 0, 0.0
        self._watched_s = self._cpu_s = 0.0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Count what is done within as one reading of a device."""
        began = time.monotonic()
        yield
        with self._lock:
            self._readings += 1
            self._reading_s += time.monotonic() - began

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the time and the processor time of this process within, all of its threads together."""
        began, used = time.monotonic(), time.process_time()
        yield
        self._watched_s += time.monotonic() - began
        self._cpu_s += time.process_time() - used

    def totals(self) -> dict[str, float]:
        """Return what was counted so far: the number of readings, and seconds."""
        with self._lock:
            return {
                "readings": self._readings,
                "reading_s": self._reading_s,
                "watched_s": self._watched_s,
                "cpu_s": self._cpu_s,
            }
