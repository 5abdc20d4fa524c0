"""The time that a run has for measuring shortfalls again, and the rules by which it is spent. Pure."""

from __future__ import annotations

from collections.abc import Collection

from pytest_accel.probes.declare import SUSTAINED_SECONDS, SUSTAINED_WARMUP, Declaration
from pytest_accel.skus.budgets import REPEAT_SECONDS

LONGEST = 60.0
"""Seconds that one repeat may take: a soak is not soaked again, since the devices are still hot."""

SHARES = {"compute": 0.25, "memory": 0.1, "host": 0.1, "link": 0.3}
"""Shares of the time for repeats together that are kept for each part of a device: no other part can use them up. At
every level one repeat of each probe fits into the share of its part. The rest is for the parts that ask first."""

ALONE_SECONDS = {"quick": 0.0, "standard": 20.0, "long": 20.0}
"""Seconds for all measurements of single devices in a run, which are part of REPEAT_SECONDS. They only help to find a
cause, and `quick` has no more time than the repeats that decide need."""


def min_seconds(declaration: Declaration, seconds: float) -> float:
    """Return the seconds that give a repeat enough samples, where the first measurement took `seconds`.

    A sustained load needs its warm-up and its least time of samples. Everything else needs half of its time, but not
    more than half of the longest repeat.
    """
    return SUSTAINED_WARMUP + SUSTAINED_SECONDS if declaration.sustained else min(seconds, LONGEST) / 2


class Repeats:
    """The seconds that are left of a run's time for repeats, and the devices whose shortfalls were systematic."""

    def __init__(self, level: str) -> None:
        self.level = level
        self._alone = ALONE_SECONDS[level]
        together = REPEAT_SECONDS[level] - self._alone
        self._kept = {part: share * together for part, share in SHARES.items()}
        self._free = together - sum(self._kept.values())
        self._systematic: set[tuple[str, str]] = set()
        """UUID and part of each device that fell short of something together with most devices."""

    def seconds_left(self, declaration: Declaration) -> float:
        """Return the seconds that are left for repeats of a probe: those of its part, and those that are for all."""
        return self._free + self._kept.get(_part(declaration), 0.0)

    def together(self, declaration: Declaration, seconds: float, enough: float) -> float:
        """Return the seconds for a repeat on all devices at once, 0 for none.

        They are `seconds`, shortened to what is left for all parts, but not below `enough`.
        """
        granted = min(seconds, LONGEST, max(enough, self._free))
        return granted if enough <= min(granted, self.seconds_left(declaration)) else 0.0

    def alone(self, enough: float) -> float:
        """Return the seconds for measuring one device alone: no more than `enough`; 0 if that is not left."""
        return enough if enough <= self._alone else 0.0

    def single_out(self, declaration: Declaration, subjects: Collection[str], measured: int) -> set[str]:
        """Return the devices (UUIDs) to measure alone: those of `subjects` whose shortfall is not systematic.

        It is systematic if more than half of the `measured` devices fall short, now or earlier in the run in a
        measurement that stresses the same part first.
        """
        part = _part(declaration)
        if 2 * len(subjects) > measured:  # no single device is to blame
            self._systematic.update((uuid, part) for uuid in subjects)
        return {uuid for uuid in subjects if (uuid, part) not in self._systematic}

    def spend(self, declaration: Declaration, seconds: float, *, alone: bool = False) -> None:
        """Take the seconds that a repeat took from what is left."""
        if alone:
            self._alone -= seconds
            return
        part, free = _part(declaration), self._free
        self._free = max(0.0, free - seconds)
        # seconds beyond those for all parts are taken from the share of this one
        self._kept[part] = max(0.0, self._kept.get(part, 0.0) - max(0.0, seconds - free))

    def shortage(self, declaration: Declaration) -> str:
        """Return a sentence on the time for repeats, for a shortfall that could not be measured again."""
        remainder = f"{self.seconds_left(declaration):.0f} s for {_part(declaration) or 'other probes'}"
        return f"the {REPEAT_SECONDS[self.level]:g} s for repeats at {self.level} leave {remainder}"


def _part(declaration: Declaration) -> str:
    """Return the part of the device that a probe stresses first; empty if it declares none."""
    return declaration.stresses[0] if declaration.stresses else ""
