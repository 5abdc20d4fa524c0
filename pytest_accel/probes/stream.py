"""Device memory bandwidth, with bytes counted as read plus written."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_accel.core.reasons import Note
from pytest_accel.probes.declare import Cost, probe
from pytest_accel.probes.device.error_class import NotApplicable, WrongResult
from pytest_accel.probes.device.torch_device import Compute, ProbeResult

if TYPE_CHECKING:
    from torch import Tensor

TRAFFIC = {"copy_kernel": 2, "triad": 3, "dot": 2, "copy": 2, "read": 1}
"""Arrays read plus arrays written by one call (as J. McCalpin's STREAM counts)."""
OPERATIONS = tuple(TRAFFIC)
BYTES = {"fp64": 8, "fp32": 4}
"""Bytes of an element, by dtype."""
_DONE_BY = {
    "copy_kernel": {"operation": "b = a", "engine": "kernel"},
    "triad": {"operation": "a = b + s c", "engine": "kernel"},
    "dot": {"operation": "sum of a b", "engine": "kernel of the BLAS library"},
    "copy": {"operation": "b = a", "engine": "copy engine"},
    "read": {"operation": "sum of a", "engine": "kernel of torch.sum"},
}
"""Operation and engine, in the words of a method. A plain kernel reads and writes each element once, and every one of
them fills the memory's queues; a sum over an array does not in every implementation (PyTorch issue 132964)."""
_CHUNK = 2**22
"""Elements that are compared at a time, so that the check needs little memory besides the arrays."""
_NUMBERS = 1021
"""Length of the repeated pattern: a prime, so that no shift by a power of two maps the pattern onto itself."""
SUM_ERROR = 1e-4
"""Largest error of a sum in fp32, as a share of it. 2^30 numbers of the pattern, added in 16,384 chains, lose 1.7e-5 if
a chain has every 16,384th of them, and 4.9e-4 if it has a part of its own."""
SUMS = ("dot", "read")
"""Operations whose result in fp32 nothing published bounds: the order of the additions, and so their error, is up to
the library (PyTorch notes, numerical accuracy). In fp64 the sums of these whole numbers are exact in any order."""


@probe(
    "stream.{op}",
    unit="GB/s",
    stresses=["memory"],
    method=lambda op, mib, dtype: {**_DONE_BY[op], "dtype": dtype, "array": f"{mib} MiB", "statistic": "best"},
    variants={"op": OPERATIONS},
    budgets={"quick": 0.0, "standard": 3.0, "long": 10.0},
    budgets_of={
        "copy_kernel": {"quick": 1.0, "standard": 3.0, "long": 10.0},
        "triad": {"quick": 1.0, "standard": 3.0, "long": 10.0},
        "dot": {"quick": 0.0, "standard": 1.5, "long": 5.0},  # it only informs
    },
    peak="memory",
    derived_floor=0.93,
    required="memory",
    verifies="copies",
    cost=Cost("peak", share=0.87),
    small={"mib": 1, "calls": 1},
)
def stream(
    device: Compute, *, op: str = "copy_kernel", mib: int = 4096, dtype: str = "fp64", calls: int = 20
) -> ProbeResult:
    """Measure the memory bandwidth in GB/s (10^9) over arrays of `mib` MiB, with bytes counted as read plus written.

    `op` is one of

    - copy_kernel (b = a + 0), triad (a = b + 3 c): torch's elementwise kernels
    - dot (sum of a b): the BLAS library's kernel
    - copy (b = a): the driver's copy on a GPU (cudaMemcpyAsync), which may use another path than a kernel
    - read (sum of a): torch's reduction
    - write (a = 1021, N bytes)

    The first three are BabelStream's Copy, Triad and Dot (github.com/UoB-HPC/BabelStream, src/main.cpp), and timed like
    those: the host waits for each call, and the fastest counts. BabelStream prints the fastest of 100 calls. Here a
    sample is the fastest of `calls`, samples are taken until their mean is known, and the mean of all calls is in the
    details, so that a device that is fast only now and then shows it. The host's share of a call (about 10 us) is below
    1 % if a call takes a millisecond, which arrays of 4 GiB do on every device; BabelStream's default of 256 MiB does
    not.

    `dtype` is fp64 or fp32. The arrays hold whole numbers. They are allocated and touched before, and the result is
    checked afterwards. On a CPU the peak is the C library's copy of the same arrays, measured in alternation.
    """
    if dtype not in BYTES:
        raise NotApplicable(f"dtype {dtype!r} is not supported by this probe (supported: {', '.join(BYTES)})")
    size = mib * 2**20
    device.require_memory(size * TRAFFIC[op] + 4 * BYTES[dtype] * _CHUNK)
    arrays = _arrays(device, op, size // BYTES[dtype], dtype)
    work, check = _work(device, op, arrays)
    reference = None
    if device.measures_peak:
        target = arrays[-1] if len(arrays) > 1 else device.torch.zeros_like(arrays[0])
        reference = _memcpy(arrays[0], target, size)
    result = device.sample(
        work,
        amount=TRAFFIC[op] * size / 1e9,
        unit="GB/s",
        metric=f"stream.{op}",
        beside=reference,
        fastest_of=calls,
        conditions={"op": op, "mib": mib, "dtype": dtype, "calls": calls, "counted": "read + written"},
    )
    if op not in SUMS:
        arrays[-1].zero_()  # or a call that writes nothing would leave what the one before wrote
    work()
    if not check():
        if device.is_cpu or dtype != "fp32" or op not in SUMS:
            raise WrongResult("the arrays do not hold the expected result")
        result.notes.append(Note("doubt", f"the sum in fp32 is off by more than {SUM_ERROR:.0e} of the exact one"))
    return result


def _arrays(device: Compute, op: str, n: int, dtype: str) -> list[Tensor]:
    """Return the arrays of an operation, of `n` elements each: the pattern, and others."""
    torch = device.torch
    kind = {"fp64": torch.float64, "fp32": torch.float32}[dtype]
    numbers = torch.arange(_NUMBERS, dtype=kind, device=device.torch_device)
    pattern = numbers.repeat(n // _NUMBERS + 1)[:n]
    if op == "dot":
        return [pattern, pattern.clone()]
    return [pattern] + [torch.ones_like(pattern) for _ in range(TRAFFIC[op] - 1)]


def _work(device: Compute, op: str, arrays: list[Tensor]) -> tuple[Callable[[], Any], Callable[[], bool]]:
    """Return the operation, and a check that the arrays hold its result."""
    torch = device.torch
    parts = [torch.split(array, _CHUNK) for array in arrays]
    if op in ("copy", "copy_kernel"):
        a, b = arrays
        return (
            (lambda: b.copy_(a)) if op == "copy" else (lambda: torch.add(a, 0.0, out=b)),
            (lambda: all(torch.equal(b, a) for a, b in zip(*parts, strict=True))),
        )
    if op == "triad":
        b, c, a = arrays
        c.sub_(b)  # otherwise c would hold the same number everywhere
        return (
            (lambda: torch.add(b, c, alpha=3.0, out=a)),
            (lambda: all(torch.equal(a, b + 3.0 * c) for b, c, a in zip(*parts, strict=True))),
        )
    summed: Callable[[], Any] = (lambda: torch.dot(*arrays)) if op == "dot" else (lambda: torch.sum(arrays[0]))
    exact = _sum(arrays[0].numel(), squares=op == "dot")
    error = SUM_ERROR if arrays[0].dtype == torch.float32 else 0.0  # partial sums in fp64 are whole numbers below 2^53
    return summed, lambda: bool((summed() - exact).abs().item() <= error * exact)


def _sum(n: int, *, squares: bool) -> int:
    """Return the sum of the `n` numbers of the pattern, or that of their squares."""

    def first(count: int) -> int:
        return (count - 1) * count * (2 * count - 1) // 6 if squares else count * (count - 1) // 2

    rounds, remainder = divmod(n, _NUMBERS)
    return rounds * first(_NUMBERS) + first(remainder)


def _memcpy(source: Tensor, target: Tensor, size: int) -> tuple[Callable[[], object], float, str]:
    """Return the C library's copy as (call, GB per call, source of the figure). It may bypass the cache."""
    call = ctypes.CDLL(None).memmove
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return (
        (lambda: call(target.data_ptr(), source.data_ptr(), size)),
        2 * size / 1e9,
        "memcpy rate measured in alternation, provisional",
    )
