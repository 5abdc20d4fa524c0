"""How torch multiplies: the precision that it is held to, what it may do, and the library's own version."""

from __future__ import annotations

import contextlib
import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SWITCHES = (
    "allow_bf16_reduced_precision_reduction",
    "allow_fp16_reduced_precision_reduction",
    "allow_fp16_accumulation",
)
"""Of torch.backends.cuda.matmul: they trade precision for speed. The last one is newer than torch 2.6."""
ACCUMULATION = {"fp64": "fp64", "int8": "int32"}
"""What products are summed in; those of every other dtype in fp32."""
_MAPS = Path("/proc/self/maps")


def settle(torch: Any, dtype: str, cpu: bool) -> None:
    """Hold torch to the precision of the dtype: no rounding that a figure of the same name elsewhere does not have."""
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    if not cpu:
        for name in _known(torch):
            setattr(torch.backends.cuda.matmul, name, False)


@contextlib.contextmanager
def repeatable(torch: Any) -> Iterator[None]:
    """Make a product of the same operands give the same bits every time.

    With ROCm torch lets hipBLAS add with atomics, unless it is told to be deterministic (getCurrentCUDABlasHandle in
    aten/src/ATen/cuda/CublasHandlePool.cpp; pytorch pull request 48654). cuBLAS repeats itself as it is.
    """
    if not torch.version.hip:
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def conditions(torch: Any, dtype: str, cpu: bool) -> dict[str, Any]:
    """Accumulation and switches, as torch tells them. Nothing of a CPU, whose library sums as it likes."""
    if cpu:
        return {}
    allowed = {name.removeprefix("allow_"): bool(getattr(torch.backends.cuda.matmul, name)) for name in _known(torch)}
    return {
        "accumulation": ACCUMULATION.get(dtype, "fp32"),
        **_tunable(torch),
        "allow": {"tf32": torch.get_float32_matmul_precision() != "highest", **allowed},
    }


def version() -> str | None:
    """The version of the cuBLASLt that this process has loaded ("12.8.4"), by the library itself."""
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
    """120804 as "12.8.4"; old ones let a thousand stand for the major version (CUBLAS_VERSION in cublas_api.h)."""
    major, rest = divmod(number, 10000 if number >= 100000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _tunable(torch: Any) -> dict[str, bool]:
    try:
        return {"tunable_op": bool(torch.cuda.tunable.is_enabled())}
    except AttributeError:  # a torch that was built without it
        return {}


def _known(torch: Any) -> list[str]:
    return [name for name in SWITCHES if hasattr(torch.backends.cuda.matmul, name)]
