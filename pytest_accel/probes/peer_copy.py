"""Copies between devices: every directed pair, in one process that sees them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle, groupby, permutations
from operator import itemgetter
from typing import Any

from pytest_accel.core.details import Cell
from pytest_accel.core.stats import estimate_rate
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.torch_backend import Backend
from pytest_accel.probes.device.torch_device import Compute, ProbeResult


@probe(
    "peer_copy.{direction}",
    runs="peers",
    unit="GB/s",
    stresses=["link"],
    variants={"direction": ("one_way", "both")},
    budgets={"quick": 10.0, "standard": 30.0, "long": 60.0},
    peak="peer_link",
    derived_floor=0.965,
    required=True,
    verifies="copies",
    cost=Cost("peak", share=0.78),
    small={"mib": 1},
)
def peer_copy(device: Compute, *, direction: str = "one_way", mib: int = 256) -> Iterator[ProbeResult]:
    """Peer link in GB/s for every directed pair, `mib` MiB a transfer, payload compared.

    A finding a sender, with all cells of its row in the details: who is to blame for a short one is read off the
    whole matrix. "both" counts the bytes of both directions at once. Without peer access torch stages through the
    host: that is said, not hidden. Each row is sent as soon as it is known, and each pair announced before it is
    tried: what breaks in it is its own. Of the pairs that are to be measured again, only those are, each for longer.
    """
    if direction not in ("one_way", "both"):
        raise NotApplicable(f"no direction {direction!r} (known: one_way, both)")
    place = {each.uuid: here for here, each in enumerate(device.devices)}
    if len(place) < 2:
        raise NotApplicable("one device has no peer")
    wanted = [(place[a], place[b]) for a, b in device.pairs or permutations(place, 2) if a in place and b in place]
    for _, row in groupby(sorted(wanted), key=itemgetter(0)):
        yield _row(device, list(row), direction=direction, mib=mib, budget=device.seconds / len(wanted))


@probe(
    "peer_copy_all.{how}",
    runs="peers",
    unit="GB/s",
    stresses=["link"],
    variants={"how": ("rounds", "all")},
    budgets={"quick": 0.0, "standard": 5.0, "long": 10.0},
    verifies="copies",
    cost={"rounds": Cost("peer_copy.both"), "all": Cost("peer_copy.one_way", for_each_link=True)},
    small={"mib": 1},
)
def peer_copy_all(device: Compute, *, how: str = "rounds", mib: int = 256) -> Iterator[ProbeResult]:
    """Peer links under load from all devices, in GB/s; a switch or its manager that is short shows here alone.

    "rounds": disjoint pairs at once, both ways, round by round until everybody met everybody: the rate of one pair,
    by the slowest round that a device took part in. "all": everybody to everybody at once: what each device sends.
    """
    places = range(len(device.devices))
    if how not in ("rounds", "all"):
        raise NotApplicable(f"no way {how!r} (known: rounds, all)")
    if len(places) < 2:
        raise NotApplicable("one device has no peer")
    every = [(a, b) for a in places for b in places if a != b]
    groups = [[*some, *((b, a) for a, b in some)] for some in rounds(len(places))] if how == "rounds" else [every]
    wrong: dict[int, str] = {}
    budget = device.seconds / len(groups)
    found = [_at_once(device, group, wrong, how=how, mib=mib, budget=budget) for group in groups]
    for place in places:
        took_part = [one for one, group in zip(found, groups, strict=True) if any(place in pair for pair in group)]
        slowest = min(took_part, key=lambda one: estimate_rate(one.samples).mean)
        yield replace(slowest, subject=device.devices[place].uuid, wrong=wrong.get(place))


def _at_once(
    device: Compute, ways: list[tuple[int, int]], wrong: dict[int, str], *, how: str, mib: int, budget: float
) -> ProbeResult:
    """All the copies of one round, begun together and timed until the last is done.

    What arrived wrong is added to `wrong`, under both ends: whichever of them it was.
    """
    names = [device.devices[place] for place in sorted({place for way in ways for place in way})]
    device.gate.step(f"copies between {', '.join(each.name for each in names)}", tuple(each.uuid for each in names))
    n = mib * 2**20 // 4
    pairs = []
    for source, target in ways:
        arrived = device.torch.zeros(n, dtype=device.torch.int32, device=device.torch_devices[target])
        pairs.append((_pattern(device, source, n, (source, target)), arrived))
    sent = 2 if how == "rounds" else len(device.devices) - 1
    copies, streams = _exchange(device, pairs)
    finding = device.sample(
        copies,
        amount=sent * n * 4 / 1e9,
        unit="GB/s",
        metric=f"peer_copy_all.{how}",
        seconds=budget,
        conditions={"how": how, "mib": mib, "copies_at_once": len(ways)},
        streams=streams,
    )
    device.synchronize()
    for (source, target), (_, arrived) in zip(ways, pairs, strict=True):
        if not device.torch.equal(arrived, _pattern(device, target, n, (source, target))):
            text = f"{device.devices[source].name} to {device.devices[target].name}: arrived wrong"
            wrong.update(dict.fromkeys((source, target), text))
    return finding


def _row(device: Compute, pairs: list[tuple[int, int]], *, direction: str, mib: int, budget: float) -> ProbeResult:
    """Some or all of what one device sends."""
    cells: dict[str, Cell] = {}
    found = []
    for sender, receiver in pairs:
        me, other = device.devices[sender], device.devices[receiver]
        device.gate.step(f"{me.name} to {other.name}", (me.uuid, other.uuid))
        one = _cell(device, sender, receiver, direction=direction, mib=mib, budget=budget)
        direct = one.conditions["peer_access"]
        cells[other.uuid] = {"samples": one.samples, "seconds": one.seconds, "wrong": one.wrong, "direct": direct}
        found.append(one)
    worst = min(found, key=lambda one: estimate_rate(one.samples).mean)
    return replace(
        worst, subject=device.devices[pairs[0][0]].uuid, details={**worst.details, "cells": cells}, wrong=None
    )


def _cell(device: Compute, sender: int, receiver: int, *, direction: str, mib: int, budget: float) -> ProbeResult:
    torch = device.torch
    here, there = device.torch_devices[sender], device.torch_devices[receiver]
    ways = [(sender, receiver), (receiver, sender)][: 2 if direction == "both" else 1]
    n = mib * 2**20 // 4
    pairs = []
    for source, target in ways:
        arrived = torch.zeros(n, dtype=torch.int32, device=device.torch_devices[target])
        pairs.append((_pattern(device, source, n, (source, target)), arrived))
    direct = True if device.is_cpu else device.backend.peer_access(here, there)
    if not device.is_cpu:
        device.backend.set_device(here)  # where the marks go
    copies, streams = _exchange(device, pairs)
    finding = device.sample(
        copies,
        amount=len(pairs) * n * 4 / 1e9,
        unit="GB/s",
        metric=f"peer_copy.{direction}",
        seconds=budget,
        conditions={"direction": direction, "mib": mib, "peer_access": direct},
        streams=streams,
    )
    device.synchronize()
    for (source, target), (_, arrived) in zip(ways, pairs, strict=True):
        if not torch.equal(arrived, _pattern(device, target, n, (source, target))):
            names = device.devices[source].name, device.devices[target].name
            finding.wrong = f"{names[0]} to {names[1]}: what arrived is not what was sent"
    return finding


def _pattern(device: Compute, place: int, n: int, way: tuple[int, int]) -> Any:
    """What is sent from way[0] to way[1], made on the device at `place`: the receiver needs no link to compare."""
    torch = device.torch
    pattern = torch.arange(n, dtype=torch.int32, device=device.torch_devices[place])
    return pattern.remainder_(65521).mul_(way[0] + 1).add_(way[1])


def _exchange(device: Compute, pairs: list[tuple[Any, Any]]) -> tuple[Callable[[], Any], list[Any]]:
    """The copies, all at once, and the streams that they run on.

    torch copies on the sender's current stream, which waits for the receiver's current one, as that waits for the copy
    (PyTorch, aten/src/ATen/native/cuda/Copy.cu, copy_device_to_device). On the receivers' default streams, copies to
    the same device would come one after the other, and whatever waits for such a stream would wait for them too. So
    each copy has streams of its own at both ends; at the receiver's two in turn, so that it follows the copy before it
    at once and not when the news of that has been to the other device and back.
    """
    if device.is_cpu:
        return lambda: [target.copy_(source, non_blocking=True) for source, target in pairs], []
    backend = device.backend
    in_turn = 2 if len(pairs) <= len(device.devices) else 1  # torch has 32 streams for each device
    sending = [_stream(backend, source) for source, _ in pairs]
    receiving = [cycle([_stream(backend, target) for _ in range(in_turn)]) for _, target in pairs]

    def call() -> None:
        for (source, target), sends, receives in zip(pairs, sending, receiving, strict=True):
            with backend.stream(next(receives)), backend.stream(sends):
                target.copy_(source, non_blocking=True)

    return call, sending


def _stream(backend: Backend, made: Any) -> Any:
    """A stream of the tensor's device, which begins when the tensor has been made."""
    stream = backend.Stream(device=made.device)
    stream.wait_stream(backend.current_stream(made.device))
    return stream


def rounds(count: int) -> list[list[tuple[int, int]]]:
    """Rounds of disjoint pairs in which everybody meets everybody once (circle method); an odd one sits out."""
    places: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    found = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        found.append([(a, b) for a, b in pairs if a is not None and b is not None])
        places = [places[0], places[-1], *places[1:-1]]
    return found
