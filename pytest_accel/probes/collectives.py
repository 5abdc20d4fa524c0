"""Collectives over all devices; each worker process is a rank (nccl on GPUs, gloo on CPUs)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pytest_accel.core.units import in_bytes
from pytest_accel.probes.declare import SIZES, Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult, main_line
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
DIVIDED = ("all_gather", "reduce_scatter", "all_to_all")
"""The operations whose size is that of the parts of all ranks together."""
OUT_OF_PLACE = ("all_to_all",)
"""The operations that need a second buffer, in nccl-tests too."""
SUMMING = ("all_reduce", "reduce_scatter")
"""The operations that add. The others only move data, so that their payload is words of 32 bits."""
OTHERS_SIZE = "1GiB"
"""The size at which the suite measures the operations after the first, at most: any device has room for two buffers."""
LEAST_BYTES = 8
"""Size of the smallest part of a rank."""

_COMPARED = 2**26
"""Elements that are compared at a time, so that the check needs little memory besides the payload."""
_PERIOD, _EXACT = 65521, 2**24
"""The longest period of the payload in elements, and the whole number up to which fp32 is exact."""
_MULTIPLIER = 0x9E3779B1 - 2**32
"""2^32 divided by the golden ratio, as a signed number; odd, so that no two whole numbers have the same word."""


Sources = list[tuple[Iterable[int], int]]
"""For each part that a rank receives: the ranks that it is the sum of, and where it begins in their payload."""


@dataclass(frozen=True)
class Collective:
    """An operation of the process group with fp32 buffers of its own, which hold zeros while it is timed."""

    operation: str
    size: int
    """S of nccl-tests in bytes."""
    factor: float
    """Bus bandwidth / (S / time)."""
    call: Callable[[], object]
    """Does the operation once. Later work on the current stream waits for it."""
    device: Compute
    sent: Any
    received: Any
    sources: Sources

    def wrong(self) -> str:
        """Do the operation once with known data, compare every bit, and return what is wrong; empty if nothing is.

        Nothing is raised before the last call that other ranks make too: they would wait for this one.
        """
        self.received.zero_()
        rows, rest, period = self._in_periods(self.sent, [self.device.rank], 0)
        rows.copy_(period)
        rest.copy_(period[: rest.numel()])
        try:
            self.call()
            self.device.synchronize()  # who waits for other ranks is seen to wait in torch
        except RuntimeError as error:  # not of NCCL, RCCL and gloo
            if "does not support" not in str(error):
                raise
            raise NotApplicable(main_line(error)) from None
        parts = self.received.view(len(self.sources), -1)
        count = sum(self._differing(part, *source) for part, source in zip(parts, self.sources, strict=True))
        self.sent.zero_()
        self.received.zero_()
        values = f"{count} of {self.received.numel()} values are wrong"
        return f"{self.operation}: {values} on rank {self.device.rank}" if count else ""

    def _in_periods(self, payload: Any, ranks: Iterable[int], start: int) -> tuple[Any, Any, Any]:
        """Return the words of a payload as rows of one period and what is left, and those of a period.

        They are the sum of the patterns of `ranks`, or the pattern of a single one. A pattern depends on rank and
        index, so that a shift, a swap and a part that never arrived show. `start` is the index of the first element.
        """
        words, summing = payload.view(self.device.torch.int32), self.operation in SUMMING
        period = pattern(self.device, ranks, start, summing=summing)
        end = words.numel() // period.numel() * period.numel()
        return words[:end].view(-1, period.numel()), words[end:], period

    def _differing(self, payload: Any, ranks: Iterable[int], start: int) -> int:
        """Return the number of elements that are not what `ranks` sent, or its sum, to the last bit."""
        rows, rest, period = self._in_periods(payload, ranks, start)
        chunks = [(chunk, period) for chunk in rows.split(_COMPARED // period.numel())]
        chunks.append((rest, period[: rest.numel()]))
        return sum(int((actual != expected).count_nonzero().item()) for actual, expected in chunks)


def collective_on(device: Compute, operation: str, size: int) -> Collective:
    """Return one of `OPERATIONS` over the process group that the device is a rank of, with a payload of `size` bytes.

    S and the factors are those of nccl-tests (doc/PERFORMANCE.md). Where S is divided between the ranks, a part is
    rounded down to 16 bytes, as there, and has at least 8.

    Raises NotApplicable for a single device, Unmeasurable if its memory does not suffice.
    """
    import torch.distributed as dist

    torch, rank, world = device.torch, device.rank, device.world
    if world < 2:
        raise NotApplicable(f"{operation} needs at least two devices")
    part = max(LEAST_BYTES // 4, size // 4 // world // 4 * 4)
    count = part * world if operation in DIVIDED else size // 4
    buffers = 1 + (operation in OUT_OF_PLACE)
    device.require_memory(4 * buffers * count + 4 * _COMPARED)
    payload, output = (
        torch.zeros(elements, dtype=torch.float32, device=device.torch_device)
        for elements in (count, count * (buffers - 1))
    )
    chunk, ranks, share = payload[rank * part : (rank + 1) * part], range(world), (world - 1) / world
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # the name before torch 2.13
    scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

    table: dict[str, tuple[float, Callable[[], object], Any, Any, Sources]] = {
        "all_reduce": (2 * share, lambda: dist.all_reduce(payload), payload, payload, [(ranks, 0)]),
        "all_gather": (
            share, lambda: gather(payload, chunk), chunk, payload, [([peer], 0) for peer in ranks],
        ),
        "reduce_scatter": (
            share, lambda: scatter(chunk, payload), payload, chunk, [(ranks, rank * part)],
        ),
        "all_to_all": (
            share, lambda: dist.all_to_all_single(output, payload), payload, output,
            [([peer], rank * part) for peer in ranks],
        ),
    }  # fmt: skip
    factor, call, *data = table[operation]
    return Collective(operation, 4 * count, factor, call, device, *data)


def pattern(device: Compute, ranks: Iterable[int], start: int, *, summing: bool) -> Any:
    """Return one period of a payload as words of 32 bits, from element `start` on.

    For operations that add, it is the sum of the patterns of `ranks`: whole numbers from 1 on, whose sums over all
    ranks fp32 holds exactly. Otherwise it is the pattern of a single rank, in which each bit is 0 and 1.
    """
    torch, period = device.torch, min(_PERIOD, _EXACT // device.world)
    places = torch.arange(start, start + period, dtype=torch.int64, device=device.torch_device)
    places.remainder_(period).mul_(7919)
    if not summing:
        (rank,) = ranks
        return (places + rank * 104729).to(torch.int32).mul_(_MULTIPLIER)
    total = torch.zeros_like(places)
    for rank in ranks:
        total += (places + rank * 104729).remainder_(period).add_(1)
    return total.to(torch.float32).view(torch.int32)


@probe(
    "{operation}.busbw@{size}",
    runs="ranks",
    unit="GB/s",
    method=lambda operation: {  # ranks and algorithm are compared apart
        "dtype": "fp32", "in_place": operation not in OUT_OF_PLACE, "statistic": "mean",
    },
    stresses=["link"],
    variants={"operation": OPERATIONS, "size": SIZES},
    budgets={"quick": 0.0, "standard": 1.0, "long": 10.0},
    budgets_of={"all_reduce": {"quick": 3.0, "standard": 8.0, "long": 20.0}},
    peak="peer_links",
    derived_floor=0.94,
    required="collectives",
    verifies="sums",
    cost=Cost("link", share=0.8),
    small={"size": "64KiB"},
)  # fmt: skip
def collective(device: Compute, *, operation: str = "all_reduce", size: str = "8GiB") -> ProbeResult:
    """Measure the bus bandwidth in GB/s of an operation with a payload of `size` for each rank.

    It is S / time, times 2 (n - 1) / n for "all_reduce" and (n - 1) / n for "all_gather", "reduce_scatter" and
    "all_to_all". S is the payload of one rank, or of "all_gather" its result, as in NVIDIA's nccl-tests
    (doc/PERFORMANCE.md); the time is that of the slowest rank.

    The payload is fp32, as in nccl-tests: NVSwitches add four floats at once, but integers one by one (NCCL,
    src/device/reduce_kernel.h). As there, the result replaces the payload if the operation can do so, calls are queued
    back to back, and the mean counts. Their number differs: nccl-tests makes 20 calls after 1 to 5 of warm-up, this
    probe as many as its budget holds after a quarter of it. The packaged suite measures every size that the SKU has a
    limit for.

    Before and after the timing the payload holds whole numbers whose sums are exact in any order, or words in which
    each bit is 0 and 1 where nothing is added, and every rank compares its result bit by bit. During the timing it
    holds zeros, because other numbers would grow with every sum.

    Raises NotApplicable for a single device, WrongResult for a wrong result.
    """
    exchange = collective_on(device, operation, in_bytes(size))
    conditions = {"operation": operation, "ranks": device.world, "dtype": "fp32", "data": "zeros", "size": size}
    before = exchange.wrong()
    result = device.sample(
        exchange.call,
        amount=exchange.size * exchange.factor / 1e9,
        unit="GB/s",
        metric=f"{operation}.busbw@{size}",
        collective=True,
        conditions={**conditions, **device.collectives},
    )
    if mistake := exchange.wrong() or before:
        raise WrongResult(mistake)
    settings, account = device.account(operation.replace("_", ""), exchange.size)
    result.conditions.update(settings)
    if account:
        result.details["account"] = account
    return result
