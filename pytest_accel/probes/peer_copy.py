"""Copies between devices: every directed pair, in one process that sees them all."""

from __future__ import annotations

from typing import Any

from pytest_accel.compute import Compute, Finding, NotApplicable, WrongResult
from pytest_accel.probes.spec import probe


@probe("peer_copy.{direction}", runs="peers")
def peer_copy(device: Compute, *, direction: str = "one_way", mib: int = 256) -> list[Finding]:
    """Peer link in GB/s for every directed pair, `mib` MiB a transfer, payload compared.

    A sender is judged by its worst cell; its row of the matrix is in the details. "both" counts the bytes of
    both directions at once. Without peer access torch stages through the host: that is said, not hidden.
    """
    if direction not in ("one_way", "both"):
        raise NotApplicable(f"no direction {direction!r} (known: one_way, both)")
    places = range(len(device.devices))
    if len(places) < 2:
        raise NotApplicable("one device has no peer")
    budget = device.seconds / (len(places) * (len(places) - 1))
    return [_row(device, sender, direction, mib, budget) for sender in places]


def _row(device: Compute, sender: int, direction: str, mib: int, budget: float) -> Finding:
    cells = {}
    for receiver in range(len(device.devices)):
        if receiver != sender:
            cells[device.devices[receiver].name] = _cell(
                device, sender, receiver, direction=direction, mib=mib, budget=budget
            )
    worst = min(cells, key=lambda name: sum(cells[name].samples) / len(cells[name].samples))
    finding = cells[worst]
    finding.subject = device.devices[sender].uuid
    finding.details["worst_peer"] = worst
    finding.details["row"] = {name: sum(cell.samples) / len(cell.samples) for name, cell in cells.items()}
    return finding


def _cell(device: Compute, sender: int, receiver: int, *, direction: str, mib: int, budget: float) -> Finding:
    torch = device.torch
    here, there = device.torch_devices[sender], device.torch_devices[receiver]
    ways = [(sender, receiver), (receiver, sender)][: 2 if direction == "both" else 1]
    n = mib * 2**20 // 4
    pairs = []
    for source, target in ways:
        arrived = torch.zeros(n, dtype=torch.int32, device=device.torch_devices[target])
        pairs.append((_pattern(device, source, n, (source, target)), arrived))
    direct = device.is_cpu or torch.cuda.can_device_access_peer(here.index, there.index)
    if not device.is_cpu:
        torch.cuda.set_device(here)  # torch copies on the sender's current stream, which is where the marks go
    finding = device.sample(
        _exchange(device, pairs),
        amount=len(pairs) * n * 4 / 1e9,
        unit="GB/s",
        metric=f"peer_copy.{direction}",
        seconds=budget,
        conditions={"direction": direction, "mib": mib, "peer_access": bool(direct)},
    )
    device.synchronize()
    for (source, target), (_, arrived) in zip(ways, pairs, strict=True):
        if not torch.equal(arrived, _pattern(device, target, n, (source, target))):
            names = device.devices[source].name, device.devices[target].name
            raise WrongResult(f"peer_copy {names[0]} to {names[1]}: what arrived is not what was sent")
    return finding


def _pattern(device: Compute, place: int, n: int, way: tuple[int, int]) -> Any:
    """What is sent from way[0] to way[1], made on the device at `place`: the receiver needs no link to compare."""
    torch = device.torch
    pattern = torch.arange(n, dtype=torch.int32, device=device.torch_devices[place])
    return pattern.remainder_(65521).mul_(way[0] + 1).add_(way[1])


def _exchange(device: Compute, pairs: list[tuple[Any, Any]]) -> Any:
    if device.is_cpu or len(pairs) == 1:
        return lambda: [target.copy_(source, non_blocking=True) for source, target in pairs]
    cuda = device.torch.cuda
    streams = [cuda.Stream(device=source.device) for source, _ in pairs]

    def call() -> None:
        here = cuda.current_stream()
        for stream, (source, target) in zip(streams, pairs, strict=True):
            stream.wait_stream(here)
            with cuda.stream(stream):
                target.copy_(source, non_blocking=True)
        for stream in streams:
            here.wait_stream(stream)

    return call
