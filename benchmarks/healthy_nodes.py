"""How many healthy nodes do the rules reject, and which short parts do they see? Drawn nodes, judged as in a run.

    python benchmarks/healthy_nodes.py --nodes 3000 --processes 2

For every SKU and platform that can be accepted against, at the levels quick and standard. population.py draws the nodes
around what is published as healthy, not around the floors. Every figure goes the way of a real one: sampled by
`Compute.sample` until its stopping rule is met, droop and windows of the soak by `probes.soak`, the matrix of peers by
`peer_matrix`, the repeat of a shortfall by `RequestAttempts` within the time that `repeats.Repeats` grants, the verdict
by `judge_attempts.judge`, beside the other devices as they are (losses.py has their clocks). No rule is written down a
second time. Facts have no noise and are left out.

Prints Markdown. 0 rejections of n bound the rate at 3 / n with 95 % confidence.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import permutations
from multiprocessing import get_context
from typing import NamedTuple

from drawn_device import DrawnDevice
from population import OUTLIER, PARTS, Healthy, healthy_of, part_of

from pytest_accel.core.measurement import NODE, Measurement, Names, is_rate
from pytest_accel.core.reasons import NoBudget
from pytest_accel.core.sentences import sentence_of
from pytest_accel.core.sku_types import Limit, Platform, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.drivers import registry
from pytest_accel.judging.causes import peer_matrix
from pytest_accel.judging.facts.results import foreseen
from pytest_accel.judging.verdicts import repeats
from pytest_accel.judging.verdicts.attempts import RequestAttempts
from pytest_accel.judging.verdicts.like_devices import DeviceKind
from pytest_accel.probes.declare import Declaration, declaration_of
from pytest_accel.probes.device.torch_device import ProbeResult
from pytest_accel.probes.soak import droop, slowest_window
from pytest_accel.simulate.model import stressed_part
from pytest_accel.skus import loader, requirements
from pytest_accel.skus.budgets import budget

LEVELS = ("quick", "standard")
STEADY = {"soak.droop_slow": droop, "soak.slowest_window": slowest_window}
"""Drawn devices do not warm: the droop is judged as that of a device that was hot."""
CHUNK = 25
"""Nodes that a process judges at a time."""
SHORT_SHARE = 10
"""One node with a short part is drawn for so many healthy ones."""
WHY = ("repeated", "close", "interval", "few_samples", "past_warning")
"""The kinds of the reasons that make a verdict MARGINAL."""


class Population(NamedTuple):
    """Nodes of one SKU on one platform, judged at one level; `short` is the part that all of them lack."""

    sku: str
    platform: str
    level: str
    noise: float = 1.0
    short: str | None = None


class Node:
    """One drawn node."""

    def __init__(self, drawn: Population, seed: str) -> None:
        self.sku, self.level = skufile_of(drawn.sku), drawn.level
        self.platform = self.sku.platforms[drawn.platform]
        self.devices = [f"GPU-{place}" for place in range(self.platform.devices or 1)]
        self._kinds = dict.fromkeys(self.devices, DeviceKind(self.sku.name))
        self._short, self._repeats = drawn.short, repeats.Repeats(self.level)
        self._healthy = Healthy(self.platform, self.devices, seed, noise=drawn.noise, short=drawn.short)

    def verdicts(self) -> Iterator[Verdict]:
        """Yield one for every limit on a rate, on every device; what falls short is measured a second time.

        Of a node with a short part the other parts are left out.
        """
        limits = {metric: limit.at_level(self.level) for metric, limit in self.sku.limits_on(self.platform).items()}
        limits = requirements.required_at(self.level, limits)
        for metric, limit in requirements.applying(limits, self.sku, self.platform).items():
            declared = declaration_of(metric)
            if declared is None or not is_rate(limit.unit) or not _figure(limit):
                continue
            if self._short in (None, part_of(metric, limit.unit)):
                yield from self._judged(metric, limit, declared, limits)

    def _judged(
        self, metric: str, limit: Limit, declared: Declaration, limits: Mapping[str, Limit]
    ) -> Iterator[Verdict]:
        result = RequestAttempts(kinds=self._kinds, spread_of=self.sku.spread_of)
        seconds = budget(declared, metric, self.level, self.sku)
        own = {metric: limit}
        if metric == "soak.rate":
            own |= {name: limits[name] for name in STEADY if name in limits}
        subjects = [NODE] if requirements.of_node(metric) else self.devices
        if not seconds:
            why = (NoBudget(self.level),)
            yield from (Verdict(metric, each, Status.UNMEASURED, why, limit=limit) for each in subjects)
            return
        for found in self._go(metric, limit, declared, seconds, result, again=False):
            result.add(foreseen(found, self.sku))
        if any(result.shortfalls(name, each) for name, each in own.items()):
            self._repeat(limit, declared, seconds, result)
        for name, each in own.items():
            for subject in subjects:
                yield result.verdict_on(name, subject, each)

    def _repeat(self, limit: Limit, declared: Declaration, seconds: float, result: RequestAttempts) -> None:
        """Measure all devices, or the pairs that are short, again, as far as there is time for repeats."""
        turns = len(self.devices) if declared.runs == "in_turn" else 1
        first, pairs = seconds * turns, peer_matrix.pairs_below(result.rows, limit.floor or 0.0)
        wanted = peer_matrix.seconds_again(pairs, first) if pairs else first
        granted = self._repeats.together(declared, wanted, repeats.min_seconds(declared, first))
        if not granted:
            result.end_rounds(self._repeats.shortage(declared))
            return
        self._repeats.spend(declared, granted)
        for found in self._go(limit.metric, limit, declared, granted / turns, result, again=True):
            result.add(foreseen(found, self.sku))

    def _go(
        self, metric: str, limit: Limit, declared: Declaration, seconds: float, result: RequestAttempts, *, again: bool
    ) -> list[Measurement]:
        device = DrawnDevice(declared, metric, self.sku)
        common = self._healthy.common(stressed_part(metric, limit.unit))
        if declared.runs == "peers":
            return self._between(limit, device, common, seconds, result, again=again)
        if requirements.of_node(metric):
            found = self._timed(limit, device, self.devices, common=common, seconds=seconds)
            return [_measurement(found, NODE, limit)]
        goes = {uuid: self._timed(limit, device, [uuid], common=common, seconds=seconds) for uuid in self.devices}
        measured = [_measurement(found, uuid, limit) for uuid, found in goes.items()]
        if declared.name == "soak":
            measured += [
                replace(_measurement(view(found), uuid, limit), details={"warmed_k": 0.0})
                for uuid, found in goes.items()
                for view in STEADY.values()
            ]
        return measured

    def _between(
        self, limit: Limit, device: DrawnDevice, common: float, seconds: float, result: RequestAttempts, *, again: bool
    ) -> list[Measurement]:
        """Return a go at all pairs, or a second one at those that are short."""
        pairs: Sequence[peer_matrix.Pair] = peer_matrix.pairs_below(result.rows, limit.floor or 0.0) if again else ()
        if not pairs:
            pairs = tuple(permutations(self.devices, 2))
            result.rows = self._rows(limit, device, pairs, common, seconds / len(pairs))
            return peer_matrix.attribute(result.rows, Names())
        device.precision = 0.0
        fresh = self._rows(limit, device, pairs, common, seconds / len(pairs))
        return peer_matrix.attributed_after_repeat(result.rows, fresh, Names())

    def _rows(
        self, limit: Limit, device: DrawnDevice, pairs: Sequence[peer_matrix.Pair], common: float, seconds: float
    ) -> list[Measurement]:
        found: dict[str, dict[str, ProbeResult]] = {}
        for pair in pairs:
            cell = self._timed(limit, device, pair, common=common, seconds=seconds, goes=len(pairs))
            found.setdefault(pair[0], {})[pair[1]] = cell
        return [_row(sender, cells, limit) for sender, cells in found.items()]

    def _timed(
        self, limit: Limit, device: DrawnDevice, devices: Sequence[str], *, common: float, seconds: float, goes: int = 1
    ) -> ProbeResult:
        """Return what one device does, or several together; `goes` count as one that may have a slow block."""
        metric, unit, healthy = limit.metric, limit.unit, self._healthy
        pace = common * healthy.pace(metric, unit, devices)
        paces = healthy.blocks(stressed_part(metric, unit), pace, device.operation(seconds), seconds, OUTLIER / goes)
        return device.go(metric, unit, healthy.centre(limit), seconds, paces)


@cache
def skufile_of(name: str) -> Sku:
    """Return a SKU, which is loaded once a process."""
    return loader.load(name)


def _measurement(found: ProbeResult, subject: str, limit: Limit) -> Measurement:
    plain = Measurement(
        found.metric, subject, found.unit, found.value, tuple(found.samples), tuple(found.seconds),
        conditions=limit.conditions, statistic=found.statistic,
    )  # fmt: skip
    return replace(plain, value=plain.estimate.mean) if plain.estimate else plain


def _row(sender: str, cells: Mapping[str, ProbeResult], limit: Limit) -> Measurement:
    """Return the row of a sender; `peer_matrix` chooses the cell that counts."""
    told = {other: {"samples": each.samples, "seconds": each.seconds, "wrong": None} for other, each in cells.items()}
    return replace(_measurement(next(iter(cells.values())), sender, limit), details={"cells": told})


@dataclass
class Count:
    """Nodes by what became of them, and why."""

    nodes: int = 0
    verdicts: int = 0
    rejected: int = 0
    not_judged: int = 0
    marginal: int = 0
    noted: int = 0
    seen: int = 0
    """Nodes with anything that is worse than PASS."""
    why: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Nodes by status, metric and rule."""

    def add(self, verdicts: Sequence[Verdict]) -> None:
        """Count one node."""
        statuses = {each.status for each in verdicts}
        rejected = Status.FAIL in statuses
        self.nodes += 1
        self.verdicts += len(verdicts)
        self.rejected += rejected
        self.not_judged += not rejected and bool(statuses & {Status.INCONCLUSIVE, Status.UNMEASURED})
        self.marginal += Status.MARGINAL in statuses
        self.noted += any(bool(each.note) for each in verdicts)
        self.seen += any(each.status is not Status.PASS for each in verdicts)
        self.why.update({_why(each) for each in verdicts if each.status is not Status.PASS})

    def __add__(self, other: Count) -> Count:
        """Return the sum of two counts."""
        return Count(*(mine + theirs for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True)))


def _why(verdict: Verdict) -> tuple[str, str, str]:
    found = [each.kind for each in verdict.reasons if each.kind in WHY] if verdict.status is Status.MARGINAL else []
    rule = found[0] if found else "" if verdict.value else sentence_of(verdict)
    return verdict.status.value, verdict.metric, rule


def count(drawn: Population, seeds: Iterable[str]) -> Count:
    """Return the count of some nodes."""
    counted = Count()
    for seed in seeds:
        counted.add(list(Node(drawn, seed).verdicts()))
    return counted


def populations(skus: Sequence[str], levels: Sequence[str], noise: float, *, every: bool) -> list[Population]:
    """Return the healthy populations: the first platform of each SKU that can be accepted against, or `every` one."""
    found = []
    for name in skus or loader.names():
        sku = skufile_of(name)
        for level in levels:
            fit = [each.name for each in sku.platforms.values() if _acceptable(sku, each, level)]
            found += [Population(name, each, level, noise) for each in (fit if every else fit[:1])]
    return found


def _acceptable(sku: Sku, platform: Platform, level: str) -> bool:
    accelerator = registry.vendor(sku.vendor).accelerator
    return accelerator and requirements.unfit(sku, platform, level) is None


def counted(drawn: Sequence[Population], nodes: int, seed: int, processes: int) -> dict[Population, Count]:
    """Return the count of every healthy population of so many nodes, and of those of a tenth with a short part."""
    every = dict.fromkeys(drawn, nodes)
    every |= {each._replace(short=part): max(1, nodes // SHORT_SHARE) for each in drawn for part in PARTS}
    chunks = [
        (each, [f"{seed}/{place}" for place in range(start, min(total, start + CHUNK))])
        for each, total in every.items()
        for start in range(0, total, CHUNK)
    ]
    totals = {each: Count() for each in every}
    with get_context("spawn").Pool(processes) as pool:
        for (each, _), one in zip(chunks, pool.starmap(count, chunks, chunksize=1), strict=True):
            totals[each] += one
    return totals


def healthy_table(totals: Mapping[Population, Count]) -> Iterator[str]:
    """Yield the lines of the table of the healthy populations."""
    yield "| SKU | platform | level | nodes | verdicts | rejected | not judged | marginal | noted |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    for each, one in totals.items():
        if each.short is None:
            bound = f"0 (< {3 / one.nodes:.2%})" if not one.rejected else f"**{one.rejected}**"
            yield (
                f"| `{each.sku}` | {each.platform} | {each.level} | {one.nodes:,} | {one.verdicts:,} | {bound} | "
                f"{one.not_judged} | {one.marginal / one.nodes:.2%} | {one.noted / one.nodes:.1%} |"
            )


def short_table(totals: Mapping[Population, Count]) -> Iterator[str]:
    """Yield the lines of the table of nodes with a short part: the share found (FAIL), and the share seen at all."""
    yield f"| SKU | platform | level | {' | '.join(PARTS)} |"
    yield f"| --- | --- | --- |{' --- |' * len(PARTS)}"
    for each in totals:
        if each.short is None:
            cells = " | ".join(_found(totals[each._replace(short=part)]) for part in PARTS)
            yield f"| `{each.sku}` | {each.platform} | {each.level} | {cells} |"


def _found(one: Count) -> str:
    return f"{one.rejected / one.nodes:.0%} / {one.seen / one.nodes:.0%}" if one.verdicts else "-"


def reasons(totals: Mapping[Population, Count]) -> Iterator[str]:
    """Yield the commonest reasons for which healthy nodes were not simply accepted."""
    yield "| SKU | level | verdict | metric | rule | nodes |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for each, one in totals.items():
        for (status, metric, rule), nodes in one.why.most_common(8) if each.short is None else ():
            yield f"| `{each.sku}` | {each.level} | {status} | `{metric}` | {rule} | {nodes / one.nodes:.2%} |"


def undrawn(drawn: Sequence[Population]) -> Iterator[str]:
    """Yield the required limits on rates without a healthy figure, which no node can be drawn around."""
    for name, platform, level, *_ in drawn:
        sku = skufile_of(name)
        limits = requirements.required_at(level, sku.limits_on(sku.platforms[platform]))
        metrics = [each.metric for each in limits.values() if is_rate(each.unit) and not _figure(each)]
        if metrics:
            yield f"Not drawn, as no healthy figure is published, `{name}` at {level}: {', '.join(metrics)}."


def _figure(limit: Limit) -> object:
    return healthy_of(limit)[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000, help="of each SKU and level; a tenth for each short part")
    parser.add_argument("--sku", action="append", default=[], help="name or file; default: all")
    parser.add_argument("--level", action="append", default=[], choices=LEVELS, help="default: both")
    parser.add_argument("--every-platform", action="store_true", help="not only the first that can be accepted against")
    parser.add_argument("--noise", type=float, default=1.0, help="multiple of the published noise of goes and blocks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    began = time.monotonic()
    drawn = populations(chosen.sku, chosen.level or LEVELS, chosen.noise, every=chosen.every_platform)
    totals = counted(drawn, chosen.nodes, chosen.seed, chosen.processes)
    for table in (healthy_table, short_table, reasons):
        print(*table(totals), sep="\n", end="\n\n")
    print(*undrawn(drawn), sep="\n")
    healthy = [one for each, one in totals.items() if each.short is None]
    nodes, rejected = sum(each.nodes for each in healthy), sum(each.rejected for each in healthy)
    print(f"{nodes:,} healthy nodes, {rejected} rejected, {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
