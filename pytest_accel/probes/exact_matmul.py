"""Silent data corruption of the matrix units: products whose right result is known to the last bit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any

from pytest_accel.core.details import Mismatch
from pytest_accel.probes.declare import probe
from pytest_accel.probes.device import blas
from pytest_accel.probes.device.error_class import NotApplicable
from pytest_accel.probes.device.gemm import TOLERANCE, Product
from pytest_accel.probes.device.torch_device import Compute, ProbeResult
from pytest_accel.probes.matmul import refuse_slow_path

if TYPE_CHECKING:
    from torch import Tensor

INTEGER_UP_TO = {"bf16": 2**8, "fp16": 2**11, "fp32": 2**11}
"""The largest integer up to which a dtype holds every one (fp32: kept where fp32 and tf32 inputs are both exact)."""
ACCUMULATOR_BITS = 24
"""Integers that an fp32 accumulator adds without rounding."""
HIGHEST_FP16, DEVIATIONS = 65504.0, 7.0
DATA_SETS = 3
APART = 2**16 + 2**8
"""Elements from where one set of operands begins to where the next does: no multiple of a row, and aligned."""
HOST_ROWS = 64
SHOWN = 4
ROWS_AT_ONCE = 512
REPEATS = 4
ROUNDED = 1e-3
"""Of the elements: a sum in another order rounds so many otherwise at least, a fault strikes few."""


@probe(
    "exact_matmul.{dtype}",
    unit="count",
    stresses=["compute"],
    variants={"dtype": tuple(INTEGER_UP_TO)},
    budgets={"quick": 2.0, "standard": 30.0, "long": 300.0},
    verifies="products",
    small={"m": 32, "n": 32, "k": 32},
)
def exact_matmul(device: Compute, *, dtype: str = "bf16", m: int = 8192, n: int = 8192, k: int = 8192) -> ProbeResult:
    """Number of elements of matrix products that are not what they have to be, to the last bit.

    The operands are integers so small (at most sqrt(2^24 / k)) that every partial sum is exact in fp32, in any order
    and by any kernel. Rows of the first product are compared with the host's, all of it with the other devices' by a
    checksum, and every further product with the first. Between them, products of normal data draw full power; they
    are compared with the first of their own, on the same device by the same kernel; not where the library adds in
    another order every time, which `normal_data` then says. One mismatch fails, none is measured again. The details
    say how much was compared, and which rate of faults that excludes (3 / products, at 95 %).
    """
    if dtype not in INTEGER_UP_TO:
        raise NotApplicable(f"no exact product is known for {dtype} (there are {', '.join(INTEGER_UP_TO)})")
    if device.measures_peak:
        refuse_slow_path(device, dtype)
    with blas.repeatable(device.torch):
        watch = _Watch(device, dtype, (m, n, k))
        device.gate.ready()
        for place in range(DATA_SETS):
            watch.examine(place, device.seconds / DATA_SETS)
    return ProbeResult(
        f"exact_matmul.{dtype}",
        "count",
        value=watch.wrong,
        conditions={**watch.conditions, "largest_integer": watch.largest, "data_sets": DATA_SETS},
        details={
            "compared_products": watch.products,
            "differing_products": watch.differing,
            "normal_data": watch.normal_data,
            "compared_on_the_host": watch.on_host,
            "checksum": watch.checksum,
            "excluded_fault_rate_95": 3 / max(1, watch.products),
            "mismatches": watch.seen,
        },
        wrong=watch.sentence(),
    )


class _Watch:
    """Multiplies, compares, and remembers what differed."""

    def __init__(self, device: Compute, dtype: str, shape: tuple[int, int, int]) -> None:
        m, n, k = self.shape = shape
        self.device, self.dtype = device, dtype
        self.largest = largest(dtype, k)
        self.wrong = self.products = self.differing = self.on_host = 0
        self.checksum = 0
        self.seen: list[Mismatch] = []
        self._bits = {2: device.torch.int16, 4: device.torch.int32}[2 if dtype in ("bf16", "fp16") else 4]
        self._random = Product(device, dtype, m, n, k)  # also sets how torch multiplies
        self.conditions = {**self._random.conditions, "operand_sets": 1, "data": "integers, and normal(0, 1)"}
        device.require_memory(8 * m * n * 4 + 6 * (m * k + k * n))
        self._made = [self._integers(size, seed) for seed, size in enumerate((m * k, k * n), 1)]
        kind = {"bf16": device.torch.bfloat16, "fp16": device.torch.float16, "fp32": device.torch.float32}[dtype]
        self._pools = [made.to(device.torch_device).to(kind) for made in self._made]
        self.normal_data = "compared with itself"
        if not self._repeats(self._random.fixed()):
            self.normal_data = "not compared: the library adds in another order every time"

    def examine(self, place: int, seconds: float) -> None:
        """Multiply set number `place` of the operands for so many seconds."""
        torch = self.device.torch
        a, b = self._cut(self._pools, place)
        first = torch.mm(a, b)
        self._compare_host(first, *self._cut(self._made, place))
        self.checksum = (31 * self.checksum + checksum(torch, first.view(self._bits))) % 2**63
        normal = self._random.fixed()
        random_first = normal().clone()
        result = torch.empty_like(first)
        began = time.perf_counter()
        while True:
            for _ in range(4):
                self._compare_normal(normal(), random_first)
                torch.mm(a, b, out=result)
                self._compare(result, first, "integers, against the first product")
            spent = time.perf_counter() - began
            self.device.gate.block(spent / max(1, self.products), False)
            if spent >= seconds:
                return

    def _repeats(self, call: Callable[[], Tensor]) -> bool:
        """False where no two of a few products of the same operands are alike, and all differ as rounding makes them:
        in many elements, and by little.

        cuBLAS (its documentation, 2.1.4) and a CPU's library repeat themselves to the bit: what differs is a fault.
        """
        torch = self.device.torch
        if not (torch.version.hip or self.device.other):
            return True
        some = [call().clone() for _ in range(REPEATS)]
        return any(self._same(*pair) or not self._rounded(*pair) for pair in combinations(some, 2))

    def _rounded(self, one: Tensor, other: Tensor) -> bool:
        apart = (one.float() - other.float()).abs()
        many = float((apart > 0).float().mean()) > ROUNDED
        return many and float(apart.max()) <= TOLERANCE[self.dtype] * self.shape[2] ** 0.5

    def _cut(self, pieces: list[Tensor], place: int) -> tuple[Tensor, Tensor]:
        """A (m x k) and B (k x n) number `place`: other elements meet in each."""
        (m, n, k), begin = self.shape, place * APART
        a, b = pieces
        return a[begin : begin + m * k].view(m, k), b[begin : begin + k * n].view(k, n)

    def _integers(self, size: int, seed: int) -> Tensor:
        """The same integers in every process: made on the host, whose generator does not depend on the device.

        Once for all sets: a generator takes longer than a GPU takes for many products.
        """
        torch = self.device.torch
        generator, length = torch.Generator().manual_seed(seed), size + (DATA_SETS - 1) * APART
        made: Tensor = torch.randint(-self.largest, self.largest + 1, (length,), dtype=torch.int16, generator=generator)
        return made

    def _compare_host(self, result: Tensor, a: Tensor, b: Tensor) -> None:
        """Some rows, spread over all of it, against the host's product of its own operands in fp64, rounded once."""
        step = max(1, self.shape[0] // HOST_ROWS) | 1
        exact = a[::step].double() @ b.double()
        expected = exact.float().to(result.dtype)
        found = result[::step].cpu()
        self.on_host += found.numel()
        self._note(found, expected, "integers, against the host")

    def _compare_normal(self, result: Tensor, expected: Tensor) -> None:
        if not self.normal_data.startswith("not compared"):
            self._compare(result, expected, "normal data, against itself")

    def _compare(self, result: Tensor, expected: Tensor, what: str) -> None:
        """A difference that the device sees and the host does not was read or compared wrongly once: it counts."""
        self.products += 1
        if self._same(result, expected):
            return
        self.differing += 1
        if not self._note(result.cpu(), expected.cpu(), what):  # the host reads both once more
            self.wrong += 1
            self.seen.append({"what": f"{what}, by the device's own comparison alone", "product": self.products})

    def _same(self, one: Tensor, other: Tensor) -> bool:
        return bool(self.device.torch.equal(one.view(self._bits), other.view(self._bits)))

    def _note(self, result: Tensor, expected: Tensor, what: str) -> int:
        """Count and list the elements that differ; returns how many."""
        differs = result.view(self._bits) != expected.view(self._bits)
        count = int(differs.sum())
        self.wrong += count
        for row, column in differs.nonzero()[:SHOWN].tolist():
            place: Mismatch = {"what": what, "product": self.products, "row": row, "column": column}
            place["found"], place["expected"] = float(result[row, column]), float(expected[row, column])
            self.seen.append({**place, "elements": count})
        del self.seen[64:]
        return count

    def sentence(self) -> str | None:
        if not self.wrong:
            return None
        one, place = self.seen[0], ""
        if "row" in one:
            values = f"{one['found']:g} instead of {one['expected']:g}"
            place = f"; first at row {one['row']}, column {one['column']}: {values}"
        return f"{self.wrong} wrong elements in {self.products} products ({one['what']}{place})"


def largest(dtype: str, k: int) -> int:
    """The largest integer of operands whose sums of k products are exact in fp32, and in fp16 hardly ever infinite.

    Those of integers spread evenly up to L deviate by sqrt(k) L^2 / 3; of an infinite one every wrong bit is hidden.
    """
    exact = min(INTEGER_UP_TO[dtype], math.isqrt(2**ACCUMULATOR_BITS // k))
    return min(exact, math.isqrt(int(3 * HIGHEST_FP16 / (DEVIATIONS * math.sqrt(k))))) if dtype == "fp16" else exact


def checksum(torch: Any, bits: Tensor) -> int:
    """Sum of all elements as integers, each times a number of its own: exact, and no two may change places unseen."""
    total = 0
    columns = torch.arange(bits.shape[1], device=bits.device, dtype=torch.int64) * 2654435761 + 1
    for place, part in enumerate(torch.split(bits, ROWS_AT_ONCE)):
        rows = torch.arange(part.shape[0], device=bits.device, dtype=torch.int64) * 40503 + place + 1
        total += int(((part.to(torch.int64) * columns).sum(1) * rows).sum())
    return total % 2**63
