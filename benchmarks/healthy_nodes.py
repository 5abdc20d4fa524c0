"""How many healthy nodes do the rules reject? Nodes with a noise that no rule was tuned on, judged as in a run.

    python benchmarks/healthy_nodes.py --nodes 30000 --processes 2

Every figure of a node goes the way of a real one: blocks by `timing.time_blocks` until its stopping rule is met, the
soak's droop by `soak.droop`, the matrix of the peers by `peer_matrix.attributed` and
`peer_matrix.attributed_after_repeat`, the repeat of a shortfall by `judge.Attempts`, the verdict by `judge.judge`.
Nothing is vectorised and no rule is written down a second time.

Healthy is: the SKU's reference, a spread between devices (that of simulate/model.py, not cut off), and block by block a
noise whose coefficient of variation is drawn up to --cv for every go, with an autocorrelation up to --lag from one
50 ms to the next and a drift up to --drift over the go. Links are drawn up to --link-cv.

0 rejections of n bound the rate at 3 / n with 95 % confidence.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from multiprocessing import get_context

from bench import Gate

from pytest_accel import probes
from pytest_accel.core.measurement import NODE, Measurement, estimate_of
from pytest_accel.core.metrics import parse
from pytest_accel.core.sku import Limit, Sku
from pytest_accel.core.verdict import Status, Verdict
from pytest_accel.judging import peer_matrix
from pytest_accel.judging.judge import Attempts
from pytest_accel.judging.results import foreseen
from pytest_accel.probes.declare import declaration_for, declaration_of
from pytest_accel.probes.device.timing import BLOCK_SECONDS, Timed, block_seconds, time_blocks
from pytest_accel.probes.device.torch_device import ProbeResult
from pytest_accel.probes.soak import droop
from pytest_accel.simulate.model import SPREAD, stressed_part
from pytest_accel.skus import loader, requirements
from pytest_accel.skus.budgets import budget

LEVEL = "quick"
"""The least time, so the fewest blocks."""


@dataclass(frozen=True)
class Noise:
    """The largest values that a go may draw."""

    cv: float
    link_cv: float
    lag: float
    drift: float
    link_spread: float = SPREAD["link"]
    """Standard deviation between the links of devices."""


class NoisyClock:
    """A device whose blocks take so many seconds, divided by its pace at that moment."""

    depth = 0

    def __init__(self, block: float, pace: Iterator[float]) -> None:
        self._block, self._pace, self._now = block, pace, 0.0

    def mark(self) -> float:
        return self._now

    def seconds(self, start: float, end: float) -> float:  # noqa: ARG002  the signature of a clock
        spent = self._block / next(self._pace)
        self._now += spent
        return spent

    def now(self) -> float:
        return self._now


class Node:
    """One healthy node: who its devices are is drawn once, how they do at each go anew."""

    def __init__(self, sku: str, noise: Noise, seed: str) -> None:
        self.sku = skufile_of(sku)
        self.platform = next(iter(self.sku.platforms.values()))
        self.devices = [f"GPU-{place}" for place in range(self.platform.devices or 1)]
        self._noise, self._random = noise, random.Random(seed)  # noqa: S311  the same every time
        self._spread = {
            kind: {uuid: 1 + self._random.gauss(0, deviation) for uuid in self.devices}
            for kind, deviation in {**SPREAD, "link": noise.link_spread}.items()
        }

    def verdicts(self) -> Iterator[Verdict]:
        """One for every limit on a rate, on every device; what falls short is measured a second time."""
        limits = requirements.required_at(LEVEL, self.sku.limits_on(self.platform))
        for metric, limit in limits.items():
            if limit.reference and declaration_of(metric):
                yield from self._judged(metric, limit, limits)

    def _judged(self, metric: str, limit: Limit, limits: dict[str, Limit]) -> Iterator[Verdict]:
        result = Attempts()
        own = {metric: limit, **({"soak.droop_slow": limits["soak.droop_slow"]} if metric == "soak.rate" else {})}
        for again in (False, True):
            for found in self._go(metric, limit, result, again=again):
                result.add(foreseen(found, self.sku))
            if not any(result.short(name, each, {}) for name, each in own.items()):
                break
        for name, each in own.items():
            for subject in [NODE] if requirements.of_node(name) else self.devices:
                yield result.judged(name, subject, each, {})

    def _go(self, metric: str, limit: Limit, result: Attempts, *, again: bool) -> list[Measurement]:
        probe = parse(metric).probe
        if probe == "peer_copy":
            return self._between(metric, limit, result, again=again)
        if requirements.of_node(metric):
            return [min((self._one(metric, limit, uuid) for uuid in self.devices), key=_value)]
        found = [self._one(metric, limit, uuid) for uuid in self.devices]
        return found + [_droop(each) for each in found] if probe == "soak" else found

    def _between(self, metric: str, limit: Limit, result: Attempts, *, again: bool) -> list[Measurement]:
        """A go at all pairs, or a second one at those that are short."""
        seconds = budget(declaration_for(probes.peer_copy), metric, LEVEL, self.sku)
        if not again:
            pairs: Sequence[peer_matrix.Pair] = tuple(permutations(self.devices, 2))
            result.rows = self._rows(metric, limit, pairs, seconds / len(pairs), self.sku.precision)
            return peer_matrix.attributed(result.rows, {})
        assert limit.floor
        pairs = peer_matrix.accused(result.rows, limit.floor)
        fresh = self._rows(metric, limit, pairs, peer_matrix.seconds_again(pairs, seconds) / len(pairs), 0.0)
        return peer_matrix.attributed_after_repeat(result.rows, fresh, {})

    def _one(self, metric: str, limit: Limit, uuid: str) -> Measurement:
        """A go of a device by itself."""
        declared = declaration_of(metric)
        assert declared
        precision = 0.0 if declared.name == "soak" else self.sku.precision
        return self._timed(metric, limit, (uuid,), budget(declared, metric, LEVEL, self.sku), precision)

    def _timed(
        self, metric: str, limit: Limit, devices: Sequence[str], seconds: float, precision: float
    ) -> Measurement:
        """What one device does, or two of them together."""
        kind, uuid = stressed_part(metric, limit.unit), devices[0]
        block = block_seconds(seconds)
        timed = self._blocks(kind, min(self._spread[kind][each] for each in devices), seconds, block, precision)
        assert limit.reference
        assert limit.unit
        samples = tuple(limit.reference * block / each for each in timed.seconds)
        subject = NODE if requirements.of_node(metric) else uuid
        return Measurement(
            metric, subject, limit.unit, estimate_of(samples, limit.unit).mean, samples, tuple(timed.seconds),
            conditions={"ranks": limit.conditions.get("ranks")}, details={"ends": timed.ends},
        )  # fmt: skip

    def _rows(
        self, metric: str, limit: Limit, pairs: Sequence[peer_matrix.Pair], seconds: float, precision: float
    ) -> list[Measurement]:
        found: dict[str, dict[str, Measurement]] = {}
        for sender, receiver in pairs:
            cell = self._timed(metric, limit, (sender, receiver), seconds, precision)
            found.setdefault(sender, {})[receiver] = cell
        return [_row(sender, cells) for sender, cells in found.items()]

    def _blocks(self, kind: str, pace: float, seconds: float, block: float, precision: float) -> Timed:
        cv = self._random.uniform(0, self._noise.link_cv if kind in ("link", "host") else self._noise.cv)
        clock = NoisyClock(block, self._paces(pace, cv, seconds, block))
        return time_blocks(lambda: None, clock, Gate(), seconds=seconds, precision=precision)

    def _paces(self, pace: float, cv: float, seconds: float, block: float) -> Iterator[float]:
        """AR(1) around a line: it may fall or rise, and its mean over the go is the pace.

        Shorter blocks do not make it milder: they are as noisy, and more alike.
        """
        gauss = self._random.gauss
        lag, drift = self._random.uniform(0, self._noise.lag), self._random.uniform(-1, 1) * self._noise.drift
        lag **= block / BLOCK_SECONDS
        fresh, step = cv * (1 - lag**2) ** 0.5, drift * block / seconds
        off, line = gauss(0, cv), -drift / 2
        while True:
            yield pace * max(0.1, 1 + off + line)
            off, line = (
                lag * off + gauss(0, fresh),
                min(line + step, drift / 2) if drift > 0 else max(line + step, drift / 2),
            )


_SKUS: dict[str, Sku] = {}


def skufile_of(name: str) -> Sku:
    """Loaded once a process."""
    if name not in _SKUS:
        _SKUS[name] = loader.load(name)
    return _SKUS[name]


def _value(found: Measurement) -> float:
    return float(found.value or 0)


def _row(sender: str, cells: Mapping[str, Measurement]) -> Measurement:
    told = {other: {"samples": each.samples, "seconds": each.seconds, "wrong": None} for other, each in cells.items()}
    worst = min(cells.values(), key=_value)
    return replace(worst, subject=sender, details={"cells": told})


def _droop(soak: Measurement) -> Measurement:
    found = droop(ProbeResult("soak.rate", soak.unit, samples=list(soak.samples), details=dict(soak.details)))
    return Measurement(found.metric, soak.subject, found.unit, found.value)


def count(sku: str, noise: Noise, seeds: Sequence[str]) -> tuple[int, int, Counter[str], Counter[str]]:
    """Verdicts, rejected nodes, metrics that rejected, metrics that were marginal."""
    judged = rejected = 0
    failing, marginal = Counter[str](), Counter[str]()
    for seed in seeds:
        verdicts = list(Node(sku, noise, seed).verdicts())
        judged += len(verdicts)
        short = {each.metric for each in verdicts if each.status is Status.FAIL}
        rejected += bool(short)
        failing.update(short)
        marginal.update({each.metric for each in verdicts if each.status is Status.MARGINAL})
    return judged, rejected, failing, marginal


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--sku", default="h100-sxm")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--cv", type=float, default=0.03, help="of compute and memory")
    parser.add_argument("--link-cv", type=float, default=0.03, help="of links to the host and to peers")
    parser.add_argument("--link-spread", type=float, default=SPREAD["link"], help="between devices")
    parser.add_argument("--lag", type=float, default=0.7)
    parser.add_argument("--drift", type=float, default=0.01)
    chosen = parser.parse_args()
    noise = Noise(chosen.cv, chosen.link_cv, chosen.lag, chosen.drift, chosen.link_spread)
    seeds = [f"{chosen.seed}/{node}" for node in range(chosen.nodes)]
    chunks = [seeds[place : place + 50] for place in range(0, len(seeds), 50)]
    began = time.monotonic()
    with get_context("spawn").Pool(chosen.processes) as pool:
        found = pool.starmap(count, [(chosen.sku, noise, chunk) for chunk in chunks])
    rejected = sum(each[1] for each in found)
    failing = sum((each[2] for each in found), Counter[str]())
    marginal = sum((each[3] for each in found), Counter[str]())
    report = {
        "nodes": chosen.nodes, "verdicts_by_judge": sum(each[0] for each in found), "rejected": rejected,
        "bound_95": 3 / chosen.nodes if not rejected else None, "rejected_by": dict(failing.most_common()),
        "marginal_by": dict(marginal.most_common()), "seconds": round(time.monotonic() - began, 1),
        "noise": vars(noise),
    }  # fmt: skip
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
