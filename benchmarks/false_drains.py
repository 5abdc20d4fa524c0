"""How often would a healthy node be drained, night after night, and how soon one with a fault? Drawn, not measured.

    python benchmarks/false_drains.py --nodes 500 --nights 60 --output benchmarks/false_drains.json

Every night of every node is judged by the package's own judge: the floors of `h100-sxm` as if they were ours, its
spreads, the neighbours, the repeat of a shortfall, and the history of all nights before. A node is drained at exit
status 1. No rule and no constant of the package was chosen with this model; it was made after them, and differs from
that of field_noise.py on purpose: every family has what devices, racks, nights and goes add, with other shapes.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from population import DEVICES, KINDS, healthy_of

from pytest_accel.core.details import Details
from pytest_accel.core.measurement import Measurement
from pytest_accel.core.reasons import Note
from pytest_accel.core.run import Circumstances
from pytest_accel.core.sku_types import DeclaredBy, Limit
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.closing.line import close
from pytest_accel.judging.verdicts.attempts import RequestAttempts
from pytest_accel.judging.verdicts.history import History, key
from pytest_accel.probes.declare import declaration_of
from pytest_accel.skus import loader

SKU = loader.load("h100-sxm")


@dataclass(frozen=True)
class Family:
    """A family of metrics, by one of them."""

    metric: str
    unit: str

    @property
    def shipped(self) -> Limit:
        """The limit of the threshold file, for any software: the floor of the class, beside what others published."""
        return replace(SKU.limits_on(SKU.platforms["hgx8"])[self.metric], software={}, conditions={})

    @property
    def limit(self) -> Limit:
        """A floor of our own method below the published figures, as a calibration makes one."""
        low, high = healthy_of(self.shipped)
        declared = declaration_of(self.metric)
        floor = low * (declared.derived_floor or 1.0) if declared else low
        return replace(
            self.shipped, floor=floor, healthy=(low, high), reference=(low + high) / 2, declared_by=DeclaredBy.OWN_FILE
        )


METRICS = {
    "memory": Family("stream.triad", "GB/s"),
    "host": Family("host_copy.h2d", "GB/s"),
    "link": Family("peer_copy.one_way", "GB/s"),
    "matmul": Family("matmul.bf16", "TFLOPS"),
}
RACK = 8
"""Nodes that share a room, so that their nights are hot together."""


@dataclass(frozen=True)
class Shape:
    """How one family differs, as standard deviations and shares of the value.

    `device` is between devices (Laplace), `night` what a node has in common in one night and hands on to the next
    (AR(1)), `go` that of one device from go to go (normal, and three times as wide in one go of thirty), `heat` what
    the hottest day of the room costs.
    """

    device: float
    night: float
    go: float
    heat: float


SHAPES = {
    # All assumed, around the orders of magnitude that field_noise.py names sources for.
    "memory": Shape(0.002, 0.0015, 0.001, 0.001),
    "host": Shape(0.002, 0.003, 0.002, 0.0),
    "link": Shape(0.0015, 0.001, 0.001, 0.0),
    "matmul": Shape(0.010, 0.006, 0.006, 0.012),
}
KEPT = 0.8
"""The share of a night's deviation that the next night keeps."""
FARTHEST = {"memory": 0.012, "host": 0.008, "link": 0.006, "matmul": 0.04}
"""The farthest that a healthy device is from its node: beyond, nobody would call it healthy."""
WIDE, WIDER = 1 / 30, 3.0
HOT_SLOT, SLOWER = 0.25, (0.005, 0.02)
"""Share of the nodes with a slot that is hotter, and how much slower its products are."""
AGEING, A_YEAR = 0.1, (0.0, 0.02)
"""Share of the devices that age, and how much they lose in a year."""
DISTURBED, BY = 0.02, (0.005, 0.05)
"""Share of the nights in which something that nobody notices slows one device down in one go, and by how much."""
NOTICED, NOTICED_BY = 0.01, 0.25
"""Share of the nights in which another process uses the devices and is seen, and what it costs at most."""
UPDATED, CHANGED = 0.3, 0.01
"""Share of the nodes that get another driver on some night, and how much that changes a family at most."""
NIGHTS_A_YEAR = 365
CLOCK_MHZ, AT_CLOCK = 1400.0, 0.004
PACE = 10.0
"""Seconds of telemetry of a product."""


class Fault(NamedTuple):
    """A fault of the first device: what share of a family it loses, from which night on."""

    family: str
    loss: float
    night: int


class Fleet:
    """The temperature of the room, which nodes of one rack share, as a share of that of the hottest day."""

    def __init__(self, seed: str, nights: int) -> None:
        draw = random.Random(f"rack {seed}")  # noqa: S311  the same every time
        phase, walk, self.heat = draw.random(), 0.0, []
        for night in range(nights):
            walk = 0.9 * walk + draw.gauss(0, 0.1)
            season = 0.5 + 0.4 * math.sin(2 * math.pi * (night / 30 + phase))
            self.heat.append(min(1.3, max(0.0, season + walk)))


class Node:
    """One node over many nights."""

    def __init__(self, number: int, nights: int, fault: Fault | None = None, most: float = BY[1]) -> None:
        """`most` is the largest loss by a disturbance that nobody notices."""
        self._by = BY[0], most
        self._draw = draw = random.Random(f"false drains {number}")  # noqa: S311  the same every time
        self._heat, self._fault = Fleet(str(number // RACK), nights).heat, fault
        self._device = {family: [self._laplace(family) for _ in DEVICES] for family in SHAPES}
        if draw.random() < HOT_SLOT:
            slot = draw.randrange(len(DEVICES))
            products = self._device["matmul"]
            products[slot] = max(-FARTHEST["matmul"], products[slot] - draw.uniform(*SLOWER))
        self._ageing = [draw.uniform(*A_YEAR) if draw.random() < AGEING else 0.0 for _ in DEVICES]
        self._at_clock = [draw.gauss(0, AT_CLOCK) for _ in DEVICES]
        self._night = dict.fromkeys(SHAPES, 0.0)
        self.updated = draw.randrange(nights) if draw.random() < UPDATED else nights
        self._change = {family: draw.uniform(-CHANGED, CHANGED) for family in SHAPES}
        self._centre = {family: _centre(LIMITS[family], draw) for family in SHAPES}
        self.notes: tuple[Note, ...] = ()
        self._hit: tuple[str, int, int, float] | None = None

    def begin(self) -> None:
        """Draw what this night has in common."""
        draw = self._draw
        for family, shape in SHAPES.items():
            fresh = draw.gauss(0, shape.night * math.sqrt(1 - KEPT**2))
            self._night[family] = KEPT * self._night[family] + fresh
        self.notes = (Note("disturbed", "a foreign process"),) if draw.random() < NOTICED else ()
        self._hit = None
        if draw.random() < DISTURBED:
            family = draw.choice(list(SHAPES))
            self._hit = family, draw.randrange(len(DEVICES)), draw.randrange(2), draw.uniform(*self._by)

    def go(self, family: str, night: int, turn: int) -> list[Measurement]:
        """Return what the devices reach in one go; `turn` 1 is the repeat."""
        shape, draw, one = SHAPES[family], self._draw, METRICS[family]
        shared = 1 + self._night[family] - shape.heat * self._heat[night]
        shared *= 1 + (self._change[family] if night >= self.updated else 0.0)
        if self.notes:
            shared *= 1 - draw.uniform(0, NOTICED_BY)
        found = []
        for place, device in enumerate(DEVICES):
            wide = WIDER if draw.random() < WIDE else 1.0
            pace = shared * (1 + self._device[family][place]) * (1 + draw.gauss(0, wide * shape.go))
            pace *= 1 - self._ageing[place] * night / NIGHTS_A_YEAR
            if self._hit and self._hit[:3] == (family, place, turn):
                pace *= 1 - self._hit[3]
            if self._fault and place == 0 and family == self._fault.family and night >= self._fault.night:
                pace *= 1 - self._fault.loss
            details = self._telemetry(pace, place) if family == "matmul" else Details()
            value = self._centre[family] * pace
            found.append(Measurement(one.metric, device.uuid, one.unit, value, details=details, notes=self.notes))
        return found

    def _telemetry(self, pace: float, place: int) -> Details:
        clock = CLOCK_MHZ * pace / (1 + self._at_clock[place])
        gauge = {"mean": clock, "min": clock, "max": clock}
        return {"telemetry": {"seconds": PACE, "sw_power_cap_s": 0.9 * PACE, "clock_mhz": gauge}}  # type: ignore[typeddict-item]

    def _laplace(self, family: str) -> float:
        """Return a draw from Laplace's distribution, whose tails are heavier than normal ones, cut off."""
        scale = SHAPES[family].device / math.sqrt(2)
        drawn = self._draw.expovariate(1 / scale) * self._draw.choice((-1, 1))
        return max(-FARTHEST[family], min(FARTHEST[family], drawn))


def _centre(limit: Limit, draw: random.Random) -> float:
    """Return the figure of a healthy node: in the published range, which holds figures at the usual temperature."""
    low, high = healthy_of(limit)
    return draw.uniform(low, high)


class Asked(NamedTuple):
    """The nights of the nodes, and the options by which they are drawn and judged."""

    nights: int
    most: float


LIMITS = {family: one.limit for family, one in METRICS.items()}


def nights(number: int, asked: Asked, fault: Fault | None = None) -> Iterator[list[Verdict]]:
    """Yield the verdicts of every night of a node."""
    count = asked.nights
    node, runs = Node(number, count, fault, asked.most), list[Summary]()
    for night in range(count):
        node.begin()
        terms = {"driver": "580.95" if night < node.updated else "590.10"}
        history = History(runs, DEVICES, lambda terms=terms: terms)  # type: ignore[misc]
        figures: dict[str, dict[str, float]] = {}
        found = [verdict for family in LIMITS for verdict in _judged(node, family, night, history, figures)]
        result = close(found, Circumstances(expected_devices=len(DEVICES))).result
        runs.append(
            Summary(f"{night:05}", result=result, terms=terms, devices=DEVICES, figures=figures, path=Path(f"r{night}"))
        )
        yield found


def _judged(
    node: Node, family: str, night: int, history: History, figures: dict[str, dict[str, float]]
) -> list[Verdict]:
    """Return the verdicts on one metric after the repeat that a run makes, and enter its figures into the history."""
    metric, limit = METRICS[family].metric, LIMITS[family]
    result = RequestAttempts(kinds=KINDS, spread_of=SKU.spread_of, past_of=history.past)
    last: Sequence[Measurement] = node.go(family, night, 0)
    for one in last:
        result.add(one)
    if result.shortfalls(metric, limit):
        last = node.go(family, night, 1)
        for one in last:
            result.add(one)
        result.end_rounds()
    for one in last:
        if not one.notes:
            figures.setdefault(key(one), {})[one.subject] = float(one.value or 0)
    return [result.verdict_on(metric, device.uuid, limit) for device in DEVICES]


def healthy(task: tuple[int, int, Asked]) -> Counter[str]:
    """Return what happened in the nights of some healthy nodes."""
    first, nodes, asked = task
    counts: Counter[str] = Counter(nodes=nodes)
    for number in range(first, first + nodes):
        drained = False
        for found in nights(number, asked):
            statuses = {each.status for each in found}
            ended = close(found, Circumstances(expected_devices=len(DEVICES))).exit
            counts["nights"] += 1
            counts["would drain (exit 1)"] += ended == 1
            drained |= ended == 1
            counts["INCONCLUSIVE nights"] += Status.INCONCLUSIVE in statuses and ended != 1
            counts["MARGINAL nights"] += Status.MARGINAL in statuses
            counts.update({f"FAIL {each.metric}" for each in found if each.status is Status.FAIL})
            counts.update({f"MARGINAL {each.metric}" for each in found if each.status is Status.MARGINAL})
        counts["nodes that would be drained once"] += drained
    return counts


def faulty(task: tuple[str, float, int, Asked]) -> tuple[str, float, Counter[str]]:
    """Return what becomes of nodes whose first device lost a share of its speed in the middle of their nights."""
    family, loss, nodes, asked = task
    counts: Counter[str] = Counter(nodes=nodes)
    begin = asked.nights // 2
    for number in range(100_000, 100_000 + nodes):
        later = list(nights(number, asked, Fault(family, loss, begin)))[begin:]
        drains = [any(each.status is Status.FAIL for each in found) for found in later]
        seen = [
            any(each.status is not Status.PASS and each.subject == DEVICES[0].uuid for each in found) for found in later
        ]
        counts["drained in the first night"] += drains[0]
        counts["drained within a week"] += any(drains[:7])
        counts["seen in the first night"] += seen[0]
        counts["seen within a week"] += any(seen[:7])
    return family, loss, counts


def upper(count: int, of: int) -> float:
    """Return the upper end of the 95 % interval of a rate (Wilson; 3 / n for none)."""
    if count == 0:
        return 3 / of
    z, rate = NormalDist().inv_cdf(0.95), count / of
    middle = rate + z * z / (2 * of)
    return float((middle + z * (rate * (1 - rate) / of + z * z / (4 * of * of)) ** 0.5) / (1 + z * z / of))


def main() -> None:
    """Draw nodes and their nights, judge them, and tell what came out."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--nights", type=int, default=60)
    parser.add_argument("--faulty", type=int, default=20, help="nodes for each planted fault")
    parser.add_argument("--processes", type=int, default=1)
    text = "the largest loss by a disturbance of a single go that nobody notices"
    parser.add_argument("--disturbed-by", type=float, default=BY[1], help=text)
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    chosen = parser.parse_args()
    began, asked = time.monotonic(), Asked(chosen.nights, chosen.disturbed_by)
    chunks = [(first, min(5, chosen.nodes - first), asked) for first in range(0, chosen.nodes, 5)]
    planted = [
        (family, loss, chosen.faulty, asked._replace(nights=24)) for family in METRICS for loss in (0.05, 0.1, 0.2, 0.4)
    ]
    with get_context("spawn").Pool(chosen.processes) as pool:
        counts: Counter[str] = sum(pool.imap_unordered(healthy, chunks), Counter())
        power = pool.map(faulty, planted if chosen.faulty else [], chunksize=1)
    drained, of = counts["would drain (exit 1)"], counts["nights"]
    told = {
        "nodes": chosen.nodes,
        "nights of each": chosen.nights,
        "disturbed by at most": chosen.disturbed_by,
        "seconds": round(time.monotonic() - began),
        "healthy": dict(sorted(counts.items())),
        "upper 95 %": upper(drained, of),
        "planted": [{"family": family, "loss": loss, **found} for family, loss, found in power],
    }
    print(f"{of:,} node-nights, {drained} would drain: at most {10_000 * upper(drained, of):.2f} in 10,000 (95 %)")
    for name, number in sorted(counts.items()):
        print(f"  {name}: {number:,} ({number / of:.3%} of the nights)")
    for family, loss, found in power:
        shares = ", ".join(f"{name} {number / found['nodes']:.0%}" for name, number in found.items() if name != "nodes")
        print(f"{family} {loss:.0%} short: {shares}")
    print(f"{told['seconds']} s")
    if chosen.output:
        chosen.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
