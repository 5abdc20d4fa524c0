"""The time that a run has for measuring shortfalls again, and the rules by which it is spent. Pure."""

from __future__ import annotations

from collections.abc import Collection

from pytest_accel.probes.declare import SUSTAINED_SECONDS, SUSTAINED_WARMUP, Declaration

REPEAT_SECONDS = {"quick": 20.0, "standard": 120.0, "long": 600.0}
"""Seconds for all repeats of a run together, by level: a sixth of the time that `quick` states, a seventh of that of
`standard`, an eighth of the hour and a quarter that `long` is planned for."""

LONGEST = 60.0
"""Seconds that one repeat may take: a soak is not soaked again, since the devices are still hot."""

ALONE_SECONDS = {"quick": 0.0, "standard": 20.0, "long": 20.0}
"""Seconds for all measurements of single devices in a run, which are part of REPEAT_SECONDS. They only help to find a
cause, and `quick` has no more time than the repeats that decide need."""


def least(declared: Declaration, seconds: float) -> float:
    """Return the seconds that give a repeat enough samples, where the first measurement took `seconds`.

    A sustained load needs its warm-up and its least time of samples. Everything else needs half of its time, but not
    more than half of the longest repeat.
    """
    return SUSTAINED_WARMUP + SUSTAINED_SECONDS if declared.sustained else min(seconds, LONGEST) / 2


class Repeats:
    """The seconds that are left of a run's time for repeats, and the devices whose shortfalls were systematic."""

    def __init__(self, level: str) -> None:
        self.level = level
        self.left = REPEAT_SECONDS[level]
        self._left_alone = ALONE_SECONDS[level]
        self._systematic: set[tuple[str, str]] = set()
        """UUID and part of each device that fell short of something together with most devices."""

    def together(self, wanted: float, enough: float) -> float:
        """Return the seconds for a repeat on all devices at once: `wanted`, shortened to what is left; 0 for none.

        It is not shortened below `enough`.
        """
        granted = min(wanted, LONGEST, self.left)
        return granted if granted >= enough else 0.0

    def alone(self, enough: float) -> float:
        """Return the seconds for measuring one device alone: no more than `enough`; 0 if that is not left."""
        return enough if enough <= min(self._left_alone, self.left) else 0.0

    def single_out(self, declared: Declaration, short: Collection[str], measured: int) -> set[str]:
        """Return the devices (UUIDs) of `short` to measure alone: those whose shortfall is not systematic.

        It is systematic if more than half of the `measured` devices fall short, now or earlier in the run in a
        measurement that stresses the same part first. No single device is to blame then.
        """
        part = declared.stresses[0] if declared.stresses else ""
        if 2 * len(short) > measured:
            self._systematic.update((uuid, part) for uuid in short)
        return {uuid for uuid in short if (uuid, part) not in self._systematic}

    def spend(self, seconds: float, *, alone: bool = False) -> None:
        """Take the seconds that a repeat took from what is left."""
        self.left = max(0.0, self.left - seconds)
        if alone:
            self._left_alone = max(0.0, self._left_alone - seconds)

    @property
    def spent(self) -> str:
        """A sentence on the time for repeats, for a shortfall that could not be measured again."""
        return f"the {REPEAT_SECONDS[self.level]:g} s for repeats at {self.level} leave {self.left:.0f} s"
