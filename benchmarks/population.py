"""Healthy nodes as they are published: the centre of a node, how its devices, goes and blocks differ, what is short.

The centre of a metric is drawn from what its limit's source published as healthy (`Limit.healthy`), never from the
floor that is to be tested. What was read for each figure is beside it; "assumed" means that no source was found.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from pytest_accel.core.measurement import Device
from pytest_accel.core.sku_types import Limit, Platform
from pytest_accel.judging.verdicts.like_devices import kind_of
from pytest_accel.probes.declare import declaration_of
from pytest_accel.probes.device.timing import BLOCK_SECONDS
from pytest_accel.simulate.model import stressed_part

DEVICES = [Device(f"GPU-{place}", place, "nvidia", "NVIDIA H100 80GB HBM3", numa_node=place // 4) for place in range(8)]
"""A node of two sockets, as HGX boards are in."""
KINDS = {device.uuid: kind_of(device) for device in DEVICES}


@dataclass(frozen=True)
class Spread:
    """How much healthy figures of one part of a device differ, as shares of the figure.

    `inside` is the largest difference between two devices of a node, `between` half of the difference between nodes
    where a single figure or a narrower range is published, `go` the standard deviation from one go to the next, `block`
    the smallest and the largest coefficient of variation of the blocks (50 ms) of a go.
    """

    inside: float
    between: float
    go: float
    block: tuple[float, float]


SPREADS = {
    # inside: 4.5 % over eight H200 and five goes of each (stas00/ml-engineering, branch fast-mamf 082816f), rounded up.
    # between: 698.6 to 708.5 TFLOPS, the means of its groups of goes. go: a range of 1.4 % (alone) and 2.9 % (all busy)
    # over five goes of one H200, that is standard deviations of 0.6 and 1.2 %. block: 0.5 to 1 % (simulate/model.py).
    "compute": Spread(0.05, 0.0075, 0.008, (0.005, 0.01)),
    # inside: 1109.7 to 1123.3 GB/s on eight A100 (microsoft/superbench-results v0.2.1). between: assumed.
    "memory": Spread(0.012, 0.01, 0.002, (0.002, 0.004)),
    # inside: 0.10 of 55.4 GB/s on eight H200 (stas00/ml-engineering, network/README.md). between: 54.8 and 55.4 GB/s on
    # H100 and H200 of two clusters.
    "host": Spread(0.002, 0.006, 0.002, (0.002, 0.005)),
    # inside: the 56 pairs of a node lie within 0.05 % (H100, nvbandwidth 0.10); 1 % is assumed, and the 3 % of MI300X
    # and 2 % of A100 are in the ranges of their limits. between: all-reduce of 8 GiB, 475 to 480 GB/s on H100.
    "link": Spread(0.01, 0.005, 0.001, (0.0005, 0.002)),
}
HOST_INSIDE_GEN4 = 0.035
"""Largest difference inside a node whose host link is PCIe 4: 25.3 to 26.2 GB/s on eight A100 (superbench-results
v0.2.1)."""
LAG = (0.3, 0.6)
"""Autocorrelation from one block of 50 ms to the next (simulate/model.py)."""
DRIFT = 0.01
"""Largest rise or fall over a go (assumed)."""
LEAST_PACE = 0.1
"""Least pace of a block, however much noise is drawn."""
OFFSET = 0.1
"""Largest difference between two healthy figures of different methods, for a metric with published figures alone."""
HOT_SLOT, HOT_SLOT_SLOWER = 0.3, (0.01, 0.03)
"""Share of the nodes with a device that heat makes slower in compute, and how much slower (assumed)."""
OUTLIER, OUTLIER_TIMES = 0.001, (1.2, 3.0)
"""Share of the goes with a block that takes longer, and how many times as long (assumed)."""
TAILS_OF_DEVICES, TAILS_OF_GOES = 3, 4
"""Degrees of freedom of Student's t: tails much heavier than normal ones, as of a device unlike its neighbours."""
FARTHEST = 4.0
"""Standard deviations that a go may be off."""

SHORT_BY = 0.1
PARTS = ("compute", "memory", "host link", "peer links", "collectives")
"""Parts of which one can be `SHORT_BY` short."""


def part_of(metric: str, unit: str) -> str:
    """Return which of `PARTS` is short if this metric is."""
    declared = declaration_of(metric)
    runs = declared.runs if declared else ""
    return {"peers": "peer links", "ranks": "collectives"}.get(runs) or {
        "host": "host link",
        "link": "peer links",
    }.get(stressed_part(metric, unit), stressed_part(metric, unit))


def healthy_of(limit: Limit) -> tuple[float, float]:
    """Return the lowest and the highest figure of healthy devices that is known of a metric, 0 without one."""
    figure = limit.published
    if limit.healthy or limit.reference or figure is None:
        return limit.healthy or (limit.reference or 0.0, limit.reference or 0.0)
    return figure.lowest, figure.highest or figure.lowest


class Healthy:
    """One healthy node: who its devices are is drawn once, how they do at each go anew.

    `noise` multiplies the variation of goes and blocks, `short` is one of `PARTS`, of which the first device has
    `SHORT_BY` less.
    """

    def __init__(
        self, platform: Platform, devices: Sequence[str], seed: str, *, noise: float = 1.0, short: str | None = None
    ) -> None:
        self._random = random.Random(seed)  # noqa: S311  the same every time
        self._noise, self._short, self._first = noise, short, devices[0]
        self._spreads = {kind: _spread(kind, platform) for kind in SPREADS}
        self._software = {kind: self._random.random() for kind in SPREADS}
        self._offsets: dict[str, float] = {}
        self._devices = {
            kind: dict(zip(devices, self._deviations(kind, len(devices)), strict=True)) for kind in SPREADS
        }

    def centre(self, limit: Limit) -> float:
        """Return the node's healthy figure, in the unit of the limit.

        The software of a node makes all metrics of a part fast or slow together. A figure that others published
        differs by the method as well.
        """
        low, high = healthy_of(limit)
        kind = stressed_part(limit.metric, limit.unit)
        middle, between = (low + high) / 2, self._spreads[kind].between
        low, high = min(low, middle * (1 - between)), max(high, middle * (1 + between))
        centre = low + self._software[kind] * (high - low)
        if limit.reference:
            return centre
        return centre * self._offsets.setdefault(limit.metric, 1 + self._random.uniform(-OFFSET, OFFSET))

    def common(self, kind: str) -> float:
        """Return how fast all devices are together in one go."""
        return 1 + self._off(kind)

    def pace(self, metric: str, unit: str, devices: Sequence[str]) -> float:
        """Return how fast one device is in one go, or the slower of several that work together."""
        kind = stressed_part(metric, unit)
        own = min(1 + self._devices[kind][each] for each in devices) * (1 + self._off(kind))
        short = self._short == part_of(metric, unit) and self._first in devices
        return own * (1 - SHORT_BY if short else 1.0)

    def blocks(self, kind: str, pace: float, block: float, seconds: float, outlier: float = OUTLIER) -> Iterator[float]:
        """Yield the pace of successive blocks of `block` seconds in a go of `seconds`.

        They are AR(1) around a line whose mean is `pace`. Shorter blocks are as noisy as those of 50 ms and more alike;
        longer ones have the mean of such blocks. `outlier` is the probability that one of them takes longer.
        """
        draw = self._random
        cv = self._noise * draw.uniform(*self._spreads[kind].block)
        cv, lag = _of_longer(cv, draw.uniform(*LAG), block / BLOCK_SECONDS)
        drift = self._noise * draw.uniform(-DRIFT, DRIFT)
        slow_at, slow = -1, 1.0
        if draw.random() < outlier:
            slow_at = int(draw.random() * seconds / block)
            slow = 1 + (draw.uniform(*OUTLIER_TIMES) - 1) * min(1.0, BLOCK_SECONDS / block)
        gauss, fresh, count = draw.gauss, cv * (1 - lag**2) ** 0.5, 0
        off, line, step, last = gauss(0, cv), 1 - drift / 2, drift * block / seconds, seconds / block
        while True:
            found = max(LEAST_PACE, off + line)
            yield pace * (found / slow if count == slow_at else found)
            off = lag * off + gauss(0, fresh)
            count += 1
            if count < last:
                line += step

    def _deviations(self, kind: str, count: int) -> list[float]:
        """Return how much each device deviates from the node, by heavy tails and perhaps a hot slot.

        Their range is drawn up to the largest published one, which they never exceed.
        """
        most, draw = self._spreads[kind].inside, self._random
        drawn = [self._student(TAILS_OF_DEVICES) for _ in range(max(8, count))]
        scale = draw.uniform(0, most) / (max(drawn) - min(drawn))
        middle = median(drawn)
        found = [scale * (each - middle) for each in drawn]
        if kind == "compute" and draw.random() < HOT_SLOT:
            found[draw.randrange(len(found))] -= draw.uniform(*HOT_SLOT_SLOWER)
        within = min(1.0, most / (max(found) - min(found)))
        return [within * each for each in found[:count]]

    def _off(self, kind: str) -> float:
        """Return how much a go is off, with heavy tails."""
        deviation = TAILS_OF_GOES / (TAILS_OF_GOES - 2)
        drawn = self._student(TAILS_OF_GOES) / deviation**0.5
        return self._noise * self._spreads[kind].go * max(-FARTHEST, min(FARTHEST, drawn))

    def _student(self, freedom: int) -> float:
        """Return a draw from Student's t."""
        return self._random.gauss(0, 1) / (self._random.gammavariate(freedom / 2, 2 / freedom)) ** 0.5


def _spread(kind: str, platform: Platform) -> Spread:
    """Return the spread of a part on this platform."""
    if kind == "host" and platform.pcie.get("gen", 5) < 5:
        known = SPREADS[kind]
        return Spread(HOST_INSIDE_GEN4, known.between, known.go, known.block)
    return SPREADS[kind]


def _of_longer(cv: float, lag: float, times: float) -> tuple[float, float]:
    """Return the coefficient of variation and the autocorrelation of blocks that are `times` as long.

    The mean of m blocks with AR(1) has the variance cv^2 (m + 2 sum of (m - k) lag^k) / m^2.
    """
    m = round(times)
    if m < 2:
        return cv, lag**times
    variance = (m + 2 * sum((m - k) * lag**k for k in range(1, m))) / m**2
    covariance = lag * ((1 - lag**m) / (1 - lag)) ** 2 / m**2
    return cv * variance**0.5, covariance / variance
