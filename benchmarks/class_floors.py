"""Do the floors of the classes reject healthy nodes? On drawn nodes, and on each product with its own figures left out.

    python benchmarks/class_floors.py --nodes 1000

Drawn, not measured. A node of eight has one healthy share of the datasheet, anywhere between the lowest and the highest
figure of the row. Its devices differ as the threshold files state (`spread`); what no file states is in `BETWEEN`. Its
goes and blocks are as noisy as in `population.py`. The package's own judge sees the floor of the class alone, the
neighbours, and the repeat of a shortfall.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from population import DEVICES, KINDS, SPREADS

from pytest_accel.core.measurement import NODE, Measurement, Peak
from pytest_accel.core.sku_types import DeclaredBy, Limit, Platform, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging.verdicts.attempts import RequestAttempts
from pytest_accel.simulate.model import stressed_part
from pytest_accel.skus import classes, loader, requirements

BETWEEN = {"compute": 0.016, "memory": 0.0043, "host": 0.0123, "link": 0.0035}
"""Standard deviation between the devices of a node where the product's file states none. The first three are those of
thresholds/vendor/nvidia.yaml, with their sources; a range of 1 % over the links of eight devices is assumed, divided by
2.85 (d2 of n = 8)."""
BLOCKS, BLOCK_SECONDS = 20, 0.05
NEWEST = "99.9"
"""A version above those of every row: an older one would excuse a shortfall."""
WORST_FIRST = (Status.FAIL, Status.INCONCLUSIVE, Status.UNMEASURED, Status.MARGINAL)

Found = Counter[Status]


def alone(row: classes.ClassRow) -> Iterator[tuple[Sku, Limit]]:
    """Yield a product of the row with the limit that its class alone makes, for every metric of the row."""
    figure = min(row.figures, key=lambda each: float(each["share"]))
    sku = loader.load(figure["sku"])
    names = [figure["platform"]] if "platform" in figure else list(sku.platforms)
    platforms = {name: _emptied(sku.platforms[name]) for name in names}
    alone = replace(classes.read(loader.SHIPPED / classes.FILE), rows=[row], without=[*sku.match["names"]])
    bare = classes.with_floors(replace(sku, limits={}, platforms=platforms), alone)
    for metric, limit in bare.limits_on(bare.platforms[names[0]]).items():
        assert limit.declared_by is DeclaredBy.CLASS, metric
        yield sku, limit


def _emptied(platform: Platform) -> Platform:
    return replace(platform, limits={})


def node(row: classes.ClassRow, limits: Sequence[tuple[Sku, Limit]], seed: str, noise: float = 1.0) -> list[Verdict]:
    """Return the verdicts on a drawn healthy node; a metric in which a device falls short is measured twice.

    `noise` multiplies how far devices and goes differ.
    """
    draw = random.Random(seed)  # noqa: S311  the same every time
    centre = draw.uniform(row.lowest, max(float(each["share"]) for each in row.figures))
    own = {device.uuid: draw.gauss(0, noise) for device in DEVICES}
    software, verdicts = dict.fromkeys(row.software, NEWEST), []
    for sku, limit in limits:
        subjects = [NODE] if requirements.of_node(limit.metric) else list(own)
        result = RequestAttempts(kinds=KINDS, spread_of=sku.spread_of, software=software)
        deviation, of_goes = _between(sku, limit.metric), SPREADS[stressed_part(limit.metric, limit.unit)].go
        for go in range(2):
            for subject in subjects:
                share = centre * (1 + deviation * own.get(subject, 0.0)) * (1 + noise * draw.gauss(0, of_goes))
                result.add(_measured(limit, subject, share, draw, go))
            if not result.shortfalls(limit.metric, limit):
                break
        result.end_rounds()
        verdicts += [result.verdict_on(limit.metric, each, limit) for each in subjects]
    return verdicts


def _between(sku: Sku, metric: str) -> float:
    spread = sku.spread_of(metric)
    stated = spread.between_devices if spread else None
    return BETWEEN[stressed_part(metric, "")] if stated is None else stated


def _measured(limit: Limit, subject: str, share: float, draw: random.Random, go: int) -> Measurement:
    """Return one go of a device around its share, block by block."""
    block, floor = SPREADS[stressed_part(limit.metric, limit.unit)].block[1], limit.class_floor
    assert floor
    peak = floor.value / floor.share
    samples = tuple(peak * share * (1 + draw.gauss(0, block)) for _ in range(BLOCKS))
    value = BLOCKS / math.fsum(1 / each for each in samples)
    seconds, began = (BLOCK_SECONDS,) * BLOCKS, 100.0 * go
    return Measurement(
        limit.metric, subject, limit.unit, value, samples, seconds, conditions=limit.conditions,
        peak=Peak(peak, floor.of), started=began, ended=began + BLOCKS * BLOCK_SECONDS,
    )  # fmt: skip


def drawn(rows: Sequence[classes.ClassRow], nodes: int, seed: int, noise: float = 1.0) -> Iterator[str]:
    """Yield the lines of the table of drawn nodes. A node counts once, by its worst verdict."""
    yield "| row | figures | lowest to highest | floor | nodes | rejected | no verdict | marginal |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        found: Found = Counter()
        limits = list(alone(row))
        for place in range(nodes):
            statuses = {each.status for each in node(row, limits, f"{seed}/{row.name}/{place}", noise)}
            found[next((each for each in WORST_FIRST if each in statuses), Status.PASS)] += 1
        unjudged = found[Status.INCONCLUSIVE] + found[Status.UNMEASURED]
        high = max(float(each["share"]) for each in row.figures)
        yield (
            f"| {row.name} | {len(row.figures)} | {row.lowest:.3f} to {high:.3f} | {row.floor:.2f} | {nodes:,} | "
            f"{found[Status.FAIL]} | {unjudged} | {found[Status.MARGINAL] / nodes:.1%} |"
        )


def left_out(rows: Sequence[classes.ClassRow]) -> Iterator[str]:
    """Yield the lines of the table of products, and of publishers, whose own figures are left out of a row."""
    yield "| row | left out | its lowest share | floor without it | margin |"
    yield "| --- | --- | --- | --- | --- |"
    for row in rows:
        for key, out in dict.fromkeys((key, each[key]) for key in ("sku", "by") for each in row.figures):
            rest = replace(row, figures=[each for each in row.figures if each[key] != out])
            own = min(float(each["share"]) for each in row.figures if each[key] == out)
            if rest.figures:
                yield f"| {row.name} | {out} | {own:.3f} | {rest.floor:.2f} | {own / rest.floor - 1:+.0%} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000, help="of each row")
    parser.add_argument("--row", action="append", default=[], help="default: every row")
    parser.add_argument("--noise", type=float, default=1.0, help="multiple of how far devices and goes differ")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    began, every = time.monotonic(), classes.read(loader.SHIPPED / classes.FILE).rows
    rows = [each for each in every if not chosen.row or each.name in chosen.row]
    for line in drawn(rows, chosen.nodes, chosen.seed, chosen.noise):
        print(line, flush=True)
    print("", *left_out(rows), "", sep="\n")
    print(f"Drawn, not measured. {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
