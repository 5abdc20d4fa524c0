"""Copies between devices: every directed pair, in one process that sees all devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import cycle, groupby, permutations
from operator import itemgetter
from statistics import median
from typing import Any

from pytest_accel.core.details import Cell
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.torch_device import Compute, ProbeResult


def _method(direction: str, mib: int) -> dict[str, Any]:
    """Return the method of `peer_copy`: nvbandwidth's device_to_device_memcpy_write_ce, and its bidirectional one."""
    # torch queues a copy on the sender (aten/src/ATen/native/cuda/Copy.cu, copy_device_to_device)
    way = "write" if direction == "one_way" else "write by both"
    size = {"engine": "copy engine", "way": way, "size": f"{mib} MiB"}
    return {**size, "pairs": "one at a time", "statistic": "median"}


def _method_of_all(how: str, mib: int) -> dict[str, Any]:
    """Return the method of `peer_copy_all`."""
    size = {"engine": "copy engine", "way": "write by both", "size": f"{mib} MiB"}
    return {**size, "pairs": "disjoint at once" if how == "rounds" else "all at once", "statistic": "median"}


@probe(
    "peer_copy.{direction}",
    runs="peers",
    unit="GB/s",
    method=_method,
    stresses=["link"],
    variants={"direction": ("one_way", "both")},
    budgets={"quick": 10.0, "standard": 30.0, "long": 60.0},
    budgets_of={"both": {"quick": 0.0, "standard": 30.0, "long": 60.0}},
    peak="peer_link",
    derived_floor=0.965,
    required="peer links",
    verifies="copies",
    cost=Cost("peak", share=0.78),
    small={"mib": 1},
)
def peer_copy(device: Compute, *, direction: str = "one_way", mib: int = 512) -> Iterator[ProbeResult]:
    """Measure the bandwidth of the peer link in GB/s for every directed pair, and compare the data that arrived.

    The pairs are measured one at a time, at every level: what a level has less of is time for each. A sample is several
    copies back to back, and the rate of a pair is the median of its samples, as in nvbandwidth.

    Yields one result for each sender: the rate of its slowest pair. The details hold all its pairs (`cells`), because
    only the whole matrix shows which end of a slow pair is at fault. With `direction` "both" the two devices copy to
    each other at the same time, and the rate is the bytes of both until the slower one ends. `mib` is the size of a
    transfer in MiB.
    Without peer access torch copies through host memory, and the condition `peer_access` is False.

    Each pair is announced before it is measured, so that an error is attributed to that pair only. A repeat measures
    only the pairs that fell short, each for longer.
    """
    index = {member.uuid: position for position, member in enumerate(device.devices)}
    if len(index) < 2:
        raise NotApplicable("copies between devices need at least two devices")
    pairs = [(index[a], index[b]) for a, b in device.pairs or permutations(index, 2) if a in index and b in index]
    for _, row in groupby(sorted(pairs), key=itemgetter(0)):
        yield _row(device, list(row), direction=direction, mib=mib, budget=device.seconds / len(pairs))


@probe(
    "peer_copy_all.{how}",
    runs="peers",
    unit="GB/s",
    method=_method_of_all,
    stresses=["link"],
    variants={"how": ("rounds", "all")},
    budgets={"quick": 0.0, "standard": 5.0, "long": 10.0},
    verifies="copies",
    cost={"rounds": Cost("peer_copy.both"), "all": Cost("peer_copy.one_way", for_each_link=True)},
    small={"mib": 1},
)
def peer_copy_all(device: Compute, *, how: str = "rounds", mib: int = 512) -> Iterator[ProbeResult]:
    """Measure the bandwidth of the peer links in GB/s with all devices copying at once.

    A switch or fabric manager without enough bandwidth shows only here. "rounds" copies between disjoint pairs, in both
    directions, round by round until every device was paired with every other one: the rate of one pair in the slowest
    round that a device took part in. "all" copies from every device to every other one at once: what each device sends.
    """
    places = range(len(device.devices))
    if len(places) < 2:
        raise NotApplicable("copies between devices need at least two devices")
    pairs = [(a, b) for a in places for b in places if a != b]
    groups = [[*turn, *((b, a) for a, b in turn)] for turn in rounds(len(places))] if how == "rounds" else [pairs]
    mistakes: dict[tuple[int, int], str] = {}
    budget = device.seconds / len(groups)
    results = [_at_once(device, group, mistakes, how=how, mib=mib, budget=budget) for group in groups]
    culprits = at_fault(mistakes)
    for index in places:
        parts = [result for result, group in zip(results, groups, strict=True) if any(index in pair for pair in group)]
        slowest = min(parts, key=lambda result: median(result.samples))
        yield replace(slowest, subject=device.devices[index].uuid, wrong=culprits.get(index))


def at_fault(mistakes: Mapping[tuple[int, int], str]) -> dict[int, str]:
    """Return the devices to blame for copies that arrived wrong, each with the sentence of one of its copies.

    That is the end of the most of them; of those that are left, the next. Both ends of a single copy may be at fault.
    """
    culprits: dict[int, str] = {}
    copies = dict(mistakes)
    while copies:
        counts = Counter(end for way in copies for end in way)
        highest = max(counts.values())
        culprits |= {end: next(copies[way] for way in copies if end in way) for end in counts if counts[end] == highest}
        copies = {way: text for way, text in copies.items() if not culprits.keys() & set(way)}
    return culprits


def _at_once(
    device: Compute,
    ways: list[tuple[int, int]],
    mistakes: dict[tuple[int, int], str],
    *,
    how: str,
    mib: int,
    budget: float,
) -> ProbeResult:
    """Time all copies of one round, started together, until the last has finished; add the wrong ones to `mistakes`."""
    ends = [device.devices[index] for index in sorted({index for way in ways for index in way})]
    device.gate.step(f"copies between {', '.join(end.name for end in ends)}", tuple(end.uuid for end in ends))
    sent = 2 if how == "rounds" else len(device.devices) - 1
    conditions = {"how": how, "mib": mib, "copies_at_once": len(ways)}
    result, differing = _copied(device, ways, f"peer_copy_all.{how}", sent, conditions=conditions, seconds=budget)
    mistakes.update(differing)
    return result


def _copied(
    device: Compute, ways: list[tuple[int, int]], metric: str, sent: int, **options: Any
) -> tuple[ProbeResult, dict[tuple[int, int], str]]:
    """Time copies that start together, and compare what arrived with what was sent.

    `sent` is how many of the transfers count; `options` are given to `sample`. Also returns a sentence for each way
    whose data differ.
    """
    n = options["conditions"]["mib"] * 2**20 // 4
    pairs = []
    for source, target in ways:
        arrived = device.torch.zeros(n, dtype=device.torch.int32, device=device.torch_devices[target])
        pairs.append((_pattern(device, source, n, (source, target)), arrived))
    copies, streams = _exchange(device, pairs)
    result = device.sample(
        copies,
        amount=sent * n * 4 / 1e9,
        unit="GB/s",
        metric=metric,
        streams=streams,
        statistic="median",
        **options,
    )
    device.synchronize()
    mistakes = {}
    for (source, target), (_, arrived) in zip(ways, pairs, strict=True):
        # made on the receiver too, so that the comparison needs no link
        if not device.torch.equal(arrived, _pattern(device, target, n, (source, target))):
            names = " to ".join(device.devices[end].name for end in (source, target))
            mistakes[source, target] = f"{names}: the data that arrived differ from the data that were sent"
    return result, mistakes


def _row(device: Compute, pairs: list[tuple[int, int]], *, direction: str, mib: int, budget: float) -> ProbeResult:
    """Measure the pairs of one sender and return the result of its slowest pair."""
    cells: dict[str, Cell] = {}
    results = []
    for sender, receiver in pairs:
        source, target = device.devices[sender], device.devices[receiver]
        device.gate.step(f"{source.name} to {target.name}", (source.uuid, target.uuid))
        cell = _cell(device, sender, receiver, direction=direction, mib=mib, budget=budget)
        direct = cell.conditions["peer_access"]
        cells[target.uuid] = {"samples": cell.samples, "seconds": cell.seconds, "wrong": cell.wrong, "direct": direct}
        results.append(cell)
    slowest = min(results, key=lambda result: median(result.samples))
    return replace(
        slowest, subject=device.devices[pairs[0][0]].uuid, details={**slowest.details, "cells": cells}, wrong=None
    )


def _cell(device: Compute, sender: int, receiver: int, *, direction: str, mib: int, budget: float) -> ProbeResult:
    """Measure one pair and compare what arrived with what was sent."""
    sending, receiving = device.torch_devices[sender], device.torch_devices[receiver]
    ways = [(sender, receiver), (receiver, sender)][: 2 if direction == "both" else 1]
    direct = True if device.is_cpu else device.backend.peer_access(sending, receiving)
    if not device.is_cpu:
        device.backend.set_device(sending)  # events are recorded on the current device
    conditions = {"direction": direction, "mib": mib, "peer_access": direct}
    result, mistakes = _copied(device, ways, f"peer_copy.{direction}", len(ways), conditions=conditions, seconds=budget)
    result.wrong = next(reversed(mistakes.values()), None)
    return result


def _pattern(device: Compute, index: int, n: int, way: tuple[int, int]) -> Any:
    """Return the data that are sent from way[0] to way[1], made on the device at `index`."""
    torch = device.torch
    pattern = torch.arange(n, dtype=torch.int32, device=device.torch_devices[index])
    return pattern.remainder_(65521).mul_(way[0] + 1).add_(way[1])


def _exchange(device: Compute, pairs: list[tuple[Any, Any]]) -> tuple[Callable[[], Any], list[Any]]:
    """Return a call that starts all copies at once, and the streams that they run on."""
    if device.is_cpu:
        return lambda: [target.copy_(source, non_blocking=True) for source, target in pairs], []
    backend = device.backend
    in_turn = 2 if len(pairs) <= len(device.devices) else 1  # torch has 32 streams for each device
    # torch copies on the sender's current stream, which waits for the receiver's current stream, which in turn waits
    # for the copy (PyTorch, aten/src/ATen/native/cuda/Copy.cu, copy_device_to_device). On the receivers' default
    # streams, copies to the same device would run one after the other, and everything that waits for such a stream
    # would wait for them too.
    sending = [backend.new_stream(source.device) for source, _ in pairs]
    # two in turn, so that a copy follows the previous one at once instead of waiting until its end has been signalled
    # to the other device and back
    receiving = [cycle([backend.new_stream(target.device) for _ in range(in_turn)]) for _, target in pairs]

    def call() -> None:
        for (source, target), sends, receives in zip(pairs, sending, receiving, strict=True):
            with backend.stream(next(receives)), backend.stream(sends):
                target.copy_(source, non_blocking=True)

    return call, sending


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Return rounds of disjoint pairs in which every two meet once (circle method); an odd one out pauses."""
    places: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    schedule = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        schedule.append([(a, b) for a, b in pairs if a is not None and b is not None])
        places = [places[0], places[-1], *places[1:-1]]
    return schedule
