"""Device memory written with patterns and read back: stuck bits, coupled bits, and addresses that alias."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_accel.core.details import Mismatch
from pytest_accel.probes.declare import probe
from pytest_accel.probes.device.error_class import Unmeasurable
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

if TYPE_CHECKING:
    from torch import Tensor

WINDOW_BYTES = 2**30
"""Size of one allocation of the covered memory."""
SHARE = 0.95
"""Share of the device's total memory to cover, less what is in use already."""
LEAST_COVERED = 0.75
"""Least share of the total memory to cover; on a small device window and reserve leave no more."""
OURS_BYTES = 5 * 2**30
"""Bytes that the coverage of a large device may lack: window, reserve, and what this run holds besides (contexts of two
processes, buffers of the collectives). If more is missing, other processes hold it."""
RESERVE_BYTES = 2**30
"""Bytes left free for the libraries, and for the window that holds the expected words."""
MULTIPLIER = 0x9E3779B97F4A7C15 - 2**64
"""2^64 divided by the golden ratio, as a signed number. It is odd, so no two addresses have the same word."""
FIXED = (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F, 0)
"""Patterns of the moving inversions."""
CHUNK = 2**24
"""Words that are searched for mismatches at a time."""
LISTED, LISTED_AT_ONCE = 1000, 100
"""Mismatches that are listed with address and bits, in total and for one comparison. All of them are counted."""


@probe(
    "memory_pattern.{state}",
    unit="count",
    stresses=["memory"],
    variants={"state": ("cold", "hot")},
    budgets={"quick": 2.0, "standard": 15.0, "long": 120.0},
    verifies="stores",
    small={"mib": 1},
)
def memory_pattern(device: Compute, *, state: str = "cold", mib: int | None = None) -> ProbeResult:
    """Count the 64-bit words of device memory that did not keep what was written.

    Every word is written with a hash of its address and read back, then the same with the complement, so that each bit
    holds 0 and 1. An address that aliases another shows as wrong words, which a constant pattern could not show. One
    window is also tested with moving inversions.

    Covers 95 % of total memory, minus 1 GiB and memory in use; with `mib`, that many MiB. `state` only says when the
    test runs: "hot" is the same test after the soak. The details hold the address and bits of the mismatches, and the
    number of covered bytes.

    Raises Unmeasurable if too little memory is free.
    """
    memory = _Memory(device, mib)
    device.gate.ready()
    start = time.perf_counter()
    rounds = 0
    while not rounds or time.perf_counter() - start < device.seconds:
        rounds += 1
        memory.hash_and_complement(rounds)
        memory.moving_inversions()
    size, total = memory.covered, memory.total
    return ProbeResult(
        f"memory_pattern.{state}",
        "count",
        value=memory.errors,
        conditions={"mib": size // 2**20, "rounds": rounds},
        details={"covered_bytes": size, "of_bytes": total, "mismatches": memory.mismatches},
        wrong=memory.sentence(),
    )


@dataclass
class _Memory:
    """The windows of a device. An address is the offset in bytes from the start of the covered memory."""

    device: Compute
    mib: int | None
    errors: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        torch = self.device.torch
        self.device.synchronize()
        self._refuse_short_integers()
        self.total, remaining = self._sizes()
        window = min(WINDOW_BYTES, remaining)
        self._windows: list[Tensor] = []
        while remaining >= window > 0:
            try:
                self._windows.append(torch.empty(window // 8, dtype=torch.int64, device=self.device.torch_device))
            except RuntimeError as error:  # memory is fragmented: cover what was allocated so far
                if not self._windows:
                    raise Unmeasurable(f"{window / 1e9:.1f} GB of memory could not be allocated: {error}") from None
                break
            remaining -= window
        if self.covered < max(LEAST_COVERED * self.total, SHARE * self.total - OURS_BYTES):
            text = f"only {self.covered / 1e9:.1f} of {self.total / 1e9:.1f} GB could be allocated: the rest is in use"
            raise Unmeasurable(text)
        self._expected = torch.empty_like(self._windows[0])
        self._at = time.perf_counter()

    def _refuse_short_integers(self) -> None:
        """Raise Unmeasurable if the library keeps only 32 bits of a 64-bit integer.

        Such a library would make healthy memory look faulty.
        """
        device = self.device
        if not device.other:
            return
        host = device.torch.tensor([2**40 + 1, MULTIPLIER])
        if not device.torch.equal(host.to(device.torch_device).bitwise_not().cpu(), ~host):
            raise Unmeasurable(f"{device.backend.name} does not keep 64-bit integers, which the patterns consist of")

    def _sizes(self) -> tuple[int, int]:
        """Return the total memory and the memory to cover, in bytes."""
        if self.device.is_cpu or self.mib:
            size = (self.mib or 256) * 2**20
            return size, size
        self.device.require_memory(2 * RESERVE_BYTES)
        free, total = self.device.backend.mem_get_info(self.device.torch_device)
        return total, min(int(SHARE * total), free - WINDOW_BYTES) - RESERVE_BYTES

    @property
    def covered(self) -> int:
        """Bytes of all windows."""
        return sum(window.numel() * 8 for window in self._windows)

    def hash_and_complement(self, seed: int) -> None:
        """Test all windows with the hash of the address and its complement."""
        # all are written before the first one is read, so that an aliased address is overwritten by then
        for index, window in enumerate(self._windows):
            self._hash(window, index, seed)
        for index, window in enumerate(self._windows):
            self._hash(self._expected, index, seed)
            self._compare(window, index, "hash of the address")
            window.bitwise_not_()
        for index, window in enumerate(self._windows):
            self._hash(self._expected, index, seed)
            self._expected.bitwise_not_()
            self._compare(window, index, "complement of the hash")

    def moving_inversions(self) -> None:
        """Test the last window with fixed patterns: read and invert each block in turn, upwards and then downwards."""
        window, index = self._windows[-1], len(self._windows) - 1
        for pattern in FIXED:
            window.fill_(pattern)
            for word, order in ((pattern, 1), (~pattern, -1)):
                self._expected.fill_(word)
                for begin, block in self._blocks(window, order):
                    self._compare(block, index, f"moving inversions of {word & (2**64 - 1):#018x}", begin)
                    block.bitwise_not_()

    def _blocks(self, window: Tensor, order: int) -> Iterator[tuple[int, Tensor]]:
        """Yield the blocks of a window with the number of their first word; `order` is 1 or -1."""
        size = -(-window.numel() // 16)
        for begin in range(0, window.numel(), size)[::order]:
            yield begin, window[begin : begin + size]

    def _hash(self, window: Tensor, index: int, seed: int) -> None:
        """Write (i + seed) times an odd number, modulo 2^64, into word i, in place."""
        start = index * self._windows[0].numel() + seed * 2**40
        self.device.torch.arange(start, start + window.numel(), out=window)
        window.mul_(MULTIPLIER)

    def _compare(self, window: Tensor, index: int, pattern: str, begin: int = 0) -> None:
        """Compare words with the expected ones and record the mismatches."""
        expected = self._expected[begin : begin + window.numel()]
        now = time.perf_counter()
        self.device.gate.report_block(now - self._at, False)
        self._at = now
        if not self.device.torch.equal(window, expected):
            self._note(window, expected, pattern, 8 * (index * self._windows[0].numel() + begin))

    def _note(self, window: Tensor, expected: Tensor, pattern: str, address: int) -> None:
        """Count and list the words that differ; `address` is that of the first word."""
        count_before, room = self.errors, LISTED_AT_ONCE
        for begin in range(0, window.numel(), CHUNK):  # hardly any memory is left for the search
            actual, nominal = (words[begin : begin + CHUNK] for words in (window, expected))
            differs = (actual != nominal).nonzero().flatten()
            self.errors += differs.numel()
            for word in differs[:room].tolist():
                bits = f"{(int(actual[word]) ^ int(nominal[word])) & (2**64 - 1):#018x}"
                self.mismatches.append({"address": address + 8 * (begin + word), "pattern": pattern, "bits": bits})
            room = max(0, room - differs.numel())
        if self.errors == count_before:  # read or compared wrongly once, which counts
            self.errors += 1
            self.mismatches.append({"address": address, "pattern": pattern, "bits": None})
        del self.mismatches[LISTED:]

    def sentence(self) -> str | None:
        """Return the message about the mismatches, or None if there are none."""
        if not self.errors:
            return None
        mismatch, total = self.mismatches[0], self.covered // 8
        location = f"first at byte {mismatch['address']:#x} of {self.covered:#x}, bits {mismatch['bits']}"
        if mismatch["bits"] is None:
            location = f"after byte {mismatch['address']:#x} of {self.covered:#x}; a second read showed no mismatch"
        return f"{self.errors} of {total} words did not keep what was written ({mismatch['pattern']}; {location})"
