"""Why a probe gives no figure: its own refusals, and whether an exception blames the device, a need or a bug. Pure.

A device is blamed only for what its library lays to it. Old software, no memory, no room in /dev/shm, a product that a
library refuses say nothing of the device, however loudly "CUDA error" stands before them: they accept nothing, and
reject nobody.
"""

from __future__ import annotations

from collections.abc import Sequence


class Unmeasurable(Exception):
    """Something that the measurement needs is lacking; the text names it."""


class NotApplicable(Exception):
    """The metric cannot exist on this device; the text says why."""


class WrongResult(Exception):
    """The device computed or delivered something wrong; the text says what."""


SOFTWARE = (
    "too old",
    "no NVIDIA driver",
    "display driver",
    "not yet initialized",
    "compatibility",
    "not compiled",
    "libcudart",
    "invalid device function",
    "no kernel image",
    "kernel image is invalid",
    "unsupported toolchain",
    "MPS ",
)
"""What CUDA or HIP says when driver, toolkit, torch, fabric manager or MPS do not fit (cudaGetErrorString, 35, 98, 200,
209, 222, 802 to 808): the device is not to blame."""
LACKING = (
    "out of memory",
    "busy or unavailable",
    "operation not permitted",
    "operation not supported",
    "peer mapping resources exhausted",
    "invalid argument",
    "STATUS_ALLOC_FAILED",
    "STATUS_NOT_INITIALIZED",
    "STATUS_INVALID_VALUE",
    "STATUS_ARCH_MISMATCH",
)
"""What it says when it lacks something that somebody else may have, or was asked for what it does not do. A device that
is ill says more than this: it fails what asks for little."""
REFUSED = "STATUS_NOT_SUPPORTED"
"""What cuBLAS and hipBLAS say of a product that they have no kernel for (pytorch issue 106840: int8 on H100)."""
COLLECTIVE = ("NCCL error", "RCCL error")
"""How errors of collectives begin."""
DEVICE_FAILED_COLLECTIVE = ("unhandled cuda error", "Cuda failure", "CUDA error", "HIP failure", "uncorrectable")
"""What NCCL says when a device failed it. Its other errors (ncclGetErrorString: system, internal, usage, remote) are
mostly /dev/shm without room (NCCL issues 328, 1683) or the end of another rank."""
LIBRARY_ERRORS = ("CUDA error", "HIP error", *COLLECTIVE, "BLAS_STATUS")


def kind(error: Exception, *, other: bool = False, words: Sequence[str] = ()) -> str:
    """Return the kind of trouble (`measurement.Trouble`) that an exception is.

    `other`: the device is driven by a library that is not CUDA, whose errors nobody here can lay to the device, except
    those that have one of its vendor's `words`.
    """
    if isinstance(error, (Unmeasurable, ImportError)):
        return "need"
    if isinstance(error, NotApplicable):
        return "not_applicable"
    if isinstance(error, WrongResult):
        return "device"
    if not _of_library(error, words):
        return "need" if other and isinstance(error, RuntimeError) else "bug"
    if REFUSED in str(error):
        return "not_applicable"
    return "need" if _blames_nobody(error) else "device"


def context_is_lost(error: Exception, words: Sequence[str] = ()) -> bool:
    """Return True for an error that stays: every later call of this process would fail with it too."""
    if type(error).__name__ == "OutOfMemoryError" or not _of_library(error, words):
        return False
    return _collective(error) or not (REFUSED in str(error) or _blames_nobody(error))


def _of_library(error: Exception, vendors: Sequence[str]) -> bool:
    """Return True for an error of the libraries that drive devices; `vendors` are the words of the device's vendor."""
    names = ("AcceleratorError", "OutOfMemoryError", "DistBackendError")
    return type(error).__name__ in names or any(words in str(error) for words in (*LIBRARY_ERRORS, *vendors))


def _collective(error: Exception) -> bool:
    return type(error).__name__ == "DistBackendError" or any(words in str(error) for words in COLLECTIVE)


def _blames_nobody(error: Exception) -> bool:
    text = str(error)
    if type(error).__name__ == "OutOfMemoryError" or any(words in text for words in (*SOFTWARE, *LACKING)):
        return True
    return _collective(error) and not any(words in text for words in DEVICE_FAILED_COLLECTIVE)
