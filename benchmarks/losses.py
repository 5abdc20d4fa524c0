"""Plants losses in drawn nodes, holds the line `sensitivity:` against them, and judges healthy nodes. Not measured.

    python benchmarks/losses.py RECORD... --healthy 1000 --processes 2

Every RECORD is that of a simulated healthy run (`pytest --accel-simulate=h200-sxm --accel-level=quick`). It says which
metrics are measured, with which method and how many samples, on which devices and by which limits. All speeds are drawn
anew around the published healthy figures, and judged with the repeat of a run: floors, neighbours, shipped spreads, and
today's torch. `Model` has what devices differ by, with its sources. One device of a node, or all, lose a share of a
part; a loss is always rejected if 20 of 20 nodes are, and so is every larger one. Prints Markdown.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from population import healthy_of

from pytest_accel.core.groups import grouped
from pytest_accel.core.measurement import NODE, Measurement, estimate_of
from pytest_accel.core.reasons import BehindNeighbours
from pytest_accel.core.run import Run
from pytest_accel.core.sku_types import Limit, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.attempts import RequestAttempts, RunAttempts
from pytest_accel.judging.verdicts.like_devices import Kinds, family_of, kind_of
from pytest_accel.judging.verdicts.smallest_losses import smallest_losses
from pytest_accel.run.record import read
from pytest_accel.skus import loader

LOSSES = (0.02, 0.03, 0.04, 0.05, 0.08, 0.10, 0.12, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50)
NODES = 20
MOST_SAMPLES = 64
"""Samples of a go that are drawn at most: a soak has thousands, which tell no more."""
TORCH = "2.13.0"


class Part(NamedTuple):
    """A family of metrics that is slow, the share of its loss that the clock explains, and the promised family."""

    family: str
    of_clock: float = 0.0
    promised: str = ""


PARTS = {
    "matmul at the clock": Part("matmul", 0.0, "matmul at the clock"),
    "matmul by clock": Part("matmul", 1.0),
    "memory": Part("memory"),
    "host link": Part("host link"),
    "peer links": Part("peer links"),
    "collectives": Part("collectives"),
}


class Slow(NamedTuple):
    """Devices (UUIDs) that lose a share of a part."""

    part: Part
    loss: float
    devices: Collection[str]

    def hits(self, one: Measurement, family: str) -> bool:
        """Return True for a measurement that shows the loss."""
        return family == self.part.family and (one.subject in self.devices or one.subject == NODE)


@dataclass(frozen=True)
class Model:
    """Healthy nodes, as factors on the published deviations `PRODUCTS`, `AT_CLOCK`, `DEVICES`, `GOES` and `BLOCKS`."""

    wide: float = 1.0
    """The factor on all of them."""
    tails: int | None = None
    """The degrees of freedom of Student's t; None for a normal distribution."""
    hot_slots: float = 0.3
    """The share of nodes with a hot slot (assumed)."""
    slower: tuple[float, float] = (0.01, 0.03)
    """How much slower the products of a hot slot are (assumed)."""


MODELS = {"mild": Model(), "harsh": Model(1.5, 3, 0.6, (0.01, 0.04))}

FARTHEST = 3.0
"""Standard deviations that a draw of Student's t is away at most."""
PRODUCTS = {
    # eight H200, five goes of each: a range of 4.5 % (stas00/ml-engineering, fast-mamf, 082816f), divided by 2.85
    "h100-sxm": 0.0158, "h200-sxm": 0.0158,
    # tests/real/series: 30 runs of eight B200, 17 nodes of RTX PRO 6000 Server for the other cards
    "b200-sxm": 0.0107, "l40s": 0.0059, "rtx-4090": 0.0059,
    # microsoft/superbench-results v0.2.1: int8 of eight A100, fp16 of eight MI100 (their fp32 0.023)
    "a100-sxm-80gb": 0.0075, "mi300x": 0.0141,
}  # fmt: skip
AT_CLOCK = 0.0041
"""42 nodes of four V100 (hal-uw/blox-pal): what devices differ by at one clock."""
DEVICES = {"memory": 0.0043, "host link": 0.00063, "peer links": 0.0035, "collectives": 0.0}
"""Memory: eight A100 (superbench-results v0.2.1). Host link: eight H200 (stas00/ml-engineering). Links: a range of 1 %
over eight devices is assumed."""
HOST_GEN4 = 0.0123
"""Eight A100 on PCIe 4 (superbench-results v0.2.1)."""
GOES = {"matmul": 0.008, "memory": 0.002, "host link": 0.002, "peer links": 0.001, "collectives": 0.001}
"""Products: five goes of one H200 (stas00/ml-engineering); the rest is assumed."""
BLOCKS = {"matmul": 0.0075, "memory": 0.003, "host link": 0.003, "peer links": 0.001, "collectives": 0.001}
NODE_WIDE = 0.0075
"""Half of the width between nodes: the means of groups of goes of eight H200 (stas00/ml-engineering)."""


class Template(NamedTuple):
    """A run whose speeds are drawn again."""

    run: Run
    sku: Sku
    kinds: Kinds
    measured: Mapping[str, Sequence[Measurement]]
    limits: Mapping[str, Limit | None]
    software: Mapping[str, Any]


@cache
def template(path: Path) -> Template:
    """Read a record."""
    run = read(path)
    sku = loader.load(str(run.sku["name"]))
    together = [each for each in run.measurements if each.how == "together"]
    speeds = [
        each for each in together if each.samples and not each.trouble and family_of(each.metric, each.unit) in GOES
    ]
    limits = {each.metric: each.limit for each in run.verdicts}
    first = {(each.metric, each.subject): each for each in reversed(speeds)}
    return Template(
        run, sku, {device.uuid: kind_of(device) for device in run.devices},
        grouped(first.values(), lambda each: each.metric), limits, {**run.software, "torch": TORCH},
    )  # fmt: skip


class Node:
    """A drawn node: who its devices are is drawn once, what they do at each go."""

    def __init__(self, of: Template, model: Model, seed: str, slow: Slow | None = None) -> None:
        self.of, self.model, self.slow = of, model, slow
        self._who, self._draw = random.Random(seed), random.Random(f"{seed} {slow and slow.loss}")  # noqa: S311  the same every time
        self._devices = [device.uuid for device in of.run.devices]
        self._centre = 1 + self._who.uniform(-NODE_WIDE, NODE_WIDE)
        raw = model.wide * PRODUCTS.get(of.sku.name, 0.0158)
        of_clocks = max(0.0, raw**2 - AT_CLOCK**2) ** 0.5
        self._clock = {each: 1 + self._off(self._who, of_clocks) for each in self._devices}
        if self._who.random() < model.hot_slots:
            self._clock[self._who.choice(self._devices)] -= self._who.uniform(*model.slower)
        self._own = {
            (metric, one.subject): 1 + self._off(self._who, model.wide * self._between(family_of(metric, one.unit)))
            for metric, every in of.measured.items()
            for one in every
        }

    def go(self, metric: str) -> Iterator[Measurement]:
        """Yield what all devices, or the node, reach in a new go."""
        for one in self.of.measured[metric]:
            family = family_of(metric, one.unit)
            slow = self.slow if self.slow and self.slow.hits(one, family) else None
            lost, of_clock = (slow.loss, (1 - slow.loss) ** slow.part.of_clock) if slow else (0.0, 1.0)
            mean = self.mean(one) * (1 - lost) * (1 + self._off(self._draw, self.model.wide * GOES[family]))
            yield self._drawn(one, family, mean, self._clock_of(one) * of_clock)

    def mean(self, one: Measurement) -> float:
        """Return the mean of a healthy device, or of the node, over all goes."""
        healthy = _healthy(self.of.limits.get(one.metric)) or float(one.value or 0)
        return healthy * self._centre * self._own[one.metric, one.subject] * self._clock_of(one)

    def _clock_of(self, one: Measurement) -> float:
        return self._clock.get(one.subject, 1.0) if family_of(one.metric, one.unit) == "matmul" else 1.0

    def _between(self, family: str) -> float:
        if family == "matmul":
            return AT_CLOCK
        gen4 = family == "host link" and next(iter(self.of.sku.platforms.values())).pcie.get("gen", 5) < 5
        return HOST_GEN4 if gen4 else DEVICES[family]

    def _drawn(self, one: Measurement, family: str, mean: float, clock: float) -> Measurement:
        cv, count = self.model.wide * BLOCKS[family], min(len(one.samples), MOST_SAMPLES)
        samples = tuple(mean * (1 + self._draw.gauss(0, cv)) for _ in range(count))
        details = {**one.details}
        if telemetry := dict(details.get("telemetry", {})):
            gauge: Any = telemetry.get("clock_mhz", {})
            telemetry["clock_mhz"] = {name: value * clock for name, value in gauge.items()}
            details["telemetry"] = telemetry
        value = estimate_of(samples, one.unit, one.statistic).mean
        return replace(one, samples=samples, seconds=(), value=value, details=details)  # type: ignore[arg-type]

    def _off(self, draw: random.Random, deviation: float) -> float:
        if self.model.tails is None:
            return draw.gauss(0, deviation)
        free = self.model.tails
        drawn = draw.gauss(0, 1) / (draw.gammavariate(free / 2, 2 / free)) ** 0.5
        return max(-FARTHEST * deviation, min(FARTHEST * deviation, deviation * drawn / (free / (free - 2)) ** 0.5))


def _healthy(limit: Limit | None) -> float | None:
    """Return the middle of what was published as healthy for a metric, None where nothing was."""
    if limit is None or limit.relative:
        return None
    return sum(healthy_of(limit)) / 2 or None


def judged(node: Node, family: str | None = None) -> tuple[list[Verdict], RunAttempts]:
    """Return the verdicts on a node, and the attempts behind them."""
    of, found = node.of, []
    with_it = {"kinds": of.kinds, "spread_of": of.sku.spread_of, "software": of.software}
    every = RunAttempts(**with_it)
    for metric, template_ in of.measured.items():
        if family not in (None, family_of(metric, template_[0].unit)):
            continue
        result, limit = RequestAttempts(**with_it), of.limits.get(metric)
        for one in node.go(metric):
            result.add(one)
        if result.shortfalls(metric, limit):
            for one in node.go(metric):
                result.add(one)
        result.end_rounds()
        found += [result.verdict_on(metric, one.subject, limit) for one in template_]
        every.by_key.update(result.by_key)
    return found, every


# -- what is asked


class Planted(NamedTuple):
    """Nodes with a loss. `loss` None is exactly what the closing line of each node promises."""

    path: Path
    part: str
    all_alike: bool
    loss: float | None


def rejected(asked: Planted, model: Model = MODELS["mild"]) -> tuple[int, float | None]:
    """Return how many of the nodes are rejected, and the largest loss that one of their lines promises."""
    of, part = template(asked.path), PARTS[asked.part]
    count, most = 0, None
    for number in range(NODES):
        seed = f"{asked.path.parent.name} {asked.part} {number}"
        uuids = [device.uuid for device in of.run.devices]
        slow = uuids if asked.all_alike else [uuids[number % len(uuids)]]
        loss = asked.loss
        if loss is None:
            loss = promise(Node(of, model, seed), part, all_alike=asked.all_alike)
            most = max((each for each in (most, loss) if each is not None), default=None)
        if loss is None:
            continue
        verdicts, _ = judged(Node(of, model, seed, Slow(part, loss, slow)), part.family)
        count += any(each.status is Status.FAIL for each in verdicts if each.subject in slow or each.subject == NODE)
    return count, most


def promise(healthy: Node, part: Part, *, all_alike: bool) -> float | None:
    """Return the loss that the closing line of a healthy node promises to reject; None for no promise.

    A promise for all alike is a share of the datasheet, here turned into a loss of the metric that loses most by it.
    """
    verdicts, attempts = judged(healthy, part.family)
    told = smallest_losses(verdicts, attempts).get(part.promised or part.family)
    if not told:
        return None
    if not all_alike:
        return told.behind
    if not told.below:
        return None
    shares = [_share(each, healthy) for each in verdicts]
    known = [1 - told.below / share for share in shares if share]
    return max(known, default=None)


def _share(verdict: Verdict, node: Node) -> float | None:
    """Return the mean of a device, or of the node, as a share of the datasheet, where a limit rejects."""
    one = next(each for each in node.of.measured[verdict.metric] if each.subject == verdict.subject)
    bounded = verdict.limit and (verdict.limit.class_floor or verdict.limit.floor)
    return node.mean(one) / one.peak.value if bounded and one.peak else None


def smallest(path: Path, part: str, *, all_alike: bool) -> str:
    """Return one cell: the smallest loss that is always rejected, the promise, and how often the promise is kept."""
    found = None
    for loss in reversed(LOSSES):
        if rejected(Planted(path, part, all_alike, loss))[0] < NODES:
            break
        found = loss
    kept, promised = rejected(Planted(path, part, all_alike, None))
    if found is None and promised is None:
        return "-"
    always = "-" if found is None else f"{found:.0%}"
    return f"{always} ({promised:.1%}: {kept}/{NODES})" if promised is not None else f"{always} (none)"


def row(path: Path, all_alike: bool) -> str:
    """Return the row of one record."""
    of = template(path)
    families = {family_of(metric, each[0].unit) for metric, each in of.measured.items()}
    alone = {name: part for name, part in PARTS.items() if all_alike or name != "collectives"}
    cells = [
        smallest(path, name, all_alike=all_alike) if part.family in families else "-" for name, part in alone.items()
    ]
    return f"| {path.parent.name} | {' | '.join(cells)} |"


def healthy(task: tuple[Path, str, int, int]) -> Counter[str]:
    """Return what healthy nodes get."""
    path, model, first, count = task
    counts: Counter[str] = Counter()
    for number in range(first, first + count):
        verdicts, _ = judged(Node(template(path), MODELS[model], f"{model} {number}"))
        counts["nodes"] += 1
        counts.update({each.status.value for each in verdicts})
        counts.update({_told(each) for each in verdicts if each.status not in (Status.PASS, Status.NOT_APPLICABLE)})
    return counts


def _told(verdict: Verdict) -> str:
    """Return the status, the metric, and whether neighbours are the reason, or else the last reason."""
    behind = verdict.neighbours if any(isinstance(each, BehindNeighbours) for each in verdict.reasons) else None
    why = ("neighbours at clock" if behind.at_clock else "neighbours") if behind else verdict.reasons[-1].kind
    return f"{verdict.status.value} {verdict.metric} {why}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path, nargs="+", help="record.json of a simulated healthy run")
    parser.add_argument("--healthy", type=int, default=1000, help="healthy nodes of each record and model")
    parser.add_argument("--model", action="append", choices=MODELS, help="of healthy nodes; default: each")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--no-losses", action="store_true")
    asked = parser.parse_args()
    with get_context("spawn").Pool(asked.processes) as pool:
        for all_alike in () if asked.no_losses else (False, True):
            names = [name for name in PARTS if all_alike or name != "collectives"]
            print(f"| {'all alike' if all_alike else 'one of them'} | {' | '.join(names)} |")
            print(f"| --- |{' --- |' * len(names)}")
            print(*pool.imap(partial(row, all_alike=all_alike), asked.records), sep="\n", flush=True)
        step = 50
        for model in asked.model or MODELS:
            print(f"\n| {model} | nodes | rejected | INCONCLUSIVE | MARGINAL | most often |\n| --- |{' --- |' * 5}")
            for path in asked.records if asked.healthy else ():
                tasks = [(path, model, first, step) for first in range(0, asked.healthy, step)]
                counts = sum(pool.map(healthy, tasks, chunksize=1), Counter[str]())
                n = counts["nodes"]
                cells = [f"{counts[status] / n:.2%}" for status in ("FAIL", "INCONCLUSIVE", "MARGINAL")]
                why = [f"{name} {count}" for name, count in counts.most_common() if "." in name][:4]
                print(f"| {path.parent.name} | {n} | {' | '.join(cells)} | {'; '.join(why)} |", flush=True)


if __name__ == "__main__":
    main()
