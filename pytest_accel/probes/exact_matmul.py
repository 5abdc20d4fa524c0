"""Silent data corruption in the matrix units: matrix products whose exact result is known."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pytest_accel.core.details import Mismatch
from pytest_accel.core.reasons import Note
from pytest_accel.probes.declare import probe
from pytest_accel.probes.device import blas, fast_paths
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.gemm import Gemm, spoil
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

if TYPE_CHECKING:
    from torch import Tensor

INTEGER_UP_TO = {"bf16": 2**8, "fp16": 2**11, "fp32": 2**11}
"""Largest n for which the dtype represents every integer from 0 to n.

For fp32 it is limited to the range in which fp32 and tf32 inputs are both exact.
"""
ACCUMULATOR_BITS = 24
"""An fp32 accumulator adds integers of up to this many bits without rounding."""
HIGHEST_FP16, DEVIATIONS = 65504.0, 7.0
"""Largest fp16 number, and the standard deviations of a sum that have to stay below it; see `largest`."""
DATA_SETS = 3
SMALL_INTEGER, SMALL_UP_TO = 2, 8192
"""Largest integer of the last data set, and the largest k for it; beyond, it is 1. Of sums that are off by one, 92 %
show in bf16, and 2 % with the largest integers."""
PERIOD = 2**22 - 3
"""Integers of an operand before they repeat: a prime, so that no two rows of a product have the same."""
HOST_ROWS = 64
"""Approximate number of rows of a product that are compared with the host's result."""
SHOWN = 4
"""Mismatches of one product that are listed with row and column."""
ROWS_AT_ONCE = 512
"""Rows that `checksum` reads at a time."""
REPEATS = 4
"""Products of the same operands that show whether the library is deterministic."""
NOT_COMPARED = "not compared: the library adds in a different order each time"
ROUNDED = 1e-3
"""Share of the elements that differ, at least, when two products add in different orders. A fault affects fewer."""
FEW = (
    "products of the same normal data differ in few elements, by no more than rounding, and the library states no order"
)


@probe(
    "exact_matmul.{dtype}",
    unit="count",
    stresses=["compute"],
    variants={"dtype": tuple(INTEGER_UP_TO)},
    suite=["exact_matmul.bf16", "exact_matmul.fp32"],
    budgets={"quick": 1.0, "standard": 30.0, "long": 300.0},
    verifies="products",
    small={"m": 32, "n": 32, "k": 32},
)
def exact_matmul(device: Compute, *, dtype: str = "bf16", m: int = 8192, n: int = 8192, k: int = 8192) -> ProbeResult:
    """Count the elements of matrix products that differ from the exact result in any bit.

    The operands are integers of at most sqrt(2^24 / k), so that every partial sum is exact in fp32, in any order of
    summation. Those of the last of three data sets are at most 2, so that results in 16 bits show the lowest bit of
    nearly every sum. Some rows of the first product are compared with the host's product, which one worker computes for
    all devices; whoever differs from it computes its own. A checksum compares the whole product with those of the other
    devices. Every later product is compared with the first one.

    Between them the device multiplies normally distributed data, which draw full power. These products are compared
    with the first one of the same operands, unless the library adds in another order each time; the detail
    `normal_data` says which, and the detail `doubt` if that is not certain. A single mismatch fails the device, without
    a repeat. The details hold the number of compared products, and the rate of faults that it excludes (3 / products,
    at 95 % confidence).

    Raises NotApplicable for a dtype without exact products, or one that the CPU has no fast path for, and for a shape
    that `Gemm` refuses.
    """
    if dtype not in INTEGER_UP_TO:
        raise NotApplicable(f"exact_matmul does not support {dtype} (supported: {', '.join(INTEGER_UP_TO)})")
    fast_paths.refuse_slow(device, dtype)
    with blas.repeatable(device.torch):
        watch = _Watch(device, dtype, (m, n, k))
        device.gate.ready()
        for index in range(DATA_SETS):
            watch.examine(index, device.seconds / DATA_SETS)
    return ProbeResult(
        f"exact_matmul.{dtype}",
        "count",
        value=watch.errors,
        conditions={**watch.conditions, "largest_integers": watch.largest, "data_sets": DATA_SETS},
        details={
            "compared_products": watch.products,
            "differing_products": watch.differing,
            "normal_data": "compared with itself" if watch.repeats else NOT_COMPARED,
            "compared_on_the_host": watch.on_host,
            "checksum": watch.checksum,
            "excluded_error_rate_95": 3 / max(1, watch.products),
            "mismatches": watch.mismatches,
        },
        notes=watch.notes,
        wrong=watch.sentence(),
    )


class _Watch:
    """Multiplies on one device, compares the products, and records the mismatches."""

    def __init__(self, device: Compute, dtype: str, shape: tuple[int, int, int]) -> None:
        m, n, k = self.shape = shape
        self.device, self.dtype = device, dtype
        small = SMALL_INTEGER if k <= SMALL_UP_TO else 1
        self.largest = [largest(dtype, k)] * (DATA_SETS - 1) + [small]
        self.errors = self.products = self.differing = self.on_host = 0
        self.checksum = 0
        self.notes: list[Note] = []
        self.mismatches: list[Mismatch] = []
        self._random = Gemm(device, dtype, m, n, k)  # also sets how torch multiplies
        self.conditions = {**self._random.conditions, "operand_sets": 1, "data": "integers, and normal(0, 1)"}
        device.require_memory(8 * m * n * 4 + 6 * (m * k + k * n))
        self._kind = {"bf16": device.torch.bfloat16, "fp16": device.torch.float16, "fp32": device.torch.float32}[dtype]
        self._bits = {2: device.torch.int16, 4: device.torch.int32}[self._kind.itemsize]
        self._varies = bool(device.torch.version.hip or device.other)
        """True for libraries that may add in another order each time. cuBLAS (its documentation, 2.1.4) and the library
        of a CPU are deterministic."""
        self.repeats = self._repeats(self._random.fixed())
        """True if products of the same normally distributed data can be compared."""

    def examine(self, index: int, seconds: float) -> None:
        """Multiply operand set `index` for `seconds` and compare every product."""
        torch = self.device.torch
        a, b = self._operands(index, self.device.torch_device, self._kind)
        first = torch.mm(a, b)
        self._compare_host(first, index)
        self.checksum = (31 * self.checksum + checksum(torch, (first + 0.0).view(self._bits))) % 2**63  # -0 is 0
        normal = self._random.fixed()
        random = normal()
        random_first = random.clone()
        result = torch.empty_like(first)
        start = time.perf_counter()
        while True:
            for _ in range(4):
                spoil(random)
                random = normal()
                if self._varies and self.repeats:
                    self.repeats = self._same(random, random_first) or not self._rounded(random, random_first)
                if self.repeats:
                    self._compare(random, random_first, "normal data, against itself")
                spoil(result)
                torch.mm(a, b, out=result)
                self._compare(result, first, "integers, against the first product")
            elapsed = time.perf_counter() - start
            self.device.gate.report_block(elapsed / max(1, self.products), False)
            if elapsed >= seconds:
                return

    def _repeats(self, call: Callable[[], Tensor]) -> bool:
        """Return whether the library gives the same product for the same operands.

        False only if no two of a few products are equal and all of them differ by no more than rounding. Where the
        library is deterministic any difference is a fault.
        """
        if not self._varies:
            return True
        products = [call().clone() for _ in range(REPEATS)]
        return any(self._same(*pair) or not self._rounded(*pair) for pair in combinations(products, 2))

    def _rounded(self, first: Tensor, second: Tensor) -> bool:
        """Return whether two products differ by no more than rounding explains. In few elements it is in doubt."""
        apart = (first.float() - second.float()).abs()
        rounded = bool((apart <= 2 * self._random.tolerance.allowed(self.shape[2], first.float())).all())
        if rounded and float((apart > 0).float().mean()) <= ROUNDED:
            self.notes = [Note("doubt", FEW)]
        return rounded

    def _operands(self, index: int, torch_device: Any, kind: Any) -> tuple[Tensor, Tensor]:
        """Return A (m x k) and B (k x n) of set number `index`, the same integers in every process."""
        torch, (m, n, k), limit = self.device.torch, self.shape, self.largest[index]

        def operand(seed: int, rows: int, columns: int) -> Tensor:
            # on the host, whose generator does not depend on the device
            size, generator = rows * columns, torch.Generator().manual_seed(seed)
            integers = torch.randint(-limit, limit + 1, (min(size, PERIOD),), dtype=torch.int16, generator=generator)
            repeated: Tensor = integers.to(torch_device).to(kind).repeat(-(-size // PERIOD))
            return repeated[:size].view(rows, columns)

        return operand(2 * index + 1, m, k), operand(2 * index + 2, k, n)

    def _compare_host(self, result: Tensor, index: int) -> None:
        """Compare some rows, spread over the whole product, with the host's product, rounded once."""
        m, n, k = self.shape
        step = max(1, m // HOST_ROWS) | 1

        def exact() -> Tensor:
            """Return the rows, whose integers fp32 holds, computed in fp64."""
            a, b = self._operands(index, "cpu", self.device.torch.int16)
            rows: Tensor = (a[::step].double() @ b.double()).float()
            return rows

        rows = result[::step].cpu() + 0.0  # -0 becomes 0: a unit that rounds down sums to -0 where others have 0
        self.on_host += rows.numel()
        name = f"exact-{m}x{n}x{k}-{self.largest[index]}-{index}"
        expected = self.device.once(name, exact).to(rows.dtype)
        if (rows != expected).any():  # another worker may have computed them wrongly
            expected = exact().to(rows.dtype)
        self._note(rows, expected + 0.0, "integers, against the host")

    def _compare(self, result: Tensor, expected: Tensor, label: str) -> None:
        """Count the elements that differ."""
        self.products += 1
        if self._same(result, expected):
            return
        self.differing += 1
        if not self._note(result.cpu(), expected.cpu(), label):  # the host reads both again
            self.errors += 1  # read or compared wrongly once, by the device
            self.mismatches.append({"what": f"{label}, seen by the device's comparison only", "product": self.products})

    def _same(self, first: Tensor, second: Tensor) -> bool:
        return bool(self.device.torch.equal(first.view(self._bits), second.view(self._bits)))

    def _note(self, result: Tensor, expected: Tensor, label: str) -> int:
        """Count the elements that differ, list the first ones, and return the count."""
        differs = result.view(self._bits) != expected.view(self._bits)
        count = int(differs.sum())
        self.errors += count
        for row, column in differs.nonzero()[:SHOWN].tolist():
            mismatch: Mismatch = {"what": label, "product": self.products, "row": row, "column": column}
            mismatch["found"], mismatch["expected"] = float(result[row, column]), float(expected[row, column])
            self.mismatches.append({**mismatch, "elements": count})
        del self.mismatches[64:]
        return count

    def sentence(self) -> str | None:
        """Return the message about the mismatches, or None if there are none."""
        if not self.errors:
            return None
        mismatch, location = self.mismatches[0], ""
        if "row" in mismatch:
            values = f"{mismatch['found']:g} instead of {mismatch['expected']:g}"
            location = f"; first at row {mismatch['row']}, column {mismatch['column']}: {values}"
        return f"{self.errors} wrong elements in {self.products} matrix products ({mismatch['what']}{location})"


def largest(dtype: str, k: int) -> int:
    """Return the largest integer for operands whose sums of k products are exact in fp32 and finite in fp16.

    Sums of products of integers spread evenly from -L to L have a standard deviation of sqrt(k) L^2 / 3. For fp16,
    seven of these have to stay below the largest number, because an infinite sum hides every wrong bit.
    """
    exact = min(INTEGER_UP_TO[dtype], math.isqrt(2**ACCUMULATOR_BITS // k))
    return min(exact, math.isqrt(int(3 * HIGHEST_FP16 / (DEVIATIONS * math.sqrt(k))))) if dtype == "fp16" else exact


def checksum(torch: Any, bits: Tensor) -> int:
    """Return the sum of all elements as integers, each multiplied by a factor of its own, modulo 2^63.

    The sum is exact, and swapping two elements changes it.
    """
    total = 0
    columns = torch.arange(bits.shape[1], device=bits.device, dtype=torch.int64) * 2654435761 + 1
    for index, part in enumerate(torch.split(bits, ROWS_AT_ONCE)):
        rows = torch.arange(part.shape[0], device=bits.device, dtype=torch.int64) * 40503 + index + 1
        total += int(((part.to(torch.int64) * columns).sum(1) * rows).sum())
    return total % 2**63
