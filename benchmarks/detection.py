"""Which loss of one device of eight is found: by the floor alone, by its neighbours, by its own past. And false alarms.

    python benchmarks/detection.py --trials 1000 --healthy 30000 --processes 2 --output benchmarks/detection.json

One device of eight is slow by 1 to 20 %, where healthy devices and goes differ by a standard deviation of 0.3 to 5 %
together. Every verdict is the package's own: `judge.Attempts` with the repeat that a run makes, `history.History` of
drawn earlier runs. Healthy nodes are those of field_noise.py, which no rule was tuned with. draw_detection.py draws the
picture of the results.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import NormalDist
from typing import Any

from field_noise import AT_CLOCK, HARSH, FieldNode, Harshness

from pytest_accel.core.details import Details
from pytest_accel.core.measurement import Device, Measurement
from pytest_accel.core.sku import Limit, Source, Spread
from pytest_accel.core.summary import Summary
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.history import History, key
from pytest_accel.judging.verdicts.judge import Attempts
from pytest_accel.judging.verdicts.like_devices import kind_of
from pytest_accel.skus import loader

SKU = "h100-sxm"
DEVICES = [Device(f"GPU-{place}", place, "nvidia", "NVIDIA H100 80GB HBM3", numa_node=place // 4) for place in range(8)]
"""A node of two sockets, as HGX boards are in."""
KINDS = {device.uuid: kind_of(device) for device in DEVICES}
SPREADS = (0.003, 0.005, 0.008, 0.01, 0.02, 0.03, 0.05)
LOSSES = (0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.1, 0.12, 0.15, 0.2)
OF_DEVICES, OF_GOES = 0.8, 0.6
"""The shares of a spread that are between devices and from go to go; their squares add to one."""
RAW_CLOCKS = 0.03
"""Standard deviation of the clocks of devices whose power limit makes them differ, for products."""
NIGHTS = {"handover": 1, "history": 30}
"""The earlier runs by the way of finding a loss. After one, nobody knows how much two runs differ."""
WIDEST = 0.045
"""The range that thresholds/classes.yaml states of products inside a node of Hopper modules."""
MODELS = {"field": (Harshness(), True), "harsh": (HARSH, True), "harsh, no spread stated": (HARSH, False)}
"""The models of healthy nodes: how harsh they are, and whether a file states how far their devices lie apart."""
WHY = {"behind_neighbours": "neighbours", "behind_past": "past", "all_alike": "past"}
"""The engine behind a finding, by its last reason."""
FOUND = (Status.MARGINAL, Status.FAIL, Status.INCONCLUSIVE)
KEYS = ("family", "way", "spread", "found", "rejected")
WAYS = ("floor", "neighbours", "handover", "history")


@dataclass(frozen=True)
class Family:
    """A family of metrics, by one of them."""

    metric: str
    unit: str

    @property
    def shipped(self) -> Limit:
        """The limit of the threshold file, for any software: most advise, above the floor of their class."""
        sku = loader.load(SKU)
        return replace(sku.limits_on(sku.platforms["hgx8"])[self.metric], software={}, conditions={})

    @property
    def limit(self) -> Limit:
        """The shipped limit as one whose method is ours, so that it may reject."""
        return replace(self.shipped, advises=False, because="")


METRICS = {
    "memory": Family("stream.triad", "GB/s"),
    "host": Family("host_copy.h2d", "GB/s"),
    "link": Family("peer_copy.one_way", "GB/s"),
    "products": Family("matmul.bf16", "TFLOPS"),
}
SOURCE = Source("measured", "drawn", "2026-11")
UNEVEN = Spread(SOURCE, between_devices=1.0)
"""Devices that differ so much that no neighbour finds anything, where the past alone is asked."""


def spread_of(family: str, deviation: float, stated: float = 1.0) -> Spread:
    """Return the spread that a file states where `deviation` is the true one; it may state it wrong by a factor."""
    between, runs = OF_DEVICES * deviation * stated, OF_GOES * deviation * stated
    if family != "products":
        return Spread(SOURCE, between_devices=between, between_runs=runs, runs=30)
    raw = (between**2 + (RAW_CLOCKS * stated) ** 2) ** 0.5
    return Spread(SOURCE, between_devices=raw, at_clock=between, between_runs=runs, runs=30)


def measured(family: str, place: int, value: float, details: Details) -> Measurement:
    one = METRICS[family]
    return Measurement(one.metric, DEVICES[place].uuid, one.unit, value, details=details)


class Drawn:
    """A node whose devices and goes differ by one deviation, and whose first device is slow by `loss`."""

    def __init__(self, family: str, deviation: float, draw: random.Random, centre: float) -> None:
        self.family, self.centre, self._draw = family, centre, draw
        self._go = OF_GOES * deviation
        self._devices = [draw.gauss(0, OF_DEVICES * deviation) for _ in DEVICES]
        self._clocks = [1 + draw.gauss(0, RAW_CLOCKS) if family == "products" else 1.0 for _ in DEVICES]

    def go(self, loss: float) -> Iterator[Measurement]:
        """Yield what the devices reach in a new go."""
        for place, own in enumerate(self._devices):
            pace = self._clocks[place] * (1 + own) * (1 + self._draw.gauss(0, self._go))
            yield measured(
                self.family, place, self.centre * pace * (1 - loss if place == 0 else 1), self._telemetry(place)
            )

    def _telemetry(self, place: int) -> Details:
        if self.family != "products":
            return {}
        clock = 1400.0 * self._clocks[place]
        gauge: Any = {"mean": clock, "min": clock, "max": clock}
        return {"telemetry": {"seconds": 10.0, "sw_power_cap_s": 9.0, "clock_mhz": gauge}}


def verdicts(result: Attempts, goes: Iterator[Sequence[Measurement]], limit: Limit | None) -> list[Verdict]:
    """Return the verdicts on all devices, after the repeat that a run makes of whatever falls short."""
    metric = ""
    for one in next(goes):
        result.add(one)
        metric = one.metric
    if result.short(metric, limit, {}):
        for one in next(goes):
            result.add(one)
        result.repeated = True
    return [result.judged(metric, device.uuid, limit, {}) for device in DEVICES]


def _goes(node: Drawn, loss: float) -> Iterator[list[Measurement]]:
    while True:
        yield list(node.go(loss))


def past(node: Drawn, nights: int) -> History:
    """Return the history of a node that lost nothing in so many nights."""
    runs = []
    for night in range(nights):
        figures: dict[str, dict[str, float]] = {}
        for one in node.go(0.0):
            figures.setdefault(key(one), {})[one.subject] = float(one.value or 0)
        day = f"2026-{1 + night // 28:02}-{1 + night % 28:02}"
        runs.append(Summary(started=day, word="ACCEPTED", devices=DEVICES, figures=figures, path=Path(f"r{night}")))
    return History(runs, DEVICES, dict)


def _centre(limit: Limit, draw: random.Random) -> float:
    """Return the figure of a healthy node: somewhere in the published range, or the published figure."""
    low, high = limit.healthy or (limit.reference or 0.0, limit.reference or 0.0)
    return draw.uniform(low, high)


def curve(task: tuple[str, str, float, int, float]) -> tuple[str, str, float, list[float], list[float]]:
    """Return which share of slow devices one way finds, and which it rejects, by loss."""
    family, way, deviation, trials, stated = task
    limit, spread = METRICS[family].limit, spread_of(family, deviation, stated)
    found, rejected = [], []
    for loss in LOSSES:
        draw = random.Random(f"{family} {way} {deviation} {loss}")  # noqa: S311  the same every time
        counts: Counter[str] = Counter()
        for _ in range(trials):
            node = Drawn(family, deviation, draw, _centre(limit, draw))
            status = _verdict(node, way, loss, limit, spread).status
            counts["found"] += status in FOUND
            counts["rejected"] += status is Status.FAIL
        found.append(counts["found"] / trials)
        rejected.append(counts["rejected"] / trials)
    return family, way, deviation, found, rejected


def _verdict(node: Drawn, way: str, loss: float, limit: Limit, spread: Spread) -> Verdict:
    """Return the verdict on the slow device: by the limit, by the neighbours without a limit, or by the past alone."""
    if way == "floor":
        return verdicts(Attempts(), _goes(node, loss), limit)[0]
    if way == "neighbours":
        return verdicts(Attempts(kinds=KINDS, spread_of=lambda _: spread), _goes(node, loss), None)[0]
    history, kinds = past(node, NIGHTS[way]), KINDS if way == "handover" else {}
    return verdicts(Attempts(kinds=kinds, spread_of=lambda _: UNEVEN, past_of=history.past), _goes(node, loss), None)[0]


# -- false alarms


def healthy(task: tuple[str, int, int]) -> Counter[str]:
    """Return what healthy nodes get: shipped limits, neighbours by the spread of the model, and the past."""
    model, first, count = task
    harsh, stated = MODELS[model]
    counts: Counter[str] = Counter()
    limits = {family: one.shipped for family, one in METRICS.items()}
    for number in range(first, first + count):
        node, draw = FieldNode(f"field {number}", harsh), random.Random(number)  # noqa: S311  the same every time
        worst: set[Status] = set()
        for family in METRICS:
            given = _healthy(node, family, limits[family], draw, stated=stated)
            statuses = {each.status for each in given}
            ways = {WHY.get(why.kind, "limit") for each in given if each.status in FOUND for why in each.reasons[-1:]}
            counts.update(f"{family} by {way}" for way in ways)
            worst |= statuses
            counts.update(f"{family} {each.value}" for each in statuses if each in FOUND)
        counts["nodes"] += 1
        counts["rejected"] += Status.FAIL in worst
        counts["inconclusive"] += Status.INCONCLUSIVE in worst
        counts["marginal"] += Status.MARGINAL in worst
    return counts


def _healthy(node: FieldNode, family: str, limit: Limit, draw: random.Random, *, stated: bool) -> list[Verdict]:
    field = node.families[family]
    at_clock = AT_CLOCK if family == "products" else None
    between = (field.device**2 + field.half**2) ** 0.5
    between_runs = (field.go**2 + field.common**2) ** 0.5
    spread = Spread(SOURCE, between_devices=between, at_clock=at_clock, between_runs=between_runs, runs=30)
    spread = replace(spread, widest=WIDEST) if stated else Spread(SOURCE, widest=WIDEST)
    centre = _centre(limit, draw)

    def goes() -> Iterator[list[Measurement]]:
        turn = 0
        while True:
            yield [
                measured(family, place, centre * pace, more) for place, (pace, more) in enumerate(node.go(family, turn))
            ]
            turn += 1

    runs = []
    for night in range(2):
        figures: dict[str, dict[str, float]] = {}
        for one in next(goes()):
            figures.setdefault(key(one), {})[one.subject] = float(one.value or 0)
        day = f"2026-01-{1 + night:02}"
        runs.append(Summary(started=day, word="ACCEPTED", devices=DEVICES, figures=figures, path=Path(f"r{night}")))
    history = History(runs, DEVICES, dict)
    return verdicts(Attempts(kinds=KINDS, spread_of=lambda _: spread, past_of=history.past), goes(), limit)


# -- what comes out


def smallest(losses: Sequence[float], found: Sequence[float], share: float = 0.95) -> float | None:
    """Return the smallest loss from which on at least `share` of the devices are found; None beyond the largest."""
    for place, loss in enumerate(losses):
        if all(each >= share for each in found[place:]):
            return loss
    return None


def upper(count: int, of: int) -> float:
    """Return the upper end of the 95 % interval of a rate (Wilson; 3 / n for none)."""
    if count == 0:
        return 3 / of
    z, rate = NormalDist().inv_cdf(0.95), count / of
    middle = rate + z * z / (2 * of)
    return float((middle + z * (rate * (1 - rate) / of + z * z / (4 * of * of)) ** 0.5) / (1 + z * z / of))


def main() -> None:
    """Draw nodes, judge them, and write what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--trials",
        type=int,
        default=300,
        help="slow devices for each loss, spread and way; 0 keeps the curves of --output",
    )
    parser.add_argument("--healthy", type=int, default=2000, help="healthy nodes")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--output", type=Path, help="write the results as JSON")
    options = parser.parse_args()
    tasks = [
        (family, way, deviation, options.trials, 1.0) for family in METRICS for way in WAYS for deviation in SPREADS
    ]
    tasks = tasks if options.trials else []
    wrong = [
        (family, "neighbours", deviation, options.trials, stated)
        for family, deviation in (("memory", 0.003), ("products", 0.008))
        for stated in (2 / 3, 1.5)
        if options.trials
    ]
    starts = range(0, options.healthy, 250)
    chunks = [(name, first, min(250, options.healthy - first)) for name in MODELS for first in starts]
    with get_context("spawn").Pool(options.processes) as pool:
        curves = pool.map(curve, tasks, chunksize=1)
        misstated = pool.map(curve, wrong, chunksize=1)
        alarms: dict[str, Counter[str]] = {name: Counter() for name in MODELS}
        for (name, *_), counts in zip(chunks, pool.map(healthy, chunks, chunksize=1), strict=True):
            alarms[name] += counts
    for family, way, deviation, found, _ in curves:
        at = smallest(LOSSES, found)
        print(f"{family:<9} {way:<11} spread {deviation:5.1%}: 95 % found from {'-' if at is None else f'{at:.0%}'}")
    for (family, _, deviation, _, stated), (*_, found, _) in zip(wrong, misstated, strict=True):
        at = smallest(LOSSES, found)
        print(f"{family} at {deviation:.1%}, stated {stated:.2f} times: from {'-' if at is None else f'{at:.0%}'}")
    for name, each in alarms.items():
        print(f"healthy nodes, {name}: {dict(each)}; rejected at most {upper(each['rejected'], each['nodes']):.2e}")
    if options.output:
        told = {
            "trials": options.trials,
            "losses": LOSSES,
            "curves": [
                dict(zip(("family", "way", "spread", "found", "rejected"), each, strict=True)) for each in curves
            ],
            "misstated": [
                {"family": task[0], "spread": task[2], "stated": round(task[4], 2), "found": each[3]}
                for task, each in zip(wrong, misstated, strict=True)
            ],
            "healthy": alarms,
        }
        if not options.trials and options.output.exists():
            told = {**json.loads(options.output.read_text(encoding="utf-8")), "healthy": alarms}
        options.output.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
