"""A node as it may be in the field: heavy tails, drift, devices that differ together, a hot slot. Not for tuning.

No rule and no constant of the package was chosen with this model; `population.py` is the one that was. The figures are
published where a source is named, and assumed otherwise. Each is a share of the value.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from pytest_accel.core.details import Details

DEVICES = 8


@dataclass(frozen=True)
class FieldSpread:
    """How healthy devices differ in one family of metrics.

    `device` is the standard deviation between devices, `common` that of what all devices of a node share in one go,
    `half` that of what the four devices behind one switch share, `go` that of one device from go to go. `slow_go` is
    how often a go of one device is slowed down from outside, and by how much at most.
    """

    device: float
    common: float
    half: float
    go: float
    slow_go: tuple[float, float]
    farthest: float
    """The farthest that a healthy device is from its node."""


FAMILIES = {
    # farthest: over eight A100, 1109.7 to 1123.3 GB/s (microsoft/superbench-results v0.2.1); the rest is assumed.
    "memory": FieldSpread(0.003, 0.002, 0.0005, 0.0015, (0.005, 0.01), 0.009),
    # device: 0.10 of 55.4 GB/s over eight H200, one at a time (stas00/ml-engineering, network/README.md); three times
    # as much is assumed where all devices copy at once, and the halves differ by what the switches share.
    "host": FieldSpread(0.002, 0.004, 0.003, 0.002, (0.01, 0.02), 0.006),
    # device: the 56 pairs of a node within 0.05 % (H100, nvbandwidth); ten times as much is assumed.
    "link": FieldSpread(0.0015, 0.001, 0.0005, 0.001, (0.005, 0.01), 0.005),
    # farthest: 4.5 % over eight H200 and five goes of each (stas00/ml-engineering, branch fast-mamf, 082816f); go: 1.4
    # to 2.9 % over five goes of one of them; over whole clusters 8 % on average (arXiv 2208.11035v3).
    "matmul": FieldSpread(0.012, 0.006, 0.003, 0.008, (0.01, 0.03), 0.03),
}
HOT_SLOT, HOT_SLOWER = 0.3, (0.005, 0.015)
"""Share of the nodes with one hot slot, and how much slower its products are (assumed)."""
AT_CLOCK = 0.004
"""Standard deviation between devices of what a product reaches at its clock. Two clocks of one H200 differed in this
by 0.6 points at most (pytest_accel's own arithmetic on published figures); assumed for devices."""
WARMING = (0.0, 0.006)
"""How much slower a node gets from its first go to its second, from cold to hot (assumed)."""
TAILS = 4
"""Degrees of freedom of Student's t, from which devices are drawn: one far from the others is not rare."""


CLOCK_MHZ = 1400.0


class FieldNode:
    """A healthy node. Who its devices are is drawn once; `go` draws what they do."""

    def __init__(self, seed: str) -> None:
        self._draw = random.Random(seed)  # noqa: S311  the same every time
        self._device = {
            family: [self._student(spread.device, spread.farthest) for _ in range(DEVICES)]
            for family, spread in FAMILIES.items()
        }
        if self._draw.random() < HOT_SLOT:
            slot, farthest = self._draw.randrange(DEVICES), FAMILIES["matmul"].farthest
            products = self._device["matmul"]
            products[slot] = max(-farthest, products[slot] - self._draw.uniform(*HOT_SLOWER))
        self._half = {name: [self._draw.gauss(0, each.half) for _ in range(2)] for name, each in FAMILIES.items()}
        self._at_clock = [self._draw.gauss(0, AT_CLOCK) for _ in range(DEVICES)]
        self._warming = self._draw.uniform(*WARMING)

    def go(self, family: str, turn: int) -> list[tuple[float, Details]]:
        """Return the pace of every device in go number `turn` (0 is cold), 1 for the middle, with its telemetry."""
        spread, draw = FAMILIES[family], self._draw
        common = 1 + draw.gauss(0, spread.common) - (self._warming if turn else 0.0)
        paces = []
        for place, own in enumerate(self._device[family]):
            pace = common * (1 + own + self._half[family][place // 4]) * (1 + self._student(spread.go, 5 * spread.go))
            often, most = spread.slow_go
            if draw.random() < often:
                pace *= 1 - draw.uniform(0, most)
            paces.append((pace, self._telemetry(pace, place) if family == "matmul" else Details()))
        return paces

    def _telemetry(self, pace: float, place: int) -> Details:
        """Return the summary of the sensor: power limits the clock, which explains most of the pace."""
        clock = CLOCK_MHZ * pace / (1 + self._at_clock[place])
        return {
            "telemetry": {
                "seconds": 10.0,
                "sw_power_cap_s": 9.0,
                "clock_mhz": {"mean": clock, "min": clock, "max": clock},
            }
        }

    def _student(self, deviation: float, farthest: float) -> float:
        """Return a draw from Student's t with this standard deviation, cut off at `farthest`."""
        t = self._draw.gauss(0, 1) / (self._draw.gammavariate(TAILS / 2, 2 / TAILS)) ** 0.5
        return max(-farthest, min(farthest, deviation * t / (TAILS / (TAILS - 2)) ** 0.5))
