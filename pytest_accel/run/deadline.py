"""The time limit of a whole run (--accel-time-limit), for the prologs of schedulers and for maintenance windows."""

from __future__ import annotations

import math
import time

CLOSING_SECONDS = 12.0
"""Seconds before the limit at which measuring ends, so that processes can be ended and the record be closed. They hold
the start of Python too, which is not counted."""
HURRY_SECONDS = 6.0
"""Seconds before the limit at which pytest itself is interrupted, if a test or a plugin still goes on."""
SHORTEST = 20.0
"""Seconds that a limit must have at least."""
LAST_ANSWER = 2.0
"""Seconds that the sensor may take for an answer once measuring has ended."""


class Deadline:
    """The end of a run, `limit` seconds after this object was made; None for no end."""

    def __init__(self, limit: float | None = None) -> None:
        self.limit = limit
        self._began = time.monotonic()

    @property
    def seconds_left(self) -> float:
        """The seconds that are left to measure in, negative after that, infinite without a limit."""
        return self.until(CLOSING_SECONDS)

    def until(self, margin: float) -> float:
        """Return the seconds until `margin` seconds before the limit."""
        return math.inf if self.limit is None else self._began + self.limit - margin - time.monotonic()

    @property
    def over(self) -> bool:
        """True once nothing may be measured any more."""
        return self.seconds_left <= 0

    def patience(self, seconds: float) -> float:
        """Return the seconds that the sensor may take for an answer, if it may take `seconds` without a limit."""
        return min(seconds, max(self.seconds_left, LAST_ANSWER))

    @property
    def stopped_sentence(self) -> str:
        """A sentence on a probe that the limit ended."""
        return f"stopped at the time limit of {self.limit:g} s for the run"

    @property
    def unreached_sentence(self) -> str:
        """A sentence on a limit that nothing was measured for."""
        return f"not reached within the time limit of {self.limit:g} s for the run"

    @property
    def end_sentence(self) -> str:
        """A sentence on a run that the limit ended before all of its tests were run."""
        return f"the time limit of {self.limit:g} s ended the run"
