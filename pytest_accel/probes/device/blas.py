"""Torch's settings for matrix products: the precision that it has to keep, what it may do, and the library version."""

from __future__ import annotations

import contextlib
import ctypes
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SWITCHES = (
    "allow_bf16_reduced_precision_reduction",
    "allow_fp16_reduced_precision_reduction",
    "allow_fp16_accumulation",
)
"""Attributes of torch.backends.cuda.matmul that trade precision for speed. The last is newer than torch 2.6."""
AS_TORCH_STARTS = dict(zip(SWITCHES, (True, True, False), strict=True))
"""The values of these attributes before anybody sets them."""
ACCUMULATION = {"fp64": "fp64", "int8": "int32"}
"""Dtype in which products are summed; fp32 for every other dtype."""
_MAPS = Path("/proc/self/maps")


def settle(torch: Any, dtype: str, cpu: bool) -> None:
    """Make torch multiply in the full precision of the dtype, so that figures compare with those of other tools."""
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    if not cpu:
        for name in _known(torch):
            setattr(torch.backends.cuda.matmul, name, False)


@contextlib.contextmanager
def defaults(torch: Any, cpu: bool) -> Iterator[None]:
    """Let torch multiply as it does unless told otherwise, within the context: the way of tools that set nothing."""
    settle(torch, "", cpu)
    names = [] if cpu else _known(torch)
    for name in names:
        setattr(torch.backends.cuda.matmul, name, AS_TORCH_STARTS[name])
    try:
        yield
    finally:
        for name in names:
            setattr(torch.backends.cuda.matmul, name, False)


@contextlib.contextmanager
def repeatable(torch: Any) -> Iterator[None]:
    """Make products of the same operands equal to the last bit, within the context."""
    # With ROCm, torch lets hipBLAS add with atomics unless it is set to be deterministic (getCurrentCUDABlasHandle in
    # aten/src/ATen/cuda/CublasHandlePool.cpp; pytorch pull request 48654). cuBLAS is deterministic anyway.
    with deterministic(torch) if torch.version.hip else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def deterministic(torch: Any) -> Iterator[list[str]]:
    """Make torch choose deterministic algorithms, within the context.

    Yields a list that has, at the end, the words of torch on operations without one.
    """
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    doubts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield doubts
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    texts = (str(warning.message).partition(", but")[0] for warning in caught)
    # not its warning on the workspaces of cuBLAS, which matter where several streams multiply at a time (cuBLAS, 2.1.4)
    doubts += sorted({text for text in texts if "deterministic implementation" in text})


def conditions(torch: Any, dtype: str, cpu: bool) -> dict[str, Any]:
    """Return accumulation and switches as torch reports them. Empty for a CPU, whose library may sum in any way.

    With ROCm, some versions of torch allow tf32 only if the environment has HIPBLASLT_ALLOW_TF32=1, whatever precision
    is set (Context::allowTF32CuBLAS in aten/src/ATen/Context.cpp).
    """
    if cpu:
        return {}
    switches = {name.removeprefix("allow_"): bool(getattr(torch.backends.cuda.matmul, name)) for name in _known(torch)}
    return {
        "accumulation": accumulation(dtype),
        **_tunable(torch),
        "allow": {"tf32": bool(torch.backends.cuda.matmul.allow_tf32), **switches},
    }


def accumulation(dtype: str) -> str:
    """Return the dtype in which the products of a matrix product are summed."""
    return ACCUMULATION.get(dtype, "fp32")


def version() -> str | None:
    """Return the version of the loaded cuBLASLt ("12.8.4") as the library reports it, or None if it is not loaded."""
    loaded = re.findall(r"\S*/libcublasLt\.so\S*", _MAPS.read_text(encoding="utf-8"))
    if not loaded:
        return None
    try:
        call = ctypes.CDLL(loaded[0]).cublasLtGetVersion
    except (OSError, AttributeError):
        return None
    call.restype = ctypes.c_size_t
    return dotted(int(call()))


def dotted(number: int) -> str:
    """Return 120804 as "12.8.4". Old versions have thousands for the major version (CUBLAS_VERSION in cublas_api.h)."""
    major, rest = divmod(number, 10000 if number >= 100000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def tunes(torch: Any) -> bool:
    """Return whether torch chooses the kernel of a product at its first call, by trying all of them (TunableOp)."""
    return _tunable(torch).get("tunable_op", False) and bool(torch.cuda.tunable.tuning_is_enabled())


def _tunable(torch: Any) -> dict[str, bool]:
    """Return whether torch chooses kernels by trying them."""
    try:
        return {"tunable_op": bool(torch.cuda.tunable.is_enabled())}
    except AttributeError:  # torch was built without it
        return {}


def _known(torch: Any) -> list[str]:
    """Return the switches that this version of torch has."""
    return [name for name in SWITCHES if hasattr(torch.backends.cuda.matmul, name)]
